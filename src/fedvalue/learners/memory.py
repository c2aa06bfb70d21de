"""How many models fit: what a row of a stack costs, and what there is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

__all__ = ["available_memory", "row_cost"]

_FRACTION = 0.4  # of what is free: the system and the test set need some too
_UNKNOWN = 1 << 30  # where nothing is known about the machine


def available_memory(device: str) -> int:
    """Bytes that a stack may use on the device by default."""
    if device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(device)
        return int(_FRACTION * free)
    known = getattr(os, "sysconf_names", {})  # macOS does not say what is free, Windows says nothing
    if "SC_AVPHYS_PAGES" in known:
        return int(_FRACTION * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    if "SC_PHYS_PAGES" in known:
        return int(_FRACTION / 2 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return _UNKNOWN


def row_cost(
    module: nn.Module, own: Sequence[Tensor], say: Callable[[], Tensor], sample_bytes: int, batch: int
) -> tuple[int, int]:
    """Upper estimates of the bytes that one more row takes: while it is held, and while it is trained.

    Held: six copies of the parameters (global and local models, averages and temporaries). Trained: four
    more (gradient, moments), and for every sample of a batch twice what the forward pass keeps for the
    backward pass (results, and their gradients) and three times the largest result, which may exist
    before it is reduced. `own` is what every model has of its own: parameters that are not trained are there once for
    all of them. `say` makes the forward pass of one sample.
    """
    parameters = sum(p.numel() * p.element_size() for p in own)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        where = tensor.untyped_storage().data_ptr()  # views of one tensor are kept once
        kept[where] = max(kept.get(where, 0), tensor.numel() * tensor.element_size())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor), torch.random.fork_rng(devices=[]):
        say()
    for tensor in (*module.parameters(), *module.buffers()):
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    largest = max([sample_bytes, *kept.values()])
    return 6 * parameters, 4 * parameters + batch * (2 * sum(kept.values()) + 3 * largest)
