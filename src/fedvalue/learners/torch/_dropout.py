"""Dropout by numbers that can be counted: a step's key, the layer and the place decide what is dropped.

A generator gives its numbers in the order in which they are asked for, and a stack asks in another order than a loop.
These follow from what they are for, so that both train the same models, on every device, however a stack is cut.
"""

from __future__ import annotations

from functools import partial
from math import prod

import torch
from torch import Tensor, nn

from fedvalue.learners.torch._modes import Function, Replacing

__all__ = ["CountedDropout", "may_drop"]

_WORD = 0xFFFFFFFF
# How many of an input's dimensions are dropped by themselves: all, or samples and channels.
_DROPPED: dict[Function, int | None] = {
    nn.functional.dropout: None,
    nn.functional.dropout1d: 2,
    nn.functional.dropout2d: 2,
    nn.functional.dropout3d: 2,
    nn.functional.alpha_dropout: None,
    nn.functional.feature_alpha_dropout: 2,
}
_ALPHA = (nn.functional.alpha_dropout, nn.functional.feature_alpha_dropout)
_FLOOR = (
    -1.7580993408473766
)  # what SELU tends to, far below zero: alpha dropout puts it in place of what it drops


class CountedDropout(Replacing):
    """While it is active, layers that drop out do so by `key`, a number of 32 bits; one instance for one forward pass."""

    def __init__(self, key: Tensor) -> None:
        super().__init__({layer: partial(self._dropped, layer) for layer in _DROPPED})
        self.key = key
        self._layers = 0

    def _dropped(
        self,
        func: Function,
        input: Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> Tensor:
        self._layers += 1
        if not training or p == 0.0:
            return input
        shape = input.shape[: _DROPPED[func]]
        places = torch.arange(prod(shape), device=input.device).view(shape)
        numbers = _mixed(_mixed(places) + _mixed(self.key + self._layers))
        kept = numbers >= int(p * (_WORD + 1))
        kept = kept.view(*shape, *[1] * (input.dim() - len(shape)))
        if func in _ALPHA:
            scale = ((1 - p) * (1 + p * _FLOOR**2)) ** -0.5 if p < 1 else 0.0
            return torch.where(kept, input, _FLOOR) * scale - scale * p * _FLOOR
        return input * kept / (1 - p) if p < 1 else input * kept


def may_drop(module: nn.Module) -> bool:
    """Whether one of its layers drops out: a module that calls the function itself may do so unseen."""
    return any(
        isinstance(part, nn.modules.dropout._DropoutNd)
        or (isinstance(part, (nn.MultiheadAttention, nn.RNNBase)) and part.dropout)
        or not type(part).__module__.startswith(("torch.", "fedvalue."))
        for part in module.modules()
    )


def _mixed(numbers: Tensor) -> Tensor:
    """A bijection of 32-bit words that leaves no pattern (two multiplications and three shifts, constants by C. Wellons)."""
    numbers = numbers & _WORD
    numbers = ((numbers ^ (numbers >> 16)) * 0x7FEB352D) & _WORD
    numbers = ((numbers ^ (numbers >> 15)) * 0x846CA68B) & _WORD
    return numbers ^ (numbers >> 16)
