"""The estimators of Shapley values in shapiq, each run on a table of utilities that counts.

All that shapiq 1.8 lists for Shapley values are here but two, which look for few strong interactions among many players: SPEX
needs packages of its own, and ProxySPEX boosts trees that find no split in so few rows, so that all of its values are 0.
ProxySHAP, which it lists under interactions, is here. Settings are theirs by default; where shapiq offers to draw a coalition
together with its complement, the estimator that does is here.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from _counting import Array, CountingTable, Run

__all__ = ["approximator", "shapleig", "shapleig_is_there"]


def approximator(name: str, cost: Callable[[int, int], int] = lambda n, calls: calls, **options: Any) -> Run:
    """One of `shapiq.approximator`; `cost(n, parameter)` is its budget."""

    def run(game: CountingTable, parameter: int, seed: int) -> Array:
        from shapiq import approximator as approximators

        method = getattr(approximators, name)(n=game.n, random_state=seed, **options)
        found = method.approximate(cost(game.n, parameter), game.rows)
        return np.array([found[(i,)] for i in range(game.n)])

    return run


def shapleig_is_there() -> bool:
    """Its Gaussian process is one of botorch."""
    return find_spec("botorch") is not None


def shapleig(game: CountingTable, coalitions: int, seed: int) -> Array:
    """ShaplEIG with the settings of its paper, which are its defaults: n + 1 coalitions to begin with, then one after the other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return approximator("ShaplEIG", show_progress=False)(game, coalitions, seed)
    finally:
        torch.set_num_threads(threads)
