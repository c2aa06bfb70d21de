"""Random numbers while a model is made: the same for a seed, wherever they are drawn from."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["SEEDED", "seeded_generators"]

SEEDED = ("numpy", "random", "torch")
"""The libraries whose common generator is seeded."""


@contextmanager
def seeded_generators(seed: int) -> Iterator[None]:
    """Seeds the generators that a whole program shares, and leaves them as they were.

    Models of one's own may draw from any of them: the old generator of numpy is among these.
    """
    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(np.random.SeedSequence(seed).generate_state(4))  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)  # noqa: NPY002
