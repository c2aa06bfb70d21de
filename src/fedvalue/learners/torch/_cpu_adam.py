"""Adam on the CPU by torch's own fused kernel, without torch.optim.

The first step of a torch.optim optimiser imports torch's compiler, which takes a second of CPU time: much for an app
that a federation starts for every message, and for a small run.

The kernel rounds the last numbers of a tensor, those that do not fill a vector register, in another way than the rest.
In a stack that would be a matter of how many models there are, so they have a register of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedvalue.learners.torch._linear import LINE

__all__ = ["FusedAdam"]

# Private operations of torch: a release without them gets torch.optim, with the same results to rounding.
_FUSED = getattr(torch, "_fused_adam_", None)
_FUSED_DECOUPLED = getattr(torch, "_fused_adamw_", None)


class FusedAdam:
    """What torch.optim.Adam(fused=True), or AdamW where weight decay is `decoupled`, does with its default settings, except
    how it rounds the ends of tensors."""

    def __init__(
        self, parameters: Sequence[Tensor], rate: float, weight_decay: float = 0.0, decoupled: bool = False
    ) -> None:
        self.parameters = parameters
        self.kernel = _FUSED_DECOUPLED if decoupled else _FUSED
        kind = torch.optim.AdamW if decoupled else torch.optim.Adam
        missing = self.kernel is None and parameters
        self.torchs = kind(parameters, lr=rate, weight_decay=weight_decay) if missing else None
        self.rate = rate
        self.weight_decay = weight_decay
        self.states = [_State(p) for p in parameters]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        # A parameter that the outputs do not depend on has no gradient, and its steps are not counted.
        if self.torchs is not None:
            self.torchs.step()
            return
        pairs = zip(self.states, self.parameters, strict=True)
        used = [(state, p.grad) for state, p in pairs if p.grad is not None]
        if not used or self.kernel is None:
            return
        torch._foreach_add_([state.steps for state, _ in used], 1)
        parts = [part for state, gradient in used for part in state.parts(gradient)]
        parameters, gradients, means, squares, steps = (list(column) for column in zip(*parts, strict=True))
        self.kernel(
            parameters, gradients, means, squares, [], steps,
            lr=self.rate, beta1=0.9, beta2=0.999, weight_decay=self.weight_decay, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip
        for state, _ in used:
            state.put_end_back()


class _State:
    """A parameter as it lies in memory, its moments, and a register for the numbers at its end."""

    def __init__(self, parameter: Tensor) -> None:
        self.like = parameter.detach()
        if torch.empty_like(self.like).stride() != self.like.stride():
            raise ValueError(
                "The fused kernel reads memory from end to end: parameters must have no gaps in it."
            )
        self.numbers = _in_memory(self.like)
        self.whole = len(self.numbers) // LINE * LINE
        self.left = len(self.numbers) - self.whole
        self.end, self.slope = self.numbers.new_zeros(2, LINE)
        self.mean, self.square = self.numbers.new_zeros(2, self.whole + LINE)
        self.steps = torch.zeros(())

    def parts(self, gradient: Tensor) -> list[tuple[Tensor, ...]]:
        """What the kernel is called with: whole registers, and one that is filled up."""
        if gradient.stride() != self.like.stride():
            gradient = torch.empty_like(self.like).copy_(gradient)
        slopes, whole = _in_memory(gradient), self.whole
        found: list[tuple[Tensor, ...]] = []
        if whole:
            moments = self.mean[:whole], self.square[:whole]
            found.append((self.numbers[:whole], slopes[:whole], *moments, self.steps))
        if self.left:
            self.end[: self.left] = self.numbers[whole:]
            self.slope[: self.left] = slopes[whole:]
            found.append((self.end, self.slope, self.mean[whole:], self.square[whole:], self.steps))
        return found

    def put_end_back(self) -> None:
        self.numbers[self.whole :] = self.end[: self.left]


def _in_memory(tensor: Tensor) -> Tensor:
    """All its numbers in the order in which they lie."""
    return tensor.as_strided((tensor.numel(),), (1,))
