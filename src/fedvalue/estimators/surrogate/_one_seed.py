"""From utilities of some coalitions, trained with one seed, to an estimate of their Shapley values.

The process is as sure as its prior is right. Intervals allow for three ways in which it is not: `_misfit`, `steps` and
`unseen`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedvalue.by_size import shapley_values
from fedvalue.coalitions import full_mask
from fedvalue.estimators.surrogate._by_size_target import BySizeTarget
from fedvalue.estimators.surrogate._constant import is_constant, lost_in_rounding
from fedvalue.estimators.surrogate._design import best_additions, others
from fedvalue.estimators.surrogate._kernel import WHO_POWER, Coalitions
from fedvalue.estimators.surrogate._posterior import Posterior, posterior, spread_given, weights_given
from fedvalue.estimators.surrogate._prior import Prior, UnfitError
from fedvalue.estimators.surrogate._target import Target
from fedvalue.values import Estimate

__all__ = [
    "FORECAST",
    "FORECAST_POINTS",
    "Known",
    "Linear",
    "OneSeed",
    "extrapolated",
    "points",
    "weights_of_asked",
]

Array = NDArray[np.float64]
Linear = Callable[[Array], Array]
Known = Mapping[int, tuple[float, float]]

_POINTS = 7500  # that the process is conditioned on at most: its matrices then fill 2 GB
FORECAST = 64  # further evaluations that the result foresees the effect of
FORECAST_POINTS = 800  # beyond, looking ahead costs more than it is worth
_MISFIT = 1.15  # least allowance for what the prior gets wrong, as a factor of the variance
_MISFIT_CHOSEN = 1.75  # the same where the process chose coalitions itself, and nothing balances its errors
_EXTRAPOLATED = 0.25  # of how values differ, for every client that coalitions must have: see `extrapolated`
_UNSEEN = 0.5  # of the difference between two ways to fill in sizes of which nothing is known


def points(masks: Sequence[int], n: int) -> list[int]:
    """Which trainings the process is conditioned on: all, or those of unusual size and a fixed choice of the others."""
    if len(masks) <= _POINTS:
        return list(range(len(masks)))
    edge = [j for j, mask in enumerate(masks) if mask.bit_count() in (1, n - 1, n)]
    inner = [j for j, mask in enumerate(masks) if mask.bit_count() not in (1, n - 1, n)]
    kept = np.random.default_rng(0).choice(len(inner), max(_POINTS - len(edge), 0), replace=False)
    return edge + [inner[j] for j in sorted(kept)]


def weights_of_asked(weights: Array, columns: Sequence[int], count: int, share: Array) -> Array:
    """How much each of `count` utilities that were asked for counts in each value, ∅ coming first.

    `weights` are those of deviations from the mean of the utilities at `columns`, which all clients share by their `share`, less v(∅).
    """
    of_asked = np.zeros((len(weights), count))
    of_asked[:, columns] = weights + (share[:, None] - weights.sum(1, keepdims=True)) / len(columns)
    of_asked[:, 0] -= share
    return of_asked


def extrapolated(mean: Array, least: int) -> Array:
    """The covariance of what clients add to coalitions that are too small to be trained, of fewer than `least`.

    The process carries on towards them what it saw of larger ones, and in nearly all games takes clients to be more alike
    there than they are. That cannot be seen from larger coalitions: it is allowed for, measured in bench/min_coalition.py.
    """
    n = len(mean)
    if least == 1 or n < 2:
        return np.zeros((n, n))
    apart = _EXTRAPOLATED * least * float(np.std(mean))
    unseen: Array = apart**2 * (np.eye(n) - 1 / n) * n / (n - 1)
    return unseen


@dataclass(frozen=True)
class OneSeed:
    """Utilities of coalitions that were trained with one seed, and the variances of their errors."""

    n: int
    utility: dict[int, float]
    variance: dict[int, float] = field(default_factory=dict)
    before: frozenset[int] = frozenset()  # coalitions that were known and not asked for
    chosen: bool = False  # whether some coalitions were chosen by what the process said
    least: int = 1  # clients in the coalitions that may be trained
    target: Target | None = None  # what is wanted instead of Shapley values

    @classmethod
    def of(
        cls,
        n: int,
        masks: Sequence[int],
        utilities: Array,
        known: Known | None,
        target: Target | None = None,
        least: int = 1,
    ) -> OneSeed:
        asked = dict(zip(masks, utilities.tolist(), strict=True))
        usable = {mask: pair for mask, pair in sorted((known or {}).items()) if mask.bit_count() >= least}
        more = {mask: pair for mask, pair in usable.items() if mask not in asked}
        utility = asked | {mask: pair[0] for mask, pair in more.items()}
        variance = {mask: pair[1] for mask, pair in more.items() if pair[1] > 0}
        return cls(n, utility, variance, frozenset(more), target=target, least=least)

    @property
    def share(self) -> Array:
        """The part of v(N) − v(∅) that is every value's before anything is known of it."""
        return np.full(self.n, 1 / self.n) if self.target is None else self.target.weights.share

    def from_all(self, table: Array) -> Array:
        """The values of a table of all 2^n utilities."""
        return shapley_values(self.n, table) if self.target is None else self.target.weights.apply(table)

    def _like(self, of_clients: Array) -> Array:
        """What is said of clients, as said of the values that are wanted."""
        return of_clients if self.target is None else self.target.weights.like @ of_clients

    def extended(self, masks: Sequence[int], utilities: Array) -> OneSeed:
        new = dict(zip(masks, utilities.tolist(), strict=True))
        return replace(self, utility=self.utility | new, chosen=True)

    def estimate(self, rng: np.random.Generator) -> Estimate:
        return self.with_forecast(*self.fit(), rng)

    def fit(self) -> tuple[Estimate, Prior | None]:
        """Values with their covariance, and the fitted prior where there is something left to learn."""
        n, empty = self.n, self.utility[0]
        if len(self.utility) == 1 << n and not self.variance:
            values, rows = (
                self.from_all(np.array([self.utility[mask] for mask in range(1 << n)])),
                len(self.share),
            )
            return self._estimate(values, np.zeros((rows, rows)), "exact", self._linear_when_complete()), None
        masks = self._points()
        observed = np.array([self.utility[mask] for mask in masks])
        centre, spread = observed.mean(), observed.std()
        if len(masks) < 2:
            return self._estimate(*self.fallback()), None
        if is_constant(observed, empty):  # whoever takes part, it is always the same
            equal = (centre - empty) * self.share
            parts = (centre - empty) * self._like(np.full(n, 1 / n))
            covariance = np.diag((parts / len(masks)) ** 2)
            estimate = self._estimate(equal, covariance, linear=self._linear(None))
            return replace(estimate, notes=[*estimate.notes, *lost_in_rounding(observed)]), None
        # Rounded, so that utilities in other units give the same numbers, not almost the same.
        y = np.round((observed - centre) / spread, 11)
        noise = np.array([self.variance.get(mask, 0.0) for mask in masks]) / spread**2
        try:
            found = posterior(Coalitions.of(masks, n), y, noise if noise.any() else None, self.target)
        except UnfitError:
            return self._estimate(*self.fallback()), None
        unseen = self.unseen(found.prior.q[WHO_POWER] - 1)
        covariance = found.covariance * spread**2 * self._misfit() + self.steps()
        covariance += np.outer(unseen, unseen)
        mean = found.mean * spread + (centre - empty) * self.share
        covariance = covariance + self.unseen_level(mean) ** 2 + extrapolated(mean, self.least)
        if self.target is None and self.only_size_counts():  # the process says so too, up to rounding
            mean = np.full(n, mean.mean())
        estimate = self._estimate(mean, covariance, linear=self._linear(found))
        return replace(estimate, spread=partial(self._spread, found.prior)), found.prior

    def _linear(self, found: Posterior | None) -> Linear:
        """The values of other utilities of what was asked for; what was known before is left aside.

        Of these the plan cannot know what single test rows said, but values without them are almost the same.
        """
        asked = [mask for mask in self.utility if mask not in self.before]
        column = {mask: j for j, mask in enumerate(asked)}
        trained = [mask for mask in self._points() if mask not in self.before]
        weights = np.zeros((len(self.share), len(trained)))
        if found is not None:
            fresh = not self.before
            weights = found.weights if fresh else weights_given(found.prior, Coalitions.of(trained, self.n))
        of_asked = weights_of_asked(weights, [column[mask] for mask in trained], len(asked), self.share)
        if self.target is None and self.only_size_counts():
            of_asked = np.broadcast_to(of_asked.mean(0), of_asked.shape)
        if self._adds_up():
            gap = -of_asked.sum(0)
            gap[column[full_mask(self.n)]] += 1
            gap[0] -= 1
            of_asked = of_asked + np.outer(self.share, gap)
        return partial(np.tensordot, of_asked, axes=1)

    def _spread(self, prior: Prior, utilities: Array) -> Array:
        """See `Estimate.spread`; as with values, what was known before is left aside."""
        column = {mask: j for j, mask in enumerate(mask for mask in self.utility if mask not in self.before)}
        trained = [mask for mask in self._points() if mask in column]
        return spread_given(
            prior, Coalitions.of(trained, self.n), utilities[[column[mask] for mask in trained]]
        )

    def _linear_when_complete(self) -> Linear | None:
        asked = [mask for mask in self.utility if mask not in self.before]
        if len(asked) < len(self.utility):
            return None
        place = np.argsort(asked)
        return lambda utilities: self.from_all(utilities[place])

    def _points(self) -> list[int]:
        """All non-empty coalitions, or as many as fit."""
        masks = [mask for mask in self.utility if mask]
        return [masks[j] for j in points(masks, self.n)]

    def only_size_counts(self) -> bool:
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

    def _adds_up(self) -> bool:
        """Whether the values are parts of v(N) − v(∅)."""
        return self.target is None or self.target.weights.adds_up

    def steps(self) -> Array:
        """A further variance where most utilities are one and the same: v rises in steps, not smoothly.

        What a step depends on cannot be told from coalitions on one side of it: as much as the equal share.
        """
        inner = [v for mask, v in self.utility.items() if 0 < mask.bit_count() < self.n]
        tied = max(Counter(inner).values()) / len(inner) if inner else 0.0
        share = (self.utility[full_mask(self.n)] - self.utility[0]) / self.n
        like = self._like(np.eye(self.n))
        return like @ like.T * (float(tied * share) ** 2 if tied > 0.5 else 0.0)

    def unseen(self, power: float) -> Array:
        """A deviation by which values may be off because no coalitions between two sizes were seen.

        The process takes what a client does to be a power of the size there. Where clients are very different it
        may as well stay large and then drop, as on a straight line between the two sizes.
        """
        n, count = self.n, Counter(mask.bit_count() for mask in self.utility)
        seen = np.array([size for size in range(1, n) if count[size] >= n // 2], float)
        alone = np.array([self.utility.get(1 << i, np.nan) for i in range(n)])
        if len(seen) < 2 or np.isnan(alone).any():
            return self._like(np.zeros(n))
        sizes = np.arange(1.0, seen[-1])
        line = np.interp(np.log(sizes), np.log(seen), seen**power)
        counts = 1.0 if self.target is None else self.target.slopes[: len(sizes)]
        apart: Array = (counts * (line - sizes**power)).sum() / (n - 1) * (alone - alone.mean())
        return self._like(_UNSEEN * apart)

    def unseen_level(self, mean: Array) -> float:
        """A deviation by which all values may be off because mean utilities of sizes between those that were seen count.

        They do in semivalues, not in Shapley values. The process may see a dent where a plain curve through what was seen has none.
        """
        if not isinstance(self.target, BySizeTarget):
            return 0.0
        level = self.target.level(self.utility)
        return 0.0 if level is None else _UNSEEN * (float(mean.mean()) - level)

    def fallback(self) -> tuple[Array, Array]:
        """Equal split and a little of how clients do alone, with wide intervals."""
        n = self.n
        share = (self.utility[full_mask(n)] - self.utility[0]) / n
        alone = np.array([self.utility.get(1 << i, np.nan) for i in range(n)])
        tilt = np.nan_to_num(alone - np.nanmean(alone)) if np.isfinite(alone).any() else np.zeros(n)
        like = self._like(np.eye(n))
        variance = np.diag((0.3 * np.abs(tilt) + 0.5 * abs(share)) ** 2 + 1e-18)
        return n * share * self.share + 0.3 * like @ tilt, like @ variance @ like.T

    def _estimate(
        self, mean: Array, covariance: Array, guarantee: str | None = None, linear: Linear | None = None
    ) -> Estimate:
        # The process knows v(N) up to its jitter; what that leaves is shared by all.
        gap = (self.utility[full_mask(self.n)] - self.utility[0] - mean.sum()) if self._adds_up() else 0.0
        thinned = len(self.utility) > _POINTS + 1 and guarantee is None
        return Estimate(
            mean + gap * self.share,
            np.sqrt(np.diag(covariance)),
            details={"points": _POINTS} if thinned else {},
            guarantee=guarantee,
            covariance=covariance,
            parts={"coalitions": covariance},
            known_before=len(self.before),
            linear=linear,
        )

    def best_additions(
        self, prior: Prior, count: int, among: int, rng: np.random.Generator
    ) -> tuple[list[int], list[float]]:
        """The coalitions to add, and how far the widest interval would have shrunk after each."""
        candidates = others(self.n, self.utility, among, rng, self.least)
        known = Coalitions.of([mask for mask in self.utility if mask], self.n)
        gains = best_additions(known, Coalitions.of(candidates, self.n), prior, count)
        return [candidates[j] for j in gains.picked], gains.shrunk

    def with_forecast(self, estimate: Estimate, prior: Prior | None, rng: np.random.Generator) -> Estimate:
        """The estimate and how far the widest interval would shrink with more evaluations."""
        if prior is None or len(self.utility) > FORECAST_POINTS:
            return estimate
        try:
            _, shrunk = self.best_additions(prior, FORECAST, 256, rng)
        except UnfitError:
            return estimate
        return replace(estimate, forecast=[round(part, 4) for part in shrunk])
