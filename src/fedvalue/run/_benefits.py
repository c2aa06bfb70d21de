"""Values on the test rows of each client by itself: a matrix of what the data of each does for each.

Values are weighted sums of utilities, the same sums whichever test rows these are measured on. So nothing is trained for
them, and where the metric adds up over test rows, they add up to the values. Their errors come from the same three
sources: of coalitions that were not trained and of the luck of training, those of different rows of the matrix go together
as the utilities do; the test rows of different clients are different samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import Trial
from fedvalue.run._own_rows import OwnRows
from fedvalue.run._test_rows import Asked, of_test_rows, trainings_of
from fedvalue.values import NOT_TOLD, Benefits, Estimate

__all__ = ["benefits_of"]

Array = NDArray[np.float64]
_CLOSE = 1e-9


def benefits_of(
    estimate: Estimate,
    asks: Sequence[Sequence[int] | Sequence[Trial]],
    replicates: int,
    known: Mapping[int, Mapping[int, float]],
    own: OwnRows,
    names: Sequence[str],
) -> tuple[Benefits | None, list[str]]:
    """The matrix, and what has to be said about it; None where test rows are nobody's, or the method cannot tell.

    `known` are the utilities on all test rows, by seed and coalition; `estimate` knows of no errors from test rows yet.
    """
    if own.unknown:
        return None, [f"{NOT_TOLD}{own.unknown}"]
    if not own.parts:
        return None, []
    if estimate.linear is None:
        return None, [
            f"{NOT_TOLD}this method does not say how much each training counts in each value. exact and surrogate do."
        ]
    asked = list(trainings_of(asks, replicates))
    of_all = np.array([np.mean([known[seed][mask] for mask, seed in trials]) for trials in asked])
    of_parts = np.array([np.mean([own.utilities[trial] for trial in trials], axis=0) for trials in asked])
    matrix = np.asarray(estimate.linear(of_parts)).T
    parts = own.parts
    benefits = Benefits(
        matrix,
        tuple(names[part.client] for part in parts),
        tuple(names),
        tuple(part.rows for part in parts),
        np.array([part.weight for part in parts]),
        parts[0].adds_up,
    )
    apart = float(np.abs(estimate.linear(of_all) - estimate.mean).max())
    notes = []
    if apart > _CLOSE * max(1.0, float(np.abs(estimate.mean).max())):
        notes.append(
            "What the data of each client does for the others was computed from the trainings of this run alone; values "
            f"computed like that differ from those here by up to {apart:.2g}."
        )
    errors = _Errors.of(estimate, of_all, of_parts, asked, known, own)
    return _with_errors(benefits, errors, estimate.dof), notes


class _Errors(NamedTuple):
    """The covariance of the whole matrix. Of `shared`, each is a covariance of values by how it goes over rows;
    `by_row` are covariances of the values in a row that have nothing to do with other rows."""

    shared: list[tuple[Array, Array]]
    by_row: Array

    @classmethod
    def of(
        cls,
        estimate: Estimate,
        of_all: Array,
        of_parts: Array,
        asked: Asked,
        known: Mapping[int, Mapping[int, float]],
        own: OwnRows,
    ) -> _Errors | None:
        """None where some error of the values is known and cannot be carried over."""
        n, p = len(estimate.mean), of_parts.shape[1]
        assert estimate.linear is not None
        replicates = len(asked[0])
        told = [of_test_rows(estimate.linear, asked, own.told(place)) for place in range(p)]
        by_row = np.array([np.zeros((n, n)) if part is None else part for part in told])
        shared = []
        parts = {name: part for name, part in estimate.parts.items() if name != "test" and part.any()}
        if replicates > 1 and "training" in parts:
            shared.append((parts.pop("training"), _between_replicates(asked, known, own)))
        if parts:
            if estimate.spread is None:
                return None
            spread = estimate.spread(np.column_stack([of_all, of_parts]))
            if not spread[0, 0] > 0:
                return None
            over_rows = spread[1:, 1:] / spread[0, 0]
            # What was never seen to move may move all the same: by a test row in one of so many trainings.
            still = np.flatnonzero(np.diag(over_rows) == 0)
            rows = np.array([own.parts[place].rows for place in still])
            over_rows[still, still] = 1 / (np.square(rows) * len(asked) * of_all.var())
            shared.append((np.sum(list(parts.values()), axis=0), over_rows))
        if not shared and not by_row.any() and not estimate.parts:
            return None
        return cls(shared, by_row)

    def of_numbers(self) -> Array:
        """The standard error of every number."""
        variance = np.array([np.diag(part) for part in self.by_row])
        for covariance, over_rows in self.shared:
            variance = variance + np.outer(np.diag(over_rows), np.diag(covariance))
        errors: Array = np.sqrt(np.maximum(variance, 0.0))
        return errors

    def of_sum(self, weights: Array) -> float:
        """The standard error of a weighted sum of all numbers."""
        variance = float(np.einsum("ij,ijk,ik->", weights, self.by_row, weights))
        for covariance, over_rows in self.shared:
            variance += float(np.vdot(over_rows, weights @ covariance @ weights.T))
        return float(np.sqrt(max(variance, 0.0)))


def _between_replicates(asked: Asked, known: Mapping[int, Mapping[int, float]], own: OwnRows) -> Array:
    """How the luck of training on the rows of each client goes together with that on all rows, which has 1."""
    both = np.array([[[known[s][m], *own.utilities[m, s]] for m, s in trials] for trials in asked])
    apart = both - both.mean(1, keepdims=True)
    between = np.einsum("arp,arq->pq", apart, apart)
    scaled: Array = between[1:, 1:] / between[0, 0] if between[0, 0] > 0 else between[1:, 1:]
    return scaled


def _with_errors(benefits: Benefits, errors: _Errors | None, dof: Array | None) -> Benefits:
    if errors is None:
        return benefits
    place = {name: row for row, name in enumerate(benefits.owners)}
    given, gained = [], []
    for j, name in enumerate(benefits.names):
        gives, gains = np.zeros(benefits.matrix.shape), np.zeros(benefits.matrix.shape)
        gives[:, j] = benefits.weights
        if name in place:
            gives[place[name], j] = 0.0
            gains[place[name]] = benefits.weights[place[name]]
            gains[place[name], j] = 0.0
        given.append(gives)
        gained.append(gains)
    return Benefits(
        benefits.matrix,
        benefits.owners,
        benefits.names,
        benefits.rows,
        benefits.weights,
        benefits.adds_up,
        errors.of_numbers(),
        np.array([errors.of_sum(weights) for weights in given]),
        np.array([errors.of_sum(weights) for weights in gained]),
        np.array([errors.of_sum(a - b) for a, b in zip(given, gained, strict=True)]),
        None if dof is None or not np.isfinite(dof.min()) else float(dof.min()),
    )
