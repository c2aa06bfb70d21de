"""Weighted sums of utilities from what was trained: exactly where all coalitions that count are known, else by the surrogate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.by_size import AnyWeights
from fedvalue.coalitions import Trial, full_mask
from fedvalue.errors import InputError
from fedvalue.estimators import weighted_values
from fedvalue.values import Values

__all__ = ["EXACT", "MODEL", "Sums", "Trained", "sums"]

Array: TypeAlias = "NDArray[np.float64]"
EXACT, MODEL = "exact", "surrogate"


@dataclass(frozen=True)
class Trained:
    """Utilities of coalitions, one for each replicate or seed, and the numbers of these."""

    utilities: Mapping[int, Sequence[float]]
    seeds: Mapping[int, Sequence[int]] | None = None

    def tables(self, masks: Sequence[int]) -> list[dict[int, float]] | None:
        """The utilities of these coalitions with every seed or replicate; None where not all have the same ones.

        ∅ is not trained: where it was evaluated less often, its mean counts.
        """
        if any(mask not in self.utilities for mask in masks):
            return None
        numbers = {mask: tuple(self._numbers(mask)) for mask in masks if mask}
        if len({tuple(sorted(of)) for of in numbers.values()}) > 1:
            return None
        order = sorted(next(iter(numbers.values()), (0,)))
        empty = self.utilities.get(0, (0.0,))
        each = empty if len(empty) == len(order) else [float(np.mean(empty))] * len(order)
        by_number = [
            {mask: float(self.utilities[mask][of.index(number)]) for mask, of in numbers.items()}
            for number in order
        ]
        return [{0: float(none), **table} for none, table in zip(each, by_number, strict=True)]

    def trials(self, several: bool) -> dict[Trial, float]:
        """What the surrogate learns from: single trainings, or means over replicates."""
        if several:
            found = {
                (mask, number): float(utility)
                for mask, of in self.utilities.items()
                if mask
                for number, utility in zip(self._numbers(mask), of, strict=True)
            }
            first = min(number for _, number in found)
            return {(0, first): float(np.mean(self.utilities[0])), **found}
        return {(mask, 0): float(np.mean(of)) for mask, of in self.utilities.items()}

    def _numbers(self, mask: int) -> Sequence[int]:
        return range(len(self.utilities[mask])) if self.seeds is None else self.seeds[mask]


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums, and what is known of their errors: `covariance` by its `parts`, None where nothing is, on `dof` degrees of
    freedom.
    """

    mean: Array
    covariance: Array | None
    parts: Mapping[str, Array]
    source: str
    dof: float = math.inf

    def half_widths(self) -> Array | None:
        """How far a 95% interval reaches to either side."""
        from scipy.special import ndtri, stdtrit

        if self.covariance is None:
            return None
        quantile = stdtrit(self.dof, 0.975) if math.isfinite(self.dof) else ndtri(0.975)
        reach: Array = quantile * np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))
        return reach


def sums(values: Values, trained: Trained, weights: AnyWeights) -> Sums:
    """The weighted sums of the game that the values are of."""
    tables = trained.tables(weights.masks) if weights.known_in(trained.utilities) else None
    if tables is not None and (values.seeds == 1 or len(tables) >= values.seeds):
        of_tables = np.array([weights.of(table) for table in tables])
        mean = of_tables.mean(0)
        if len(tables) == 1:
            return Sums(mean, None, {}, EXACT)
        covariance = np.atleast_2d(np.cov(of_tables, rowvar=False)) / len(tables)
        return Sums(mean, covariance, {"training": covariance}, EXACT, len(tables) - 1.0)
    if not {0, full_mask(values.n)} <= trained.utilities.keys():
        raise InputError(
            "This takes the utility without any client and that of all clients, which were not both trained."
        )
    found = weighted_values(values.n, trained.trials(values.seeds > 1), weights)
    dof = math.inf if found.dof is None else float(found.dof.min())
    return Sums(found.mean, found.covariance, found.parts, MODEL, dof)
