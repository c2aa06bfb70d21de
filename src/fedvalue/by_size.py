"""Semivalues: means of contributions with a weight for every size of the coalition that is joined (Dubey, Neyman and Weber 1981).

The Shapley value is the one in which every size counts the same. Here are these means for tables of all 2^n utilities, and what a
semivalue asks of utilities for any number of clients.

>>> table = np.array([0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96])
>>> BySize(3, np.array([0.0, 0.0, 1.0])).apply(table).round(3).tolist()
[0.06, 0.06, 0.16]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import layer, membership, shapley_weights
from fedvalue.weights import Weights

__all__ = ["AnyWeights", "BySize", "shapley_values", "signed_weights", "sizes", "total", "weighted_marginals"]

Array: TypeAlias = "NDArray[np.float64]"


@dataclass(frozen=True, eq=False)
class BySize:
    """Values φ_i = Σ_s chance_s · (mean of v(S∪i) − v(S) over the coalitions S of s others); the chances add up to 1.

    It offers what `Weights` do and lists coalitions only where it is asked to, so that n may be large.
    """

    n: int
    chance: Array

    @property
    def rows(self) -> int:
        """How many values."""
        return self.n

    @property
    def like(self) -> Array:
        """Each value is of one client."""
        return np.eye(self.n)

    @property
    def share(self) -> Array:
        """How much of v(∅) is taken off each value."""
        return np.full(self.n, self.chance[0])

    @property
    def adds_up(self) -> bool:
        """Whether the values are parts of v(N) − v(∅): those in which all sizes count the same, Shapley's."""
        return bool(np.ptp(self.chance) < 1e-9 / self.n)

    @cached_property
    def of_coalition(self) -> Array:
        """How much a contribution to a single coalition of s = 0..n−1 others counts."""
        weights: Array = self.chance * self.n * shapley_weights(self.n)
        return weights

    @property
    def masks(self) -> tuple[int, ...]:
        """The coalitions that count, ∅ first."""
        return (0, *(mask for size in self._sizes if size for mask in layer(self.n, size)))

    def known_in(self, known: Collection[int]) -> bool:
        """Whether all that count are among these, ∅ included; none are listed for that."""
        there = Counter(mask.bit_count() for mask in known)
        return all(there[size] == comb(self.n, size) for size in {0, *self._sizes})

    def apply(self, table: Array) -> Array:
        """The values, from utilities of all 2^n coalitions by bitmask; further axes are further tables."""
        return weighted_marginals(self.n, table, self.of_coalition)

    def of(self, utilities: Mapping[int, float]) -> Array:
        """The values, from utilities of all coalitions that count."""
        masks = self.masks
        signed = signed_weights(membership(masks, self.n), self.of_coalition)
        values: Array = np.array([utilities[mask] for mask in masks]) @ signed
        return values

    @property
    def _sizes(self) -> list[int]:
        """Of the coalitions that count: those that are joined, and those that result."""
        return [
            size for size in range(self.n + 1) if self.chance[max(size - 1, 0) : size + 1].any()
        ]  # fmt: skip


AnyWeights: TypeAlias = Weights | BySize


def signed_weights(inside: NDArray[np.bool_] | Array, of_coalition: Array) -> Array:
    """How much utilities count in values by size, a row for each coalition and a column for each client."""
    size, weight = inside.sum(1).astype(np.intp), np.append(of_coalition, 0.0)
    signed: Array = np.where(inside > 0, weight[size - 1][:, None], -weight[size][:, None])
    return signed


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
