"""The kinds of figures: each paints one panel and says where the labels of its series belong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from fedvalue_paper.figures._axes import AxisRange, Span
from fedvalue_paper.figures._rows import Entry, Mark, mark_of, marks_by_x, pareto_front
from fedvalue_paper.figures.style import Look

__all__ = ["PAINTERS", "Anchor", "Panel", "marker_style", "spans_of"]

_GROUP = 0.82  # share of a category's width that its bars take


@dataclass(frozen=True)
class Panel:
    """One small picture: its axes, their ranges and the rows of each series, in the order of the legend."""

    axes: Axes
    series: Mapping[object, Sequence[Entry]]
    looks: Mapping[object, Look]
    x: AxisRange
    y: AxisRange
    band: bool
    categories: Sequence[object] = ()
    own_bars: bool = False  # every series is a category of its own

    def place(self, mark: Mark) -> tuple[float, float]:
        return self.x.at(mark.x), self.y.at(mark.y)


class Anchor(NamedTuple):
    """What a label points at: a mark in the panel, or a line that leaves it `at_edge`."""

    series: object
    x: float
    y: float
    at_edge: bool = True
    extrapolated: bool = False


def spans_of(
    kind: str, entries: Sequence[Entry], band: bool, reference: bool
) -> tuple[list[Span], list[Span]]:
    """What one series needs of the x axis and of the y axis."""
    if kind == "front":
        marks = [Mark(entry.x, entry.y) for entry in entries]
    elif kind == "bars":
        by_category = {
            category: [e for e in entries if e.category == category] for category in _categories(entries)
        }
        marks = [mark_of(same) for same in by_category.values()]
    else:
        marks = marks_by_x(entries) if kind == "line" else [mark_of(entries)]
    if reference:
        marks = [mark._replace(y_sd=0.0, x_sd=0.0) for mark in marks]
    spread = 1 if band else 0
    across = [(m.x, m.x - spread * m.x_sd, m.x + spread * m.x_sd) for m in marks]
    if reference and kind != "line":
        across = []  # drawn from side to side: where its own marks would be does not matter
    return across, [(m.y, m.y - spread * m.y_sd, m.y + spread * m.y_sd) for m in marks]


def _categories(entries: Sequence[Entry]) -> list[object]:
    return list(dict.fromkeys(entry.category for entry in entries))


def marker_style(look: Look, size: float, hollow: bool = False) -> dict[str, Any]:
    """The marker of a look, with a white rim that keeps marks on top of each other apart."""
    strokes = look.marker in ("+", "x", "1", "2", "3", "4")
    rim = look.colour if hollow or strokes else "white"
    size *= {"*": 1.35, "D": 0.85, "d": 1.1, "s": 0.9, "P": 1.1, "X": 1.1}.get(look.marker, 1.0)
    return {
        "marker": look.marker,
        "markersize": size,
        "markerfacecolor": "white" if hollow else look.colour,
        "markeredgecolor": rim,
        "markeredgewidth": 1.1 if hollow or strokes else 0.5,
    }


def _whisker(axis: AxisRange, centre: float, deviation: float) -> tuple[list[float], list[float]]:
    """Lengths of a whisker below and above, as matplotlib wants them."""
    middle = axis.at(centre)
    return [middle - axis.at(centre - deviation)], [axis.at(centre + deviation) - middle]


def _level(panel: Panel, series: object, look: Look) -> Anchor:
    """A reference without an x of its own: a line from side to side."""
    y = panel.y.at(mark_of(panel.series[series]).y)
    panel.axes.axhline(y, color=look.colour, linestyle=look.dash, linewidth=look.width, zorder=1.5)
    return Anchor(series, panel.x.high, y)


def paint_lines(panel: Panel) -> list[Anchor]:
    """Mean over repeats against x, with a band of one deviation."""
    anchors = []
    for rank, (series, entries) in enumerate(panel.series.items()):
        look, marks = panel.looks[series], marks_by_x(entries)
        xs, ys = zip(*(panel.place(mark) for mark in marks), strict=True)
        if look.reference and len(marks) == 1:
            anchors.append(_level(panel, series, look))
            continue
        if panel.band and not look.reference:
            low = [panel.y.at(mark.y - mark.y_sd) for mark in marks]
            high = [panel.y.at(mark.y + mark.y_sd) for mark in marks]
            if len(marks) == 1:
                panel.axes.vlines(xs, low, high, color=look.colour, linewidth=0.9)
            panel.axes.fill_between(xs, low, high, color=look.colour, alpha=0.13, linewidth=0, zorder=1.2)
        panel.axes.plot(
            xs, ys, color=look.colour, linestyle=look.dash, linewidth=look.width,
            markevery=ceil(len(xs) / 10), zorder=1.5 if look.reference else 2 + rank / 100,
            **marker_style(look, 4.2),
        )  # fmt: skip
        anchors.append(Anchor(series, xs[-1], ys[-1], extrapolated=any(mark.extrapolated for mark in marks)))
    return anchors


def paint_scatter(panel: Panel) -> list[Anchor]:
    """One mark per series at the mean of both coordinates, with whiskers of one deviation."""
    anchors = []
    for rank, (series, entries) in enumerate(panel.series.items()):
        look, mark = panel.looks[series], mark_of(entries)
        if look.reference:
            anchors.append(_level(panel, series, look))
            continue
        x, y = panel.place(mark)
        panel.axes.errorbar(
            x, y,
            xerr=_whisker(panel.x, mark.x, mark.x_sd) if panel.band and mark.x_sd else None,
            yerr=_whisker(panel.y, mark.y, mark.y_sd) if panel.band and mark.y_sd else None,
            color=look.colour, elinewidth=0.8, linestyle="none", zorder=2 + rank / 100,
            clip_on=True, **marker_style(look, 6.0, hollow=mark.extrapolated),
        )  # fmt: skip
        anchors.append(Anchor(series, x, y, at_edge=False, extrapolated=mark.extrapolated))
    return anchors


def paint_bars(panel: Panel) -> list[Anchor]:
    """Bars in groups by category, the marker of the series on top so that it is known in grey too."""
    anchors = []
    drawn = [series for series in panel.series if not panel.looks[series].reference]
    slots = 1 if panel.own_bars else max(len(drawn), 1)
    for series, entries in panel.series.items():
        look = panel.looks[series]
        if look.reference and panel.own_bars:
            anchors.append(_level(panel, series, look))
            continue
        for category in _categories(entries):
            centre = panel.categories.index(category)
            mark = mark_of([entry for entry in entries if entry.category == category])
            if look.reference:
                ends = centre - _GROUP / 2, centre + _GROUP / 2
                panel.axes.hlines(
                    panel.y.at(mark.y),
                    *ends,
                    colors=look.colour,
                    linestyles=look.dash,
                    linewidth=1.0,
                    zorder=4,
                )
            else:
                slot = 0 if panel.own_bars else drawn.index(series)
                _bar(panel, look, mark, centre + _GROUP * ((slot + 0.5) / slots - 0.5), _GROUP / slots)
    return anchors


def _bar(panel: Panel, look: Look, mark: Mark, x: float, width: float) -> None:
    y, base = panel.y.at(mark.y), panel.y.low if panel.y.scale == "log" else 0.0
    if y != panel.y.zero:
        panel.axes.bar(
            x, y - base, width * 0.88, bottom=base, color=look.colour, alpha=0.82, linewidth=0, zorder=2
        )
    if panel.band and mark.y_sd:
        panel.axes.errorbar(
            x, y, _whisker(panel.y, mark.y, mark.y_sd), color="#333333", elinewidth=0.8, zorder=3
        )
    style = marker_style(look, 4.4, hollow=mark.extrapolated)
    panel.axes.plot([x], [y], color=look.colour, linestyle="none", zorder=3.5, clip_on=False, **style)


def paint_fronts(panel: Panel) -> list[Anchor]:
    """Every repeat, faint, and the staircase of the best of each series."""
    anchors = []
    for rank, (series, entries) in enumerate(panel.series.items()):
        look = panel.looks[series]
        if look.reference:
            anchors.append(_level(panel, series, look))
            continue
        places = [(panel.x.at(entry.x), panel.y.at(entry.y)) for entry in entries]
        faint = min(0.45, max(0.1, 25 / len(places)))
        # Pixels, not thousands of shapes: the vector file stays small.
        panel.axes.plot(
            *zip(*places, strict=True), color=look.colour, linestyle="none", marker="o", markersize=2.2,
            markeredgewidth=0, alpha=faint, zorder=1.3, rasterized=True,
        )  # fmt: skip
        front = pareto_front(places)
        xs, ys = zip(*front, strict=True)
        # More time never makes the best known error worse: the staircase goes on to the edge.
        panel.axes.step(
            (*xs, panel.x.high), (*ys, ys[-1]), where="post", color=look.colour, linestyle=look.dash,
            linewidth=look.width, zorder=2 + rank / 100,
        )  # fmt: skip
        panel.axes.plot(
            xs, ys, color=look.colour, linestyle="none", zorder=2.5 + rank / 100, **marker_style(look, 4.2)
        )
        anchors.append(
            Anchor(series, panel.x.high, ys[-1], extrapolated=any(entry.extrapolated for entry in entries))
        )
    return anchors


PAINTERS: dict[str, Callable[[Panel], list[Anchor]]] = {
    "line": paint_lines,
    "scatter": paint_scatter,
    "bars": paint_bars,
    "front": paint_fronts,
}
