"""Whether a module of one's own still says what it said before anything was trained."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedvalue.errors import InputError
from fedvalue.learners.torch._buffers import HeldBuffers
from fedvalue.learners.torch._checks import awake
from fedvalue.learners.torch._inputs import Samples, call
from fedvalue.learners.torch._random import seeded_generators

__all__ = ["Echo"]


class Echo:
    """What a module says of two samples with the parameters that it began with, in training and in evaluation.

    A module may count its calls, or keep something of them, in attributes of Python, which all coalitions share. Many do so
    without harm (they keep what they have computed once), so it is no use to look at the attributes: what counts is whether
    the module comes to say something else. This is asked again whenever models were trained or measured.
    """

    def __init__(self, module: nn.Module, x: Samples) -> None:
        self.x = x
        self.said = self._heard(module)

    def check(self, module: nn.Module) -> None:
        """Refuses a module, or a copy of it, that says something else by now."""
        for before, now in zip(self.said, self._heard(module), strict=True):
            if not torch.allclose(before, now, rtol=1e-3, atol=1e-4, equal_nan=True):
                raise InputError(
                    "The model has come to say something else of the same samples, with the same parameters, buffers and random "
                    "numbers: it counts or remembers its calls, which are those of all coalitions. Keep what changes in a "
                    "buffer (register_buffer)."
                )

    @torch.no_grad()
    def _heard(self, module: nn.Module) -> list[Tensor]:
        was_training, held, found = module.training, HeldBuffers(module), []
        for training in (True, False):
            with awake(module), seeded_generators(0):
                found.append(call(module.train(training), self.x).clone())
            held.put_back()
        module.train(was_training)
        return found
