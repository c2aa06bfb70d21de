"""Estimators of other packages, run by their own code on a table of utilities.

The rule for a fair comparison: everybody may evaluate the same number γ of distinct coalitions. Our
methods count them; the peers count calls, some of them for coalitions they have seen before. So a peer runs on
a game that remembers what it was asked, and is given the largest parameter (calls or permutations) with
which it still asks for at most γ distinct coalitions under that seed. What these peers ask for does not
depend on the utilities and grows with the parameter, so the search (galloping, then halving) runs once per seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NAMESAKES", "PEERS", "missing_packages", "peer_values"]

Array = NDArray[np.float64]
Run = Callable[["CountingTable", int, int], Array]
"""Values from a game, a parameter and a seed."""

_MOST_REPEATS = 20  # calls per distinct coalition after which a search for more ends


class CountingTable:
    """A table of utilities that remembers which coalitions were looked up."""

    def __init__(self, utilities: Array) -> None:
        self.utilities = utilities
        self.n = len(utilities).bit_length() - 1
        self.seen: set[int] = set()
        self._bits = 1 << np.arange(self.n)

    def rows(self, coalitions: NDArray[np.bool_]) -> Array:
        """Utilities of coalitions given as rows of booleans: what shapiq calls a game."""
        masks = np.atleast_2d(coalitions) @ self._bits
        self.seen.update(masks.tolist())
        return self.utilities[masks]

    def members(self, clients: Sequence[int]) -> float:
        """Utility of one coalition given by its clients."""
        mask = int(self._bits[np.array(clients, dtype=int)].sum())
        self.seen.add(mask)
        return float(self.utilities[mask])


@dataclass(frozen=True)
class Peer:
    """A peer's estimator.

    `sure(n, γ)` is the parameter that γ coalitions pay for even when none comes twice; below `least` the
    peer has no result.
    """

    run: Run
    sure: Callable[[int, int], int]
    least: int


def missing_packages() -> list[str]:
    """Which of the packages are not installed."""
    return [name for name in ("shapiq", "pydvl") if find_spec(name) is None]


def peer_values(name: str, utilities: Array, budget: int, seed: int) -> Array | None:
    """A peer's values with at most `budget` distinct coalitions, or None where that is too few for it."""
    game = CountingTable(utilities)
    parameter = _largest_parameter(name, game.n, budget, seed)
    if parameter is None:
        return None
    values = _run(name, game, parameter, seed)
    if len(game.seen) > budget:
        raise RuntimeError(f"{name} evaluated {len(game.seen)} coalitions of {budget}")
    return values


@cache
def _largest_parameter(name: str, n: int, budget: int, seed: int) -> int | None:
    def affordable(parameter: int) -> bool:
        game = CountingTable(np.zeros(1 << n))
        _run(name, game, parameter, seed)
        return len(game.seen) <= budget

    best = PEERS[name].sure(n, budget)
    if best < PEERS[name].least:
        return None
    step, most = 1, _MOST_REPEATS * best
    while best + step <= most and affordable(best + step):
        best += step
        step *= 2
    while step := step // 2:
        if best + step <= most and affordable(best + step):
            best += step
    return best


def _run(name: str, game: CountingTable, parameter: int, seed: int) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PEERS[name].run(game, parameter, seed)


def _calls(n: int, budget: int) -> int:
    return budget


def _whole_orders(n: int, budget: int) -> int:
    return (budget - 2) // max(n - 1, 1)


def _shapiq(approximator: str, cost: Callable[[int, int], int] = _calls, **options: bool) -> Run:
    """A shapiq approximator; `cost(n, parameter)` is its budget."""

    def run(game: CountingTable, parameter: int, seed: int) -> Array:
        from shapiq import approximator as approximators

        method = getattr(approximators, approximator)(game.n, random_state=seed, **options)
        found = method.approximate(cost(game.n, parameter), game.rows)
        return np.array([found[(i,)] for i in range(game.n)])

    return run


def _pydvl_permutation(game: CountingTable, permutations: int, seed: int) -> Array:
    """pyDVL's Shapley valuation with its permutation sampler, untruncated; a data point is a client."""
    from pydvl.valuation import Dataset, MaxUpdates, PermutationSampler, ShapleyValuation
    from pydvl.valuation.utility.base import UtilityBase

    class TableUtility(UtilityBase):
        def __call__(self, sample: Any) -> float:
            return game.members(() if sample is None else sample.subset)

    # Each permutation updates every data point once, so the number of updates is that of permutations.
    valuation = ShapleyValuation(
        TableUtility(), PermutationSampler(seed=seed), MaxUpdates(permutations), progress=False
    )
    valuation.fit(Dataset(np.arange(game.n)[:, None], np.zeros(game.n)))
    values = np.empty(game.n)
    values[valuation.result.indices] = valuation.result.values
    return values


PEERS: dict[str, Peer] = {
    "shapiq KernelSHAP": Peer(_shapiq("KernelSHAP"), _calls, least=2),
    "shapiq SVARM paired": Peer(_shapiq("SVARM", pairing_trick=True), _calls, least=2),
    "shapiq Permutation": Peer(
        _shapiq("PermutationSamplingSV", cost=lambda n, orders: 2 + orders * (n - 1)), _whole_orders, least=1
    ),
    "shapiq Stratified": Peer(_shapiq("StratifiedSamplingSV"), _calls, least=3),
    "pyDVL permutation": Peer(_pydvl_permutation, _whole_orders, least=1),
}

NAMESAKES = (
    ("permutation", "shapiq Permutation"),
    ("permutation", "pyDVL permutation"),
    ("stratified-mc", "shapiq Stratified"),
    ("stratified-cc", "shapiq SVARM paired"),
    ("cc-paired", "shapiq SVARM paired"),
)
"""Our method, and the peer's that follows the same idea."""
