"""Complementary contributions v(S) − v(N∖S): CC-Shapley and its two adaptive forms, as published.

Zhang et al., "Efficient Sampling Approaches to Shapley Value Approximation", SIGMOD 2023. One split of
the clients into S and N∖S informs every client: i ∈ S at size |S|, the others at size n − |S|. Splits are
drawn with replacement, a stratum (client, size) that was never drawn counts 0, and N | ∅, which alone says what
all clients are worth together, is a draw like the others. `complementary_paired.py` has our improvement.

The published algorithms are given a number of draws; here a budget of distinct coalitions is. A draw takes two
of them, less those that are known already: a split that comes up again costs nothing, because nothing is trained
twice, and it counts in its strata again, because draws are independent. Drawing ends with the first split that
the budget does not hold. Which draws are repeats says nothing about utilities, so this rule adds no bias.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from math import ceil, comb

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import whole
from fedvalue.coalitions import allocate, complement, mask_of, membership, random_subset
from fedvalue.errors import MethodError
from fedvalue.estimators._plan import Plan
from fedvalue.estimators._strata import stratum_means
from fedvalue.values import Estimate

__all__ = ["cc", "cc_bernstein", "cc_neyman", "contributions"]

Array = NDArray[np.float64]

_MOST_DRAWS = 10  # per coalition of the budget; reached only where the budget is nearly all of 2**n


def cc(n: int, budget: int, rng: np.random.Generator, *, draws: int | None = None) -> Plan:
    """CC-Shapley (Alg. 1 of Zhang et al.): a random order and j uniform in 1..n; S are the first j clients.

    A draw falls into stratum (i, j) with probability 2j/n² (j = n: 1/n), so after m draws
    E[φ̂_i] = (1/n) Σ_j (1 − (1 − 2j/n²)^m) φ_{i,j}: unbiased but for strata that stay empty. The one that matters
    is j = n: with n = 10 and 16 draws, N | ∅ is missing in 18 % of the runs, and then nearly all value is.

    `draws` is the published m, if the budget holds its coalitions; without it, as many draws as the budget holds.
    """
    most = None if draws is None else whole("The option 'draws'", draws, 1, error=MethodError)
    sample = _Draws(n, budget, rng)
    while most is None or len(sample.masks) < most:
        if not sample.add(random_subset(n, int(rng.integers(1, n + 1)), rng)):
            break
    yield from sample.evaluate()
    return sample.estimate()


def cc_neyman(n: int, budget: int, rng: np.random.Generator) -> Plan:
    """CC-ShapleyN (Alg. 2): a pilot, then splits in proportion to √(Σ_i σ²_{i,j}/j + σ²_{i,n−j}/(n−j)), j ≥ ⌈n/2⌉.

    The pilot gives every stratum two samples, or m/(2n²) if that is more (m: half the budget), as in the authors'
    experiments; the text leaves the number open. Clients take turns in random order, so that nobody in particular is
    at a disadvantage where the budget ends within the pilot. Numbers of draws are rounded to the nearest, not up.
    """
    sample = _Draws(n, budget, rng)
    sample.pilot(max(2, budget // (4 * n * n)))
    yield from sample.evaluate()
    variance = sample.squares / np.maximum(
        sample.count - 1, 1
    )  # of a single sample 0, as in the authors' code
    j = sample.sizes
    weight = np.sqrt((variance[:, j] / j + variance[:, n - j] / (n - j)).sum(0))
    while (left := sample.room // 2) > 0:  # repeated splits leave room for further ones
        wanted = allocate(left, weight, [left] * len(j))
        sizes = [int(size) for size, times in zip(j, wanted, strict=True) for _ in range(times)]
        if not all(sample.add(random_subset(n, size, rng)) for size in sizes):
            break
    yield from sample.evaluate()
    return sample.estimate(intervals=False)


def cc_bernstein(n: int, budget: int, rng: np.random.Generator, *, confidence: float = 0.98) -> Plan:
    """CC-ShapleyB (Alg. 3): a pilot, then one by one the split with the largest sum of empirical-Bernstein widths.

    A stratum of m samples has the width √(2σ²L/m) + 3RL/m with L = log(3/(1 − `confidence`)). The pilot gives every
    stratum one sample; the default is the authors' L ≈ 5. R, the range of a contribution, is given in the text; here
    it is twice the largest contribution so far. Of equally wide splits one is taken at random. Clients are not
    drawn but chosen, so the values are biased.
    """
    if not 0 < confidence < 1:
        raise MethodError(f"The option 'confidence' must lie between 0 and 1. Got {confidence!r}.")
    log_term = float(np.log(3 / (1 - confidence)))
    sample = _Draws(n, budget, rng)
    complete = sample.pilot(1)
    yield from sample.evaluate()
    while complete and sample.room > 1 and sample.add(_widest(sample, log_term)):
        yield from sample.evaluate()
    return sample.estimate(intervals=False)


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


class _Draws:
    """The splits drawn so far, repeated ones too, each given by one of its parts.

    `sizes` are the larger parts j = ⌈n/2⌉..n−1 of the splits that adaptive forms choose from. `count` says how often
    every stratum came up; `squares`, as far as utilities are known, its sum of squared deviations from the mean.
    """

    def __init__(self, n: int, budget: int, rng: np.random.Generator) -> None:
        self.n = n
        self.budget = budget
        self.rng = rng
        self.sizes = np.arange(ceil(n / 2), n)
        self.masks: list[int] = []
        self.amount: list[float] = []  # v(S) − v(N∖S) of every draw whose utilities are known
        self.largest = 0.0  # of their absolute amounts
        self.count = np.zeros((n, n + 1), np.int64)
        self.squares = np.zeros((n, n + 1))
        self._mean = np.zeros((n, n + 1))
        self._seen = np.zeros((n, n + 1), np.int64)
        self._utility: dict[int, float] = {}
        self._coalitions: set[int] = set()

    @property
    def room(self) -> int:
        """How many further coalitions the budget holds."""
        return self.budget - len(self._coalitions)

    def add(self, mask: int) -> bool:
        """Takes a draw; False, and nothing is taken, where the budget does not hold it."""
        both = {mask, complement(mask, self.n)}
        if len(both - self._coalitions) > self.room or len(self.masks) >= _MOST_DRAWS * self.budget:
            return False
        self._coalitions |= both
        self.masks.append(mask)
        for part in both:
            self.count[self._strata(part)] += 1
        return True

    def pilot(self, least: int) -> bool:
        """`least` samples of every stratum, or all that it has; False where the budget ends before.

        For every client and size that lack a sample, a split with the client in the part of that size.
        """
        enough = [min(least, comb(self.n - 1, size - 1)) for size in range(1, self.n + 1)]
        for _ in range(least):
            for i in self.rng.permutation(self.n):
                others = np.delete(np.arange(self.n), i)
                for size, wanted in enumerate(enough, 1):
                    if self.count[i, size] < wanted:
                        drawn = self.rng.permutation(others)[: size - 1]
                        if not self.add(mask_of([i, *drawn])):
                            return False
        return True

    def evaluate(self) -> Generator[list[int], Array, None]:
        """Asks for the coalitions that are not known yet, and takes the draws' contributions into account."""
        new = sorted(self._coalitions - self._utility.keys())
        if new:
            utilities = yield new
            self._utility.update(zip(new, utilities.tolist(), strict=True))
        for mask in self.masks[len(self.amount) :]:
            rest = complement(mask, self.n)
            amount = self._utility[mask] - self._utility[rest]
            self.amount.append(amount)
            self.largest = max(self.largest, abs(amount))
            self._take(mask, amount)
            self._take(rest, -amount)

    def _strata(self, part: int) -> tuple[NDArray[np.intp], int]:
        """The strata that a part of a split informs: its clients, at its size."""
        return np.flatnonzero(membership([part], self.n)[0]), part.bit_count()

    def _take(self, part: int, amount: float) -> None:
        """One more sample in the strata of the part's clients (Welford's update)."""
        strata = self._strata(part)
        self._seen[strata] += 1
        before = amount - self._mean[strata]
        self._mean[strata] += before / self._seen[strata]
        self.squares[strata] += before * (amount - self._mean[strata])

    def estimate(self, intervals: bool = True) -> Estimate:
        """The mean of stratum means; without `intervals` where draws were not independent of one another."""
        drawn = contributions(self.n, self.masks, np.array(self.amount))
        found = stratum_means(self.n, *drawn, borrow=False, replacement=True)
        found = replace(found, details={**found.details, "draws": len(self.masks)})
        return found if intervals else replace(found, stderr=None, dof=None)


def _widest(sample: _Draws, log_term: float) -> int:
    """The split with the widest empirical-Bernstein bounds: of every size the widest, and the widest of these."""
    n, j = sample.n, sample.sizes
    m = np.maximum(sample.count, 1)
    reach = 2 * sample.largest or 1.0
    width = np.sqrt(2 * sample.squares / m * log_term / m) + 3 * reach * log_term / m
    shuffled = sample.rng.permutation(n)  # ties among clients
    gain = (width[:, j] - width[:, n - j])[shuffled]  # of being in the part of size j
    order = np.argsort(-gain, axis=0, kind="stable")
    totals = width[:, n - j].sum(0) + np.take_along_axis(gain, order, 0).cumsum(0)[j - 1, np.arange(len(j))]
    best = int(sample.rng.choice(np.flatnonzero(totals >= totals.max() * (1 - 1e-12))))
    return mask_of(shuffled[order[: j[best], best]])
