"""The Shapley values of tables of utilities: sums over all coalitions at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import shapley_weights

__all__ = ["shapley_values", "sizes", "total", "weighted_marginals"]

Array = NDArray[np.float64]


def shapley_values(n: int, v: Array) -> Array:
    """The Shapley values of a table of all 2**n utilities, by bitmask; further axes are further tables.

    >>> shapley_values(2, np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 2.0], [4.0, 4.0]])).tolist()
    [[1.5, 2.0], [2.5, 2.0]]
    """
    return weighted_marginals(n, v, shapley_weights(n))


def weighted_marginals(n: int, v: Array, weight_of_size: Array) -> Array:
    """Σ_{S∌i} weight(|S|)·[v(S∪i) − v(S)] for every i, on the whole table at once."""
    weight = weight_of_size[sizes(n - 1)]
    phi = np.empty((n, *v.shape[1:]))
    for i in range(n):
        halves = v.reshape(-1, 2, 1 << i, *v.shape[1:])  # axis 1: without and with client i
        phi[i] = total(weight.reshape(-1, 1 << i), halves[:, 1] - halves[:, 0])
    return phi


def total(weight: Array, of_coalitions: Array) -> Array:
    """The weighted sum over coalitions, which are laid out along the first two axes."""
    total: Array = np.tensordot(weight, of_coalitions, axes=2)
    return total


def sizes(n: int) -> NDArray[np.int8]:
    """|S| of all 2**n coalitions in bitmask order."""
    sizes = np.zeros(1, dtype=np.int8)
    for _ in range(n):
        sizes = np.concatenate([sizes, sizes + 1])
    return sizes
