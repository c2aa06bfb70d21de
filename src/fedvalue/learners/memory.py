"""How many models fit: what a row of a stack costs, and what there is."""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

__all__ = ["available_memory", "bytes_per_row"]

_FRACTION = 0.4  # of what is free: the system and the test set need some too


def available_memory(device: str) -> int:
    """Bytes that a stack may use on the device by default."""
    if device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(device)
        return int(_FRACTION * free)
    return int(_FRACTION * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def bytes_per_row(module: nn.Module, sample: Tensor, batch: int) -> int:
    """An upper estimate of what training one more row takes.

    Eight copies of the parameters (the model, its origin, gradient, two moments, averages and temporaries),
    and for every sample of a batch all intermediate results, three times (forward, backward, temporaries).
    """
    parameters = sum(p.numel() for p in module.parameters())
    produced = [sample.numel()]
    handles = [
        part.register_forward_hook(
            lambda _m, _i, out: produced.append(out.numel()) if torch.is_tensor(out) else None
        )
        for part in module.modules()
        if not list(part.children())
    ]
    with torch.no_grad():
        module(sample)
    for handle in handles:
        handle.remove()
    return 4 * (8 * parameters + 3 * batch * sum(produced))
