"""What follows from the errors of values: intervals, who is ahead of whom, and what more trainings would gain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fedvalue.values._values import Values

__all__ = ["expected_gain", "interval", "probability_order"]


def interval(values: Values, level: float) -> NDArray[np.float64] | None:
    """See `Values.interval`."""
    if values.stderr is None:
        return None
    from scipy.special import ndtri, stdtrit

    upper_tail = 0.5 + level / 2
    quantile = ndtri(upper_tail) if values.dof is None else stdtrit(values.dof, upper_tail)
    half_width = quantile * values.stderr
    return np.column_stack([values.mean - half_width, values.mean + half_width])


def probability_order(values: Values, first: int, second: int) -> float | None:
    """See `Values.probability_order`."""
    from scipy.special import ndtr, stdtr

    ahead = float(values.mean[first] - values.mean[second])
    if values.covariance is None and (values.guarantee != "exact" or values.random):
        return None
    c = np.zeros((values.n, values.n)) if values.covariance is None else values.covariance
    variance = float(c[first, first] + c[second, second] - 2 * c[first, second])
    if first == second or (variance <= 0 and ahead == 0):
        return 0.5
    if variance <= 0:
        return float(ahead > 0)
    dof = math.inf if values.dof is None else float(min(values.dof[first], values.dof[second]))
    distance = ahead / math.sqrt(variance)
    return float(stdtr(dof, distance) if math.isfinite(dof) else ndtr(distance))


def expected_gain(values: Values, k: int) -> float | None:
    """See `Values.expected_gain`."""
    if values.stderr is None:
        return None
    foreseen = min(k, len(values.forecast))
    remaining = 1 - values.forecast[foreseen - 1] if foreseen else 1.0
    done = values.evaluations + foreseen
    if not done:
        return 0.0
    remaining *= math.sqrt(done / (done + k - foreseen))
    widest = int(values.stderr.argmax())
    rows, total = values.errors["test"], float(values.stderr[widest]) ** 2
    if rows is None or total == 0:
        return float(1 - remaining)
    fixed = min(float(rows[widest]) ** 2 / total, 1.0)
    return float(1 - math.sqrt(fixed + (1 - fixed) * remaining**2))
