"""Random numbers that follow from a seed and leave those of everybody else as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["seeded"]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within the block, torch draws what follows from this seed."""
    with torch.random.fork_rng(devices=[]):
        if torch.accelerator.is_available():
            torch.manual_seed(seed)
        else:  # the same, without a note of who asked for it, for each kind of device that this machine has not
            torch.default_generator.manual_seed(seed)
        yield
