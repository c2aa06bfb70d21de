"""Parts of an error that a run adds to an estimate: the method does not know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.by_size import AnyWeights
from fedvalue.values import Estimate

__all__ = ["with_luck_of_empty", "with_part", "with_replicates"]

Array = NDArray[np.float64]


def with_part(estimate: Estimate, name: str, part: Array) -> Estimate:
    """The part is added to what is known. Where the method knows no error of its own, there is no total."""
    parts = {**estimate.parts, name: part}
    before = estimate.covariance
    if before is None and estimate.stderr is not None:
        before = np.diag(np.square(estimate.stderr))
    if before is None and estimate.parts:
        before = np.sum(list(estimate.parts.values()), axis=0)
    if before is None:
        return replace(estimate, parts=parts)
    covariance = before + part
    return replace(
        estimate, parts=parts, covariance=covariance, stderr=np.sqrt(np.maximum(np.diag(covariance), 0.0))
    )


def with_replicates(
    estimate: Estimate, asks: Sequence[Sequence[Any]], known: Sequence[Mapping[int, float]]
) -> Estimate:
    """The estimate from means over replicates with the luck of training: how the values of single replicates differ.

    `known` are the utilities of each replicate, `asks` the coalitions that the plan asked for.
    """
    count = len(known)
    if count < 2 or estimate.linear is None or "training" in estimate.parts:
        return estimate
    utilities = np.array([[of_one[mask] for of_one in known] for ask in asks for mask in ask])
    values = estimate.linear(utilities)
    found = with_part(estimate, "training", np.atleast_2d(np.cov(values)) / count)
    freedom = np.full(len(values), count - 1.0)
    return replace(found, dof=freedom if estimate.dof is None else np.minimum(estimate.dof, freedom))


def with_luck_of_empty(estimate: Estimate, variance: float, weights: AnyWeights | None = None) -> Estimate:
    """The estimate with the error of a v(∅) that is a mean over seeds: an nth of it is in every Shapley value, in other
    weighted sums of utilities as much as they say."""
    if not variance or "training" not in estimate.parts or estimate.covariance is None:
        return estimate
    n = len(estimate.mean)
    share = np.full(n, 1 / n) if weights is None else weights.share
    more = variance * np.outer(share, share)
    covariance = estimate.covariance + more
    return replace(
        estimate,
        covariance=covariance,
        stderr=np.sqrt(np.diag(covariance)),
        parts={**estimate.parts, "training": estimate.parts["training"] + more},
    )
