"""The tests behind the findings: each gives a p-value, the chance of seeing this where nothing is to be found.

What accuses someone of adding nothing must rule out that they add something. So the hypothesis that is
rejected is "worth at least the margin" (an equivalence test), and a wide interval rejects nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.audit._known import Array, Known, Rows

__all__ = [
    "Counts",
    "Gains",
    "Worth",
    "below_zero",
    "chance_of_ties",
    "equivalent",
    "holm",
    "no_effect",
    "quantile",
    "small_gain",
    "ties_of_pairs",
    "ties_of_steps",
    "together",
]

Counts: TypeAlias = "tuple[NDArray[np.intp], NDArray[np.intp]]"

_NOISY = 1.5  # mean squares of differences up to this many times what noise makes them are called noise
_ROUNDING = 1e-9  # floating-point arithmetic
_LESS = 0.25  # of what another client adds: a copy may add that little to its original


@dataclass(frozen=True)
class Worth:
    """Values with the uncertainty that tests go by; `covariance` None where there is none to go by.

    `joint`: it says how errors hang together; otherwise the worst case is taken. `exact`: all coalitions are known, and
    `runs` are the values of each replicate. `bound`: nothing was measured, and the error is an upper bound of it.
    `margin`: worth less than this is worth nothing. `repeats` are the trainings that show how far luck goes: intervals
    hold as they are, but tests look far beyond them, where errors judged by few trainings have longer tails.
    """

    mean: Array
    covariance: Array | None
    dof: Array
    joint: bool
    exact: bool
    margin: float
    runs: Array | None = None
    bound: bool = False
    repeats: float = np.inf

    def equivalent(self, contrast: Array) -> float:
        """The chance of a combination of values this near zero, were it the margin away from it or further."""
        return equivalent(*self.tested(contrast), self.margin)

    def tested(self, contrast: Array) -> tuple[float, float | None, float]:
        """As `of`, with the degrees of freedom that a test has; no error where nothing shows how far luck goes."""
        estimate, error, dof = self.of(contrast)
        return (estimate, error, min(dof, self.repeats)) if self.repeats >= 1 else (estimate, None, np.inf)

    def of(self, contrast: Array) -> tuple[float, float | None, float]:
        """A combination of values: its estimate, standard error and degrees of freedom."""
        who = np.flatnonzero(contrast)
        weight = contrast[who]
        estimate = float(weight @ self.mean[who])
        if self.covariance is None:
            return estimate, None, np.inf
        covariance, dof = self.covariance[np.ix_(who, who)], float(self.dof[who].min())
        if not self.joint:
            return estimate, float(np.abs(weight) @ np.sqrt(np.diag(covariance))), dof
        variance = float(weight @ covariance @ weight)
        if self.runs is not None:  # what all clients show on average, or this one, whichever is more
            variance = max(variance, float((weight @ self.runs[who]).var(ddof=1)) / self.runs.shape[1])
        return estimate, float(np.sqrt(max(variance, 0.0))), dof

    def differences(self) -> tuple[Array, Array]:
        """Of every two clients: how far their values are apart, and the standard error of that."""
        assert self.covariance is not None
        apart = self.mean[:, None] - self.mean[None, :]
        error = np.sqrt(np.diag(self.covariance))
        if not self.joint:
            return apart, error[:, None] + error[None, :]
        variance = error[:, None] ** 2 + error[None, :] ** 2 - 2 * self.covariance
        if self.runs is not None:
            own = np.atleast_2d(np.cov(self.runs)) / self.runs.shape[1]
            variance = np.maximum(variance, np.diag(own)[:, None] + np.diag(own)[None, :] - 2 * own)
        return apart, np.sqrt(np.maximum(variance, 0.0))


def equivalent(estimate: float, error: float | None, dof: float, margin: float) -> float:
    """Equivalence test (two one-sided tests): small when the estimate is surely within the margin.

    >>> equivalent(0.0, 0.1, np.inf, 1.0) < 1e-9, equivalent(0.0, 2.0, np.inf, 1.0) > 0.3
    (True, True)
    """
    if error is None or abs(estimate) > margin:
        return 1.0
    return _tail(margin - abs(estimate), error, dof)


def below_zero(estimate: float, error: float | None, dof: float, spread: float) -> float:
    """The chance of an estimate this low, were the truth zero; next to the spread of all, it must be a number."""
    return 1.0 if error is None or estimate >= -_ROUNDING * spread else _tail(-estimate, error, dof)


def small_gain(gains: Gains, replicates: int) -> float:
    """The chance of so small a gain, were it at least half of the usual one; without replicates: yes (0) or no."""
    if replicates < 2:
        return 0.0 if gains.gain <= _LESS * gains.usual + _ROUNDING else 1.0
    if gains.gain >= gains.usual / 2:
        return 1.0
    return _tail(gains.usual / 2 - gains.gain, gains.error, gains.dof)


def quantile(dof: float | Array) -> Array:
    """How many standard errors a 95% interval reaches to either side: Student's t, as in `Values.interval`.

    >>> quantile(np.array([12.0, np.inf])).round(3).tolist()
    [2.179, 1.96]
    """
    from scipy.special import ndtri, stdtrit

    known = np.asarray(dof, dtype=np.float64)
    finite = np.isfinite(known)
    reach: Array = np.where(finite, stdtrit(np.where(finite, known, 1.0), 0.975), ndtri(0.975))
    return reach


def _tail(distance: float, error: float, dof: float) -> float:
    from scipy.special import ndtr, stdtr

    if error <= 0:
        return 0.0 if distance > 0 else 1.0
    return float(stdtr(dof, -distance / error) if np.isfinite(dof) else ndtr(-distance / error))


def no_effect(known: Known, left: Rows, right: Rows) -> bool:
    """Whether utilities differ by no more than their differences vary from replicate to replicate."""
    if known.replicates < 2 or len(np.unique(known.size[left])) < 2:
        return False
    differences = known.runs[left] - known.runs[right]
    expected = float(differences.var(axis=1, ddof=1).mean()) / known.replicates
    return float((differences.mean(axis=1) ** 2).mean()) <= _NOISY * expected


def ties_of_steps(known: Known) -> list[Counts]:
    """For each client, by size of the coalition that it joins: pairs with the same outcome, and all pairs."""
    found = []
    for i in range(known.n):
        without, with_i = known.steps(i)
        found.append(_counts(known, without, known.same(without, with_i)))
    return found


def ties_of_pairs(known: Known) -> dict[tuple[int, int], Counts]:
    """For each two clients, by size: swaps with the same outcome, and all swaps."""
    found = {}
    for i, j in combinations(range(known.n), 2):
        left, right = known.swaps(i, j)
        found[i, j] = _counts(known, left, known.same(left, right))
    return found


def _counts(known: Known, rows: Rows, same: NDArray[np.bool_]) -> Counts:
    size = known.size[rows]
    return np.bincount(size[same], minlength=known.n + 1), np.bincount(size, minlength=known.n + 1)


def chance_of_ties(own: Counts, total: Counts, pooled: bool) -> float:
    """The chance that a client like the others ties everywhere; 1 where it does not tie everywhere.

    Others' frequency of ties stands for that chance, rule of succession included: (ties + 1)/(pairs + 2). One
    factor for each size, not for each pair, because ties in coalitions of one size come together. `pooled`: a
    tie is the same model, not the same score, and as unlikely in large coalitions as in small ones.
    """
    ties, pairs = own
    if not pairs.any() or (ties < pairs).any():
        return 1.0
    other_ties, other_pairs = total[0] - ties, total[1] - pairs
    if pooled:
        rate = (other_ties.sum() + 1) / (other_pairs.sum() + 2)
        return float(rate ** np.count_nonzero(pairs))
    rates = (other_ties + 1) / (other_pairs + 2)
    return float(np.prod(rates[pairs > 0]))


@dataclass(frozen=True)
class Gains:
    """What the second of two clients adds to the first alone, and what others usually add to either."""

    gain: float
    usual: float
    error: float
    dof: float


def together(known: Known, i: int, j: int) -> Gains | None:
    """None where the two alone, or each by itself, were not trained with one seed."""
    found = next(
        (
            rows
            for both in known.rows(1 << i | 1 << j)
            if len(
                rows := [
                    r
                    for mask in (1 << i, 1 << j)
                    for r in known.rows(mask)
                    if known.seeds[r] == known.seeds[both]
                ]
                + [both]
            )
            == 3
        ),
        None,
    )
    if found is None:
        return None
    first, second, both = found
    others = []
    for client, row in ((i, first), (j, second)):
        pairs = np.flatnonzero(
            (known.size == 2) & known.inside[:, client] & (known.seeds == known.seeds[row])
        )
        others += (known.mean[pairs[pairs != both]] - known.mean[row]).tolist()
    usual = max(0.0, float(np.median(others))) if others else 0.0
    gains = known.runs[both] - (known.runs[first] + known.runs[second]) / 2
    count = known.replicates
    error = float(gains.std(ddof=1)) / np.sqrt(count) if count > 1 else 0.0
    return Gains(float(gains.mean()), usual, float(error), count - 1.0)


def holm(chances: Sequence[float], tests: int) -> list[float]:
    """p-values made comparable with the level for all tests together (Holm 1979).

    >>> holm([0.01, 0.04], tests=2)
    [0.02, 0.04]
    """
    adjusted, worst = [0.0] * len(chances), 0.0
    for rank, k in enumerate(sorted(range(len(chances)), key=lambda k: chances[k])):
        worst = max(worst, min(1.0, (tests - rank) * chances[k]))
        adjusted[k] = worst
    return adjusted
