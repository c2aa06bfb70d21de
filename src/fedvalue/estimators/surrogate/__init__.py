"""The surrogate: Shapley values by Bayesian quadrature, each with an honest interval.

A coalition's utility in federated learning is a smooth set function: it depends mostly on how many clients
take part (a steep start, then saturation), then on who they are. A Gaussian process over coalitions learns
that from the few that were trained, and the Shapley value of a Gaussian process is Gaussian in closed form.

Let a_i(s) be the sum-zero first-order coefficient of v on membership among coalitions of size s. Then exactly

    φ_i = (v(N) − v(∅))/n + 1/(n−1) Σ_{s=1}^{n−1} a_i(s)

so nothing enumerates 2^n, and γ utilities of n clients cost O(γ³ + nγ² + n²). `_surrogate_kernel` has the
prior, `_surrogate_fit` the inference, `_surrogate_design` the choice of coalitions. Values add up to
v(N) − v(∅), and utilities that were observed are taken at their word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import full_mask
from fedvalue.errors import MethodError
from fedvalue.estimators._plan import Plan
from fedvalue.estimators.exact import shapley_values
from fedvalue.estimators.surrogate._design import best_additions, fixed_plan
from fedvalue.estimators.surrogate._kernel import MEAN, WHO_POWER, Coalitions
from fedvalue.estimators.surrogate._posterior import posterior
from fedvalue.estimators.surrogate._prior import Prior, UnfitError
from fedvalue.values import Estimate

__all__ = ["surrogate", "surrogate_adaptive"]

Array = NDArray[np.float64]
Known = Mapping[int, tuple[float, float]]

_POINTS = 7500  # that the process is conditioned on at most: its matrices then fill 2 GB
_FORECAST = 64  # further evaluations that the result foresees the effect of
_FORECAST_POINTS = 800  # beyond, looking ahead costs more than it is worth
_BATCHES = 2
_MISFIT = 1.15  # least allowance for what the prior gets wrong, as a factor of the variance
_MISFIT_CHOSEN = 1.75  # the same where the process chose coalitions itself, and nothing balances its errors
_UNSEEN = 0.5  # of the difference between two ways to fill in sizes of which nothing is known
_QUANTILE = 1.959963984540054  # half of a 95 % interval, in standard errors


def surrogate(n: int, budget: int, rng: np.random.Generator, *, known: Known | None = None) -> Plan:
    """All coalitions are chosen beforehand and evaluated in one batch, then the process is fitted once.

    `known` are utilities of further coalitions and the variances of their errors (0: none): used, not paid for.
    """
    masks = fixed_plan(n, budget, rng)
    utilities = yield masks
    return _Data.of(n, masks, utilities, known).estimate(rng)


def surrogate_adaptive(
    n: int,
    budget: int,
    rng: np.random.Generator,
    *,
    target: float | None = None,
    known: Known | None = None,
) -> Plan:
    """The plan of `surrogate` up to 3n + 2 or 4n + 2 coalitions, then batches of the most informative ones.

    With `target` it stops as soon as no 95 % interval reaches further than that to either side; batches are of n
    then, otherwise two share the rest of the budget.
    """
    if target is not None and not target > 0:
        raise MethodError(f"The option 'target' must be a half-width above 0. Got {target!r}.")
    first = 3 * n + 2 if budget < 6 * n else 4 * n + 2
    masks = fixed_plan(n, min(budget, first), rng)
    utilities = yield masks
    data = _Data.of(n, masks, utilities, known)
    batch = n if target is not None else -(-(budget - len(masks)) // _BATCHES)
    while True:
        estimate, prior = data.fit()
        assert estimate.stderr is not None
        reached = target is not None and _QUANTILE * float(estimate.stderr.max()) <= target
        count = min(batch, budget - len(masks))
        if reached or count < 1 or prior is None:
            return data.with_forecast(estimate, prior, rng)
        # Asked of a process half-way back to what is usual: a fit that is too sure of itself looks too narrowly.
        cautious = replace(prior, q=(prior.q + MEAN) / 2)
        new = best_additions(n, list(data.utility), cautious, count, rng).masks
        if not new:
            return estimate
        masks += new
        data = data.extended(new, (yield new))


@dataclass(frozen=True)
class _Data:
    """The utilities at hand and the variances of their errors."""

    n: int
    utility: dict[int, float]
    variance: dict[int, float]
    extra: int
    chosen: bool = False  # whether some coalitions were chosen by what the process said

    @classmethod
    def of(cls, n: int, masks: Sequence[int], utilities: Array, known: Known | None) -> _Data:
        asked = dict(zip(masks, utilities.tolist(), strict=True))
        more = {mask: pair for mask, pair in sorted((known or {}).items()) if mask not in asked}
        utility = asked | {mask: pair[0] for mask, pair in more.items()}
        return cls(n, utility, {mask: pair[1] for mask, pair in more.items() if pair[1] > 0}, len(more))

    def extended(self, masks: Sequence[int], utilities: Array) -> _Data:
        new = dict(zip(masks, utilities.tolist(), strict=True))
        return _Data(self.n, self.utility | new, self.variance, self.extra, chosen=True)

    def estimate(self, rng: np.random.Generator) -> Estimate:
        return self.with_forecast(*self.fit(), rng)

    def fit(self) -> tuple[Estimate, Prior | None]:
        """Values with their covariance, and the fitted prior where there is something left to learn."""
        n, empty = self.n, self.utility[0]
        if len(self.utility) == 1 << n and not self.variance:
            values = shapley_values(n, np.array([self.utility[mask] for mask in range(1 << n)]))
            return self._estimate(values, np.zeros((n, n)), "exact"), None
        masks = self._points()
        observed = np.array([self.utility[mask] for mask in masks])
        centre, spread = observed.mean(), observed.std()
        if len(masks) < 2:
            return self._estimate(*self._fallback()), None
        if spread <= 1e-12 * max(1.0, abs(centre)):  # whoever takes part, it is always the same
            share = (centre - empty) / n
            return self._estimate(np.full(n, share), np.eye(n) * (share / len(masks)) ** 2), None
        # Rounded, so that utilities in other units give the same numbers, not almost the same.
        y = np.round((observed - centre) / spread, 11)
        noise = np.array([self.variance.get(mask, 0.0) for mask in masks]) / spread**2
        try:
            found = posterior(Coalitions.of(masks, n), y, noise if noise.any() else None)
        except UnfitError:
            return self._estimate(*self._fallback()), None
        unseen = self._unseen(found.prior.q[WHO_POWER] - 1)
        covariance = found.covariance * spread**2 * self._misfit() + np.eye(n) * self._steps()
        covariance += np.outer(unseen, unseen)
        mean = found.mean * spread + (centre - empty) / n
        if self._only_size_counts():  # the process says so too, up to rounding
            mean = np.full(n, mean.mean())
        return self._estimate(mean, covariance), found.prior

    def _points(self) -> list[int]:
        """All non-empty coalitions, or as many as fit: those of unusual size and a fixed choice of the others."""
        masks = [mask for mask in self.utility if mask]
        if len(masks) <= _POINTS:
            return masks
        edge = [mask for mask in masks if mask.bit_count() in (1, self.n - 1, self.n)]
        inner = [mask for mask in masks if mask.bit_count() not in (1, self.n - 1, self.n)]
        kept = np.random.default_rng(0).choice(len(inner), max(_POINTS - len(edge), 0), replace=False)
        return edge + [inner[j] for j in sorted(kept)]

    def _only_size_counts(self) -> bool:
        of_size: dict[int, float] = {}
        return all(of_size.setdefault(mask.bit_count(), v) == v for mask, v in self.utility.items())

    def _misfit(self) -> float:
        """Allowance for what the prior gets wrong, which does not shrink as utilities are added.

        As long as clients have been seen by themselves alone the prior is all there is, and its width is enough.
        """
        if self.chosen:
            return _MISFIT_CHOSEN
        if all(mask.bit_count() in (0, 1, self.n) for mask in self.utility):
            return 1.0
        beyond = (len(self.utility) - (3 * self.n + 2)) / (6 * self.n)
        return max(_MISFIT, 1 + min(1.0, beyond))

    def _steps(self) -> float:
        """A further variance where most utilities are one and the same: v rises in steps, not smoothly.

        What a step depends on cannot be told from coalitions on one side of it: as much as the equal share.
        """
        inner = [v for mask, v in self.utility.items() if 0 < mask.bit_count() < self.n]
        tied = max(Counter(inner).values()) / len(inner) if inner else 0.0
        share = (self.utility[full_mask(self.n)] - self.utility[0]) / self.n
        return float(tied * share) ** 2 if tied > 0.5 else 0.0

    def _unseen(self, power: float) -> Array:
        """A deviation by which values may be off because no coalitions between two sizes were seen.

        The process takes what a client does to be a power of the size there. Where clients are very different it
        may as well stay large and then drop, as on a straight line between the two sizes.
        """
        n, count = self.n, Counter(mask.bit_count() for mask in self.utility)
        seen = np.array([size for size in range(1, n) if count[size] >= n // 2], float)
        alone = np.array([self.utility.get(1 << i, np.nan) for i in range(n)])
        if len(seen) < 2 or np.isnan(alone).any():
            return np.zeros(n)
        sizes = np.arange(1.0, seen[-1])
        line = np.interp(np.log(sizes), np.log(seen), seen**power)
        apart: Array = (line - sizes**power).sum() / (n - 1) * (alone - alone.mean())
        return _UNSEEN * apart

    def _fallback(self) -> tuple[Array, Array]:
        """Equal split and a little of how clients do alone, with wide intervals."""
        n = self.n
        share = (self.utility[full_mask(n)] - self.utility[0]) / n
        alone = np.array([self.utility.get(1 << i, np.nan) for i in range(n)])
        tilt = np.nan_to_num(alone - np.nanmean(alone)) if np.isfinite(alone).any() else np.zeros(n)
        return share + 0.3 * tilt, np.diag((0.3 * np.abs(tilt) + 0.5 * abs(share)) ** 2 + 1e-18)

    def _estimate(self, mean: Array, covariance: Array, guarantee: str | None = None) -> Estimate:
        # The process knows v(N) up to its jitter; what that leaves is shared by all.
        gap = self.utility[full_mask(self.n)] - self.utility[0] - mean.sum()
        thinned = len(self.utility) > _POINTS + 1 and guarantee is None
        return Estimate(
            mean + gap / self.n,
            np.sqrt(np.diag(covariance)),
            details={"points": _POINTS} if thinned else {},
            guarantee=guarantee,
            covariance=covariance,
            known_before=self.extra,
        )

    def with_forecast(self, estimate: Estimate, prior: Prior | None, rng: np.random.Generator) -> Estimate:
        """The estimate and how far the widest interval would shrink with more evaluations."""
        if prior is None or len(self.utility) > _FORECAST_POINTS:
            return estimate
        try:
            gains = best_additions(self.n, list(self.utility), prior, _FORECAST, rng, among=256)
        except UnfitError:
            return estimate
        forecast = [round(shrunk, 4) for shrunk in gains.shrunk]
        return replace(estimate, forecast=forecast)
