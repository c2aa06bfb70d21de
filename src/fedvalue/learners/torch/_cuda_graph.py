"""Many equal training steps without the cost of launching them.

A step of a stack is some forty small kernels; launching them from Python takes longer than running them. On
CUDA the step is recorded once as a graph and replayed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["StepRunner"]

_WARM_UP = 2  # steps that run as they are: libraries and the optimiser allocate their state in them


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """An older graph that is found to be garbage while another is recorded gives back memory: that breaks it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class StepRunner:
    """Runs the steps of one local training after the other.

    Keeps the last graph, and with it the memory pool that the next one is recorded into: giving
    gigabytes back to the driver and asking for them again costs more than many steps.
    """

    def __init__(self) -> None:
        self._last: torch.cuda.CUDAGraph | None = None

    def run(self, step: Callable[..., None], *inputs: Tensor, record: bool = True) -> None:
        """`step(index[:, s], weight[:, s], …)` for every s, in order; not recorded where steps are not all alike."""
        steps = inputs[0].shape[1]
        if not (record and inputs[0].is_cuda) or steps <= _WARM_UP + 1:
            for s in range(steps):
                step(*(tensor[:, s] for tensor in inputs))
            return
        side: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for s in range(_WARM_UP):
                step(*(tensor[:, s] for tensor in inputs))
        torch.cuda.current_stream().wait_stream(side)
        now = [tensor[:, 0].contiguous() for tensor in inputs]
        graph = torch.cuda.CUDAGraph()
        pool = None if self._last is None else self._last.pool()
        with _no_garbage_collection(), torch.cuda.graph(graph, pool=pool):  # records, does not run
            step(*now)
        for s in range(_WARM_UP, steps):
            for held, tensor in zip(now, inputs, strict=True):
                held.copy_(tensor[:, s])
            graph.replay()
        self._last = graph
