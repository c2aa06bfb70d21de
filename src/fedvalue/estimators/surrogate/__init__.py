"""The surrogate: Shapley values by Bayesian quadrature, each with an honest interval.

A coalition's utility in federated learning is a smooth set function: it depends mostly on how many clients
take part (a steep start, then saturation), then on who they are. A Gaussian process over coalitions learns
that from the few that were trained, and the Shapley value of a Gaussian process is Gaussian in closed form.

Let a_i(s) be the sum-zero first-order coefficient of v on membership among coalitions of size s. Then exactly

    φ_i = (v(N) − v(∅))/n + 1/(n−1) Σ_{s=1}^{n−1} a_i(s)

so nothing enumerates 2^n, and γ utilities of n clients cost O(γ³ + nγ² + n²). `_terms` and `_kernel` have the
prior, `_posterior` the inference, `_design` and `_seeds` the choice of coalitions and seeds.

Trained with one seed, values are those of that seed: they add up to v(N) − v(∅), and utilities that were observed
are taken at their word. Trained with several, they are those of the expected utility: what differs between trainings
of a coalition is luck (`luck` in `_terms`), and a part of the interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedvalue._checks import whole
from fedvalue.by_size import AnyWeights
from fedvalue.coalitions import Trial
from fedvalue.errors import BudgetError, MethodError
from fedvalue.estimators._plan import Plan
from fedvalue.estimators.surrogate._design import fixed_plan
from fedvalue.estimators.surrogate._kernel import MEAN
from fedvalue.estimators.surrogate._luck_of_a_seed import (
    FURTHER_SEEDS,
    extra_trainings,
    luck_between,
    luck_of_a_seed,
    trained_again,
)
from fedvalue.estimators.surrogate._one_seed import Known, OneSeed
from fedvalue.estimators.surrogate._prior import Prior
from fedvalue.estimators.surrogate._reuse import coalitions_of_others, spared
from fedvalue.estimators.surrogate._seeds import (
    candidate_trials,
    default_seeds,
    seeded_plan,
    untrained_trials,
)
from fedvalue.estimators.surrogate._several_seeds import SeveralSeeds
from fedvalue.estimators.surrogate._target import Target, target_of
from fedvalue.values import Estimate

__all__ = [
    "FURTHER_SEEDS",
    "coalitions_of_others",
    "default_seeds",
    "extra_trainings",
    "luck_between",
    "luck_of_a_seed",
    "surrogate",
    "surrogate_adaptive",
    "trained_again",
    "weighted_values",
]

_BATCHES = 2
_MOST = 10**6  # trainings, and seeds: of more no plan is ever finished
_QUANTILE = 1.959963984540054  # half of a 95 % interval, in standard errors


def surrogate(
    n: int,
    budget: int,
    rng: np.random.Generator,
    *,
    seeds: int | None = None,
    min_coalition: int = 1,
    own_seeds: bool = False,
    most_seeds: int | None = 1,
    known: Known | None = None,
    new: Sequence[int] | None = None,
    weights: AnyWeights | None = None,
) -> Plan:
    """All trainings are chosen beforehand and made in one batch, then the process is fitted once.

    `seeds` says over how many seeds they are spread; without it the budget does, as far as the game has them
    (`most_seeds`; None: any number). With one seed the values are those of that seed, and `known` are utilities of
    further coalitions with the variances of their errors (0: none): used, not paid for. `new` are the numbers of clients
    of whom nothing is known: where as much is known of the others as the plan asks, only coalitions with them are trained.

    No coalition of fewer than `min_coalition` clients is trained: what clients do there is extrapolated. With `own_seeds`
    every training has a seed of its own, so that no two have a local training in common.
    With `weights` the values are these sums of utilities.
    """
    whole("The budget of the surrogate", budget, 1, _MOST, error=BudgetError)
    target = None if weights is None else target_of(weights)
    least = _least(n, min_coalition)
    count = default_seeds(n, budget, most_seeds) if seeds is None else _checked(seeds, most_seeds)
    if new is not None and (count > 1 or own_seeds):
        raise MethodError(
            "The option 'new' goes with one seed: values over several use nothing that is known. Say seeds=1."
        )
    if own_seeds:
        _refuse_shared(budget, seeds, most_seeds)
    if count == 1 and not own_seeds:
        masks = fixed_plan(n, budget, rng, least=least)
        masks = masks if new is None else spared(n, masks, known or {}, new)
        data = OneSeed.of(n, masks, (yield masks), known, target, least)
        return _extrapolated(data.estimate(rng), least)
    trials = seeded_plan(n, budget, count, rng, least)
    if own_seeds:
        trials = [(mask, number) for number, (mask, _) in enumerate(trials)]
    utilities = yield [(0, 0), *trials]
    several = SeveralSeeds(n, float(utilities[0]), {}, target=target, least=least).extended(
        trials, utilities[1:]
    )
    return _extrapolated(several.with_forecast(*several.fit(), most_seeds, rng), least)


def _least(n: int, min_coalition: int) -> int:
    least = whole("The option 'min_coalition'", min_coalition, 1, error=MethodError)
    if least > 1 and least >= n:
        raise MethodError(
            f"The option 'min_coalition' is {least}, and there are {n} clients: nothing could be trained but all of them "
            "together, which says nothing about any of them. It must be smaller than the number of clients."
        )
    return least


def _refuse_shared(budget: int, seeds: int | None, most: int | None) -> None:
    """A seed for every training, where seeds were given, or there are not as many."""
    if seeds is not None:
        raise MethodError(
            "With own_seeds every training has a seed of its own. Leave out the number of seeds."
        )
    if most is not None and most < budget:
        raise MethodError(
            f"With own_seeds the {budget} trainings need as many seeds; this game can be trained with {most}. A model that draws "
            "no random numbers has one: its trainings share all of them."
        )


def _extrapolated(estimate: Estimate, least: int) -> Estimate:
    if least == 1:
        return estimate
    note = f"No coalition of fewer than {least} clients was trained: what clients add there is extrapolated from larger ones."
    return replace(estimate, notes=[*estimate.notes, note])


def weighted_values(n: int, utilities: Mapping[Trial, float], weights: AnyWeights | None) -> Estimate:
    """Any weighted sums of utilities, given those of some trainings; ∅ and N must be among them.

    `utilities` are by coalition and seed; v(∅) is that of the first seed. With one seed the sums are those of that seed.
    Without `weights` they are Shapley values, of any number of clients.
    """
    target = None if weights is None else target_of(weights)
    seeds = {seed for _, seed in utilities}
    empty = utilities[0, min(seeds)]
    trained = {trial: utility for trial, utility in utilities.items() if trial[0]}
    if len(seeds) == 1:
        of_one = {0: empty, **{mask: utility for (mask, _), utility in trained.items()}}
        return OneSeed(n, of_one, target=target).fit()[0]
    return SeveralSeeds(n, empty, trained, target=target).fit()[0]


def _checked(seeds: int, most: int | None) -> int:
    count = whole("The option 'seeds'", seeds, 1, _MOST, error=MethodError)
    if most is not None and count > most:
        raise MethodError(f"The option 'seeds' is {count}, but the game can be trained with {most} only.")
    return count


def surrogate_adaptive(
    n: int,
    budget: int,
    rng: np.random.Generator,
    *,
    target: float | None = None,
    seeds: int | None = None,
    min_coalition: int = 1,
    most_seeds: int | None = 1,
    known: Known | None = None,
    weights: AnyWeights | None = None,
) -> Plan:
    """The plan of `surrogate` up to 3n + 2 or 4n + 2 trainings, then batches of the most informative ones.

    With `target` it stops as soon as no 95 % interval reaches further than that to either side; batches are of n
    then, otherwise two share the rest of the budget. `seeds`, `most_seeds`, `known`, `min_coalition` and `weights` are as for
    `surrogate`;
    with several seeds, which of them trains a coalition is chosen too.
    """
    whole("The budget of the surrogate", budget, 1, _MOST, error=BudgetError)
    wanted = None if weights is None else target_of(weights)
    least = _least(n, min_coalition)
    if target is not None and not target > 0:
        raise MethodError(f"The option 'target' must be a half-width above 0. Got {target!r}.")
    count = default_seeds(n, budget, most_seeds) if seeds is None else _checked(seeds, most_seeds)
    first = min(budget, 3 * n + 2 if budget < 6 * n else 4 * n + 2)
    batch = n if target is not None else max(1, -(-(budget - first) // _BATCHES))
    if count > 1:
        found = yield from _adaptive_over_seeds(
            n, budget, rng, count, first, batch, target, most_seeds, wanted, least
        )
        return _extrapolated(found, least)
    masks = fixed_plan(n, first, rng, least=least)
    data = OneSeed.of(n, masks, (yield masks), known, wanted, least)
    while True:
        estimate, prior = data.fit()
        left = min(batch, budget - len(masks))
        if _reached(estimate, target) or left < 1 or prior is None:
            return _extrapolated(data.with_forecast(estimate, prior, rng), least)
        new, _ = data.best_additions(_cautious(prior), left, 1024, rng)
        if not new:
            return _extrapolated(estimate, least)
        masks += new
        data = data.extended(new, (yield new))


def _adaptive_over_seeds(
    n: int,
    budget: int,
    rng: np.random.Generator,
    seeds: int,
    first: int,
    batch: int,
    target: float | None,
    most_seeds: int | None,
    wanted: Target | None,
    least: int,
) -> Plan:
    trials = seeded_plan(n, first, min(seeds, max(2, default_seeds(n, first, None))), rng, least)
    utilities = yield [(0, 0), *trials]
    data = SeveralSeeds(n, float(utilities[0]), {}, target=wanted, least=least).extended(
        trials, utilities[1:]
    )
    while True:
        estimate, prior = data.fit()
        left = min(batch, budget - len(data.utility))
        if _reached(estimate, target) or left < 1 or (prior is None and not data.is_complete):
            return data.with_forecast(estimate, prior, most_seeds, rng)
        new: list[Trial] = []
        if prior is not None:
            candidates = candidate_trials(n, data.utility, range(seeds), 512, rng, least)
            new, _ = data.best_additions(_cautious(prior), candidates, left)
        new = new or untrained_trials(n, data.utility, range(seeds), left, least)
        if not new:
            return data.with_forecast(estimate, prior, most_seeds, rng)
        data = data.extended(new, (yield new), chosen=prior is not None)


def _reached(estimate: Estimate, target: float | None) -> bool:
    assert estimate.stderr is not None
    if target is None:
        return False
    quantile = _QUANTILE
    if estimate.dof is not None:
        from scipy.stats import t

        quantile = t.ppf(0.975, estimate.dof)
    return float((quantile * estimate.stderr).max()) <= target


def _cautious(prior: Prior) -> Prior:
    """A process half-way back to what is usual: a fit that is too sure of itself looks too narrowly."""
    return replace(prior, q=(prior.q + MEAN[: len(prior.q)]) / 2)
