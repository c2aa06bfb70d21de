"""Axes: their range, their ticks and the numbers on them, with a place for zero on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from fedvalue.errors import InputError

__all__ = ["AxisRange", "Span", "fit_range", "log_ticks", "number_text", "shareable"]

# An exact method's error is 0 up to rounding: beside real errors it must not stretch the axis to 1e-17.
ROUNDING = 1e-12
_STEPS = [1, 2, 2.5, 5, 10]
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")

# A value and the ends of its whisker.
Span = tuple[float, float, float]


@dataclass(frozen=True)
class AxisRange:
    """From where to where an axis goes. `zero` is the place of 0 on a logarithmic axis, where one is needed."""

    scale: str
    low: float
    high: float
    ticks: tuple[float, ...] | None = None
    zero: float | None = None
    tiny: float = 0.0
    whole: bool = False

    def at(self, value: float) -> float:
        """Where a value is drawn; what lies below the axis is drawn on its edge."""
        if self.scale == "linear":
            return value
        return max(value, self.low) if value > self.tiny or self.zero is None else self.zero

    def apply(self, axes: Axes, which: Literal["x", "y"]) -> None:
        """Set limits and ticks of the x or the y axis."""
        axes.set(**{f"{which}scale": self.scale, f"{which}lim": (self.low, self.high)})
        axis = axes.xaxis if which == "x" else axes.yaxis
        if self.ticks is None:
            axis.set_major_locator(MaxNLocator(nbins=5, steps=_STEPS, integer=self.whole))
        else:
            axis.set_major_locator(FixedLocator(self.ticks))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda v, _: "0" if v == self.zero else number_text(v)))


def fit_range(scale: str, spans: Sequence[Span], column: str, marked: Iterable[float] = ()) -> AxisRange:
    """The range that shows the spans. `marked` are the few values that x takes, good places for ticks."""
    marked = sorted(set(marked))
    return _log_range(spans, column, marked) if scale == "log" else _linear_range(spans, marked)


def _linear_range(spans: Sequence[Span], marked: Sequence[float]) -> AxisRange:
    low, high = min(span[1] for span in spans), max(span[2] for span in spans)
    if not marked and all(span[0] >= 0 for span in spans) and (low < high / 2 or 0 < low == high):
        return AxisRange("linear", -0.03 * high, 1.06 * high)  # what is never negative starts at zero
    pad = 0.05 * (high - low) or max(abs(high) / 10, 0.5)
    whole = bool(marked) and all(value % 1 == 0 for value in marked)
    return AxisRange("linear", low - pad, high + pad, tuple(marked) if _even(marked) else None, whole=whole)


def _even(marked: Sequence[float]) -> bool:
    """Whether a few values are multiples of one step, or a single one: good ticks on a linear axis."""
    steps = {b - a for a, b in pairwise(marked)}
    return (
        0 < len(marked) <= 10
        and len(steps) <= 1
        and all(value % step == 0 for step in steps for value in marked)
    )


def _log_range(spans: Sequence[Span], column: str, marked: Sequence[float]) -> AxisRange:
    if negative := [span[0] for span in spans if span[0] < 0]:
        raise InputError(
            f"A logarithmic axis shows numbers from 0 upwards; {column!r} holds {min(negative):g}. "
            "Use a linear scale, or leave these rows out with where."
        )
    tiny = ROUNDING * max(span[0] for span in spans)
    positive = [span for span in spans if span[0] > tiny]
    zeros = len(positive) < len(spans)
    if not positive:
        return AxisRange("log", 0.5, 2.0, (1.0,), 1.0)
    # A deviation larger than the mean has no lower end here: its band runs out of the picture.
    low = min(end if end > centre / 5 else centre / 2 for centre, end, _ in positive)
    high = max(span[2] for span in positive)
    decades = max(log10(high / low), 0.3)
    ticks = _marked_ticks(marked) or log_ticks(low, high)
    if not zeros:
        return AxisRange("log", low * 10 ** (-0.05 * decades), high * 10 ** (0.06 * decades), tuple(ticks))
    zero = low * 10 ** (-0.13 * decades)
    ticks = [zero, *(tick for tick in ticks if tick >= low)]
    return AxisRange(
        "log", zero * 10 ** (-0.06 * decades), high * 10 ** (0.06 * decades), tuple(ticks), zero, tiny
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


def number_text(value: float) -> str:
    """A number as short as it can be, without markup.

    >>> number_text(0.25), number_text(-20), number_text(1e-5), number_text(3e7), number_text(12000)
    ('0.25', '−20', '10⁻⁵', '3·10⁷', '12 000')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        text = f"{value:.6g}"
        text = f"{value:,.0f}".replace(",", " ") if abs(value) >= 1e4 else text
        return text.replace("-", "−")
    mantissa, power = f"{value:.3e}".split("e")
    digits = f"{float(mantissa):g}".replace("-", "−")
    tens = "10" + str(int(power)).translate(_SUPERSCRIPT)
    return tens if digits == "1" else f"−{tens}" if digits == "−1" else f"{digits}·{tens}"


def shareable(scale: str, panels: Iterable[Sequence[float]]) -> bool:
    """Whether panels can share an axis: none would be squeezed into less than a quarter of it."""
    places = [list(panel) for panel in panels if panel]
    if scale == "log":
        tiny = ROUNDING * max((value for panel in places for value in panel), default=0.0)
        places = [found for panel in places if (found := [log10(v) for v in panel if v > tiny])]
    if not places:
        return True
    whole = max(map(max, places)) - min(map(min, places))
    return all(4 * (max(panel) - min(panel)) >= whole for panel in places)
