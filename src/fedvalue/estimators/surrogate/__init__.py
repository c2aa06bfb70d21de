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

from dataclasses import replace

import numpy as np

from fedvalue._checks import whole
from fedvalue.errors import MethodError
from fedvalue.estimators._plan import Plan
from fedvalue.estimators.surrogate._design import best_additions, fixed_plan
from fedvalue.estimators.surrogate._kernel import MEAN
from fedvalue.estimators.surrogate._luck_of_a_seed import (
    FURTHER_SEEDS,
    extra_trainings,
    luck_of_a_seed,
    trained_again,
)
from fedvalue.estimators.surrogate._one_seed import Known, OneSeed
from fedvalue.estimators.surrogate._seeds import default_seeds, seeded_plan
from fedvalue.estimators.surrogate._several_seeds import SeveralSeeds

__all__ = [
    "FURTHER_SEEDS",
    "extra_trainings",
    "luck_of_a_seed",
    "surrogate",
    "surrogate_adaptive",
    "trained_again",
]

_BATCHES = 2
_QUANTILE = 1.959963984540054  # half of a 95 % interval, in standard errors


def surrogate(
    n: int,
    budget: int,
    rng: np.random.Generator,
    *,
    seeds: int | None = None,
    most_seeds: int | None = 1,
    known: Known | None = None,
) -> Plan:
    """All trainings are chosen beforehand and made in one batch, then the process is fitted once.

    `seeds` says over how many seeds they are spread; without it the budget does, as far as the game has them
    (`most_seeds`; None: any number). With one seed the values are those of that seed, and `known` are utilities of
    further coalitions with the variances of their errors (0: none): used, not paid for.
    """
    count = default_seeds(budget, most_seeds) if seeds is None else _checked(seeds, most_seeds)
    if count == 1:
        masks = fixed_plan(n, budget, rng)
        return OneSeed.of(n, masks, (yield masks), known).estimate(rng)
    trials = seeded_plan(n, budget, count, rng)
    utilities = yield [(0, 0), *trials]
    data = SeveralSeeds(n, float(utilities[0]), {}).extended(trials, utilities[1:])
    return data.with_forecast(*data.fit(), rng)


def _checked(seeds: int, most: int | None) -> int:
    count = whole("The option 'seeds'", seeds, 1, error=MethodError)
    if most is not None and count > most:
        raise MethodError(f"The option 'seeds' is {count}, but the game can be trained with {most} only.")
    return count


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
    data = OneSeed.of(n, masks, utilities, known)
    batch = n if target is not None else -(-(budget - len(masks)) // _BATCHES)
    while True:
        estimate, prior = data.fit()
        assert estimate.stderr is not None
        reached = target is not None and _QUANTILE * float(estimate.stderr.max()) <= target
        count = min(batch, budget - len(masks))
        if reached or count < 1 or prior is None:
            return data.with_forecast(estimate, prior, rng)
        # Asked of a process half-way back to what is usual: a fit that is too sure of itself looks too narrowly.
        cautious = replace(prior, q=(prior.q + MEAN[: len(prior.q)]) / 2)
        new = best_additions(n, list(data.utility), cautious, count, rng).masks
        if not new:
            return estimate
        masks += new
        data = data.extended(new, (yield new))
