"""CC-Shapley as improved here: N | ∅ always, no split twice, empty strata filled in."""

from __future__ import annotations

from math import comb

import numpy as np

from fedvalue.coalitions import complement, full_mask, random_splits
from fedvalue.estimators._plan import Plan
from fedvalue.estimators._strata import stratum_means
from fedvalue.estimators.complementary import contributions

__all__ = ["cc_paired"]


def cc_paired(n: int, budget: int, rng: np.random.Generator) -> Plan:
    """Random splits of the clients after Zhang et al. 2023, with three changes to what they published (`cc`).

    The split N | ∅ is evaluated once instead of being drawn. Other splits are drawn without replacement: the size j of
    S uniform in 1..n−1, then S uniform of that size. A stratum without a sample takes the mean of the other clients at
    that size; as zero it would break the balance between sizes j and n − j. Unbiased once every stratum has a sample.
    """
    sizes = np.arange((n + 1) // 2, n)  # of the larger part
    splits = [full_mask(n)]
    for size, count in zip(sizes, _uniform_sizes(n, sizes, (budget - 2) // 2, rng), strict=True):
        splits += random_splits(n, int(size), count, rng)
    utilities = yield [part for mask in splits for part in (mask, complement(mask, n))]
    return stratum_means(n, *contributions(n, splits, utilities[::2] - utilities[1::2]), borrow=True)


def _uniform_sizes(n: int, sizes: np.ndarray, total: int, rng: np.random.Generator) -> list[int]:
    """How often each split comes up when sizes are drawn uniformly, sizes that are used up left out."""
    halves = 2 * sizes == n  # elsewhere j and n − j name the same split
    caps = [comb(n, int(j)) // (2 if half else 1) for j, half in zip(sizes, halves, strict=True)]
    chance = np.where(halves, 1.0, 2.0)
    counts = [0] * len(caps)
    while (left := total - sum(counts)) > 0:
        room = np.array([cap > count for cap, count in zip(caps, counts, strict=True)])
        if not room.any():
            break
        open_chance = chance * room
        drawn = rng.multinomial(left, open_chance / open_chance.sum())
        counts = [min(cap, count + int(new)) for cap, count, new in zip(caps, counts, drawn, strict=True)]
    return counts
