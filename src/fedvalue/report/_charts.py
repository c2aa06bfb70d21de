"""The charts of the page: where every mark stands. Templates draw them.

Places across are percentages, so charts fill a screen or a phone unscaled; places down are pixels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fedvalue.report._clients import Client
from fedvalue.report._facts import Facts
from fedvalue.report._scales import Scale, core_range, ticks
from fedvalue.report._templates import html
from fedvalue.report._trained import Absent, Growth

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["convergence", "growth", "ranking"]

_PLOT, _PANEL = 280, 64  # heights in pixels
_GOLDEN = (
    0.6180339887498949  # its multiples fill an interval evenly: dots beside each other, not on each other
)
_FIRST, _LAST, _PANELS = 40, 20, 12  # of many clients, those that are open to see; the others unfold


# Clients by value


class Bar(NamedTuple):
    """A value as a bar from zero, its interval as a whisker with a band for every part of the error, the widest first."""

    zero: float
    left: float
    width: float
    whisker: tuple[float, float] | None
    bands: list[tuple[str, float, float]]


def ranking(facts: Facts) -> Markup:
    """The table of clients, with a bar in every row. Of many, the highest and the lowest are open to see."""
    clients = facts.clients
    parts = [("Highest value first", clients, False)]
    if len(clients) > _FIRST + _LAST:
        middle, last = clients[_FIRST:-_LAST], clients[-_LAST:]
        parts = [
            ("Highest value first", clients[:_FIRST], False),
            (f"The {len(middle)} clients in between", middle, True),
            (f"The {len(last)} clients with the lowest values", last, False),
        ]
    scale = _value_scale(clients)
    return html(
        "ranking",
        facts,
        parts=parts,
        cut=any(not scale.low <= bound <= scale.high for bound in _bounds(clients)),
        bar=lambda client: _bar(client, scale),
        axis=[(scale(tick), _number(tick)) for tick in ticks(scale.low, scale.high, 4)],
    )


def _bounds(clients: Sequence[Client]) -> list[float]:
    return [x for client in clients for x in (client.value, client.low, client.high) if x is not None]


def _value_scale(clients: Sequence[Client]) -> Scale:
    """Zero, values and their intervals, with a little room; a few that are far from all others do not squeeze those."""
    low, high = core_range(_bounds(clients), [0.0])
    room = 0.02 * (high - low) or 1.0
    return Scale(low - room if low < 0 else low, high + room)


def _bar(client: Client, scale: Scale) -> Bar:
    zero, end = scale(0.0), scale(client.value)
    known = client.low is not None and client.high is not None
    whisker = (scale(client.low or 0.0), scale(client.high or 0.0)) if known else None
    bands = [
        (
            part,
            scale(client.value - reach),
            round(scale(client.value + reach) - scale(client.value - reach), 2),
        )
        for part, reach in reversed(client.bands)
    ]
    return Bar(zero, min(zero, end), round(abs(end - zero), 2), whisker, bands)


# Utility against the number of clients


def growth(facts: Facts) -> Markup:
    """Trained coalitions as dots over their size, and the curve of their means."""
    found = facts.growth
    if isinstance(found, Absent):
        return html("absent", facts, part=found)
    drawn, start = _without_start(found)
    low, high = core_range([utility for _, utility in drawn.dots], [layer.mean for layer in drawn.layers])
    room, n = 0.04 * (high - low) or 0.5, len(facts.clients)
    first = 0 if start is None else 1
    across, up = Scale(first - 0.6, n + 0.6), Scale(high + room, low - room, _PLOT)
    shown = [(across(x), up(utility)) for x, utility in _beside(drawn) if low <= utility <= high]
    return html(
        "growth",
        facts,
        height=_PLOT,
        up=[(up(tick), _number(tick)) for tick in ticks(low, high, 5)],
        across=[(across(tick), f"{tick:.0f}") for tick in ticks(first, n, 8, whole=True)],
        dots=shown,
        means=[(across(layer.size), up(layer.mean)) for layer in drawn.layers],
        start=start,
        label=f"{'negative ' if facts.lower_is_better else ''}{facts.values.metric}",
        far=len(drawn.dots) - len(shown),
    )


def _without_start(growth: Growth) -> tuple[Growth, float | None]:
    """What is drawn. The untrained model is not where it would squeeze all others; then what it reaches is told."""
    trained = [utility for size, utility in growth.dots if size]
    layers = tuple(layer for layer in growth.layers if layer.size)
    if len(layers) == len(growth.layers) or len(layers) < 2:
        return growth, None
    low, high = core_range(trained, [layer.mean for layer in layers])
    start = growth.layers[0].mean
    if low - (high - low) <= start <= high + (high - low):
        return growth, None
    dots = tuple((size, utility) for size, utility in growth.dots if size)
    return Growth(layers, dots, growth.coalitions), start


def _beside(growth: Growth) -> list[tuple[float, float]]:
    """Dots of one size spread to both sides of it."""
    seen: Counter[int] = Counter()
    spread = []
    for size, utility in growth.dots:
        spread.append((size + 0.6 * ((0.5 + seen[size] * _GOLDEN) % 1 - 0.5), utility))
        seen[size] += 1
    return spread


# Values against the number of coalitions


class Panel(NamedTuple):
    """The value of a client from few coalitions to all, and the value reported."""

    client: Client
    line: list[tuple[float, float]]
    dot: float
    first: float


def convergence(facts: Facts) -> Markup:
    """A small chart for each client: its value against the number of coalitions."""
    found = facts.convergence
    if isinstance(found, Absent):
        return html("absent", facts, part=found)
    every = [value for values in found.values for value in values]
    low, high = core_range(every + [client.value for client in facts.clients], [0.0])
    room = 0.06 * (high - low) or 1.0
    up = Scale(high + room, low - room, _PANEL)
    across = Scale(found.counts[0], max(found.counts[-1], found.counts[0] + 1), 94, log=True)
    places = [across(count) for count in found.counts]
    panels = []
    for client in facts.clients:
        line = [(x, up(values[client.index])) for x, values in zip(places, found.values, strict=True)]
        dot = min(max(up(client.value), 0.0), _PANEL)
        panels.append(Panel(client, line, dot, found.values[0][client.index]))
    return html(
        "convergence",
        facts,
        panels=panels[:_PANELS],
        others=panels[_PANELS:],
        height=_PANEL,
        zero=up(0.0),
    )


def _number(number: float) -> str:
    return f"{number:g}".replace("-", "−")
