"""What the process is asked for, where that is not the Shapley values: any weighted sums of utilities.

The prior of a term is A(|S|, |T|)·W(S, T), and A depends on sizes alone. So the weights of a value are split by the size of
the coalition once, and with W summed over all coalitions that count; what is left for every choice of hyper-parameters is a
sum over sizes. That is as exact as the closed form of Shapley values, at the price of listing the coalitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.by_size import AnyWeights, BySize
from fedvalue.errors import MethodError
from fedvalue.estimators.surrogate._by_size_target import BySizeTarget
from fedvalue.estimators.surrogate._kernel import Coalitions
from fedvalue.estimators.surrogate._terms import Term, luck
from fedvalue.weights import Weights

__all__ = ["Target", "target_of"]

Array = NDArray[np.float64]

_MOST = 1 << 13  # coalitions that count: each with each is summed up
_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class ListedTarget:
    """Values that are weighted sums of utilities, as the process sees them; ∅ is left to others."""

    weights: Weights
    _sums: dict[int, tuple[Term, Array]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.weights.masks) > _MOST:
            raise MethodError(
                f"These values rest on {len(self.weights.masks):,} coalitions; the surrogate weighs at most {_MOST:,}. "
                "Put clients into fewer groups, or train all coalitions (exact)."
            )

    @property
    def slopes(self) -> Array:
        """See `BySizeTarget.slopes`: as in Shapley values, of which `Weights.like` makes a rough guess."""
        return np.ones(self.weights.n)

    @cached_property
    def coalitions(self) -> Coalitions:
        return Coalitions.of(
            self.weights.masks[1:], self.weights.n, np.zeros(len(self.weights.masks) - 1, np.intp)
        )

    @cached_property
    def _matrix(self) -> Array:
        return self.weights.matrix[:, 1:]

    @cached_property
    def _by_size(self) -> Array:
        """Weights by value and size (rows), and coalition."""
        n, rows = self.weights.n, self.weights.rows
        of_size = np.arange(1, n + 1)[:, None] == self.coalitions.size
        split: Array = (self._matrix[:, None] * of_size).reshape(rows * n, -1)
        return split

    def row(self, term: Term, profile: Array, a: Coalitions) -> Array:
        """Cov(value, v(T)) by one term: a row for each value, a column for each of the coalitions `a`."""
        shared = self._by_size @ term.likeness(self.coalitions, a)
        shared = shared.reshape(self.weights.rows, self.weights.n, len(a))
        found: Array = (shared * profile[:, a.size - 1]).sum(1)
        return found

    def prior(self, term: Term, profile: Array) -> Array:
        """Cov(value, value) by one term."""
        found: Array = np.einsum("isjt,st->ij", self._sum_of(term), profile)
        return found

    def _sum_of(self, term: Term) -> Array:
        """Σ weight·W(S, T)·weight by the sizes of S and T; terms are the same for all hyper-parameters."""
        if id(term) not in self._sums:
            shape = (self.weights.rows, self.weights.n)
            total = np.zeros((len(self._by_size), len(self._by_size)))
            for start in range(0, len(self.coalitions), _AT_ONCE):
                some = slice(start, start + _AT_ONCE)
                likeness = term.likeness(self.coalitions[some], self.coalitions)
                total += self._by_size[:, some] @ (likeness @ self._by_size.T)
            self._sums[id(term)] = term, total.reshape(*shape, *shape)
        return self._sums[id(term)][1]

    def nugget_rows(self, a: Coalitions, variance: Array) -> Array:
        """Cov(value, v(T)) by the nugget of v(T) alone."""
        place = {row.tobytes(): j for j, row in enumerate(self.coalitions.inside)}
        found = np.zeros((self.weights.rows, len(a)))
        for column, row in enumerate(a.inside):
            j = place.get(row.tobytes())
            if j is not None:
                found[:, column] = self._matrix[:, j] * variance[column]
        return found

    def nugget_prior(self, variance: Array) -> Array:
        """Cov(value, value) by nuggets alone, `variance` being that of sizes 1..n."""
        found: Array = (self._matrix * variance[self.coalitions.size - 1]) @ self._matrix.T
        return found

    def luck(self, q: Array) -> Array:
        """Cov(value, value) by the luck of one seed with which all coalitions are trained."""
        log_size = np.log(np.arange(1, self.weights.n + 1))
        parts = luck(self.weights.n)
        by_part = [self.prior(part, part.profile(q, log_size, log_size, False)[0]) for part in parts]
        found: Array = np.sum(by_part, axis=0)
        return found


Target: TypeAlias = ListedTarget | BySizeTarget


def target_of(weights: AnyWeights) -> Target:
    """The target for these weights: in closed form where they depend on sizes alone."""
    return BySizeTarget(weights) if isinstance(weights, BySize) else ListedTarget(weights)
