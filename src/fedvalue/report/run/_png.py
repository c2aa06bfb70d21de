"""The report as a picture: the verdict above, then the charts that fit a page. The only part that needs matplotlib."""

from __future__ import annotations

import io
import textwrap
from typing import Any

import numpy as np

from fedvalue.errors import MissingExtraError
from fedvalue.report.run._charts import growth_range
from fedvalue.report.run._facts import Facts
from fedvalue.report.run._markup import called
from fedvalue.report.run._palette import PALETTES
from fedvalue.report.run._trained import Absent, Pair, strongest
from fedvalue.text import shortened

__all__ = ["draw"]

_ROWS, _PAIRS = 24, 6  # clients with a bar; pairs to either side of zero
_NAME = 20
_LINES = 104  # letters across the page
_COLOURS = PALETTES["light"]


def draw(facts: Facts) -> bytes:
    """A PNG of the whole page; the same facts give the same bytes."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        from fedvalue.report.style import PAGE, house_style
    except ImportError as error:
        raise MissingExtraError(
            "A picture needs matplotlib, which is not installed: pip install matplotlib"
        ) from error
    said = "\n".join(line for text in facts.verdict for line in textwrap.wrap(text, _LINES))
    head = 0.55 + 0.135 * len(said.splitlines())
    rows = 0.16 * min(len(facts.clients), _ROWS) + 0.9
    below = 2.6
    with house_style():
        figure = Figure(figsize=(PAGE, head + max(rows, 2.0) + below + 0.2), layout="constrained")
        FigureCanvasAgg(figure)
        parts: Any = figure.subfigures(3, 1, height_ratios=[head, max(rows, 2.0), below])
        parts[0].text(0.02, 0.94, facts.title, size=11, weight="bold", va="top")
        parts[0].text(0.02, 0.94 - 0.27 / head, said, va="top", linespacing=1.4)
        _ranking(parts[1].subplots(), facts)
        left, middle, right = parts[2].subplots(1, 3)
        _growth(left, facts)
        _pairs(middle, facts)
        _convergence(right, facts)
        file = io.BytesIO()
        figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def _ranking(axes: Any, facts: Facts) -> None:
    half = _ROWS // 2
    many = len(facts.clients) > _ROWS
    shown = (*facts.clients[:half], *facts.clients[-half:]) if many else facts.clients
    values = np.array([client.value for client in shown])
    colours = [_COLOURS["minus" if value < 0 else "plus"] for value in values]
    axes.barh(range(len(shown)), values, color=colours, height=0.62)
    for row, client in enumerate(shown):
        if client.low is not None and client.high is not None:
            axes.plot([client.low, client.high], [row, row], color=_COLOURS["whisker"], lw=0.9)
    paid = [f"  {client.paid} {facts.unit}" if client.paid is not None else "" for client in shown]
    labels = [called(client.name, 2 * _NAME) + text for client, text in zip(shown, paid, strict=True)]
    axes.set_yticks(range(len(shown)), labels)
    axes.invert_yaxis()
    axes.axvline(0, color=_COLOURS["quiet"], lw=0.6)
    axes.grid(visible=False, axis="y")
    note = f", the {half} highest and the {half} lowest" if many else ""
    note += "" if isinstance(facts.payout, Absent) else ", payout beside the name"
    axes.set_title(f"Clients by value{note}", loc="left")


def _growth(axes: Any, facts: Facts) -> None:
    axes.set_title("Utility by coalition size", loc="left")
    if isinstance(facts.growth, Absent):
        _say(axes, facts.growth.why)
        return
    sizes, utilities = zip(*facts.growth.dots, strict=True)
    axes.plot(sizes, utilities, ".", color=_COLOURS["dot"], ms=3, alpha=0.4, mew=0)
    layers = facts.growth.layers
    axes.plot(
        [layer.size for layer in layers], [layer.mean for layer in layers], "o-", ms=3, color=_COLOURS["plus"]
    )
    low, high = growth_range(facts.growth)
    room = 0.05 * (high - low) or 0.5
    axes.set_ylim(low - room, high + room)
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.set_xlabel("clients in the coalition")
    axes.set_ylabel(shortened(f"{'negative ' if facts.lower_is_better else ''}{facts.metric}", 2 * _NAME))


def _pairs(axes: Any, facts: Facts) -> None:
    axes.set_title("Pairs: effect of being together", loc="left")
    if isinstance(facts.synergy, Absent):
        _say(axes, facts.synergy.why)
        return
    together, apart = strongest(facts.synergy, _PAIRS)
    shown = [*together, *reversed(apart)]
    colours = [_COLOURS["minus" if pair.effect < 0 else "plus"] for pair in shown]
    axes.barh(range(len(shown)), [pair.effect for pair in shown], color=colours, height=0.62)
    axes.set_yticks(range(len(shown)), [_pair_name(pair, facts) for pair in shown], size=5.5)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.locator_params(axis="x", nbins=4)


def _pair_name(pair: Pair, facts: Facts) -> str:
    most = 14
    return f"{called(facts.names[pair.first], most)} + {called(facts.names[pair.second], most)}"


def _convergence(axes: Any, facts: Facts) -> None:
    axes.set_title("Values against trainings", loc="left")
    found = facts.convergence
    if isinstance(found, Absent):
        _say(axes, found.why)
        return
    for client in facts.clients:
        line = [values[client.index] for values in found.values]
        colour = _COLOURS["minus" if client.value < 0 else "plus"]
        axes.plot(found.counts, line, color=colour, lw=0.8, alpha=0.7)
    axes.axhline(0, color=_COLOURS["quiet"], lw=0.6)
    axes.set_xscale("log")
    axes.set_xticks(found.counts[:: max(1, len(found.counts) // 3)])
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    axes.set_xlabel(f"coalitions, by the {found.estimator}")


def _say(axes: Any, text: str) -> None:
    """Why there is nothing to see, in place of it."""
    axes.set_axis_off()
    axes.text(0.0, 0.9, "\n".join(textwrap.wrap(text, 34)), va="top", transform=axes.transAxes)
