"""Numbers to places on a chart, and the round numbers beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["Scale", "core_range", "ticks"]

_CORE = (0.025, 0.975)


class Scale:
    """Numbers to places between 0 and `length`, straight or by their logarithms.

    >>> Scale(0.0, 10.0)(2.5), Scale(1.0, 100.0, log=True)(10.0)
    (25.0, 50.0)
    """

    def __init__(self, low: float, high: float, length: float = 100.0, log: bool = False) -> None:
        self.of = math.log if log else float
        self.low, self.high = self.of(low), self.of(high)
        self.length = length

    def __call__(self, number: float) -> float:
        width = self.high - self.low
        return round(self.length * (self.of(number) - self.low) / width, 2) if width else self.length / 2


def core_range(numbers: Sequence[float], inside: Sequence[float]) -> tuple[float, float]:
    """From the lowest to the highest number, unless a few far ones would squeeze all others: then without those.

    >>> core_range([0.0, 1.0, 2.0], [0.0]), core_range([0.0, 1.0] * 50 + [-99.0], [0.0])
    ((0.0, 2.0), (0.0, 1.0))
    """
    whole = min(*numbers, *inside), max(*numbers, *inside)
    low, high = (float(x) for x in np.quantile(numbers, _CORE))
    core = min(low, *inside, high), max(low, *inside, high)
    return core if core[1] - core[0] < (whole[1] - whole[0]) / 2 else whole


def ticks(low: float, high: float, most: int, whole: bool = False) -> list[float]:
    """Round numbers within a range, at most so many.

    >>> ticks(0.0, 1.0, 5), ticks(0, 10, 6, whole=True)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])
    """
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    steps = (step * power for step in (1, 2, 2.5, 5, 10, 20, 25, 50, 100))
    fitting = (step for step in steps if not whole or (step >= 1 and step == int(step)))
    step = next(step for step in fitting if math.floor(high / step) - math.ceil(low / step) < most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]
