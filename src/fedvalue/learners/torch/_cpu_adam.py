"""Adam on the CPU by torch's own fused kernel, without torch.optim.

The first step of a torch.optim optimiser imports torch's compiler, which takes a second of CPU time: much for an app
that a federation starts for every message, and for a small run. The numbers are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["FusedAdam"]

# A private operation of torch: a release without it gets torch.optim, with the same results to rounding.
_FUSED = getattr(torch, "_fused_adam_", None)


class FusedAdam:
    """What torch.optim.Adam(fused=True) does with its default settings."""

    def __init__(self, parameters: Sequence[Tensor], rate: float) -> None:
        self.parameters = parameters
        self.torchs = torch.optim.Adam(parameters, lr=rate) if _FUSED is None and parameters else None
        self.rate = rate
        self.means = [torch.zeros_like(p, memory_format=torch.preserve_format) for p in parameters]
        self.squares = [torch.zeros_like(p, memory_format=torch.preserve_format) for p in parameters]
        self.steps = [torch.zeros(()) for _ in parameters]
        if any(mean.stride() != p.stride() for mean, p in zip(self.means, parameters, strict=True)):
            raise ValueError(
                "The fused kernel reads memory from end to end: parameters must have no gaps in it."
            )

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        # A parameter that the outputs do not depend on has no gradient, and its steps are not counted.
        if self.torchs is not None:
            self.torchs.step()
            return
        used = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        if not used or _FUSED is None:
            return
        parameters, means, squares, steps = (
            [column[i] for i in used] for column in (self.parameters, self.means, self.squares, self.steps)
        )
        gradients = [p.grad for p in parameters if p.grad is not None]
        torch._foreach_add_(steps, 1)
        _FUSED(
            parameters, gradients, means, squares, [], steps,
            lr=self.rate, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip
