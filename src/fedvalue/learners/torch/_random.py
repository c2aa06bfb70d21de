"""Random numbers that follow from a seed and leave those of everybody else as they were."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["SEEDED", "drawn_so_far", "seeded", "seeded_generators"]

SEEDED = ("numpy", "random", "torch")
"""The libraries whose common generator `seeded_generators` seeds."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within the block, torch draws what follows from this seed."""
    with torch.random.fork_rng(devices=[]):
        if torch.accelerator.is_available():
            torch.manual_seed(seed)
        else:  # the same, without a note of who asked for it, for each kind of device that this machine has not
            torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def seeded_generators(seed: int) -> Iterator[None]:
    """Within the block, so do all generators that a whole program shares.

    Models of one's own may draw from any of them: the old generator of numpy is among these.
    """
    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with seeded(seed):
        random.seed(seed)
        np.random.seed(np.random.SeedSequence(seed).generate_state(4))  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)  # noqa: NPY002


def drawn_so_far() -> tuple[object, ...]:
    """Where the generators that a whole program shares are: the same as before where nothing was drawn from them."""
    _, of_numpy, place, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    of_torch = torch.get_rng_state().numpy().tobytes()
    return of_torch, random.getstate(), np.asarray(of_numpy).tobytes(), place, *rest
