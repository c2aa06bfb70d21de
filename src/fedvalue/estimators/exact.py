"""The exact Shapley value, by all three formulas (Eq. 4, Eq. 5 and the mean over all orders)."""

from __future__ import annotations

from functools import partial
from math import comb, factorial

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import shapley_weights
from fedvalue.estimators._plan import Plan
from fedvalue.values import Estimate

__all__ = ["exact_cc", "exact_mc", "exact_perm", "shapley_values"]


def exact_mc(n: int, budget: int, rng: np.random.Generator, *, most_seeds: int | None = 1) -> Plan:
    """MC-SV (Eq. 4): φ_i = Σ_{S∌i} [v(S∪i) − v(S)] / (n·C(n−1,|S|)).

    Of a game with a few seeds (`most_seeds`), the mean of the values of all seeds, with the error that luck leaves in it.
    """
    if not most_seeds or most_seeds == 1:
        v = yield range(1 << n)
        nothing_left = {"coalitions": np.zeros((n, n))}
        return Estimate(shapley_values(n, v), parts=nothing_left, linear=partial(shapley_values, n))
    v = yield [(0, 0), *((mask, seed) for seed in range(most_seeds) for mask in range(1, 1 << n))]
    rows = v[1:].reshape(most_seeds, -1)
    values = np.array([shapley_values(n, np.concatenate([v[:1], row])) for row in rows])
    covariance = np.atleast_2d(np.cov(values, rowvar=False)) / most_seeds
    luck = np.sqrt(np.diag(covariance))
    dof = np.full(n, most_seeds - 1.0)
    parts = {"coalitions": np.zeros((n, n)), "training": covariance}
    return Estimate(values.mean(0), luck, dof, covariance=covariance, parts=parts)


def shapley_values(n: int, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Shapley values of a table of all 2**n utilities, by bitmask; further axes are further tables."""
    return _weighted_marginals(n, v, shapley_weights(n))


def exact_cc(n: int, budget: int, rng: np.random.Generator) -> Plan:
    """CC-SV (Eq. 5): φ_i = Σ_{S∌i} [v(S∪i) − v(N∖(S∪i))] / (n·C(n−1,|S|))."""
    v = yield range(1 << n)
    weight = shapley_weights(n)[_sizes(n - 1)]  # of S ∪ i, by the index of S among coalitions without i
    contribution = v - v[::-1]  # the complement of bitmask m is 2**n − 1 − m
    phi = [np.vdot(contribution.reshape(-1, 2, 1 << i)[:, 1], weight.reshape(-1, 1 << i)) for i in range(n)]
    return Estimate(np.array(phi))


def exact_perm(n: int, budget: int, rng: np.random.Generator) -> Plan:
    """Perm-SV: the mean marginal contribution over all n! orders.

    A random order passes through S with chance 1/C(n,|S|) and then adds each of the others with chance
    1/(n − |S|), so the sum over orders is one over coalitions. Without reuse every order trains n models:
    `details["trainings_without_reuse"]` is that cost, the one in the paper's tables.
    """
    v = yield range(1 << n)
    through = np.array([1 / comb(n, s) / (n - s) for s in range(n)])
    return Estimate(
        _weighted_marginals(n, v, through),
        details={"trainings_without_reuse": n * factorial(n)},
    )


def _weighted_marginals(
    n: int, v: NDArray[np.float64], weight_of_size: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Σ_{S∌i} weight(|S|)·[v(S∪i) − v(S)] for every i, on the whole table at once."""
    weight = weight_of_size[_sizes(n - 1)]
    phi = np.empty((n, *v.shape[1:]))
    for i in range(n):
        halves = v.reshape(-1, 2, 1 << i, *v.shape[1:])  # axis 1: without and with client i
        gains = (halves[:, 1] - halves[:, 0]).reshape(len(weight), *([-1] if v.ndim > 1 else []))
        phi[i] = np.dot(weight, gains).reshape(v.shape[1:])
    return phi


def _sizes(n: int) -> NDArray[np.int8]:
    """|S| of all 2**n coalitions in bitmask order."""
    sizes = np.zeros(1, dtype=np.int8)
    for _ in range(n):
        sizes = np.concatenate([sizes, sizes + 1])
    return sizes
