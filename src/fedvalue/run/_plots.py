"""A run as a picture, on axes of matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fedvalue._extras import axes
from fedvalue._text import plot_text
from fedvalue.values import Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_coalitions"]


def plot_coalitions(values: Values, utilities: Mapping[int, Sequence[float]], ax: Any) -> Axes:
    """What coalitions of so many clients reach: a dot for each that was trained, and the mean of each size."""
    ax = axes(ax, "A plot of coalitions")
    by_size: dict[int, list[float]] = {}
    for mask, found in utilities.items():
        by_size.setdefault(mask.bit_count(), []).append(values.sign * fmean(found))
    sizes = sorted(by_size)
    dots = [(size, reached) for size in sizes for reached in by_size[size]]
    ax.scatter(*zip(*dots, strict=True), s=12, alpha=0.5, color="#4f81bd", label="a coalition")
    ax.plot(sizes, [fmean(by_size[size]) for size in sizes], color="#333333", label="mean of a size")
    ax.set_xlabel("clients in the coalition")
    ax.set_ylabel(plot_text(values.metric))
    ax.set_title("What coalitions reach", loc="left")
    ax.legend()
    return ax  # type: ignore[no-any-return]
