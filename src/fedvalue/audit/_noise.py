"""Training noise: how far exact values would move with other random numbers.

Noise of trainings is not independent between coalitions: one client's unlucky start is unlucky wherever the
client takes part. So it is not computed from the noise of single utilities but seen in the values themselves,
from replicate to replicate.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedvalue.audit._known import Array, Known
from fedvalue.coalitions import shapley_weights

__all__ = ["Spread", "repeats", "single_noise", "spread_of_values", "value_weights", "without_one"]

_LARGEST = 16  # clients: n × 2^n weights fit into memory
_FEWEST = 5  # clients whose values can stand for a distribution
_TRIMMED = 1.36  # a normal sample without its lowest quarter: deviation of the whole over that of the rest
_TRIMMED_DOF = 0.75  # for each further value of the rest; simulated, keeps the level for 5 to 100 clients


@dataclass(frozen=True)
class Spread:
    """How far one exact value moves by training noise: `error`, on `dof` degrees of freedom.

    `runs` are the values of each replicate (columns). Without replicates it is an upper bound: all that clients
    differ by, the lowest quarter left out.
    """

    error: float
    dof: float
    runs: Array | None


def repeats(known: Known) -> int:
    """How many trainings with several seeds are of coalitions that were trained before with another one."""
    return sum(len(utilities) - 1 for utilities in _trained_again(known))


def _trained_again(known: Known) -> list[Array]:
    return [known.mean[rows] for mask in set(known.masks) if len(rows := known.rows(mask)) > 1 and mask]


def single_noise(known: Known) -> float | None:
    """Standard deviation of one training of a coalition; None where none was trained again."""
    if known.seeds.any():
        freedom = repeats(known)
        squares = sum(float(utilities.var()) * len(utilities) for utilities in _trained_again(known))
        return float(np.sqrt(squares / freedom)) if freedom else None
    trained = known.runs[known.size > 0]
    if known.replicates < 2 or not len(trained):
        return None
    return float(np.sqrt(trained.var(axis=1, ddof=1).mean()))


def spread_of_values(
    known: Known, mean: Array, weights: Array | None, distinct: Collection[int]
) -> Spread | None:
    """For exact values. `distinct` are clients with trainings of their own: no copies, none without effect."""
    who = sorted(distinct)
    if weights is not None and known.replicates > 1 and who:
        runs = weights @ known.runs
        pooled = float(runs[who].var(axis=1, ddof=1).mean())
        dof = (known.replicates - 1) * max(1, len(who) - 1)
        return Spread(float(np.sqrt(pooled / known.replicates)), float(dof), runs)
    if len(who) < _FEWEST:
        return None
    kept = np.sort(mean[who])[len(who) // 4 :]
    return Spread(_TRIMMED * float(kept.std(ddof=1)), _TRIMMED_DOF * (len(kept) - 1), None)


def value_weights(known: Known) -> Array | None:
    """Exact values as sums over coalitions, φ = W·v (Eq. 4 as a matrix); None where that is too much to hold."""
    return _weights(known.inside) if known.complete and known.n <= _LARGEST else None


def without_one(known: Known, j: int) -> Array:
    """Everyone's value in the game without client j; that of j itself is 0."""
    absent, others = ~known.inside[:, j], np.arange(known.n) != j
    values = np.zeros(known.n)
    values[others] = _weights(known.inside[np.ix_(absent, others)]) @ known.mean[absent]
    return values


def _weights(inside: NDArray[np.bool_]) -> Array:
    weight = np.append(shapley_weights(inside.shape[1]), 0.0)
    size = inside.sum(axis=1)
    found: Array = np.where(inside.T, weight[size - 1], -weight[size])
    return found
