"""The exact Shapley value, by all three formulas (Eq. 4, Eq. 5 and the mean over all orders)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from math import comb, factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.by_size import AnyWeights, shapley_values, sizes, total, weighted_marginals
from fedvalue.coalitions import shapley_weights
from fedvalue.estimators._plan import Plan
from fedvalue.estimators.surrogate import FURTHER_SEEDS, luck_between, luck_of_a_seed, trained_again
from fedvalue.values import Estimate

__all__ = ["exact_cc", "exact_mc", "exact_perm", "shapley_values"]

Array = NDArray[np.float64]


def exact_mc(
    n: int,
    budget: int,
    rng: np.random.Generator,
    *,
    noise: bool = True,
    most_seeds: int | None = 1,
    weights: AnyWeights | None = None,
    solve: Callable[[Array], Array] | None = None,
) -> Plan:
    """MC-SV (Eq. 4): φ_i = Σ_{S∌i} [v(S∪i) − v(S)] / (n·C(n−1,|S|)).

    Of a game with a few seeds (`most_seeds`), the mean of the values of all seeds, with the error that luck leaves in it.
    Of one that can be trained with any number of seeds (None), the values of the first, and, with `noise`, how far
    luck takes them from those of the expected utility: `extra_trainings(n)` trainings with other seeds show it.
    With `weights` the values are these sums of utilities, and with `solve` what it makes of the table.
    """
    if solve is not None:
        return Estimate(solve((yield from _mean_table(n, most_seeds))))
    values_of = partial(shapley_values, n) if weights is None else weights.apply
    if most_seeds is None and noise:
        return (yield from _one_seed_with_its_luck(n, weights))
    if most_seeds is None or most_seeds == 1:
        v = yield range(1 << n)
        nothing_left = {"coalitions": np.zeros((n, n))}
        return Estimate(values_of(v), parts=nothing_left, linear=values_of)
    v = yield [(0, 0), *((mask, seed) for seed in range(most_seeds) for mask in range(1, 1 << n))]

    def rows(v: Array) -> Array:
        """The tables of all seeds, by coalition; seeds are the second axis."""
        trained = v[1:].reshape(most_seeds, -1, *v.shape[1:])
        empty = np.broadcast_to(v[:1], (most_seeds, 1, *v.shape[1:]))
        return np.concatenate([empty, trained], axis=1).swapaxes(0, 1)

    values = values_of(rows(v))
    covariance = np.atleast_2d(np.cov(values)) / most_seeds
    return Estimate(
        values.mean(1),
        np.sqrt(np.diag(covariance)),
        np.full(n, most_seeds - 1.0),
        covariance=covariance,
        parts={"coalitions": np.zeros((n, n)), "training": covariance},
        linear=lambda v: values_of(rows(v).mean(1)),
        spread=lambda v: luck_between(rows(v).swapaxes(0, 1)),
    )


def _mean_table(n: int, most_seeds: int | None) -> Generator[Any, Array, Array]:
    """The utilities of all coalitions, of games with a few seeds their means; of any number of seeds those of the first."""
    if most_seeds is None or most_seeds == 1:
        return (yield range(1 << n))
    v = yield [(0, 0), *((mask, seed) for seed in range(most_seeds) for mask in range(1, 1 << n))]
    return np.append(v[0], v[1:].reshape(most_seeds, -1).mean(0))


def _one_seed_with_its_luck(n: int, weights: AnyWeights | None) -> Plan:
    again, everything = trained_again(n), 1 << n
    further = [(mask, seed) for seed in range(1, FURTHER_SEEDS + 1) for mask in again]
    v = yield [*((mask, 0) for mask in range(everything)), *further]
    table = v[:everything]
    rows = np.vstack([table[again], v[everything:].reshape(-1, len(again))])
    luck = luck_of_a_seed(n, float(v[0]), rows, weights)
    values_of = partial(shapley_values, n) if weights is None else weights.apply
    mean, nothing = values_of(table), np.zeros((n, n))

    def linear(v: Array) -> Array:
        return values_of(v[:everything])

    def spread(v: Array) -> Array:
        first, others = v[:everything][None, again], v[everything:].reshape(-1, len(again), v.shape[1])
        return luck_between(np.concatenate([first, others]))

    if luck is None:
        unknown = "How far the luck of training takes these values is not known: the model of luck could not be fitted."
        return Estimate(mean, linear=linear, parts={"coalitions": nothing}, notes=[unknown])
    covariance, dof = luck
    return Estimate(
        mean,
        np.sqrt(np.diag(covariance)),
        np.full(n, dof),
        covariance=covariance,
        parts={"coalitions": nothing, "training": covariance},
        linear=linear,
        spread=spread,
    )


def exact_cc(n: int, budget: int, rng: np.random.Generator) -> Plan:
    """CC-SV (Eq. 5): φ_i = Σ_{S∌i} [v(S∪i) − v(N∖(S∪i))] / (n·C(n−1,|S|))."""
    v = yield range(1 << n)
    weight = shapley_weights(n)[sizes(n - 1)]  # of S ∪ i, by the index of S among coalitions without i

    def values(v: Array) -> Array:
        contribution = v - v[::-1]  # the complement of bitmask m is 2**n − 1 − m
        with_i = (contribution.reshape(-1, 2, 1 << i, *v.shape[1:])[:, 1] for i in range(n))
        return np.array([total(weight.reshape(-1, 1 << i), part) for i, part in enumerate(with_i)])

    return Estimate(values(v), linear=values)


def exact_perm(n: int, budget: int, rng: np.random.Generator) -> Plan:
    """Perm-SV: the mean marginal contribution over all n! orders.

    A random order passes through S with chance 1/C(n,|S|) and then adds each of the others with chance
    1/(n − |S|), so the sum over orders is one over coalitions. Without reuse every order trains n models:
    `details["trainings_without_reuse"]` is that cost, the one in the paper's tables.
    """
    v = yield range(1 << n)
    through = np.array([1 / comb(n, s) / (n - s) for s in range(n)])
    return Estimate(
        weighted_marginals(n, v, through),
        details={"trainings_without_reuse": n * factorial(n)},
        linear=partial(weighted_marginals, n, weight_of_size=through),
    )
