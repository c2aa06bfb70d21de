"""How far the values of one seed are from those of the expected utility, by luck of training alone.

Values that rest on all coalitions of one seed are exact for that seed and say nothing about others. A few coalitions
trained again with other seeds do: N, every client alone and splits into halves. The process of several seeds is fitted
to them, and its luck, carried over to all coalitions of a seed, has a covariance of values in closed form.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedvalue.by_size import AnyWeights, shapley_values
from fedvalue.estimators.surrogate._constant import is_constant
from fedvalue.estimators.surrogate._design import fixed_plan
from fedvalue.estimators.surrogate._kernel import (
    Coalitions,
    luck_level_profile,
    luck_who_profile,
    noise_profile,
    nugget_prior,
)
from fedvalue.estimators.surrogate._posterior import posterior, scale_given
from fedvalue.estimators.surrogate._prior import UnfitError
from fedvalue.estimators.surrogate._target import target_of

__all__ = [
    "FURTHER_SEEDS",
    "extra_trainings",
    "luck_between",
    "luck_of_a_seed",
    "luck_of_values",
    "trained_again",
]

Array = NDArray[np.float64]

FURTHER_SEEDS = (
    3  # with two the worst game has 85 % of its intervals right, with four it is no better than with three
)


def trained_again(n: int) -> list[int]:
    """The coalitions that further seeds train: all of up to three clients, else 2n + 1 of them.

    >>> sorted(mask.bit_count() for mask in trained_again(4))
    [1, 1, 1, 1, 2, 2, 2, 2, 4]
    """
    return fixed_plan(n, min(2 * n + 2, 1 << n), np.random.default_rng(0))[1:]


def extra_trainings(n: int) -> int:
    """How many trainings `exact` adds to all coalitions of one seed, to learn of the luck of training.

    >>> extra_trainings(10), extra_trainings(3)
    (63, 21)
    """
    return FURTHER_SEEDS * (min(2 * n + 2, 1 << n) - 1)


def luck_between(tables: Array) -> Array:
    """How the luck of several games goes together, from utilities by seed, coalition and game: see `Estimate.spread`."""
    apart = (tables - tables.mean(0)).reshape(-1, tables.shape[-1])
    between: Array = apart.T @ apart
    return between


def luck_of_a_seed(
    n: int, empty: float, rows: Array, weights: AnyWeights | None = None
) -> tuple[Array, float] | None:
    """The covariance of the values of one seed around the expected ones, and its degrees of freedom.

    `rows` are the utilities of the coalitions of `trained_again`, a row for each seed. None: they cannot be fitted.
    `weights` are those of the values, where these are not the Shapley values.
    """
    masks = trained_again(n)
    if len(masks) == (1 << n) - 1:  # complete: the values of every seed are known
        order = np.argsort(masks)
        tables = [np.array([empty, *row[order]]) for row in rows]
        values = [shapley_values(n, table) if weights is None else weights.apply(table) for table in tables]
        return np.atleast_2d(np.cov(values, rowvar=False)), len(rows) - 1.0
    observed = rows.ravel()
    spread = float(observed.std())
    dof = (len(rows) - 1.0) * (n - 1)  # each further seed shows n − 1 differences between clients
    if is_constant(observed, empty):
        return np.zeros((n, n)), dof
    seeds = np.repeat(np.arange(len(rows)), len(masks))
    trained = Coalitions.of(masks * len(rows), n, seeds)
    y = np.round((observed - observed.mean()) / spread, 11)
    try:
        prior = posterior(trained, y).prior
        scale = scale_given(prior, trained, y)
    except UnfitError:
        return None
    luck = luck_of_values(prior.q, n) if weights is None else target_of(weights).luck(prior.q)
    return luck * scale * spread**2, dof


def luck_of_values(q: Array, n: int) -> Array:
    """Cov(φ_i, φ_j) by the luck of one seed with which all coalitions are trained, given the hyper-parameters."""
    log_size = np.log(np.arange(1, n + 1))
    inner = np.where(np.arange(1, n + 1) < n, 1 / (n - 1), 0.0)
    level, who, noise = (
        profile(q, log_size, log_size, False)[0]
        for profile in (luck_level_profile, luck_who_profile, noise_profile)
    )
    of_clients = float(inner @ who @ inner) * (np.eye(n) - 1 / n)
    luck: Array = level[-1, -1] / n**2 + of_clients + nugget_prior(n, np.diag(noise))
    return luck
