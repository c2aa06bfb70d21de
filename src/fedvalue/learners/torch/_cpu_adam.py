"""Adam on the CPU by torch's own fused kernel, without torch.optim.

The first step of a torch.optim optimiser imports torch's compiler, which takes a second of CPU time: much for an app
that a federation starts for every message, and for a small run.

The kernel computes a vector of numbers at a time, and what is left at the end of a parameter one by one, with another
last bit. Where a stack ends must not show in its models: the rest is filled up to a vector, too. Otherwise the numbers
are those of torch to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["FusedAdam"]

# A private operation of torch: a release without it gets torch.optim, with the same results to rounding.
_FUSED = getattr(torch, "_fused_adam_", None)
_LANES = 16  # numbers in the widest vector; threads of the kernel take multiples of it


@dataclass(frozen=True)
class _Part:
    """The vectors of one parameter, or its filled-up rest: `values` and what Adam remembers of them."""

    values: Tensor
    means: Tensor
    squares: Tensor

    @staticmethod
    def of(values: Tensor) -> _Part:
        return _Part(values, torch.zeros_like(values), torch.zeros_like(values))


class FusedAdam:
    """What torch.optim.Adam(fused=True) does with its default settings."""

    def __init__(self, parameters: Sequence[Tensor], rate: float) -> None:
        self.parameters = parameters
        self.torchs = torch.optim.Adam(parameters, lr=rate) if _FUSED is None and parameters else None
        self.rate = rate
        self.steps = [torch.zeros(()) for _ in parameters]
        if any(torch.empty_like(p).stride() != p.stride() for p in parameters):
            raise ValueError(
                "The fused kernel reads memory from end to end: parameters must have no gaps in it."
            )
        self.flat = [_flat(p) for p in parameters]
        self.vectors = [_Part.of(flat[: len(flat) // _LANES * _LANES]) for flat in self.flat]
        self.rests = [
            _Part.of(_filled(flat)) if len(flat) > len(vectors.values) else None
            for flat, vectors in zip(self.flat, self.vectors, strict=True)
        ]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        # A parameter that the outputs do not depend on has no gradient, and its steps are not counted.
        if self.torchs is not None:
            self.torchs.step()
            return
        parts: list[_Part] = []
        gradients: list[Tensor] = []
        steps: list[Tensor] = []
        ends: list[tuple[Tensor, Tensor]] = []
        for parameter, flat, vectors, rest, step in zip(
            self.parameters, self.flat, self.vectors, self.rests, self.steps, strict=True
        ):
            if parameter.grad is None:
                continue
            step += 1
            gradient, whole = _flat(parameter.grad), len(vectors.values)
            if whole:
                parts.append(vectors)
                gradients.append(gradient[:whole])
                steps.append(step)
            if rest is not None:
                parts.append(rest)
                gradients.append(_filled(gradient))
                steps.append(step)
                ends.append((flat[whole:], rest.values[: len(flat) - whole]))
        if not parts or _FUSED is None:
            return
        values, means, squares = (
            [getattr(p, name) for p in parts] for name in ("values", "means", "squares")
        )
        _FUSED(
            values, gradients, means, squares, [], steps,
            lr=self.rate, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip
        for into, rest_values in ends:
            into.copy_(rest_values)


def _flat(tensor: Tensor) -> Tensor:
    """The numbers as they lie in memory."""
    return tensor.detach().as_strided((tensor.numel(),), (1,))


def _filled(flat: Tensor) -> Tensor:
    """What is left behind the last whole vector, filled up with zeros."""
    rest = flat[len(flat) // _LANES * _LANES :]
    return torch.nn.functional.pad(rest, (0, _LANES - len(rest)))
