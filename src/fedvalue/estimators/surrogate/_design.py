"""Which coalitions the surrogate looks at: a plan made before anything is known, and the best ones to add.

The plan begins with ∅, N and everyone alone. Then come splits of the clients into halves, both parts of
each: v(S) − v(N∖S) shows who matters at middle sizes, free of everything that depends on size or on pairs.
Their membership contrasts are as orthogonal as a random search makes them, so that no two clients are
confounded. A ladder of small sizes and N without each client follow, then splits into unequal parts.

Between 2n and 2.5n coalitions there is room for n splits, which tell n clients apart, but not for both parts of
each: there only one part of each is taken. With fewer than ten clients pairs are better even so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import (
    allocate,
    balanced_layer,
    complement,
    full_mask,
    mask_of,
    membership,
    random_layer,
    random_subset,
)
from fedvalue.estimators.surrogate._kernel import Coalitions
from fedvalue.estimators.surrogate._prior import Prior

__all__ = ["Gains", "best_additions", "fixed_plan", "others"]

Array = NDArray[np.float64]

_RESTARTS = 200  # per client, of the search for orthogonal splits
_SINGLE_FROM = 10  # clients; measured, see docs/surrogate.md
_ROUNDING = (
    1e-7  # what differs by less is as good: of equally good choices the first is taken, on every machine
)
_TRIES = 60  # random splits among which the most orthogonal one is taken; fewer for many clients


class _Chosen:
    """Distinct coalitions in the order of choice, up to a budget."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.masks: list[int] = []
        self.taken: set[int] = set()

    @property
    def left(self) -> int:
        return self.budget - len(self.masks)

    def add(self, masks: Iterable[int]) -> None:
        for mask in masks:
            if self.left and mask not in self.taken:
                self.masks.append(mask)
                self.taken.add(mask)


