"""What is certain about values before anything is trained, put into an estimate.

A client without data changes no coalition: its value is 0. Clients with the same data can stand in for each other: their
values are equal. An estimate whose errors are known jointly is conditioned on that, as any normal vector is on linear
equations; what it says about the other clients moves along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedvalue.values import Estimate
from fedvalue.weights import Blocks

__all__ = ["conditioned", "interchangeable"]

Array = NDArray[np.float64]


def conditioned(
    estimate: Estimate, idle: Sequence[int], alike: Sequence[Sequence[int]], *, sum_is_known: bool = False
) -> Estimate:
    """The estimate, given that `idle` clients are worth nothing and those of a group that is `alike` the same.

    With `sum_is_known` its values already add up to what they must, and still do.

    >>> found = conditioned(Estimate(np.array([3.0, 1.0, 0.5]), covariance=np.eye(3)), [2], [(0, 1)])
    >>> found.mean.tolist(), found.covariance.diagonal().tolist()
    ([2.0, 2.0, 0.0], [0.5, 0.5, 0.0])
    """
    equations = _equations(len(estimate.mean), idle, alike)
    if estimate.covariance is None or not estimate.covariance.any() or not len(equations):
        return estimate
    known = np.vstack([equations, np.ones(len(estimate.mean))]) if sum_is_known else equations
    # A pseudo-inverse: what an estimate already keeps to has no variance left to divide by.
    gain = estimate.covariance @ known.T @ np.linalg.pinv(known @ estimate.covariance @ known.T)
    keep = _exactly(np.eye(len(estimate.mean)) - gain[:, : len(equations)] @ equations, idle, alike)
    covariance = keep @ estimate.covariance @ keep.T
    linear = estimate.linear
    return replace(
        estimate,
        mean=keep @ estimate.mean,
        covariance=covariance,
        stderr=np.sqrt(np.maximum(np.diag(covariance), 0.0)),
        parts={name: keep @ part @ keep.T for name, part in estimate.parts.items()},
        linear=None if linear is None else lambda utilities: np.tensordot(keep, linear(utilities), axes=1),
    )


def interchangeable(alike: Sequence[Sequence[int]], blocks: Blocks) -> list[tuple[int, ...]]:
    """Clients with the same data whose values are the same also in groups: members of one group, or of none.

    >>> interchangeable([(0, 1, 2, 3)], ((0, 1), (2,), (3,)))
    [(0, 1), (2, 3)]
    """
    block_of = {i: block if len(block) > 1 else () for block in blocks for i in block}
    found: list[tuple[int, ...]] = []
    for group in alike:
        parts: dict[tuple[int, ...], list[int]] = {}
        for i in group:
            parts.setdefault(block_of[i], []).append(i)
        found += [tuple(part) for part in parts.values() if len(part) > 1]
    return found


def _equations(n: int, idle: Sequence[int], alike: Sequence[Sequence[int]]) -> Array:
    """One row for each thing that is certain: this weighted sum of values is 0."""
    one = np.eye(n)
    return np.array(
        [*(one[i] for i in idle), *(one[group[0]] - one[i] for group in alike for i in group[1:])]
    )


def _exactly(keep: Array, idle: Sequence[int], alike: Sequence[Sequence[int]]) -> Array:
    """The same matrix without its rounding: equal values are equal to the last bit, and nothing is 0."""
    for i in idle:
        keep[i] = 0.0
    for group in alike:
        keep[list(group)] = keep[list(group)].mean(0)
    return keep
