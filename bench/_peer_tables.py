"""Tables that set our methods against those of other packages."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from _table import table
from peers import NAMESAKES

__all__ = ["best_peer_table", "namesake_table", "seconds_table"]

Measured = Mapping[tuple[str, str, str, int], float]
"""Numbers by method, budget, game and seed."""


def seconds_table(seconds: Measured, names: Sequence[str], budgets: Sequence[str]) -> str:
    """Medians, which the loading of packages in the first run of a process does not move."""

    def cell(name: str, budget: str) -> str:
        runs = [s for (method, of, _, _), s in seconds.items() if (method, of) == (name, budget)]
        return f"{np.median(runs):.3f}" if runs else "–"

    rows = ([name, *(cell(name, budget) for budget in budgets)] for name in names)
    return table(["method", *(f"γ={budget}" for budget in budgets)], rows)


def best_peer_table(errors: Measured, ours: str, peers: Sequence[str], budgets: Sequence[str]) -> str:
    """A row for each game: the ratio of mean errors, and whose the smallest one of the peers is."""
    by_game = defaultdict(list)
    for (method, budget, game, _), error in errors.items():
        by_game[method, budget, game].append(error)
    means = {key: float(np.mean(runs)) for key, runs in by_game.items()}

    def cell(game: str, budget: str) -> str:
        of_peers = {name: means[name, budget, game] for name in peers if (name, budget, game) in means}
        if not of_peers or (ours, budget, game) not in means:
            return "–"
        best = min(of_peers, key=lambda name: of_peers[name])
        return f"{means[ours, budget, game] / of_peers[best]:.2f} {best.partition(' ')[2]}"

    games = sorted({game for _, _, game, _ in errors})
    rows = ([game, *(cell(game, budget) for budget in budgets)] for game in games)
    return table(["game", *(f"γ={budget}" for budget in budgets)], rows)


def namesake_table(errors: Measured, budgets: Sequence[str]) -> str:
    """A row for each pair of which both were run; nothing where there is none."""
    games, seeds = sorted({game for _, _, game, _ in errors}), sorted({seed for *_, seed in errors})
    methods = {method for method, *_ in errors}

    def cell(budget: str, ours: str, peer: str) -> str:
        try:
            both = np.array([[[errors[m, budget, g, s] for s in seeds] for g in games] for m in (ours, peer)])
        except KeyError:  # one of the two cannot run at this budget
            return "–"
        ratio, margin = _error_ratio(*both)
        return f"{ratio:.3f} ± {margin:.3f}"

    pairs = [pair for pair in NAMESAKES if methods.issuperset(pair)]
    if not pairs:
        return ""
    rows = ([f"{ours} / {peer}", *(cell(b, ours, peer) for b in budgets)] for ours, peer in pairs)
    return table(["methods", *(f"γ={budget}" for budget in budgets)], rows)


def _error_ratio(ours: NDArray[np.float64], peer: NDArray[np.float64]) -> tuple[float, float]:
    """Ratio of the errors (games × seeds) as in the table, and half of its 95 % interval."""

    def log_ratio(seeds: NDArray[np.intp]) -> float:
        return float(np.mean(np.log(ours[:, seeds].mean(1)) - np.log(peer[:, seeds].mean(1))))

    every = np.arange(ours.shape[1])
    ratio = math.exp(log_ratio(every))
    if len(every) < 2:
        return ratio, math.nan
    without_one = np.array([log_ratio(np.delete(every, j)) for j in every])
    return ratio, ratio * 1.96 * math.sqrt((len(every) - 1) * without_one.var())
