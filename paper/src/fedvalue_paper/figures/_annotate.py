"""Names of series in a figure: labels beside lines and marks, or one legend below."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation, Text

from fedvalue_paper.figures._kinds import Anchor, marker_style
from fedvalue_paper.figures._labels import Box, overlapping, place_around, spread_apart
from fedvalue_paper.figures.style import Dash, Look

__all__ = ["add_labels", "add_legend", "legend_lines", "shorten"]

_GAP = 9.0  # points between the panel and the labels at its edge
_LEADING = 1.08  # height of a label's line relative to its letters
_LONGEST = 24


def shorten(text: str, most: int) -> str:
    """One line of at most so many letters.

    >>> shorten("a very long name", 8), shorten("two\\nlines", 20)
    ('a very …', 'two lines')
    """
    text = " ".join(text.split())
    return text if len(text) <= most else text[: max(most - 1, 1)] + "…"


def add_labels(
    figure: Figure,
    panels: Sequence[tuple[Axes, list[Anchor]]],
    ends: Collection[Axes],
    looks: Mapping[object, Look],
) -> bool:
    """Name every mark in its panel, and every line at the right edge of the panels that end a row.

    False where the names do not fit: the figure is then spoilt.
    """
    written = [
        [
            (anchor, _write(axes, anchor, looks[anchor.series]))
            for anchor in found
            if axes in ends or not anchor.at_edge
        ]
        for axes, found in panels
    ]
    figure.draw_without_rendering()
    for (axes, _), labels in zip(panels, written, strict=True):
        _push_out(axes, [label for anchor, label in labels if anchor.at_edge])
    figure.draw_without_rendering()  # once more: labels at the edge take width from the panels
    figure.set_layout_engine("none")  # the panels have their place: now the labels find theirs around them
    fits = True
    for (axes, found), labels in zip(panels, written, strict=True):
        levels = [_place(axes, anchor)[1] for anchor in found if anchor.at_edge]
        fits &= _place_at_edge(axes, [label for label in labels if label[0].at_edge])
        fits &= _place_in_panel(axes, [label for label in labels if not label[0].at_edge], levels)
    return fits


def _write(axes: Axes, anchor: Anchor, look: Look) -> Annotation:
    name = shorten(look.label, _LONGEST) + "*" * anchor.extrapolated
    leader: dict[str, Any] = {
        "arrowstyle": "-",
        "linewidth": 0.5,
        "color": look.colour,
        "shrinkA": 0.5,
        "shrinkB": 3,
        "alpha": 0.8,
    }
    leader["relpos"] = (0.0, 0.5) if anchor.at_edge else (0.5, 0.5)  # not across the names of others
    label = axes.annotate(
        name, (anchor.x, anchor.y), color=look.ink, fontsize=7.2, va="center", ha="left",
        fontweight="bold" if look.width > 1.5 else "normal", arrowprops=leader, annotation_clip=False,
        xytext=(1.0, 0.5) if anchor.at_edge else (0.5, 0.5), textcoords="axes fraction",
    )  # fmt: skip
    label.set_in_layout(anchor.at_edge)
    return label


def _push_out(axes: Axes, labels: Sequence[Annotation]) -> None:
    """Put labels a fixed gap to the right of a panel of whatever width it has now."""
    panel = _panel_box(axes)
    for label in labels:
        label.set_position((1.0 + _GAP / (panel.right - panel.left), label.xyann[1]))


def _points(axes: Axes) -> float:
    """Pixels per point."""
    return float(axes.figure.dpi) / 72


def _box(axes: Axes, label: Annotation) -> Box:
    extent, unit = (
        Text.get_window_extent(label),
        _points(axes),
    )  # an annotation's own would include its leader
    return Box(extent.x0 / unit, extent.y0 / unit, extent.x1 / unit, extent.y1 / unit)


def _panel_box(axes: Axes) -> Box:
    extent, unit = axes.get_window_extent(), _points(axes)
    return Box(extent.x0 / unit, extent.y0 / unit, extent.x1 / unit, extent.y1 / unit)


def _place(axes: Axes, anchor: Anchor) -> tuple[float, float]:
    """Where an anchor lies in the figure, in points."""
    x, y = axes.transData.transform((anchor.x, anchor.y)) / _points(axes)
    return float(x), float(y)


def _place_at_edge(axes: Axes, labels: Sequence[tuple[Anchor, Annotation]]) -> bool:
    """Stack the labels to the right of the panel, each as near to the end of its line as the others allow."""
    panel = _panel_box(axes)
    height = panel.top - panel.bottom
    heights = [_LEADING * (box.top - box.bottom) for box in (_box(axes, label) for _, label in labels)]
    wanted = [_place(axes, anchor)[1] for anchor, _ in labels]
    below = 4.0  # the last labels may stand a little above and below the panel, but not outside the figure
    above = max(0.0, min(below, float(axes.figure.bbox.y1) / _points(axes) - panel.top))
    if sum(heights) > height + below + above:
        return False
    centres = spread_apart(wanted, heights, panel.bottom - below, panel.top + above)
    for (anchor, label), level, centre in zip(labels, wanted, centres, strict=True):
        label.set_position((label.xyann[0], (centre - panel.bottom) / height))
        if panel.right - _place(axes, anchor)[0] < 2 and abs(centre - level) < 2:
            _hide_leader(label)
    return True


def _hide_leader(label: Annotation) -> None:
    """What stands beside its line or mark needs nothing to point at it."""
    if label.arrow_patch is not None:
        label.arrow_patch.set_alpha(0.0)


def _place_in_panel(axes: Axes, labels: Sequence[tuple[Anchor, Annotation]], levels: Sequence[float]) -> bool:
    """Put each label beside its mark, off the lines at the given levels; False where some overlap."""
    panel = _panel_box(axes)
    anchors = [_place(axes, anchor) for anchor, _ in labels]
    boxes = [_box(axes, label) for _, label in labels]
    sizes = [(box.right - box.left + 1, box.top - box.bottom) for box in boxes]
    obstacles = [Box(x - 3.5, y - 3.5, x + 3.5, y + 3.5) for x, y in anchors]
    obstacles += [Box(panel.left, level - 0.5, panel.right, level + 0.5) for level in levels]
    for container in axes.containers:
        for whisker in container.get_children():
            for ends in whisker.get_segments() if isinstance(whisker, LineCollection) else ():
                (left, bottom), (right, top) = axes.transData.transform(ends) / _points(axes)
                obstacles.append(Box(left - 0.7, bottom - 0.7, right + 0.7, top + 0.7))
    placed = place_around(anchors, sizes, obstacles, panel)
    for (_, label), at, box in zip(labels, anchors, placed, strict=True):
        label.set_position(
            (
                (box.left - panel.left) / (panel.right - panel.left),
                ((box.bottom + box.top) / 2 - panel.bottom) / (panel.top - panel.bottom),
            )
        )
        gap = max(box.left - at[0], at[0] - box.right, box.bottom - at[1], at[1] - box.top)
        if gap < 7:
            _hide_leader(label)
    return not overlapping(placed) and all(box.outside(panel) < 1 for box in placed)


def legend_lines(looks: Sequence[Look], width: float) -> int:
    """How many lines a legend needs in a figure of so many inches."""
    widest = max(len(shorten(look.label, _LONGEST)) for look in looks) * 4.2 + 34  # points, a little generous
    return -(-len(looks) // max(1, int(width * 72 / widest)))


def add_legend(
    figure: FigureBase, kind: str, looks: Mapping[object, Look], starred: Collection[object], lines: int
) -> None:
    """All names in the middle of a figure of their own; a star and a hollow mark for the starred ones."""
    handles: list[Any] = [_handle(kind, look, name in starred) for name, look in looks.items()]
    names = [shorten(look.label, _LONGEST) + "*" * (name in starred) for name, look in looks.items()]
    figure.legend(handles, names, loc="center", ncols=-(-len(names) // lines))


def _handle(kind: str, look: Look, hollow: bool) -> Line2D | tuple[Patch, Line2D]:
    line: Dash = look.dash if look.reference or kind in ("line", "front") else "none"
    key = Line2D(
        [], [], color=look.colour, linestyle=line, linewidth=look.width,
        **marker_style(look, 6.0 if kind == "scatter" else 4.4, hollow),
    )  # fmt: skip
    return (Patch(facecolor=look.colour, alpha=0.82), key) if kind == "bars" and not look.reference else key
