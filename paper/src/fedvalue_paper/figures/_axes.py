"""Axes: their scale, their range, their ticks and the numbers on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from fedvalue_paper.figures._rows import Spread
from fedvalue_paper.figures.words import number_text

__all__ = ["LINEAR", "AxisRange", "Scale", "fit_range", "fit_scale", "log_ticks", "shareable"]

# An exact method's error is 0 up to rounding: beside real errors it must not stretch the axis to 1e-17.
_ROUNDING = 1e-12
_GAP = 100.0
_STEPS = [1, 2, 2.5, 5, 10]


@dataclass(frozen=True)
class Scale:
    """How numbers become places. `threshold`: where the linear part of "symlog" ends, `height`: its decades."""

    name: str
    threshold: float = 1.0
    height: float = 1.0

    def place(self, value: float) -> float:
        """Where a number lies; on the logarithmic scales the unit is a decade."""
        if self.name == "linear":
            return value
        if self.name == "log":
            return log10(value)
        size = abs(value) / self.threshold
        place = self.height * size if size <= 1 else self.height + log10(size)
        return place if value >= 0 else -place

    def number(self, place: float) -> float:
        """The number at a place."""
        if self.name == "linear":
            return place
        if self.name == "log":
            return float(10**place)
        size = abs(place) / self.height if abs(place) <= self.height else 10 ** (abs(place) - self.height)
        return float(size * self.threshold * (1 if place >= 0 else -1))


LINEAR = Scale("linear")


@dataclass(frozen=True)
class AxisRange:
    """From where to where an axis goes, and its ticks; without any, a few round numbers (`whole` ones)."""

    scale: Scale
    low: float
    high: float
    ticks: tuple[float, ...] | None = None
    whole: bool = False

    def apply(self, axes: Axes, which: Literal["x", "y"]) -> None:
        """Set scale, limits and ticks of the x or the y axis, and mark 0 where the scale is made for it."""
        options: dict[str, Any] = {}
        if self.scale.name == "symlog":
            # matplotlib counts the linear part in other units: 0.9 of a decade.
            options = {"linthresh": self.scale.threshold, "linscale": 0.9 * self.scale.height}
        (axes.set_xscale if which == "x" else axes.set_yscale)(self.scale.name, **options)
        axes.set(**{f"{which}lim": (self.low, self.high)})
        axis = axes.xaxis if which == "x" else axes.yaxis
        if self.ticks is None:
            axis.set_major_locator(MaxNLocator(nbins=5, steps=_STEPS, integer=self.whole))
        else:
            axis.set_major_locator(FixedLocator(self.ticks))
        # One way of writing per axis: where some numbers need powers of ten, all below 1 have them.
        plain = 1.0 if any(0 < abs(tick) < 1e-3 for tick in self.ticks or ()) else 1e-3
        axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value, plain)))
        axis.set_minor_locator(FixedLocator(minor) if (minor := self._between()) else NullLocator())
        axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
        if self.scale.name == "symlog":
            band, line = (axes.axvspan, axes.axvline) if which == "x" else (axes.axhspan, axes.axhline)
            band(-self.scale.threshold, self.scale.threshold, color="#F2F2F2", linewidth=0, zorder=0.4)
            line(0.0, color="#555555", linewidth=0.7, zorder=1.4)

    def _between(self) -> list[float]:
        """2, 3, … 9 of every decade, which show that an axis is logarithmic; not where decades are many."""
        if self.scale.name == "linear":
            return []
        least = self.scale.threshold if self.scale.name == "symlog" else self.low
        most = max(abs(self.low), abs(self.high))
        if most <= least or log10(most / least) > 6:
            return []
        sizes = [
            digit * 10.0**power
            for power in range(floor(log10(least)), ceil(log10(most)))
            for digit in range(2, 10)
        ]
        both = [-size for size in sizes] + sizes if self.scale.name == "symlog" else sizes
        return [number for number in both if self.low <= number <= self.high and abs(number) > least]


def fit_scale(name: str, numbers: Sequence[float]) -> Scale:
    """The scale for these numbers; "log" turns into "symlog" where some of them are not above 0.

    The linear part of a symlog axis ends at the power of ten below the smallest number that counts. Counting begins
    at the largest and ends at a gap of two decades: what lies below it is 0 for all that the figure is about, and
    would otherwise take most of its height.

    >>> fit_scale("symlog", [0.0, 3e-8, 0.02, 0.4]).threshold
    0.01
    >>> fit_scale("log", [0.0, 1e-17, 0.02]).name
    'symlog'
    """
    largest = max(map(abs, numbers), default=0.0)
    tiny = _ROUNDING * largest
    if name == "linear" or (name == "log" and numbers and min(numbers) > tiny):
        return Scale(name)
    smallest = largest or 1.0
    for size in sorted({abs(number) for number in numbers}, reverse=True):
        if size < smallest / _GAP:
            break
        smallest = size
    threshold = float(f"1e{floor(log10(smallest))}")
    decades = log10((largest or 1.0) / threshold)
    return Scale("symlog", threshold, max(0.6, decades / 6))


def fit_range(scale: Scale, spreads: Sequence[Spread], marked: Iterable[float] = ()) -> AxisRange:
    """The range that shows the spreads. `marked` are the few values that x takes, good places for ticks."""
    marked = sorted(set(marked))
    low, high = min(spread.low for spread in spreads), max(spread.high for spread in spreads)
    if scale.name == "linear":
        return _linear_range(low, high, marked)
    if scale.name == "log":
        # A deviation larger than the mean has no lower end here: its bar runs out of the picture.
        low = min(s.low if s.low > s.mean / 5 else s.mean / 2 for s in spreads)
        ticks = _marked_ticks(marked) or log_ticks(low, high)
    else:
        low, high = min(low, 0.0), max(high, 0.0)
        up, down = _ticks_above(scale, high), _ticks_above(scale, -low)
        ticks = [*(-tick for tick in reversed(down)), 0.0, *up]
    first, last = scale.place(low), scale.place(high)
    pad = 0.05 * max(last - first, 0.3)
    return AxisRange(scale, scale.number(first - pad), scale.number(last + 1.2 * pad), tuple(ticks))


def _ticks_above(scale: Scale, high: float) -> list[float]:
    """Ticks on one side of 0."""
    if high <= 0:
        return []
    return log_ticks(scale.threshold, high) if high > scale.threshold else [scale.threshold]


def _linear_range(low: float, high: float, marked: Sequence[float]) -> AxisRange:
    if not marked and low >= 0 and (low < high / 2 or 0 < low == high):
        return AxisRange(LINEAR, -0.03 * high, 1.06 * high)  # what is never negative starts at zero
    pad = 0.06 * (high - low) or max(abs(high) / 10, 0.5)
    whole = bool(marked) and all(value % 1 == 0 for value in marked)
    return AxisRange(LINEAR, low - pad, high + pad, tuple(marked) if _even(marked) else None, whole)


def _even(marked: Sequence[float]) -> bool:
    """Whether a few values are multiples of one step, or a single one: good ticks on a linear axis."""
    steps = {b - a for a, b in pairwise(marked)}
    return (
        0 < len(marked) <= 10
        and len(steps) <= 1
        and all(value % step == 0 for step in steps for value in marked)
    )


def _marked_ticks(marked: Sequence[float]) -> list[float]:
    """Ticks at the values themselves, where they are few and far enough apart to be read."""
    far = all(b >= 1.6 * a for a, b in pairwise(marked))
    return list(marked) if 0 < len(marked) <= 8 and far and marked[0] > 0 else []


def log_ticks(low: float, high: float) -> list[float]:
    """About three to six round numbers between positive limits: decades, or parts of them where these are too few.

    >>> log_ticks(0.004, 300)
    [0.01, 0.1, 1.0, 10.0, 100.0]
    >>> log_ticks(3, 40)
    [3.0, 10.0, 30.0]
    """
    if high < 5 * low:
        round_numbers = MaxNLocator(nbins=5, steps=_STEPS).tick_values(low, high)
        return [float(tick) for tick in round_numbers if low <= tick <= high] or [float(f"{low:.2g}")]
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5)):
        found = [float(f"{step}e{power}") for power in powers for step in steps]
        inside = [tick for tick in found if low * 0.999 <= tick <= high * 1.001]
        if len(inside) >= 3:
            break
    return inside[:: ceil(len(inside) / 6)]


def shareable(scale: Scale, panels: Iterable[Sequence[float]]) -> bool:
    """Whether panels can share an axis: none would be squeezed into less than a quarter of it."""
    places = [[scale.place(number) for number in panel] for panel in panels if panel]
    if not places:
        return True
    whole = max(map(max, places)) - min(map(min, places))
    return all(4 * (max(panel) - min(panel)) >= whole for panel in places)
