"""The kinds of figures: each paints one panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import Transform, offset_copy

from fedvalue_paper.figures._axes import AxisRange
from fedvalue_paper.figures._rows import Mark, pareto_front
from fedvalue_paper.figures.style import Look

__all__ = ["PAINTERS", "Panel", "legend_key"]

_GROUP = 0.86  # share of a category's width that its bars take
_STRETCH = {"*": 1.35, "D": 0.85, "d": 1.1, "s": 0.9, "P": 1.1, "X": 1.15, "h": 1.05}
_STROKES = ("+", "x", "1", "2", "3", "4")


@dataclass(frozen=True)
class Panel:
    """One small picture: its axes, their ranges and the marks of each series, in the order of the legend."""

    axes: Axes
    series: Mapping[object, Sequence[Mark]]
    looks: Mapping[object, Look]
    x: AxisRange
    y: AxisRange
    width: float  # inches
    categories: Sequence[object] = ()
    own_bars: bool = False  # every series is a category of its own


def marker_style(look: Look, size: float) -> dict[str, Any]:
    """The marker of a look: filled, with a white rim that keeps marks on top of each other apart, or open."""
    outlined = look.ours or look.marker in _STROKES
    return {
        "marker": look.marker,
        "markersize": size * _STRETCH.get(look.marker, 1.0),
        "markerfacecolor": "white" if look.ours else look.colour,
        "markeredgecolor": look.colour if outlined else "white",
        "markeredgewidth": 1.1 if outlined else 0.5,
    }


def _bar_style(look: Look) -> dict[str, Any]:
    return {
        "facecolor": "white" if look.ours else look.colour,
        "edgecolor": look.colour,
        "linewidth": 0.9 if look.ours else 0.0,
        "alpha": None if look.ours else 0.82,
    }


def legend_key(kind: str, look: Look, y: AxisRange) -> Line2D | tuple[Patch, Line2D]:
    """How a series is shown in the legend: as in its panel."""
    joined = look.reference or kind in ("line", "front")
    key = Line2D(
        [], [], color=look.colour, linestyle=look.dash if joined else "none", linewidth=look.width,
        **marker_style(look, 5.0),
    )  # fmt: skip
    return (Patch(**_bar_style(look)), key) if kind == "bars" and _standing(y) and not look.reference else key


def _standing(y: AxisRange) -> bool:
    """Bars need a 0 to stand on; a logarithmic axis has none and shows marks alone."""
    return y.scale.name != "log"


def _whiskers(panel: Panel, marks: Sequence[Mark], colour: str, **style: Any) -> None:
    """Error bars of both coordinates, where there is anything to show."""
    for which in ("x", "y"):
        spreads = [getattr(mark, which) for mark in marks]
        lengths = [[s.mean - s.low for s in spreads], [s.high - s.mean for s in spreads]]
        if any(map(any, lengths)):
            ends: dict[str, Any] = {f"{which}err": lengths}
            panel.axes.errorbar(
                [mark.x.mean for mark in marks], [mark.y.mean for mark in marks], **ends,
                ecolor=colour, elinewidth=0.7, capsize=1.3, capthick=0.7, fmt="none", **style,
            )  # fmt: skip


def _level(panel: Panel, marks: Sequence[Mark], look: Look) -> None:
    """A reference without an x of its own: one line from side to side."""
    y = fmean(mark.y.mean for mark in marks)
    panel.axes.axhline(y, color=look.colour, linestyle=look.dash, linewidth=look.width, zorder=1.5)


def paint_lines(panel: Panel) -> None:
    """Means against x with error bars. Series stand a little beside each other, so that none hides another."""
    beside = [series for series in panel.series if not panel.looks[series].reference]
    spread = any(mark.y.low < mark.y.high for series in beside for mark in panel.series[series])
    step = _step(panel) / len(beside) if spread else 0.0
    for rank, (series, marks) in enumerate(panel.series.items()):
        look = panel.looks[series]
        if look.reference and len(marks) == 1:
            _level(panel, marks, look)
            continue
        aside = 0.0 if look.reference else step * (beside.index(series) - (len(beside) - 1) / 2)
        place = _beside(panel.axes, aside)
        order = 1.5 if look.reference else 2 + rank / 100
        if not look.reference:
            _whiskers(panel, marks, look.colour, transform=place, zorder=order)
        panel.axes.plot(
            [mark.x.mean for mark in marks], [mark.y.mean for mark in marks], transform=place, zorder=order,
            color=look.colour, linestyle=look.dash, linewidth=look.width, **marker_style(look, 4.4),
        )  # fmt: skip


def _step(panel: Panel) -> float:
    """How much of the way to the next x the marks at one x may take, in inches."""
    xs = sorted({panel.x.scale.place(mark.x.mean) for marks in panel.series.values() for mark in marks})
    whole = panel.x.scale.place(panel.x.high) - panel.x.scale.place(panel.x.low)
    nearest = min((b - a for a, b in pairwise(xs)), default=whole)
    return min(0.2, 0.45 * panel.width * nearest / whole)


def _beside(axes: Axes, inches: float) -> Transform:
    """Places a little to the right of those of the data."""
    whole: Any = axes.figure
    return offset_copy(axes.transData, whole, inches, units="inches")


def paint_scatter(panel: Panel) -> None:
    """Marks at the means of both coordinates, with error bars."""
    for rank, (series, marks) in enumerate(panel.series.items()):
        look = panel.looks[series]
        if look.reference:
            _level(panel, marks, look)
            continue
        _points(panel, marks, look, 2 + rank / 100, size=6.0)


def _points(panel: Panel, marks: Sequence[Mark], look: Look, order: float, size: float) -> None:
    _whiskers(panel, marks, look.colour, zorder=order)
    panel.axes.plot(
        [mark.x.mean for mark in marks], [mark.y.mean for mark in marks], color=look.colour, linestyle="none",
        zorder=order, **marker_style(look, size),
    )  # fmt: skip


def paint_fronts(panel: Panel) -> None:
    """Marks at the means, and the staircase of those of a series that no other of it beats."""
    for rank, (series, marks) in enumerate(panel.series.items()):
        look = panel.looks[series]
        if look.reference:
            _level(panel, marks, look)
            continue
        xs, ys = zip(*pareto_front((mark.x.mean, mark.y.mean) for mark in marks), strict=True)
        # More time never makes the best known error worse: the staircase goes on to the edge.
        panel.axes.step(
            (*xs, panel.x.high), (*ys, ys[-1]), where="post", color=look.colour, linestyle=look.dash,
            linewidth=0.7 * look.width, zorder=2 + rank / 100,
        )  # fmt: skip
        _points(panel, marks, look, 2.5 + rank / 100, size=3.6)


def paint_bars(panel: Panel) -> None:
    """Bars in groups by category, the marker of the series on top so that it is known in grey too."""
    drawn = [series for series in panel.series if not panel.looks[series].reference]
    slots = 1 if panel.own_bars else max(len(drawn), 1)
    for series, marks in panel.series.items():
        look = panel.looks[series]
        if look.reference and panel.own_bars:
            _level(panel, marks, look)
            continue
        for mark in marks:
            centre = panel.categories.index(mark.at)
            if look.reference:
                panel.axes.hlines(
                    mark.y.mean, centre - _GROUP / 2, centre + _GROUP / 2, colors=look.colour,
                    linestyles=look.dash, linewidth=1.0, zorder=4,
                )  # fmt: skip
            else:
                slot = 0 if panel.own_bars else drawn.index(series)
                _bar(panel, look, mark, centre + _GROUP * ((slot + 0.5) / slots - 0.5), _GROUP / slots)


def _bar(panel: Panel, look: Look, mark: Mark, x: float, width: float) -> None:
    standing = _standing(panel.y)
    if standing:
        panel.axes.bar(x, mark.y.mean, width * 0.8, zorder=2, **_bar_style(look))
    here = mark._replace(x=mark.x._replace(mean=x, low=x, high=x))
    _whiskers(panel, [here], "#333333", zorder=3)
    style = marker_style(look, 4.0 if standing else 5.0)
    panel.axes.plot(
        [x], [mark.y.mean], color=look.colour, linestyle="none", zorder=3.5, clip_on=False, **style
    )


PAINTERS: dict[str, Callable[[Panel], None]] = {
    "line": paint_lines,
    "scatter": paint_scatter,
    "bars": paint_bars,
    "front": paint_fronts,
}
