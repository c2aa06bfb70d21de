"""Values as pictures, on axes of matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue._extras import axes
from fedvalue._text import plot_text, shortened
from fedvalue.values._shown import heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedvalue.values._values import Values

__all__ = ["plot", "plot_errors"]

_NAME = 24  # characters of a name beside an axis
_COLOURS = {"coalitions": "#4f81bd", "training": "#e0a030", "test": "#8064a2"}
_WORDS = {"coalitions": "coalitions not trained", "training": "luck of training", "test": "test rows"}


def plot(values: Values, ax: Any, level: float) -> Axes:
    """See `Values.plot`."""
    ax = axes(ax, "A plot of values", height=1.0 + 0.3 * values.n)
    interval = values.interval(level)
    half = None if interval is None else (interval[:, 1] - interval[:, 0]) / 2
    colours = ["#c0504d" if mean < 0 else "#4f9d69" for mean in values.mean]
    places = _named(ax, values)
    dark_or_light = ax.spines["left"].get_edgecolor()  # what is seen on this background
    ax.barh(places, values.mean, xerr=half, color=colours, ecolor=dark_or_light, capsize=3)
    ax.axvline(0.0, color="#999999", linewidth=0.8)
    ax.set_xlabel(f"value, in {plot_text(values.unit)}" + ("" if half is None else f", ± {level:.0%}"))
    ax.set_title(plot_text(heading(values)), loc="left")
    return ax  # type: ignore[no-any-return]


def plot_errors(values: Values, ax: Any) -> Axes:
    """See `Values.plot_errors`."""
    ax = axes(ax, "A plot of errors", height=1.0 + 0.3 * values.n)
    places, start = _named(ax, values), np.zeros(values.n)
    for part, error in values.errors.items():
        if error is not None and error.any():
            ax.barh(places, np.square(error), left=start, color=_COLOURS[part], label=_WORDS[part])
            start = start + np.square(error)
    if start.any():
        ax.legend()
    else:
        none = "none" if all(error is not None for error in values.errors.values()) else "not known"
        ax.text(0.5, 0.5, none, transform=ax.transAxes, ha="center", va="center")
        ax.set_xticks([])
    ax.set_xlabel("variance of the value")
    ax.set_title("What the errors are made of", loc="left")
    return ax  # type: ignore[no-any-return]


def _named(ax: Any, values: Values) -> Any:
    """A place per client from the top down; names are text."""
    places = np.arange(values.n)
    ax.set_yticks(places, [plot_text(shortened(name, _NAME)) for name in values.names])
    ax.invert_yaxis()
    return places
