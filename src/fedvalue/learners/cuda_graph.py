"""Many equal training steps without the cost of launching them.

A step of a stack is some forty small kernels; launching them from Python takes longer than running them. On
CUDA the step is recorded once as a graph and replayed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["run_steps"]

_WARM_UP = 3  # steps that run as they are: libraries and the optimiser allocate their state in them


def run_steps(step: Callable[[Tensor, Tensor], None], index: Tensor, weight: Tensor) -> None:
    """`step(index[:, s], weight[:, s])` for every s, in order."""
    steps = index.shape[1]
    eager = min(_WARM_UP, steps) if index.is_cuda else steps
    if not index.is_cuda or steps <= _WARM_UP:
        for s in range(steps):
            step(index[:, s], weight[:, s])
        return
    side: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for s in range(eager):
            step(index[:, s], weight[:, s])
    torch.cuda.current_stream().wait_stream(side)
    now_index, now_weight = index[:, 0].contiguous(), weight[:, 0].contiguous()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # records, does not run
        step(now_index, now_weight)
    for s in range(eager, steps):
        now_index.copy_(index[:, s])
        now_weight.copy_(weight[:, s])
        graph.replay()
