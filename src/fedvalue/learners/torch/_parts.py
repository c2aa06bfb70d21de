"""Parts of a stack on a CPU: side by side, with one thread each.

Threads that share a product of matrices cut it by its shape, and the sums in it with it. The bits of a model would
depend on how many others are trained with it, and on the cores of the machine. So a thread has models of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedvalue.learners._threads import one_thread
from fedvalue.learners.torch._inputs import Samples, arguments, said

__all__ = ["Program", "side_by_side"]

Part = TypeVar("Part")
Result = TypeVar("Result")


class Program:
    """A module to be called with parameters; only by one thread at a time, because they are put into it."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.buffers = dict(module.named_buffers())

    def __call__(self, parameters: dict[str, Tensor], x: Samples) -> Tensor:
        args, kwargs = arguments(x)
        state = {**parameters, **self.buffers}
        outputs: Tensor = said(functional_call(self.module, state, tuple(args), dict(kwargs)))
        return outputs

    def copies(self, count: int) -> list[Program]:
        """So many, this one included."""
        return [self, *(Program(copy.deepcopy(self.module)) for _ in range(count - 1))]


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
