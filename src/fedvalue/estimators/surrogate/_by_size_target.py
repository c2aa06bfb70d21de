"""Semivalues of the process in closed form, for any number of clients.

Let L(s) be the mean utility of the coalitions of size s, a_i(s) the first-order coefficients as in `surrogate`, and w_s how much
size s counts. What client i adds to s others is, in the mean over them,

    L(s + 1) − L(s) + [(n − s − 1)·a_i(s + 1) + s·a_i(s)] / (n − 1)

Sorted by size, with w_{−1} = w_n = 0, that is

    φ_i = Σ_s (w_{s−1} − w_s)·L(s) + Σ_{0<s<n} [(n − s)·w_{s−1} + s·w_s]·a_i(s) / (n − 1)

Where every size counts the same, only L(n) and L(0) are left of the first sum: Shapley values know nothing of the others. They are what
`Level` tells, for semivalues in which sizes count differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedvalue.by_size import BySize
from fedvalue.estimators.surrogate._kernel import (
    Coalitions,
    luck_level_profile,
    luck_who_profile,
    noise_profile,
    nugget_prior,
    nugget_rows,
)
from fedvalue.estimators.surrogate._terms import Term

__all__ = ["BySizeTarget"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BySizeTarget:
    """A semivalue as the process sees it; ∅ is left to others."""

    weights: BySize

    @cached_property
    def slopes(self) -> Array:
        """How much a_i(s) counts, s = 1..n, by what it counts in a Shapley value, 1/(n − 1)."""
        n, chance = self.weights.n, self.weights.chance
        size = np.arange(1, n)
        counts: Array = np.append((n - size) * chance[:-1] + size * chance[1:], 0.0)
        return counts

    @cached_property
    def _steps(self) -> Array:
        """How much L(s) counts, s = 1..n."""
        steps: Array = -np.diff(self.weights.chance, append=0.0)
        return steps

    def row(self, term: Term, profile: Array, a: Coalitions) -> Array:
        """Cov(value, v(T)) by one term: a row for each client, a column for each of the coalitions `a`."""
        found: Array = (self.slopes * term.weight @ profile)[a.size - 1] * term.direction(a)
        if term.level is not None:
            found += (self._steps * term.level.of_size @ profile)[a.size - 1] * term.level.of(a)
        return found

    def prior(self, term: Term, profile: Array) -> Array:
        """Cov(value, value) by one term."""
        slope = self.slopes * term.weight
        found: Array = float(slope @ profile @ slope) * term.prior
        if term.level is not None:
            step = self._steps * term.level.of_size
            tilt = float(slope @ profile @ step) * np.broadcast_to(term.level.tilt, len(found))
            found = found + float(step @ profile @ step) + np.add.outer(tilt, tilt)
        return found

    def nugget_rows(self, a: Coalitions, variance: Array) -> Array:
        """Cov(value, v(T)) by the nugget of v(T) alone."""
        return nugget_rows(a, variance, self.weights.of_coalition)

    def nugget_prior(self, variance: Array) -> Array:
        """Cov(value, value) by nuggets alone, `variance` being that of sizes 1..n."""
        return nugget_prior(self.weights.n, variance, self.weights)

    def level(self, utilities: Mapping[int, float]) -> float | None:
        """The mean of all values if the mean utility of a size, where none was seen, is on a smooth monotone curve between those
        next to it; None where that is not known. It takes nothing from the process: a second opinion.
        """
        from scipy.interpolate import PchipInterpolator

        of_size: dict[int, list[float]] = {}
        for mask, utility in utilities.items():
            of_size.setdefault(mask.bit_count(), []).append(utility)
        empty = float(np.mean(of_size.pop(0, [np.nan])))
        seen = sorted(of_size)
        if len(seen) < 3 or np.isnan(empty):
            return None
        curve = PchipInterpolator(seen, [np.mean(of_size[size]) for size in seen])
        between = curve(np.clip(np.arange(1, self.weights.n + 1), seen[0], seen[-1]))
        return float(self._steps @ between - self.weights.chance[0] * empty)

    def luck(self, q: Array) -> Array:
        """Cov(value, value) by the luck of one seed with which all coalitions are trained."""
        n = self.weights.n
        log_size = np.log(np.arange(1, n + 1))
        level, who, noise = (
            profile(q, log_size, log_size, False)[0]
            for profile in (luck_level_profile, luck_who_profile, noise_profile)
        )
        slope = self.slopes / (n - 1)
        of_clients = float(slope @ who @ slope) * (np.eye(n) - 1 / n)
        return float(self._steps @ level @ self._steps) + of_clients + self.nugget_prior(np.diag(noise))
