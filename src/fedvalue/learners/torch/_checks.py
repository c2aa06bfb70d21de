"""What a torch model must be like, found out on two samples before anything is trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn.modules.lazy import LazyModuleMixin

from fedvalue.errors import FedvalueError, InputError
from fedvalue.learners._places import Form
from fedvalue.learners.torch._inputs import Samples, call, described, filled, taken, tensors
from fedvalue.learners.torch._linear import StackedLinear
from fedvalue.learners.torch._random import SEEDED, seeded
from fedvalue.scenarios import Scenario, mapped
from fedvalue.store import fingerprint

__all__ = ["Checked", "can_be_stacked", "check_module", "make_module", "same_but_for_training", "with_shapes"]


@dataclass(frozen=True)
class Checked:
    """A module that can be trained, and how it arranges what it says."""

    module: nn.Module
    form: Form


# What `vmap` says where it loops itself, or copies: it is no faster than our own loop then.
_SLOW = ("batching rule", "was resized since")


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
        call(module.train(), _two(scenario))
    return module


def _two(scenario: Scenario) -> Samples:
    """Two samples to try a module on, or one where there is no other."""
    return taken(tensors(scenario.test.x), slice(0, 2))


def check_module(module: object, scenario: Scenario) -> Checked:
    """The module and the form of its outputs, if FedAvg can train it: it has parameters, fits the data, keeps no state of its own and
    says of a sample the same whatever the others are.

    Makes some forward passes; in the first one lazy layers get their shapes.
    """
    if not isinstance(module, nn.Module):
        raise InputError(f"A model factory must return an nn.Module. Got {type(module).__name__}.")
    for name, part in module.named_modules():
        if _mixes_samples(part):
            raise InputError(
                f"The model's layer {name!r} is a {type(part).__name__}: it mixes the samples of a batch "
                "or keeps running statistics, which FedAvg does not average. Use GroupNorm or LayerNorm."
            )
    x, count = _two(scenario), min(2, len(scenario.test.y))
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        outputs = call(module.train(), x)
    except Exception as error:
        raise InputError(f"The model cannot take this scenario's samples, {described(x)}: {error}") from error
    form = _form(outputs, scenario, count)
    for name, buffer in module.named_buffers():
        if name in before and not torch.equal(before[name], buffer):
            raise InputError(
                f"The model changes its buffer {name!r} in training. Only parameters are averaged: a state "
                "besides them would pass from one coalition to the next. Buffers must be constant."
            )
    if not any(p.requires_grad for p in module.parameters()):
        raise InputError("The model has no parameters to train.")
    if count > 1:
        _check_samples_apart(module, x)
    return Checked(module, form)


def _form(outputs: Any, scenario: Scenario, count: int) -> Form:
    """How the outputs for so many samples are arranged, if they fit the labels."""
    places = scenario.test.y.shape[1:]
    if torch.is_tensor(outputs) and outputs.dim() and len(outputs) == count:
        form = Form.of(outputs.shape[1:], places, scenario.classes)
        if form is not None:
            return form
    expected = (count, *places, scenario.classes or 1)
    got = f"shape {tuple(outputs.shape)}" if torch.is_tensor(outputs) else type(outputs).__name__
    raise InputError(f"The model must give outputs of shape {expected} for {count} samples. Got {got}.")


@torch.no_grad()
def _check_samples_apart(module: nn.Module, x: Samples) -> None:
    """Batches are filled up and the test set is cut to fit the memory: outputs must not depend on either."""
    first = taken(x, slice(0, 1))
    others = filled(first, 2)
    found = []
    for samples in (x, others):
        with seeded(0):  # dropout is drawn alike
            found.append(call(module, samples)[0])
    one, other = found
    if not torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True):
        raise InputError(
            "The model's output for a sample depends on the other samples of the batch. It must treat each by "
            "itself: look for a mean over the batch, or a layer that takes the first dimension for a sequence."
        )
    alone = call(module, first)
    if alone.shape != (1, *one.shape):
        raise InputError(
            f"The model must give outputs of shape {(1, *one.shape)} for a batch of one sample. Got shape "
            f"{tuple(alone.shape)}: look for squeeze()."
        )


def can_be_stacked(
    output: Callable[[dict[str, Tensor], Samples, Tensor], Tensor], model: dict[str, Tensor], x: Samples
) -> bool:
    """Whether two of these models can be trained as one program; tried, because `vmap` cannot do everything.

    It refuses random numbers (dropout apart, which is counted), control flow that depends on data, and recurrent layers.
    """
    key = torch.zeros((), dtype=torch.int64, device=next(iter(model.values())).device)
    for in_dims in ((0, 0, None), (0, None, None)):
        pair = {name: torch.cat([tensor, tensor]).requires_grad_() for name, tensor in model.items()}
        samples = mapped(lambda tensor: torch.stack([tensor, tensor]), x) if in_dims[1] == 0 else x
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                with StackedLinear():
                    outputs = vmap(output, in_dims=in_dims)(pair, samples, key)
                torch.autograd.backward(outputs.sum())
            except Exception:
                return False
        if any(complaint in str(warning.message) for warning in heard for complaint in _SLOW):
            return False
    return True


def same_but_for_training(one: nn.Module, other: nn.Module) -> bool:
    """Whether two modules that were made with different seeds have the same frozen parameters, buffers and settings.

    Where that cannot be looked into, they may differ.
    """
    trained = {name: p.detach() for name, p in one.named_parameters() if p.requires_grad}
    theirs = {name: p for name, p in other.named_parameters() if p.requires_grad}
    if {name: p.shape for name, p in trained.items()} != {name: p.shape for name, p in theirs.items()}:
        return False
    with torch.no_grad():
        for name, parameter in theirs.items():
            parameter.copy_(trained[name])
    (digest, doubts), (their_digest, _) = (fingerprint(module, seeded=SEEDED) for module in (one, other))
    return not doubts and digest == their_digest


def _mixes_samples(part: nn.Module) -> bool:
    if isinstance(part, nn.modules.batchnorm._BatchNorm):
        return True
    return isinstance(part, nn.modules.batchnorm._NormBase) and part.track_running_stats
