"""What trained coalitions show about all clients together: how utility grows, and which pairs help each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from fedvalue._extras import limited_threads
from fedvalue.coalitions import full_mask, members
from fedvalue.estimators import ESTIMATORS
from fedvalue.values import Values

__all__ = [
    "Absent",
    "Convergence",
    "Growth",
    "Layer",
    "Pair",
    "Synergy",
    "converge",
    "grow",
    "pair_up",
    "strongest",
]

_DOTS = 1_500  # more would be a smear, and a heavy page
_MOST_FOR_PAIRS = 1 << 16  # coalitions: beyond, quadruples take minutes to find
_ROUNDING = 1e-12  # of the largest utility: a smaller effect came out of floating-point arithmetic
_FEWEST, _PREFIXES = 4, 8
_MOST_POINTS = 256  # that a process is fitted to: eight fits of growing size take about a second
_MOST_CLIENTS = 200


@dataclass(frozen=True)
class Absent:
    """A part of the report that cannot be shown, and why, in one sentence."""

    why: str


@dataclass(frozen=True)
class Layer:
    """All trained coalitions of one size."""

    size: int
    coalitions: int
    lowest: float
    mean: float
    highest: float


@dataclass(frozen=True)
class Growth:
    """Utility against the number of clients. `dots` are (size, utility), thinned where there are too many."""

    layers: tuple[Layer, ...]
    dots: tuple[tuple[int, float], ...]
    coalitions: int


@dataclass(frozen=True)
class Pair:
    """Two clients, by index, and what they add together beyond what they add apart.

    `effect` is the mean of v(S∪ij) − v(S∪i) − v(S∪j) + v(S) over `quadruples` sets S of other clients.
    """

    first: int
    second: int
    effect: float
    quadruples: int


@dataclass(frozen=True)
class Synergy:
    """Every pair that the trained coalitions say something about, and how many pairs there are."""

    pairs: tuple[Pair, ...]
    possible: int


@dataclass(frozen=True)
class Convergence:
    """Values of all clients (inner, by index) as `estimator` finds them from the first `counts` of all `trained`."""

    trained: int
    counts: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]
    estimator: str
    seeds: int = 1


def grow(utilities: Mapping[int, float]) -> Growth:
    """Coalitions by size. Where there are too many to draw, every size keeps its part of the dots.

    >>> grow({0: 0.0, 1: 0.5, 2: 0.7, 3: 0.9}).layers[1].mean
    0.6
    """
    by_size: dict[int, list[float]] = {}
    for mask, utility in utilities.items():
        by_size.setdefault(mask.bit_count(), []).append(utility)
    layers = tuple(Layer(size, len(of), min(of), fmean(of), max(of)) for size, of in sorted(by_size.items()))
    kept = min(1.0, _DOTS / len(utilities)) if utilities else 1.0
    dots = tuple(
        (size, utility)
        for size, of in sorted(by_size.items())
        for utility in _evenly(sorted(of), max(2, round(kept * len(of))))
    )
    return Growth(layers, dots, len(utilities))


def _evenly(numbers: Sequence[float], most: int) -> Sequence[float]:
    if most >= len(numbers):
        return numbers
    return [numbers[k] for k in np.linspace(0, len(numbers) - 1, most).round().astype(int)]


def pair_up(n: int, *tables: Mapping[int, float]) -> Synergy | Absent:
    """The interaction of every pair of clients, from all quadruples of coalitions that were trained with one seed.

    There is a table of utilities for every seed.

    >>> pair_up(2, {0: 0.0, 1: 0.5, 2: 0.75, 3: 1.0}).pairs
    (Pair(first=0, second=1, effect=-0.25, quadruples=1),)
    """
    if n < 2:
        return Absent("There is only one client, so there are no pairs.")
    if sum(map(len, tables)) > _MOST_FOR_PAIRS:
        return Absent(f"Pairs are not compared where more than {_MOST_FOR_PAIRS:,} coalitions were trained.")
    sums: dict[tuple[int, int], float] = {}
    found: dict[tuple[int, int], int] = {}
    for utilities in tables:
        for both, utility in utilities.items():
            without = [i for i in members(both) if both ^ 1 << i in utilities]
            for i, j in combinations(without, 2):
                neither = both ^ 1 << i ^ 1 << j
                if neither in utilities:
                    effect = (
                        utility - utilities[both ^ 1 << i] - utilities[both ^ 1 << j] + utilities[neither]
                    )
                    sums[i, j] = sums.get((i, j), 0.0) + effect
                    found[i, j] = found.get((i, j), 0) + 1
    if not found:
        return Absent(
            "Comparing a pair takes four coalitions that differ in the two clients only: with both, with either and "
            "with neither. No such four were trained with one seed. The method exact trains them for all pairs, k-greedy with k=2 "
            "at a lower cost."
        )
    least = _ROUNDING * max(abs(utility) for utilities in tables for utility in utilities.values())
    effects = {pair: total / found[pair] for pair, total in sums.items()}
    pairs = tuple(
        Pair(i, j, effects[i, j] if abs(effects[i, j]) > least else 0.0, found[i, j])
        for i, j in sorted(found)
    )
    return Synergy(pairs, n * (n - 1) // 2)


def strongest(synergy: Synergy, most: int) -> tuple[list[Pair], list[Pair]]:
    """The pairs that complement each other most, and those that replace each other most."""
    ranked = sorted(synergy.pairs, key=lambda pair: -pair.effect)
    together = [pair for pair in ranked if pair.effect > 0][:most]
    apart = [pair for pair in reversed(ranked) if pair.effect < 0][:most]
    return together, apart


def converge(values: Values, utilities: Mapping[int, float]) -> Convergence | Absent:
    """Values from the first trained coalitions, from the first few to all of them, always by the surrogate.

    The surrogate because it makes something of any set of coalitions; v(∅) and v(N) belong to every one of them.
    """
    n, order = values.n, [mask for mask in utilities if mask not in (0, full_mask(values.n))]
    if values.other_unit:
        return Absent(
            f"The values of {values.method} are in {values.unit}, which trained coalitions do not show."
        )
    if values.groups:
        return Absent("How values in groups settled is not shown.")
    if not {0, full_mask(n)} <= utilities.keys():
        return Absent(
            "This needs the utility without any client and that of all clients, which were not both trained."
        )
    if len(order) + 2 < _FEWEST:
        return Absent(
            f"Only {len(utilities)} coalitions were trained, too few to show how the values settled."
        )
    if n > _MOST_CLIENTS:
        return Absent(f"This is not shown for more than {_MOST_CLIENTS} clients.")
    counts = prefix_counts(n, len(order) + 2)
    # Fits this small gain nothing from more threads, and where other programs use the cores lose a lot by them.
    with limited_threads(1):
        followed = tuple(_surrogate(n, utilities, order[: k - 2]) for k in counts)
    return Convergence(len(utilities), counts, followed, "surrogate", values.seeds)


def prefix_counts(n: int, total: int) -> tuple[int, ...]:
    """Up to eight numbers of coalitions, evenly apart in their logarithms, and all where that takes no fit.

    >>> prefix_counts(10, 32), prefix_counts(3, 8), prefix_counts(10, 1024)[-2:]
    ((5, 7, 8, 11, 14, 19, 25, 32), (4, 5, 6, 7, 8), (256, 1024))
    """
    last = min(total, _MOST_POINTS)
    first = min(last, max(_FEWEST, n // 2))
    counts = {round(k) for k in np.geomspace(first, last, _PREFIXES)}
    return tuple(sorted(counts | {total} if total == 1 << n else counts))


def _surrogate(n: int, utilities: Mapping[int, float], masks: Sequence[int]) -> tuple[float, ...]:
    """What the surrogate makes of these coalitions, ∅ and N."""
    method = ESTIMATORS["surrogate"]
    assert method.plan is not None
    known = {mask: (utilities[mask], 0.0) for mask in masks}
    plan = method.plan(n, min(2, 1 << n), np.random.default_rng(0), known=known)
    asked = next(plan)
    try:
        plan.send(np.array([utilities[mask] for mask in asked]))
    except StopIteration as done:
        return tuple(done.value.mean.tolist())
    raise AssertionError("the surrogate asks once")