def fixed_plan(
    n: int, budget: int, rng: np.random.Generator, triples: bool = False, least: int = 1
) -> list[int]:
    """`budget` distinct coalitions for n clients, the most useful first.

    With `triples`, the ladder of small sizes has a second one instead of N without each client. No coalition but ∅ has
    fewer than `least` clients: in place of everyone alone there are as many of that size, everyone in as many of them.

    >>> plan = fixed_plan(4, 10, np.random.default_rng(0))
    >>> len(set(plan)), plan[:2], sorted(plan[2:6])
    (10, [0, 15], [1, 2, 4, 8])
    """
    chosen = _Chosen(min(budget, 1 << n))
    chosen.add([0, full_mask(n)])
    if least == 1:
        chosen.add(1 << int(i) for i in rng.permutation(n))
    elif least < n:
        chosen.add(balanced_layer(n, least, n, rng))
    half = n // 2
    if n > 3 and half >= least:
        single = n >= _SINGLE_FROM and n <= chosen.left <= 1.5 * n
        count = chosen.left if single else min(n, (chosen.left + 1) // 2)
        splits = _orthogonal_splits(n, half, count, rng, chosen.taken)
        chosen.add(_evenly(splits[::2], n) if single else splits)
    if n > 2:
        for size, count in _ladder(n, half, chosen.left, triples, least).items():
            chosen.add(_layer(n, size, count, rng, chosen.taken))
    for size in range(max(2, round(math.sqrt(half)), least - 1) + 1, half + 1):
        wanted = min(2 * n, (chosen.left + 1) // 2)
        chosen.add(_orthogonal_splits(n, size, wanted, rng, chosen.taken))
    if chosen.left:  # more than all that: as many of every size as there are
        taken = Counter(mask.bit_count() for mask in chosen.taken)
        room = [math.comb(n, size) - taken[size] if size >= least else 0 for size in range(1, n)]
        for size, count in enumerate(allocate(min(chosen.left, sum(room)), np.ones(n - 1), room), 1):
            chosen.add(random_layer(n, size, count, rng, chosen.taken))
    return chosen.masks


def _orthogonal_splits(
    n: int, size: int, count: int, rng: np.random.Generator, taken: Iterable[int]
) -> list[int]:
    """Up to `count` splits, as S and N∖S, by which the effects of single clients can be told apart well."""
    seen = set(taken)
    least, best = math.inf, list[int]()
    for _ in range(max(1, _RESTARTS // n) if count > 0 else 0):
        splits, contrasts = _spread_out(n, size, count, rng, seen)
        # A-optimality: the sum of the variances of the clients' effects, each with a prior of its own.
        variance = np.linalg.inv(contrasts.T @ contrasts + np.eye(n)).trace() if n <= _RESTARTS else 0.0
        if variance < least * (1 - _ROUNDING):
            least, best = float(variance), splits
    return [part for mask in best for part in (mask, complement(mask, n))]


def _evenly(splits: Sequence[int], n: int) -> list[int]:
    """One part of each split, whichever makes it more even how often clients were in the parts before."""
    often = np.zeros(n)
    parts = []
    for mask, inside in zip(splits, membership(splits, n).astype(float), strict=True):
        other = ((often + inside) ** 2).sum() > ((often + 1 - inside) ** 2).sum()
        parts.append(complement(mask, n) if other else mask)
        often += 1 - inside if other else inside
    return parts


def _spread_out(
    n: int, size: int, count: int, rng: np.random.Generator, taken: set[int]
) -> tuple[list[int], Array]:
    """Splits one by one, each the random one whose ±1 contrast is most orthogonal to those before."""
    seen = set(taken)
    tries = _TRIES if n <= 60 else 12
    contrasts = np.zeros(
        (count, n), np.float32
    )  # whole numbers of at most n: exact, and half the memory to read
    splits: list[int] = []
    for done in range(count):
        signs = np.full((tries, n), -1, np.float32)
        np.put_along_axis(signs, np.argsort(rng.random((tries, n)), axis=1)[:, :size], 1, axis=1)
        overlap = ((contrasts[:done] @ signs.T).astype(float) ** 2).sum(0)
        for j in np.argsort(overlap, kind="stable"):
            mask = mask_of(np.flatnonzero(signs[j] > 0))
            if mask not in seen and complement(mask, n) not in seen:
                break
        else:
            break  # (nearly) all splits of this size are taken
        contrasts[done] = signs[j]
        splits.append(mask)
        seen.update((mask, complement(mask, n)))
    return splits, contrasts.astype(float)


def _ladder(n: int, half: int, total: int, triples: bool, least: int) -> dict[int, int]:
    """How many coalitions of which small size, and how many of size n − 1, dealt out in turn."""
    small = max(2, round(math.sqrt(half)))
    turns = [small, min(small + 1, n - 1)] if triples else [small, small, n - 1]
    if n > 16:  # sizes count by their ratio: from 1 to n/2 in four equal steps
        turns = list(dict.fromkeys([max(2, round(half**0.25)), small, round(half**0.75), n - 1]))
    turns = [size for size in turns if size >= least]
    cap = {size: min(math.comb(n, size), 5 * n) for size in turns}
    counts = dict.fromkeys(turns, 0)
    while sum(counts.values()) < min(total, sum(cap.values())):
        for size in turns:
            if counts[size] < cap[size] and sum(counts.values()) < total:
                counts[size] += 1
    return counts


def _layer(n: int, size: int, count: int, rng: np.random.Generator, taken: set[int]) -> list[int]:
    """Coalitions of one size, all clients in equally many of them where none of that size is taken yet."""
    if any(mask.bit_count() == size for mask in taken):
        return random_layer(n, size, count, rng, taken)
    return balanced_layer(n, size, count, rng)


@dataclass(frozen=True)
class Gains:
    """The best candidates to add, by number, and how far the widest standard error would have shrunk after each."""

    picked: list[int]
    shrunk: list[float]


def best_additions(known: Coalitions, candidates: Coalitions, prior: Prior, count: int) -> Gains:
    """Again and again the candidate that reduces Σ Var(φ_i) most (A-optimal, greedy).

    Given the hyper-parameters, the posterior covariance does not depend on utilities: what an evaluation is
    worth is known before it is made.
    """
    between, towards, variance = prior.given(known, candidates)
    spread, widest = np.diag(between).copy(), variance.max()
    count = min(count, len(candidates))
    directions = np.zeros(
        (count, len(candidates))
    )  # of the covariance that is gone, one for each that was picked
    picked: list[int] = []
    shrunk: list[float] = []
    for k in range(count):
        gain = (towards**2).sum(0) / np.maximum(spread, 1e-10)
        gain[picked] = -1
        j = int(np.flatnonzero(gain >= gain.max() * (1 - _ROUNDING))[0])
        deviation = math.sqrt(max(spread[j], 1e-10))
        directions[k] = (between[j] - directions[:k, j] @ directions[:k]) / deviation
        effect = towards[:, j] / deviation
        spread = spread - directions[k] ** 2
        towards = towards - np.outer(effect, directions[k])
        variance = variance - effect**2
        picked.append(j)
        shrunk.append(1 - math.sqrt(max(float(variance.max() / widest), 0.0)))
    return Gains(picked, shrunk)


def others(n: int, known: Collection[int], among: int, rng: np.random.Generator, least: int = 1) -> list[int]:
    """All other coalitions of at least so many clients, or `among`/2 random ones of sizes where the Shapley value looks:
    small and large."""
    seen = {0, *known}
    if 1 << n <= among:
        masks = map(int, rng.permutation(1 << n))
        return [mask for mask in masks if mask not in seen and mask.bit_count() >= least]
    sizes = np.arange(least, n)
    chance = 1 / sizes + 1 / (n - sizes)
    drawn = rng.choice(sizes, among // 2, p=chance / chance.sum())
    found = dict.fromkeys(random_subset(n, int(size), rng) for size in drawn)
    return [mask for mask in found if mask not in seen]
