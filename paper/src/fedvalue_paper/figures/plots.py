"""A figure from rows: panels, shared axes, one legend below, and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

from fedvalue_paper.figures._axes import LINEAR, AxisRange, fit_range, fit_scale, shareable
from fedvalue_paper.figures._kinds import PAINTERS, Panel, legend_key
from fedvalue_paper.figures._rows import (
    Entry,
    FigureSpec,
    Mark,
    NothingToShow,
    Spread,
    entries_of,
    marks_of,
)
from fedvalue_paper.figures.style import COLUMN, PAGE, Look, house_style, in_order, looks_for
from fedvalue_paper.figures.words import in_words, number_text, quantity, shorten

__all__ = ["FORMATS", "FigureSpec", "NothingToShow", "draw", "save"]

# Every figure is written in each of these, without what would differ between two days or machines.
FORMATS: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_LETTERS = 17  # of the text in figures, in an inch
_NARROWEST = 0.06  # inches for a bar, so that marks on neighbouring ones stay apart

_Key = tuple[object, ...]
_Marks = Mapping[_Key, Mapping[object, Sequence[Mark]]]


def draw(spec: FigureSpec, rows: Sequence[Mapping[str, object]]) -> Figure:
    """The figure that the spec describes, from rows of results.

    >>> rows = [{"label": "IPSS", "budget": b, "error": 1 / b} for b in (8, 16, 32)]
    >>> draw(FigureSpec("budget", "line", "budget", "error", x_scale="log"), rows).axes[0].get_ylabel()
    'Relative error'
    """
    content = _Content.of(spec, entries_of(spec, rows))
    with house_style():
        figure, body = _canvas(content)
        rows_of_panels, columns = content.grid()
        grid = body.subplots(
            rows_of_panels, columns, squeeze=False, sharex=content.shared[0], sharey=content.shared[1]
        )
        panels = dict(zip(content.panels, grid.flat, strict=False))
        for key, axes in panels.items():
            _paint(content, axes, key)
        for place, axes in enumerate(grid.flat):
            axes.set_axis_on() if place < len(panels) else axes.set_axis_off()
            # Below the last panel of a column there may be an empty place, which shows no numbers.
            axes.tick_params(labelbottom=not content.shared[0] or place + columns >= len(panels))
        _name_panels(content, panels)
        _name_axes(content, body)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out: it looks the same wherever it is drawn later
        return figure


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write stem.png, stem.svg and stem.pdf; the same figure gives the same bytes. Folders are made as needed."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in FORMATS]
    with house_style():
        for path, metadata in zip(paths, FORMATS.values(), strict=True):
            figure.savefig(path, metadata=metadata)
    return paths


@dataclass(frozen=True)
class _Content:
    """What is drawn, sorted: marks by panel and series, looks, ranges of the axes."""

    spec: FigureSpec
    panels: _Marks
    looks: Mapping[object, Look]
    categories: Sequence[object]
    ranges: Mapping[_Key, tuple[AxisRange, AxisRange]]
    shared: tuple[bool, bool]
    starred: frozenset[object]  # series with extrapolated times

    @classmethod
    def of(cls, spec: FigureSpec, entries: Sequence[Entry]) -> _Content:
        looks = looks_for(in_order(entry.series for entry in entries), spec.series)
        orders = [in_order(values) for values in zip(*(entry.panel for entry in entries), strict=True)]
        keys = sorted(
            {entry.panel for entry in entries},
            key=lambda key: [o.index(v) for o, v in zip(orders, key, strict=True)],
        )
        groups: dict[tuple[_Key, object], list[Entry]] = {}
        for entry in entries:
            groups.setdefault((entry.panel, entry.series), []).append(entry)
        panels = {
            key: {name: marks_of(spec, groups[key, name]) for name in looks if (key, name) in groups}
            for key in keys
        }
        categories = in_order(entry.at for entry in entries) if spec.kind == "bars" else []
        if spec.x == spec.series:
            categories = [category for category in categories if not looks[category].reference]
        ranges, shared = _ranges(spec, panels, looks, len(categories))
        starred = frozenset(entry.series for entry in entries if entry.extrapolated)
        return cls(spec, panels, looks, categories, ranges, shared, starred)

    @property
    def own_bars(self) -> bool:
        """Whether every series is a category of its own: named below it."""
        return self.spec.kind == "bars" and self.spec.x == self.spec.series

    def grid(self) -> tuple[int, int]:
        """Rows and columns of panels: the last panel column across where it fills a grid, else a few per row."""
        count = len(self.panels)
        across = len({key[-1] for key in self.panels if key})
        columns = min(
            range(1, min(count, 5) + 1), key=lambda c: (-(-count // c) * c - count + abs(c - 4) / 2, -c)
        )
        if len(self.spec.panels) > 1 and 1 < across <= 5 and count % across == 0:
            columns = across
        while columns > 1 and self._crowd() * _NARROWEST > PAGE / columns - 0.5:
            columns -= 1
        return -(-count // columns), columns

    def _crowd(self) -> int:
        """How many bars stand side by side, gaps between their groups included."""
        return len(self.categories) * (1 if self.own_bars else len(self.looks) + 1)

    def size(self) -> tuple[float, float]:
        """Width and height in inches, without the legend: a column, or the page."""
        rows, columns = self.grid()
        wide = columns > 1 or self._crowd() * _NARROWEST > COLUMN - 0.5
        width = PAGE if wide else COLUMN
        return width, rows * min(2.1, max(1.45, 0.78 * width / columns)) + 0.3

    def legend(self) -> tuple[list[str], int]:
        """The names of the series and the number of lines that they need; none where one or all stand elsewhere."""
        if len(self.looks) == 1 or self.own_bars:
            return [], 0
        names = [
            shorten(look.label, 24) + "*" * (series in self.starred) + " (ours)" * look.ours
            for series, look in self.looks.items()
        ]
        widths = [
            len(name) / _LETTERS + 0.5 for name in names
        ]  # inches: a name, its key, the gap to the next
        for lines in range(1, len(names)):
            if sum(max(widths[i : i + lines]) for i in range(0, len(names), lines)) <= self.size()[0]:
                return names, lines
        return names, len(names)


def _ranges(
    spec: FigureSpec, panels: _Marks, looks: Mapping[object, Look], categories: int
) -> tuple[dict[_Key, tuple[AxisRange, AxisRange]], tuple[bool, bool]]:
    """The range of both axes in every panel, and whether the panels share them."""
    across: list[list[Spread]] = []
    up: list[list[Spread]] = []
    level = quantity(spec.y).level
    for series in panels.values():
        known = [(mark, looks[name].reference) for name, marks in series.items() for mark in marks]
        # A reference has no error bar, and but for lines it is drawn from side to side, wherever its x may be.
        across.append([mark.x for mark, reference in known if not reference or spec.kind == "line"])
        up.append([_bare(mark.y.mean) if reference else mark.y for mark, reference in known])
        up[-1] += [] if level is None else [_bare(level)]
    ys, y_shared = _fit_panels(spec.y_scale, up, ground=spec.kind == "bars", compared=True)
    if spec.kind == "bars":
        x = AxisRange(LINEAR, -0.6, categories - 0.4, tuple(range(categories)))
        return {key: (x, y) for key, y in zip(panels, ys, strict=True)}, (True, y_shared)
    xs, x_shared = _fit_panels(spec.x_scale, across, marked=spec.kind == "line")
    return dict(zip(panels, zip(xs, ys, strict=True), strict=True)), (x_shared, y_shared)


def _bare(number: float) -> Spread:
    return Spread(number, number, number)


def _fit_panels(
    name: str,
    panels: Sequence[list[Spread]],
    *,
    marked: bool = False,
    ground: bool = False,
    compared: bool = False,
) -> tuple[list[AxisRange], bool]:
    """One range for all panels where they can share it, otherwise one for each. `ground`: bars stand on 0.

    `compared`: panels are there to be compared along this axis. Decades leave room for all of them; a linear axis
    does not always.
    """
    if ground and name == "linear":
        panels = [[_bare(0.0), *spreads] for spreads in panels]
    # A panel of references alone has no x of its own.
    union = [spread for spreads in panels for spread in spreads] or [_bare(1.0)]
    scale = fit_scale(name, [spread.mean for spread in union])
    together = compared and scale.name != "linear"
    shared = together or shareable(scale, [[spread.mean for spread in spreads] for spreads in panels])
    ranges = [
        fit_range(scale, found, [spread.mean for spread in found] if marked else ())
        for found in (union if shared else spreads or union for spreads in panels)
    ]
    if ground and scale.name == "linear" and all(spread.low >= 0 for spread in union):
        ranges = [replace(found, low=0.0) for found in ranges]
    return ranges, shared


def _canvas(content: _Content) -> tuple[Figure, Figure | SubFigure]:
    """An empty figure, and the part of it that holds the panels: all but the legend."""
    width, height = content.size()
    names, lines = content.legend()
    below = 0.157 * lines + 0.06 if lines else 0.0
    figure = Figure(figsize=(width, height + below), layout="constrained")
    FigureCanvasAgg(figure)
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.04, h_pad=0.04, wspace=0.03, hspace=0.03)
    if not lines:
        return figure, figure
    parts: Any = figure.subfigures(2, 1, height_ratios=[height, below])
    body, foot = parts
    (_, y), *_ = content.ranges.values()
    keys: list[Any] = [legend_key(content.spec.kind, look, y) for look in content.looks.values()]
    foot.legend(keys, names, loc="center", ncols=-(-len(names) // lines))
    return figure, body


def _paint(content: _Content, axes: Axes, key: _Key) -> None:
    spec = content.spec
    x, y = content.ranges[key]
    x.apply(axes, "x")
    y.apply(axes, "y")
    if (level := quantity(spec.y).level) is not None:
        axes.axhline(level, color="#555555", linewidth=0.7, zorder=1.4)
    if spec.kind == "bars":
        _name_categories(content, axes)
    width = content.size()[0] / content.grid()[1] - 0.5  # roughly: the numbers at the axis take their part
    PAINTERS[spec.kind](
        Panel(axes, content.panels[key], content.looks, x, y, width, content.categories, content.own_bars)
    )


def _name_panels(content: _Content, panels: Mapping[_Key, Axes]) -> None:
    """Titles of panels: what sets them apart, in words, on a line each where these are too long for one."""
    letters = int((content.size()[0] / content.grid()[1] - 0.15) * _LETTERS)
    titles = [
        [in_words(column, value) for column, value in zip(content.spec.panels, key, strict=True)]
        for key in panels
    ]
    fit = all(len(", ".join(parts)) <= letters for parts in titles)
    for axes, parts in zip(panels.values(), titles, strict=True):
        title = ", ".join(parts) if fit else "\n".join(shorten(part, letters) for part in parts)
        axes.set_title(title, loc="left")


def _name_categories(content: _Content, axes: Axes) -> None:
    """Numbers or words below groups of bars: on several lines, or aslant where they are still too long."""
    looks = looks_for(content.categories, content.spec.x)  # they know the names of methods
    names = [
        number_text(float(category)) if isinstance(category, Real) else shorten(look.label, 60)
        for category, look in looks.items()
    ]
    letters = int((content.size()[0] / content.grid()[1] - 0.5) / max(len(names), 1) * _LETTERS)
    lines = [_lines(name, max(letters, 1)) for name in names]
    steep = any(len(line) > letters for found in lines for line in found)
    texts = [shorten(name, 22) for name in names] if steep else ["\n".join(found) for found in lines]
    axes.set_xticks(range(len(texts)), texts, rotation=35 if steep else 0, ha="right" if steep else "center")
    for tick in axes.get_xticklabels():
        tick.set_rotation_mode("anchor" if steep else "default")
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    for place in range(1, len(texts)):
        axes.axvline(place - 0.5, color="#E4E4E4", linewidth=0.5, zorder=0.5)


def _lines(name: str, letters: int) -> list[str]:
    """A name on one line, broken at its commas, or wherever it has to be."""
    parts = name.replace(", ", ",\n").split("\n")
    if len(name) <= letters:
        return [name]
    return parts if max(map(len, parts)) <= letters else wrap(name, letters, break_long_words=False)


def _name_axes(content: _Content, figure: Figure | SubFigure) -> None:
    spec = content.spec
    width, height = content.size()
    x = shorten(spec.x_label or quantity(spec.x).label, int(_LETTERS * width) - 8)
    y = shorten(spec.y_label or quantity(spec.y).label, int(_LETTERS * height) - 8)
    if content.own_bars and not spec.x_label:
        x = ""  # the names below the bars say it
    if content.starred:
        note = "  (* extrapolated)"
        x, y = (x + note, y) if spec.x == "paper_seconds" else (x, y + note)
    if len(content.panels) == 1:
        figure.axes[0].set(xlabel=x, ylabel=y)
    else:
        figure.supxlabel(x)
        figure.supylabel(y)
