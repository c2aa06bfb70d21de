"""Parts of a stack on a CPU: side by side, with one thread each.

Threads that share a product of matrices cut it by its shape, and the sums in it with it. The bits of a model would
depend on how many others are trained with it, and on the cores of the machine. So a thread has models of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from queue import SimpleQueue
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedvalue.learners._threads import one_thread
from fedvalue.learners.torch._buffers import Constants
from fedvalue.learners.torch._functions import InSteps, OneByOne
from fedvalue.learners.torch._inputs import Samples, arguments, said
from fedvalue.learners.torch._models import channels_last
from fedvalue.scenarios import mapped

__all__ = ["Program", "as_real", "on_device", "side_by_side"]

Part = TypeVar("Part")
Result = TypeVar("Result")
_PLAIN = {f"torch.nn.modules.{kind}" for kind in ("activation", "container", "dropout", "flatten", "linear")}


class Program:
    """A module to be called with parameters, and with the buffers named in `state`; only by one thread at a time, because
    they are put into it. `in_steps`: attention and recurrent layers are computed in steps that can be stacked; `channels_last`: images lie in memory
    as (samples, height, width, channels), which torch's layers go through faster on a CPU."""

    def __init__(self, module: nn.Module, state: tuple[str, ...] = (), in_steps: bool = False) -> None:
        self.module = module
        self.state = state
        self.in_steps = in_steps
        self.channels_last = False
        self.constants = Constants(module, state)
        held = (*module.named_parameters(), *module.named_buffers())
        self.complex = tuple(name for name, tensor in held if tensor.is_complex())
        self.tied = _tied(module)
        self.watched = not all(map(_is_plain, module.modules()))

    def __call__(self, model: dict[str, Tensor], x: Samples) -> Tensor:
        """What a model says of samples, of which it gets a copy: it may work in them, and others see them, too."""
        return self.stepped(model, mapped(Tensor.clone, x))[0]

    def stepped(self, model: dict[str, Tensor], x: Samples) -> tuple[Tensor, dict[str, Tensor]]:
        """What a model says of samples, and the buffers that it has afterwards where they change in training."""
        args, kwargs = arguments(mapped(_channels_last, x) if self.channels_last else x)
        own = {name: model[name].clone() for name in self.state}
        given = {**model, **self.constants, **own}
        for name in self.complex:
            if name in model:
                given[name] = torch.view_as_complex(given[name].contiguous())
        given.update({name: given[first] for name, first in self.tied.items() if first in given})
        watch, in_steps = self.watched, self.in_steps
        with OneByOne() if watch else nullcontext(), InSteps() if in_steps else nullcontext():
            outputs: Tensor = said(
                functional_call(self.module, given, tuple(args), dict(kwargs), tie_weights=False)
            )
        if self.constants:
            self.constants.check(given)
        return outputs, {name: as_real(given[name]) for name in self.state}

    def copies(self, count: int) -> list[Program]:
        """So many, this one included; what is not trained is there once for all of them."""
        shared = [p for p in self.module.parameters() if not p.requires_grad] + list(self.constants.values())
        modules = [
            copy.deepcopy(self.module, {id(tensor): tensor for tensor in shared}) for _ in range(count - 1)
        ]
        others = [Program(module, self.state, self.in_steps) for module in modules]
        for other in others:
            other.channels_last = self.channels_last
        return [self, *others]


def _tied(module: nn.Module) -> dict[str, str]:
    """Further places of parameters and buffers that come in several, each with the name of the first.

    A part that is itself in several places is one place: `functional_call` would not put back what it finds in it.
    """
    first: dict[int, str] = {}
    places: dict[tuple[int, str], tuple[str, str]] = {}
    everywhere = (module.named_parameters, module.named_buffers)
    for name, tensor in (found for named in everywhere for found in named(remove_duplicate=False)):
        prefix, _, key = name.rpartition(".")
        place = (id(module.get_submodule(prefix)), key)
        places.setdefault(place, (name, first.setdefault(id(tensor), name)))
    return {name: of for name, of in places.values() if name != of}


def as_real(tensor: Tensor) -> Tensor:
    """How a tensor lies in a stack: complex numbers as pairs, which optimisers and averages take for two numbers each."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _is_plain(part: nn.Module) -> bool:
    """Whether it is a layer that `vmap` computes as for one model: others are watched, which takes time in every call."""
    kind = type(part)
    of_torch = kind.__module__ in _PLAIN and not isinstance(part, nn.MultiheadAttention)
    return of_torch or kind.__module__ == "fedvalue.learners.torch._models"


def _channels_last(tensor: Tensor) -> Tensor:
    return channels_last(tensor) if tensor.dim() == 4 else tensor


def side_by_side(
    work: Callable[[Program, Part], Result], parts: Sequence[Part], programs: Sequence[Program]
) -> list[Result]:
    """`work(program, part)` for every part, as many at a time as there are programs."""
    if len(programs) == 1 or len(parts) == 1:
        with one_thread():
            return [work(programs[0], part) for part in parts]
    free: SimpleQueue[Program] = SimpleQueue()
    for program in programs:
        free.put(program)

    def with_a_free_one(part: Part) -> Result:
        program = free.get()
        try:
            return work(program, part)
        finally:
            free.put(program)

    # The number is one of each thread; what the last call says holds for those that are started later.
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(len(programs), initializer=torch.set_num_threads, initargs=(1,)) as threads:
            return list(threads.map(with_a_free_one, parts))
    finally:
        torch.set_num_threads(before)


@contextmanager
def on_device(device: str, convolves: bool) -> Iterator[None]:
    """On CUDA, makes the device the current one, which streams and graphs belong to.

    Our convolutions are matrix products there; they get the precision that torch's own have. That is
    TF32, unless `torch.backends.cudnn.allow_tf32` says otherwise. Other models stay in float32.
    """
    if not device.startswith("cuda"):
        yield
        return
    before = torch.backends.cuda.matmul.allow_tf32
    if convolves:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32
    try:
        with torch.cuda.device(device):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
