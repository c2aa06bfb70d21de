"""Buffers of modules: those that change in training, such as running statistics, and those that stay."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from fedvalue.errors import InputError

__all__ = ["Constants", "HeldBuffers", "tracks_statistics"]


def tracks_statistics(part: nn.Module) -> bool:
    """Whether it is a layer of torch with running statistics."""
    return isinstance(part, _NormBase) and part.track_running_stats


class HeldBuffers:
    """The buffers of a module as they are now: to see which have changed, and to put them back."""

    def __init__(self, module: nn.Module) -> None:
        self.held = []
        for name, buffer in module.named_buffers():  # one that several parts share comes once
            prefix, _, key = name.rpartition(".")
            self.held.append((name, module.get_submodule(prefix), key, buffer, buffer.clone()))

    def changed(self) -> list[str]:
        """Names of buffers that are other tensors or have other content; statistics change even where one pass hides it."""
        return [
            name
            for name, part, key, buffer, copy in self.held
            if part._buffers.get(key) is not buffer
            or not torch.equal(buffer, copy)
            or tracks_statistics(part)
        ]

    @torch.no_grad()
    def put_back(self) -> None:
        for _, part, key, buffer, copy in self.held:
            part._buffers[key] = buffer
            if not torch.equal(
                buffer, copy
            ):  # its version would not tell: batch norm writes without counting
                buffer.copy_(copy)


class Constants(dict[str, Tensor]):
    """The buffers that all models of a stack share. One that changes after all would pass from one coalition to the next."""

    def __init__(self, module: nn.Module, state: tuple[str, ...]) -> None:
        super().__init__((name, b) for name, b in module.named_buffers() if name not in state)
        self.versions = {name: buffer._version for name, buffer in self.items()}

    def check(self, used: Mapping[str, Tensor]) -> None:
        """Refuses a pass after which one of them is not what it was."""
        for name, buffer in self.items():
            if used[name] is not buffer or buffer._version != self.versions[name]:
                raise InputError(
                    f"The model changes its buffer {name!r} in training, but not in its first passes: it was taken for a "
                    "constant that all models share. Let it change from the first pass on, or never."
                )
