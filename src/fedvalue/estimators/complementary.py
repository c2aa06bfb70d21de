"""Complementary contributions v(S) − v(N∖S): CC-Shapley and its two adaptive forms.

Zhang et al., "Efficient Sampling Approaches to Shapley Value Approximation", SIGMOD 2023. One split of
the clients into S and N∖S informs every client: i ∈ S at size |S|, the others at size n − |S|. Splits are
drawn without replacement. A stratum that was never sampled takes the mean of the other clients at that
size (as zero it would break the balance between sizes j and n − j).
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import allocate, complement, full_mask, membership, random_splits
from fedvalue.errors import MethodError
from fedvalue.estimators._plan import Plan
from fedvalue.estimators._strata import stratum_means, stratum_moments
from fedvalue.values import Estimate

__all__ = ["cc", "cc_bernstein", "cc_neyman", "contributions"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


def cc(n: int, budget: int, rng: np.random.Generator) -> Plan:
    """CC-Shapley (Alg. 1 of Zhang et al.): the size j of S uniform in 1..n, then S uniform of that size.

    The split N | ∅ is evaluated once instead of being drawn; unbiased once every stratum has a sample.
    """
    sample = _Splits(n, rng)
    yield from sample.evaluate(_uniform_sizes(sample, (budget - 2) // 2))
    return sample.estimate()


def cc_neyman(n: int, budget: int, rng: np.random.Generator) -> Plan:
    """CC-ShapleyN: a pilot, then splits in proportion to √(Σ_i σ²_{i,j}/j + σ²_{i,n−j}/(n−j)), j ≥ ⌈n/2⌉."""
    sample = _Splits(n, rng)
    total = (budget - 2) // 2
    yield from sample.evaluate(sample.pilot(total))
    variance, _ = sample.spread()
    j = sample.sizes
    weight = np.sqrt((variance[:, j] / j + variance[:, n - j] / (n - j)).sum(0))
    yield from sample.evaluate(allocate(total - sample.drawn, weight, sample.room()))
    return sample.estimate()


def cc_bernstein(n: int, budget: int, rng: np.random.Generator, *, confidence: float = 0.95) -> Plan:
    """CC-ShapleyB: a pilot, then always the split with the largest sum of empirical-Bernstein widths.

    The next choice is made before the last one is known within a batch (an eighth of the budget): counts
    grow as expected, deviations stay as measured.
    """
    if not 0 < confidence < 1:
        raise MethodError(f"The option 'confidence' must lie between 0 and 1. Got {confidence!r}.")
    sample = _Splits(n, rng)
    total = (budget - 2) // 2
    yield from sample.evaluate(sample.pilot(total))
    batch = max(1, total // 8)
    while sample.drawn < total and any(sample.room()):
        chosen = _widest(sample, min(batch, total - sample.drawn), np.log(3 / (1 - confidence)))
        yield from sample.evaluate(chosen)
    return sample.estimate()


def contributions(
    n: int, splits: list[int], amount: Array
) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Client, stratum and contribution of every client in every split S | N∖S with v(S) − v(N∖S) given."""
    inside = membership(splits, n)
    size = inside.sum(1, keepdims=True)
    client = np.broadcast_to(np.arange(n), inside.shape)
    stratum = np.where(inside, size, n - size)
    signed = np.where(inside, amount[:, None], -amount[:, None])
    informative = stratum > 0  # nobody is a member of ∅
    return client[informative], stratum[informative], signed[informative]


class _Splits:
    """The splits drawn so far and their complementary contributions, beginning with N | ∅.

    `sizes` are the larger parts j = ⌈n/2⌉..n−1 of the splits that can be drawn.
    """

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.n = n
        self.rng = rng
        self.sizes = np.arange((n + 1) // 2, n)
        self.caps = [comb(n, int(j)) // (2 if 2 * j == n else 1) for j in self.sizes]
        self.counts: Counts = np.zeros(len(self.sizes), np.int64)
        self.masks: list[int] = []
        self.amount: Array = np.zeros(0)

    @property
    def drawn(self) -> int:
        return int(self.counts.sum())

    def room(self) -> list[int]:
        return [cap - int(count) for cap, count in zip(self.caps, self.counts, strict=True)]

    def pilot(self, total: int) -> list[int]:
        """Up to half of the draws, but two per size where they can be had, spread evenly."""
        even = max(min(total, 2 * len(self.sizes)), total // 2)
        return allocate(even, np.ones(len(self.sizes)), self.caps)

    def evaluate(self, wanted: list[int]):  # type: ignore[no-untyped-def]
        """Draws `wanted[j]` new splits of each size and asks for both parts of each."""
        new = [] if self.masks else [full_mask(self.n)]
        for size, count in zip(self.sizes, wanted, strict=True):
            new += random_splits(self.n, int(size), count, self.rng, self.masks)
        self.counts = self.counts + np.array(wanted, np.int64)
        if new:
            utilities = yield [part for mask in new for part in (mask, complement(mask, self.n))]
            self.masks += new
            self.amount = np.concatenate([self.amount, utilities[::2] - utilities[1::2]])

    def spread(self) -> tuple[Array, Array]:
        """Variance and count of every stratum; one without two samples takes the mean of its size."""
        count, _, squares = stratum_moments(self.n, *contributions(self.n, self.masks, self.amount))
        variance = squares / np.maximum(count - 1, 1)
        known = count > 1
        pooled = (variance * known).sum(0) / np.maximum(known.sum(0), 1)
        return np.where(known, variance, pooled), count

    def estimate(self) -> Estimate:
        return stratum_means(self.n, *contributions(self.n, self.masks, self.amount), borrow=True)


def _uniform_sizes(sample: _Splits, total: int) -> list[int]:
    """How often each split comes up when sizes are drawn uniformly, sizes that are used up left out."""
    chance = np.where(2 * sample.sizes == sample.n, 1.0, 2.0)  # j and n − j name the same split
    counts = [0] * len(sample.sizes)
    while (left := total - sum(counts)) > 0:
        room = np.array([cap > count for cap, count in zip(sample.caps, counts, strict=True)])
        if not room.any():
            break
        open_chance = chance * room
        drawn = sample.rng.multinomial(left, open_chance / open_chance.sum())
        counts = [
            min(cap, count + int(new)) for cap, count, new in zip(sample.caps, counts, drawn, strict=True)
        ]
    return counts


def _widest(sample: _Splits, batch: int, log_term: float) -> list[int]:
    """The next `batch` splits, each the one with the widest empirical-Bernstein bounds by then."""
    n, j = sample.n, sample.sizes
    variance, count = sample.spread()
    reach = float(np.ptp(sample.amount)) * 2 or 1.0
    chosen = [0] * len(j)
    room = sample.room()
    for _ in range(batch):
        m = np.maximum(count, 0.5)
        width = (np.sqrt(2 * variance * log_term / m) + 3 * reach * log_term / m).sum(0)
        both = np.where([r > c for r, c in zip(room, chosen, strict=True)], width[j] + width[n - j], -1.0)
        best = int(both.argmax())
        if both[best] < 0:
            break
        chosen[best] += 1
        count[:, j[best]] += j[best] / n
        count[:, n - j[best]] += 1 - j[best] / n
    return chosen
