"""What a torch model must be like, found out on two samples before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from fedvalue.errors import FedvalueError, InputError
from fedvalue.learners._places import Form
from fedvalue.learners.torch._buffers import HeldBuffers, tracks_statistics
from fedvalue.learners.torch._inputs import Samples, call, described, filled, taken, tensors
from fedvalue.learners.torch._random import drawn_so_far, seeded, seeded_generators
from fedvalue.scenarios import OWN, Scenario, leaves

__all__ = ["Checked", "awake", "check_batches", "check_module", "make_module", "with_shapes"]

_NAMED = 3
_WHOLE = ". A single array is a matrix of fractions unless the scenario says how many numbers there are: vocabulary=…"
_MORE = 6


@dataclass(frozen=True)
class Checked:
    """A module that can be trained, and what was found out about it.

    `state` are the buffers that change in training: every model has its own, and they are averaged. Where batches must be
    `whole`, what a model becomes depends on all samples of a batch: none may be added to fill it up. `least` is how many
    there must be. Where it `draws`, it does so even in evaluation, as `dropout(x)` without `training` does.
    """

    module: nn.Module
    form: Form
    state: tuple[str, ...] = ()
    whole: bool = False
    least: int = 1
    draws: bool = False


def make_module(factory: Callable[..., Any], scenario: Scenario) -> Any:
    """What the factory makes of the scenario; one that takes nothing is called with nothing."""
    try:
        return factory(scenario) if _takes_scenario(factory) else factory()
    except FedvalueError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            f"The model cannot be made: {type(error).__name__}: {error}. Its factory is called with the scenario, "
            "or without arguments if it takes none, and must return an nn.Module."
        ) from error


def _takes_scenario(factory: Callable[..., Any]) -> bool:
    """Whether something must be handed over, or the scenario by name; sizes with defaults keep them."""
    try:
        parameters = signature(factory).parameters.values()
    except (TypeError, ValueError):  # written in C
        return True
    places = (p for p in parameters if p.kind not in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD))
    return any(p.default is p.empty or p.name == "scenario" for p in places)


def with_shapes(module: nn.Module, scenario: Scenario) -> nn.Module:
    """The module, its lazy layers made by a first pass over samples, as in `check_module`."""
    if any(isinstance(part, LazyModuleMixin) for part in module.modules()):
        x = _two(scenario)
        _shape_statistics(module, x)
        held = HeldBuffers(module)
        call(module.train(), x)
        held.put_back()
    return module


def _two(scenario: Scenario) -> Samples:
    """Two samples to try a module on, as different as can be; the same twice where there is no other."""
    x = tensors(scenario.test.x)
    return taken(x, [0, _most_different(x)])


def _several(scenario: Scenario) -> Samples:
    """The same two and a few more: there are modules that look at others only where there are many."""
    x = tensors(scenario.test.x)
    more = np.linspace(0, len(scenario.test.y) - 1, _MORE).round().astype(int).tolist()
    return taken(x, [0, _most_different(x), *more])


def _most_different(x: Samples) -> int:
    """The number of the sample that differs most from the first."""
    differing = sum((t != t[:1]).flatten(1).sum(1) if t.dim() > 1 else (t != t[:1]) for _, t in leaves(x))
    return int(torch.as_tensor(differing).argmax())


def _shape_statistics(module: nn.Module, x: Samples) -> None:
    """Gives lazy layers with running statistics their shapes, without taking samples into account."""
    if any(isinstance(p, LazyModuleMixin) and tracks_statistics(p) for p in module.modules()):
        call(module.eval(), x)


def check_module(module: object, scenario: Scenario) -> Checked:
    """The module, if FedAvg can train it: it has parameters, fits the data, can be averaged, and once it is trained says
    of a sample the same whatever the others are.

    Makes some forward passes; in the first one lazy layers get their shapes.
    """
    if not isinstance(module, nn.Module):
        raise InputError(f"A model factory must return an nn.Module. Got {type(module).__name__}.")
    wrapped = next(
        (m for m in module.modules() if isinstance(m, (torch.jit.ScriptModule, nn.DataParallel))), None
    )
    if wrapped is not None:
        raise InputError(
            f"The model holds a {type(wrapped).__name__}, whose parameters cannot be exchanged. Give the plain nn.Module, "
            "without torch.jit or DataParallel: models are laid side by side here."
        )
    _check_observers(module)
    x = _two(scenario)
    try:
        _shape_statistics(module, x)
        held = HeldBuffers(module)
        outputs = call(module.train(), x)
    except Exception as error:
        hint = "" if scenario.vocabulary or "scalar types: Long, Int" not in str(error) else _WHOLE
        raise InputError(
            f"The model cannot take this scenario's samples, {described(x)}: {error}{hint}"
        ) from error
    form = _form(outputs, scenario)
    state = held.changed()
    held.put_back()
    _check_state(module, state)
    if not any(p.requires_grad for p in module.parameters()):
        raise InputError("The model has no parameters to train.")
    several = _several(scenario)
    if not _says_the_same(module.eval(), several, held):
        raise InputError(
            "The model's output for a sample depends on the other samples of the batch. It must treat each by "
            "itself: look for a mean over the batch, or a layer that takes the first dimension for a sequence. Layers "
            "that normalise by the batch must keep running statistics, for test rows."
        )
    _check_alone(module, x, tuple(outputs.shape[1:]))
    _check_backward(module.train(), x, held)
    _check_memory(module)
    _check_remembers_nothing(module.train(), x, held, "in training")
    _check_remembers_nothing(module.eval(), x, held, "in evaluation")
    by_frequency = any(isinstance(m, nn.Embedding) and m.scale_grad_by_freq for m in module.modules())
    whole = bool(state) or by_frequency or not _says_the_same(module.train(), several, held)
    least = 1 if not whole or _takes_one(module.train(), x, held) else 2
    return Checked(module, form, tuple(state), whole, least, _draws(module.eval(), x, held))


def _check_observers(module: nn.Module) -> None:
    """Refuses training for quantisation: what it finds out about the range of numbers, whole numbers among it, has no average."""
    for name, part in module.named_modules():
        kinds = {
            kind.__name__
            for kind in type(part).__mro__
            if kind.__module__.startswith("torch.ao.quantization")
        }
        if kinds & {"FakeQuantizeBase", "ObserverBase"}:
            raise InputError(
                f"The part {name or 'model'!r} is a {type(part).__name__}: training for quantisation finds scales and zero points "
                "out as it goes, and those of several models have no average. Give the model as it was before "
                "prepare_qat, and quantise what comes of it."
            )


def _form(outputs: Any, scenario: Scenario) -> Form:
    """How the outputs for two samples are arranged, if they fit the labels."""
    places = scenario.test.y.shape[1:]
    if torch.is_tensor(outputs) and outputs.dim() and len(outputs) == 2:
        if scenario.task == OWN:
            return Form(len(places))
        form = Form.of(outputs.shape[1:], places, scenario.classes)
        if form is not None:
            return form
    if not torch.is_tensor(outputs):
        raise InputError(
            f"The model must return a tensor, or an object with logits. Got a {type(outputs).__name__}. Several outputs "
            "go into one tensor, which loss and metric take apart."
        )
    expected = (2, *places, *(() if scenario.task == OWN else (scenario.classes or 1,)))
    got = f"shape {tuple(outputs.shape)}"
    raise InputError(f"The model must give outputs of shape {expected} for 2 samples. Got {got}.")


def _check_state(module: nn.Module, names: Sequence[str]) -> None:
    """Refuses buffers whose average would mean nothing."""
    for name in names:
        owner = module.get_submodule(name.rpartition(".")[0])
        hooks = owner._forward_pre_hooks.values()
        if isinstance(owner, _SpectralNorm) or any(isinstance(hook, SpectralNorm) for hook in hooks):
            raise InputError(
                f"The model changes its buffer {name!r} in training: spectral_norm finds the size of weights by it, and an "
                "average of several such vectors is none. Use weight_norm, or weight_decay."
            )
        if module.get_buffer(name).dtype == torch.bool:
            raise InputError(
                f"The model changes its buffer {name!r} in training, which holds truth values: those of several models have "
                "no average. Make it a float."
            )


def _check_backward(module: nn.Module, x: Samples, held: HeldBuffers) -> None:
    """Refuses a module that computes layers again in the backward pass: its parameters are those of another model by then."""
    calls: list[int] = []
    hooks = [m.register_forward_pre_hook(lambda *_: calls.append(1)) for m in module.modules()]
    gradients = [(p, p.grad) for p in module.parameters()]
    try:
        with seeded(0), torch.enable_grad():
            outputs = call(module, x)
            before = len(calls)
            if outputs.requires_grad:
                torch.autograd.backward(outputs.float().sum())
    except RuntimeError:  # training will say why
        return
    finally:
        for hook in hooks:
            hook.remove()
        for parameter, gradient in gradients:
            parameter.grad = gradient
        held.put_back()
    if len(calls) > before:
        raise InputError(
            "The model computes layers again in the backward pass (torch.utils.checkpoint), when its parameters are those of "
            "another model. Switch that off; of transformers it is gradient_checkpointing_disable()."
        )


def _check_memory(module: nn.Module) -> None:
    """Refuses two parameters in the same memory: a step of one would be a step of the other, and in a stack it is not."""
    found: dict[int, str] = {}
    for name, parameter in module.named_parameters():
        other = found.setdefault(parameter.data_ptr(), name)
        if other != name and parameter.numel() and parameter.requires_grad:
            raise InputError(
                f"The parameters {other!r} and {name!r} are two that lie in the same memory. Make them one "
                "(b.weight = a.weight), or give each memory of its own (clone())."
            )


@torch.no_grad()
def _check_remembers_nothing(module: nn.Module, x: Samples, held: HeldBuffers, when: str) -> None:
    """Refuses a module that says something else when it is asked again: models of other coalitions call it, too."""
    found = []
    for _ in range(2):
        with seeded_generators(0):
            found.append(call(module, x))
        held.put_back()
    if not _close(*found):
        raise InputError(
            f"The model says something else of the same samples when it is called again {when}, with the same parameters, "
            "buffers and random numbers: it remembers calls, which are those of all coalitions. Keep what changes in a buffer "
            "(register_buffer), and draw from torch without a generator of your own."
        )


@contextmanager
def awake(module: nn.Module) -> Iterator[None]:
    """Within the block, parameters that are all zero are not: behind a head of zeros nothing could be seen."""
    asleep = [p for p in module.parameters() if p.requires_grad and not p.any()]
    with torch.no_grad(), seeded(0):
        for parameter in asleep:
            parameter.copy_(torch.randn_like(parameter) / 100)
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter in asleep:
                parameter.zero_()


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)


@torch.no_grad()
def _says_the_same(module: nn.Module, x: Samples, held: HeldBuffers) -> bool:
    """Whether the outputs for a sample do not depend on the others, nor, where nothing is drawn, on how many there are."""
    found, first = [], taken(x, slice(0, 1))
    count = max(len(tensor) for _, tensor in leaves(x))
    batches = [x, filled(first, count)]
    if not module.training and not _draws(module, x, held):
        batches.append(filled(first, 2))
    for samples in batches:
        with awake(module), seeded_generators(0):  # dropout is drawn alike
            found.append(call(module, samples)[0])
        held.put_back()
    return all(_close(found[0], other) for other in found[1:])


@torch.no_grad()
def _check_alone(module: nn.Module, x: Samples, shape: tuple[int, ...]) -> None:
    """The test set is cut to fit the memory: one sample may be left."""
    alone = call(module, taken(x, slice(0, 1)))
    if alone.shape != (1, *shape):
        raise InputError(
            f"The model must give outputs of shape {(1, *shape)} for a batch of one sample. Got shape "
            f"{tuple(alone.shape)}: look for squeeze()."
        )


@torch.no_grad()
def _draws(module: nn.Module, x: Samples, held: HeldBuffers) -> bool:
    """Whether it draws random numbers."""
    with seeded_generators(0):
        before = drawn_so_far()
        call(module, x)
        drawn = drawn_so_far() != before
    held.put_back()
    return drawn


@torch.no_grad()
def _takes_one(module: nn.Module, x: Samples, held: HeldBuffers) -> bool:
    """Whether it can be trained on a batch of one sample, of which there is no variance."""
    try:
        call(module, taken(x, slice(0, 1)))
    except ValueError:
        return False
    finally:
        held.put_back()
    return True


def check_batches(scenario: Scenario, width: int) -> None:
    """Refuses batches of this width where a client is left with a single sample in its last one."""
    sizes = {name: len(data) for name, data in zip(scenario.names, scenario.clients, strict=True)}
    short = [name for name, size in sizes.items() if size % width == 1]
    if not short:
        return
    fits = (batch for batch in range(width, 1, -1) if all(size % batch != 1 for size in sizes.values()))
    other = next(fits, None)
    advice = f"Choose another batch, such as {other}." if other else "Give every client at least two rows."
    names = ", ".join(short[:_NAMED]) + (", …" if len(short) > _NAMED else "")
    raise InputError(
        f"The model normalises by the batch and needs two samples in each at least. With batches of {width}, one is left for "
        f"the last batch of {names}. {advice}"
    )
