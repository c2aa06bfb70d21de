"""A figure from rows: panels, shared axes, labels beside the lines or one legend below, and files.

A label stands beside its line or mark where all of them fit; otherwise a legend below the panels names
the series. In small multiples the last panel of each row carries the labels of its lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

from fedvalue_paper.figures._annotate import add_labels, add_legend, legend_lines, shorten
from fedvalue_paper.figures._axes import AxisRange, Span, fit_range, number_text, shareable
from fedvalue_paper.figures._kinds import PAINTERS, Anchor, Panel, spans_of
from fedvalue_paper.figures._rows import Entry, FigureSpec, NothingToShow, entries_of
from fedvalue_paper.figures.style import COLUMN, PAGE, WIDE, Look, house_style, in_order, looks_for

__all__ = ["FigureSpec", "NothingToShow", "draw", "save"]

# More series than this are named by a legend: inside a small panel, at its edge, in a large one.
_FEW, _SOME, _MANY = 6, 9, 16


def draw(spec: FigureSpec, rows: Sequence[Mapping[str, object]]) -> Figure:
    """The figure that the spec describes, from rows of results.

    >>> rows = [{"label": "IPSS", "budget": b, "error": 1 / b} for b in (8, 16, 32)]
    >>> draw(FigureSpec("budget", "line", "budget", "error", x_scale="log"), rows).axes[0].get_xlabel()
    'budget'
    """
    content = _Content.of(spec, entries_of(spec, rows))
    with house_style():
        figure, named = _compose(content, direct=content.could_label())
        return figure if named else _compose(content, direct=False)[0]


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write stem.png and stem.svg; the same figure gives the same bytes. Folders are made as needed."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")]
    with house_style():
        figure.savefig(paths[0], metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None, "Creator": None})
    return paths


@dataclass(frozen=True)
class _Content:
    """What is drawn, sorted: rows by panel and series, looks, ranges of the axes."""

    spec: FigureSpec
    panels: Mapping[tuple[object, ...], Mapping[object, Sequence[Entry]]]
    looks: Mapping[object, Look]
    categories: Sequence[object]
    ranges: Mapping[tuple[object, ...], tuple[AxisRange, AxisRange]]
    shared: tuple[bool, bool]
    starred: frozenset[object]  # series with extrapolated times

    @classmethod
    def of(cls, spec: FigureSpec, entries: Sequence[Entry]) -> _Content:
        looks = looks_for(in_order(entry.series for entry in entries))
        orders = [in_order(values) for values in zip(*(entry.panel for entry in entries), strict=True)]
        keys = sorted(
            {entry.panel for entry in entries},
            key=lambda key: [o.index(v) for o, v in zip(orders, key, strict=True)],
        )
        panels = {
            key: {
                series: found
                for series in looks
                if (found := [e for e in entries if e.panel == key and e.series == series])
            }
            for key in keys
        }
        categories: list[object] = (
            in_order(entry.category for entry in entries) if spec.kind == "bars" else []
        )
        if spec.x == spec.series:
            categories = [category for category in categories if not looks[category].reference]
        ranges, shared = _ranges(spec, panels, looks, len(categories))
        starred = frozenset(entry.series for entry in entries if entry.extrapolated)
        return cls(spec, panels, looks, categories, ranges, shared, starred)

    def could_label(self) -> bool:
        if self.spec.kind == "bars":
            return not self.needs_legend()
        most = _MANY if len(self.panels) == 1 else _FEW if self.spec.kind == "scatter" else _SOME
        return len(self.looks) <= most

    def needs_legend(self) -> bool:
        """Bars that are named below, and a single series, need none."""
        return len(self.looks) > 1 and self.spec.x != self.spec.series

    def grid(self) -> tuple[int, int]:
        """Rows and columns of panels: the last panel column across where it fills a grid, else a few per row."""
        count = len(self.panels)
        across = len({key[-1] for key in self.panels if key})
        if len(self.spec.panels) > 1 and 1 < across <= 5 and count % across == 0:
            return count // across, across
        columns = min(
            range(1, min(count, 5) + 1), key=lambda c: (-(-count // c) * c - count + abs(c - 4) / 2, -c)
        )
        return -(-count // columns), columns

    def size(self) -> tuple[float, float]:
        """Width and height in inches, without legend and title: a column, one and a half, or the page."""
        rows, columns = self.grid()
        crowd = len(self.looks) * (max(len(self.categories), 1) if self.spec.x != self.spec.series else 1)
        if len(self.panels) == 1:
            width = COLUMN if crowd <= _FEW else WIDE if crowd <= 30 else PAGE
            return width, max(2.5, 0.66 * width if crowd <= 30 else 0.45 * width)
        width = COLUMN if columns == 1 else PAGE
        return width, rows * min(2.3, max(1.45, 0.78 * width / columns)) + 0.3


def _ranges(
    spec: FigureSpec,
    panels: Mapping[tuple[object, ...], Mapping[object, Sequence[Entry]]],
    looks: Mapping[object, Look],
    categories: int,
) -> tuple[dict[tuple[object, ...], tuple[AxisRange, AxisRange]], tuple[bool, bool]]:
    """The range of both axes in every panel, and whether the panels share them."""
    across: list[list[Span]] = []
    up: list[list[Span]] = []
    for series in panels.values():
        found = [
            spans_of(spec.kind, e, spec.band == "sd", looks[name].reference) for name, e in series.items()
        ]
        across.append([span for spans, _ in found for span in spans])
        up.append([span for _, spans in found for span in spans])
    if spec.kind != "bars":
        xs, x_shared = _fit_panels(spec.x_scale, across, spec.x, marked=spec.kind == "line")
        ys, y_shared = _fit_panels(spec.y_scale, up, spec.y)
        return dict(zip(panels, zip(xs, ys, strict=True), strict=True)), (x_shared, y_shared)
    ground: list[Span] = [(0.0, 0.0, 0.0)] if spec.y_scale == "linear" else []  # bars stand on it
    ys, y_shared = _fit_panels(spec.y_scale, [ground + spans for spans in up], spec.y)
    if ground and all(span[0] >= 0 for spans in up for span in spans):
        ys = [replace(y, low=0.0) for y in ys]
    x = AxisRange("linear", -0.6, categories - 0.4, tuple(range(categories)))
    return {key: (x, y) for key, y in zip(panels, ys, strict=True)}, (True, y_shared)


def _fit_panels(
    scale: str, panels: Sequence[list[Span]], column: str, marked: bool = False
) -> tuple[list[AxisRange], bool]:
    """One range for all panels where they can share it, otherwise one for each."""
    shared = shareable(scale, [[span[0] for span in spans] for spans in panels])
    # A panel of references alone has no x of its own.
    union = [span for spans in panels for span in spans] or [(1.0, 1.0, 1.0)]
    groups = [union if shared else spans or union for spans in panels]
    return [
        fit_range(scale, spans, column, [s[0] for s in spans] if marked else ()) for spans in groups
    ], shared


def _compose(content: _Content, direct: bool) -> tuple[Figure, bool]:
    """The whole figure, and whether all series are named: direct labels may not fit."""
    figure, body = _canvas(content, legend=not direct and content.needs_legend())
    rows, columns = content.grid()
    grid = body.subplots(rows, columns, squeeze=False, sharex=content.shared[0], sharey=content.shared[1])
    anchors = [
        (axes, _paint(content, axes, key)) for axes, key in zip(grid.flat, content.panels, strict=False)
    ]
    for place, axes in enumerate(grid.flat):
        axes.set_axis_on() if place < len(anchors) else axes.set_axis_off()
        # Below the last panel of a column there may be an empty place, which shows no numbers.
        axes.tick_params(labelbottom=not content.shared[0] or place + columns >= len(anchors))
    _name_panels(content, [axes for axes, _ in anchors], content.size()[0] / columns)
    _name_axes(content, body)
    if not direct:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out: it looks the same wherever it is drawn later
        return figure, True
    ends = [
        pair for place, pair in enumerate(anchors) if (place + 1) % columns == 0 or place + 1 == len(anchors)
    ]
    in_line = content.spec.kind in ("line", "front") and len(anchors) > 1
    if in_line and any(len(found) < len(content.looks) for _, found in ends):
        return figure, False
    return figure, add_labels(figure, anchors, [axes for axes, _ in ends], content.looks)


def _canvas(content: _Content, legend: bool) -> tuple[Figure, Figure | SubFigure]:
    """An empty figure, and the part of it that holds the panels: all but the legend."""
    width, height = content.size()
    height += 0.25 if content.spec.title else 0.0
    lines = legend_lines(list(content.looks.values()), width) if legend else 0
    below = 0.16 * lines + 0.08 if lines else 0.0
    figure = Figure(figsize=(width, height + below), layout="constrained")
    FigureCanvasAgg(figure)
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.04, h_pad=0.04, wspace=0.03, hspace=0.03)
    if not lines:
        return figure, figure
    parts: Any = figure.subfigures(2, 1, height_ratios=[height, below])
    body, foot = parts
    add_legend(foot, content.spec.kind, content.looks, content.starred, lines)
    return figure, body


def _paint(content: _Content, axes: Axes, key: tuple[object, ...]) -> list[Anchor]:
    spec = content.spec
    x, y = content.ranges[key]
    x.apply(axes, "x")
    y.apply(axes, "y")
    if spec.kind == "bars":
        _name_categories(content, axes, content.size()[0] / content.grid()[1])
    own = spec.x == spec.series
    panel = Panel(axes, content.panels[key], content.looks, x, y, spec.band == "sd", content.categories, own)
    return PAINTERS[spec.kind](panel)


def _name_panels(content: _Content, panels: Sequence[Axes], width: float) -> None:
    """Titles of panels: their values, on a line each where these are too long for one."""
    letters = int((width - 0.15) * 16)
    parts = [
        [
            f"{column} = {number_text(float(value))}"
            if isinstance(value, Real) and not isinstance(value, bool)
            else str(value)
            for column, value in zip(content.spec.panels, key, strict=True)
        ]
        for key in content.panels
    ]
    fit = all(len(" · ".join(of_panel)) <= letters for of_panel in parts)
    for axes, of_panel in zip(panels, parts, strict=True):
        title = " · ".join(of_panel) if fit else "\n".join(shorten(part, letters) for part in of_panel)
        axes.set_title(title, loc="left")


def _name_categories(content: _Content, axes: Axes, width: float) -> None:
    names = [shorten(look.label, 22) for look in looks_for(content.categories).values()]
    steep = sum(map(len, names)) + 2 * len(names) > (width - 0.4) * 16
    axes.set_xticks(range(len(names)), names, rotation=35 if steep else 0, ha="right" if steep else "center")
    for tick in axes.get_xticklabels():
        tick.set_rotation_mode("anchor" if steep else "default")
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")


def _name_axes(content: _Content, figure: Figure | SubFigure) -> None:
    spec = content.spec
    width, height = content.size()
    x = shorten(spec.x_label or spec.x.replace("_", " "), int(14 * width) - 10)
    y = shorten(spec.y_label or spec.y.replace("_", " "), int(14 * height) - 10)
    if spec.kind == "bars" and not spec.x_label and spec.x == spec.series:
        x = ""  # the names below the bars say it
    if content.starred:
        note = "  (* extrapolated)"
        x, y = (x + note, y) if spec.x == "paper_seconds" else (x, y + note)
    if len(content.panels) == 1:
        figure.axes[0].set(xlabel=x, ylabel=y)
    else:
        figure.supxlabel(x)
        figure.supylabel(y)
    if spec.title:
        figure.suptitle(shorten(spec.title, int(12.5 * width)), x=0.02, ha="left")
