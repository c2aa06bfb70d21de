"""A small federation to train for real: clients of different sizes, one without data, and a copy."""

from __future__ import annotations

from functools import cache

import numpy as np

from fedvalue.scenarios import CLASSIFICATION, Dataset, Scenario
from fedvalue.training import Training

__all__ = ["COPIES", "EMPTY", "RULES", "crowd"]

_SIZES = (37, 20, 24, 0)  # with batches of 16, the last of an epoch is smaller
EMPTY, COPIES = 3, (1, 4)
RULES = Training(rounds=2, epochs=2, batch=16, rate=0.01, seed=3)


@cache
def crowd() -> Scenario:
    """Three classes in four features. Client 3 has no data, client 4 is a copy of client 1."""
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((3, 4))

    def drawn(rows: int) -> Dataset:
        label = rng.integers(0, 3, rows)
        return Dataset(centres[label] + rng.standard_normal((rows, 4)), label)

    clients = [drawn(rows) for rows in _SIZES]
    clients.append(clients[COPIES[0]])
    names = tuple(f"client {i}" for i in range(len(clients)))
    return Scenario("crowd", tuple(clients), names, drawn(80), CLASSIFICATION, 3)
