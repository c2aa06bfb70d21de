"""From trainings of some coalitions with several seeds to the Shapley values of the expected utility.

    v_r(S) = f(S) + luck of S with seed r

f is the process of `_terms`, luck what its `luck` says: the level of a seed, how a client fares with it, and what
is left to a single training. Values are those of f. Their error has two parts: coalitions that were not trained, and
the luck of those that were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import Trial
from fedvalue.estimators.surrogate._constant import is_constant, lost_in_rounding
from fedvalue.estimators.surrogate._design import best_additions
from fedvalue.estimators.surrogate._kernel import WHO_POWER, Coalitions
from fedvalue.estimators.surrogate._luck_of_a_seed import luck_between
from fedvalue.estimators.surrogate._one_seed import (
    FORECAST,
    FORECAST_POINTS,
    Linear,
    OneSeed,
    extrapolated,
    points,
    weights_of_asked,
)
from fedvalue.estimators.surrogate._posterior import posterior, spread_given
from fedvalue.estimators.surrogate._prior import Prior, UnfitError
from fedvalue.estimators.surrogate._seeds import PER_SEED, candidate_trials
from fedvalue.estimators.surrogate._target import Target
from fedvalue.values import Estimate

__all__ = ["SeveralSeeds"]

_FEW_SEEDS = 4

Array = NDArray[np.float64]


_PER_CLIENT = 3  # trainings for each client, at which the allowance for a wrong prior is
_MISFIT = 1.5  # times the variance, besides it; less with the square of the trainings, and never more than
_MOST_MISFIT = 3.0
_MISFIT_CHOSEN = 1.75  # at least, where the process chose trainings itself, and nothing balances its errors


@dataclass(frozen=True)
class SeveralSeeds:
    """Utilities by coalition and seed, without ∅, which is not trained: `empty` is its utility."""

    n: int
    empty: float
    utility: Mapping[Trial, float]
    chosen: bool = False  # whether some trainings were chosen by what the process said
    least: int = 1  # clients in the coalitions that may be trained
    target: Target | None = None  # what is wanted instead of Shapley values

    def extended(self, trials: Sequence[Trial], utilities: Array, chosen: bool = False) -> SeveralSeeds:
        new = dict(zip(trials, utilities.tolist(), strict=True))
        return replace(self, utility={**self.utility, **new}, chosen=self.chosen or chosen)

    @property
    def masks(self) -> list[int]:
        return [mask for mask, _ in self.utility]

    @property
    def seeds(self) -> NDArray[np.intp]:
        return np.array([seed for _, seed in self.utility], dtype=np.intp)

    @property
    def is_complete(self) -> bool:
        """Whether all coalitions were trained with every seed that was used."""
        return len(self.utility) == len(set(self.seeds)) * ((1 << self.n) - 1)

    @cached_property
    def means(self) -> OneSeed:
        """Every coalition once, with the mean over its seeds: what allowances are judged by."""
        of_mask: dict[int, list[float]] = {}
        for (mask, _), utility in self.utility.items():
            of_mask.setdefault(mask, []).append(utility)
        means = {mask: float(np.mean(utilities)) for mask, utilities in of_mask.items()}
        return OneSeed(self.n, {0: self.empty, **means}, target=self.target)

    def fit(self) -> tuple[Estimate, Prior | None]:
        """Values with both parts of their error, and the fitted prior where there is something left to learn."""
        n, count = self.n, len(set(self.seeds))
        if self.is_complete:
            return self._complete(), None
        kept = points(self.masks, n)
        observed = np.fromiter(self.utility.values(), float)[kept]
        centre, spread = observed.mean(), observed.std()
        rows, share = len(self.means.share), self.means.share
        nothing = np.zeros((rows, rows))
        if is_constant(observed, self.empty):
            equal = (centre - self.empty) * share
            linear = self._linear(np.zeros((rows, len(kept))), kept)
            error = np.diag((equal / len(observed)) ** 2)
            estimate = _estimate(equal, error, nothing, linear)
            return replace(estimate, notes=[*estimate.notes, *lost_in_rounding(observed)]), None
        y = np.round((observed - centre) / spread, 11)
        trained = Coalitions.of(self.masks, n, self.seeds)[np.array(kept)]
        try:
            found = posterior(trained, y, target=self.target)
        except UnfitError:
            mean, covariance = self.means.fallback()
            return _estimate(mean, covariance, nothing), None
        assert found.training is not None
        unseen = self.means.unseen(found.prior.q[WHO_POWER] - 1)
        # Two or three seeds hardly tell how far luck goes: as much wider as a variance with so few degrees of freedom is.
        few = (count + 1) / (count - 1) if 1 < count < _FEW_SEEDS else 1.0
        training = found.training * spread**2 * few
        untrained = (found.covariance - found.training) * spread**2 * self._misfit()
        untrained += np.outer(unseen, unseen) + self.means.steps()
        mean = found.mean * spread + (centre - self.empty) * share
        untrained += self.means.unseen_level(mean) ** 2 + extrapolated(mean, self.least)
        linear = self._linear(found.weights, kept)
        estimate = _estimate(mean, untrained + training, training, linear)
        columns = [1 + j for j in kept]  # ∅ comes first
        return replace(
            estimate, spread=lambda utilities: spread_given(found.prior, trained, utilities[columns])
        ), found.prior

    def _misfit(self) -> float:
        """Allowance for what the prior gets wrong about coalitions that were not trained.

        With few trainings for each client the prior decides, with many they do.
        """
        sparse = _MISFIT * (_PER_CLIENT * self.n / len(self.utility)) ** 2
        return max(1 + min(sparse, _MOST_MISFIT), _MISFIT_CHOSEN if self.chosen else 1.0)

    def _linear(self, weights: Array, kept: Sequence[int]) -> Linear:
        """The values of other utilities of the same trainings, v(∅) coming first."""
        columns = [1 + j for j in kept]
        return partial(
            np.tensordot, weights_of_asked(weights, columns, 1 + len(self.utility), self.means.share), axes=1
        )

    def _complete(self) -> Estimate:
        """All coalitions with every seed: the mean of the values of the seeds, and what it errs by."""
        seeds = sorted(set(self.seeds.tolist()))
        place = {trial: 1 + j for j, trial in enumerate(self.utility)}
        tables = np.array([[0, *(place[mask, seed] for mask in range(1, 1 << self.n))] for seed in seeds])
        utilities = np.array([self.empty, *self.utility.values()])
        values = [self.means.from_all(utilities[table]) for table in tables]
        covariance = np.atleast_2d(np.cov(values, rowvar=False)) / len(values)

        def linear(utilities: Array) -> Array:
            return self.means.from_all(utilities[tables].mean(0))

        estimate = _estimate(np.mean(values, axis=0), covariance, covariance, linear)
        return replace(
            estimate,
            dof=np.full(len(self.means.share), len(seeds) - 1.0),  # nothing but the seeds tells their luck
            spread=lambda utilities: luck_between(utilities[tables]),
        )

    def best_additions(
        self, prior: Prior, candidates: Sequence[Trial], count: int
    ) -> tuple[list[Trial], list[float]]:
        """The trainings to add, and how far the widest interval would have shrunk after each."""
        known = Coalitions.of(self.masks, self.n, self.seeds)
        seeds = np.array([seed for _, seed in candidates], dtype=np.intp)
        more = Coalitions.of([mask for mask, _ in candidates], self.n, seeds)
        gains = best_additions(known, more, prior, count)
        return [candidates[j] for j in gains.picked], gains.shrunk

    def with_forecast(
        self, estimate: Estimate, prior: Prior | None, most_seeds: int | None, rng: np.random.Generator
    ) -> Estimate:
        """The estimate, how far the widest interval would shrink with more trainings, and what gains more.

        `details["gain"]` is by which fraction 64 more trainings narrow it: of further coalitions in the same seeds, and
        in new seeds, where the game has any.
        """
        if prior is None or len(self.utility) > FORECAST_POINTS:
            return estimate
        used = int(self.seeds.max()) + 1
        choices = {"in the same seeds": range(used)}
        if most_seeds is None or used < most_seeds:
            last = used + FORECAST // PER_SEED
            choices["in new seeds"] = range(used, last if most_seeds is None else min(last, most_seeds))
        try:
            gains = {
                name: self.best_additions(
                    prior, candidate_trials(self.n, self.utility, seeds, 256, rng, self.least), FORECAST
                )[1]
                for name, seeds in choices.items()
            }
        except UnfitError:
            return estimate
        best = max(gains.values(), key=lambda shrunk: shrunk[-1:])
        return replace(
            estimate,
            forecast=[round(part, 4) for part in best],
            details={"gain": {name: round(shrunk[-1], 4) for name, shrunk in gains.items() if shrunk}},
        )


def _estimate(mean: Array, covariance: Array, training: Array, linear: Linear | None = None) -> Estimate:
    return Estimate(
        mean,
        np.sqrt(np.diag(covariance)),
        covariance=covariance,
        parts={"coalitions": covariance - training, "training": training},
        linear=linear,
    )
