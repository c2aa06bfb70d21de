"""The prior of the surrogate with given hyper-parameters: covariances of utilities and of Shapley values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.estimators.surrogate._kernel import Coalitions, nugget, nugget_prior, nugget_rows
from fedvalue.estimators.surrogate._target import Target
from fedvalue.estimators.surrogate._terms import Term

__all__ = ["Prior", "UnfitError", "at_hand", "cholesky", "half_solve", "inverse", "solve"]

Array = NDArray[np.float64]

_ROWS = 512  # of a kernel matrix that are built at a time, to keep temporary memory small


class UnfitError(Exception):
    """The data cannot be fitted; the caller falls back to something simpler."""


def at_hand(parts: list[Term], coalitions: Coalitions) -> list[Term]:
    """The same terms with what does not depend on hyper-parameters computed once; where that would fill memory, as they are."""
    if len(coalitions) > _ROWS:
        return parts
    return [_at_hand(part, coalitions) for part in parts]


def _at_hand(part: Term, coalitions: Coalitions) -> Term:
    likeness, direction = part.likeness(coalitions, coalitions), part.direction(coalitions)
    return replace(
        part,
        likeness=lambda a, b: likeness if a is b is coalitions else part.likeness(a, b),
        direction=lambda a: direction if a is coalitions else part.direction(a),
    )


@dataclass(frozen=True)
class Prior:
    """The Gaussian process with given hyper-parameters: covariances of utilities and of Shapley values.

    With a `target` its values take the place of the Shapley values.
    """

    parts: list[Term]
    q: Array
    n: int
    target: Target | None = None

    @cached_property
    def _log_sizes(self) -> Array:
        return np.log(np.arange(1, self.n + 1))

    @cached_property
    def _profiles(self) -> list[Array]:
        return [part.profile(self.q, self._log_sizes, self._log_sizes, False)[0] for part in self.parts]

    @cached_property
    def _nugget(self) -> Array:
        return nugget(self.q, self._log_sizes)[0]

    def between(self, a: Coalitions, b: Coalitions) -> Array:
        """Cov(v(S), v(T)) without nuggets, row block by row block: 7,000 points fill 400 MB once, not thrice."""
        kernel = np.zeros((len(a), len(b)))
        for start in range(0, len(a), _ROWS):
            block = slice(start, start + _ROWS)
            some = a if len(a) <= _ROWS else a[block]
            for part, profile in zip(self.parts, self._profiles, strict=True):
                kernel[block] += profile[np.ix_(some.size - 1, b.size - 1)] * part.likeness(some, b)
        return kernel

    def utilities(self, a: Coalitions) -> Array:
        """Cov(v(S), v(T)) among distinct coalitions, nuggets included."""
        kernel = self.between(a, a)
        variance = self._nugget[a.size - 1] + nugget(self.q, self._log_sizes)[2]
        if a.seed is None:
            kernel[np.diag_indices(len(a))] += variance
        else:
            kernel += variance * a.same(a)
            kernel[np.diag_indices(len(a))] += nugget(self.q, self._log_sizes)[2]
        return kernel

    def rows(self, a: Coalitions) -> Array:
        """Cov(φ_i, v(T)): a row per client."""
        if self.target is not None:
            rows = self.target.nugget_rows(a, self._nugget[a.size - 1])
            for part, profile in self._of_values():
                rows += self.target.row(part, profile, a)
            return rows
        rows = nugget_rows(a, self._nugget[a.size - 1])
        for part, profile in zip(self.parts, self._profiles, strict=True):
            rows += (part.weight @ profile)[a.size - 1] * part.direction(a)
        return rows

    def values(self) -> Array:
        """Cov(φ_i, φ_j)."""
        if self.target is not None:
            total = self.target.nugget_prior(self._nugget)
            for part, profile in self._of_values():
                total += self.target.prior(part, profile)
            return total
        total = nugget_prior(self.n, self._nugget)
        for part, profile in zip(self.parts, self._profiles, strict=True):
            total += float(part.weight @ profile @ part.weight) * part.prior
        return total

    def _of_values(self) -> list[tuple[Term, Array]]:
        """Terms of utilities as they are expected, and their profiles: luck is no part of values."""
        return [pair for pair in zip(self.parts, self._profiles, strict=True) if not pair[0].is_luck]

    def given(self, known: Coalitions, more: Coalitions) -> tuple[Array, Array, Array]:
        """Cov(v(S), v(T)), Cov(φ, v(T)) among more coalitions, and Var(φ), once the known ones are observed."""
        factor = cholesky(self.utilities(known))
        shared = self.between(known, more)
        if known.seed is not None:  # some may be further trainings of a known coalition
            shared += self._nugget[more.size - 1] * known.same(more)
        explained = half_solve(factor, shared)
        of_values = half_solve(factor, self.rows(known).T)
        return (
            self.utilities(more) - explained.T @ explained,
            self.rows(more) - of_values.T @ explained,
            np.diag(self.values()) - (of_values**2).sum(0),
        )


def _lapack(name: str) -> Callable[..., Any]:
    from scipy.linalg import lapack

    function: Callable[..., Any] = getattr(lapack, name)
    return function


def cholesky(kernel: Array) -> Array:
    """The lower Cholesky factor, in the place of the kernel."""
    factor, info = _lapack("dpotrf")(kernel.T, lower=1, overwrite_a=1)
    if info:
        raise UnfitError
    lower: Array = factor
    return lower


def inverse(factor: Array) -> Array:
    inverse, info = _lapack("dpotri")(factor, lower=1)
    if info:
        raise UnfitError
    lower = np.tril(inverse)
    full: Array = lower + lower.T - np.diag(np.diag(lower))
    return full


def solve(factor: Array, right: Array) -> Array:
    solution: Array = _lapack("dpotrs")(factor, right, lower=1)[0]
    return solution


def half_solve(factor: Array, right: Array) -> Array:
    solution: Array = _lapack("dtrtrs")(factor, right, lower=1)[0]
    return solution
