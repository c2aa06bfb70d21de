"""The charts of the page as SVG. Places across are percentages, so charts fill a screen or a phone unscaled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fedvalue.report.run._facts import Client, Facts
from fedvalue.report.run._markup import Scale, called, core_range, element, named, percent, shown, ticks
from fedvalue.report.run._palette import LEVELS
from fedvalue.report.run._trained import Convergence, Growth, Pair, Synergy
from fedvalue.report.run._words import NAME, signed

__all__ = ["bar", "bar_axis", "growth_chart", "growth_range", "pair_map", "panels", "value_scale"]

_BAR, _PLOT, _PANEL = 30, 280, 64  # heights in pixels
_GOLDEN = (
    0.6180339887498949  # its multiples fill an interval evenly: dots beside each other, not on each other
)
_FAINT = 0.02  # of the strongest pair: less is shown as nothing
_NUMBERS = 12  # clients: cells are wide enough for numbers
_READABLE = (0.01, 100.0)  # strongest pairs whose numbers say something in the three decimals of a cell


def value_scale(clients: Sequence[Client]) -> Scale:
    """Zero, all values and all their intervals, with a little room."""
    bounds = [0.0]
    for client in clients:
        bounds += [x for x in (client.value, client.low, client.high) if x is not None]
    low, high = min(bounds), max(bounds)
    room = 0.02 * (high - low) or 1.0
    return Scale(low - room if low < 0 else low, high + room)


def bar(client: Client, scale: Scale) -> str:
    """The value as a bar from zero, its interval as a whisker. The numbers stand beside it."""
    zero, end = scale(0.0), scale(client.value)
    middle = _BAR / 2
    marks = _line("zero", zero, 0, zero, _BAR)
    left, width = min(zero, end), abs(end - zero)
    if width:
        kind = "minus" if client.value < 0 else "plus"
        marks += _rect(kind, left, 8, width, _BAR - 16)
    if client.low is not None and client.high is not None:
        low, high = scale(client.low), scale(client.high)
        marks += _line("whisker", low, middle, high, middle)
        marks += "".join(_line("whisker", x, middle - 4, x, middle + 4) for x in (low, high))
    return element("svg", marks, width="100%", height=_BAR, aria_hidden="true")


def bar_axis(scale: Scale) -> str:
    """Numbers above the bars."""
    marks = "".join(
        element("text", _number(tick), x=percent(scale(tick)), y=11, text_anchor="middle")
        for tick in ticks(scale.low, scale.high, 4)
    )
    return element("svg", marks, width="100%", height=14, aria_hidden="true")


def growth_chart(growth: Growth, n: int, metric: str) -> str:
    """Trained coalitions as dots over their size, and the curve of their means."""
    low, high = growth_range(growth)
    room = 0.04 * (high - low) or 0.5
    across, up = Scale(-0.6, n + 0.6), Scale(high + room, low - room, _PLOT)
    grid = "".join(_line("grid", 0, up(tick), 100, up(tick)) for tick in ticks(low, high, 5))
    bottom = "".join(
        element("text", f"{tick:.0f}", x=percent(across(tick)), y=_PLOT + 18, text_anchor="middle")
        for tick in ticks(0, n, 8, whole=True)
    )
    bottom += element("text", "clients in the coalition", x="50%", y=_PLOT + 38, text_anchor="middle")
    dots = "".join(
        element("circle", cx=percent(across(x)), cy=up(utility), r=2.5)
        for x, utility in _beside(growth.dots)
        if low <= utility <= high
    )
    means = [(across(layer.size), up(layer.mean)) for layer in growth.layers]
    curve = _curve(means, _PLOT) + "".join(
        element("circle", class_="mean", cx=percent(x), cy=y, r=4.5) for x, y in means
    )
    described = "; ".join(
        f"{layer.size} clients: mean {layer.mean:.4g} of {layer.coalitions}" for layer in growth.layers
    )
    title = f"{metric} against the number of clients in a coalition"
    plot = _image(title, described, grid + element("g", dots, class_="dots") + curve + bottom, _PLOT + 44)
    labels = "".join(
        element("text", _number(tick), x=48, y=round(up(tick) + 4, 1), text_anchor="end")
        for tick in ticks(low, high, 5)
    )
    axis = element("svg", labels, width=54, height=_PLOT + 44, aria_hidden="true")
    return element("div", axis + plot, class_="plot")


def growth_range(growth: Growth) -> tuple[float, float]:
    """The utilities that the chart shows."""
    return core_range([utility for _, utility in growth.dots], [layer.mean for layer in growth.layers])


def _beside(dots: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """Dots of one size spread to both sides of it."""
    seen: Counter[int] = Counter()
    spread = []
    for size, utility in dots:
        spread.append((size + 0.6 * ((0.5 + seen[size] * _GOLDEN) % 1 - 0.5), utility))
        seen[size] += 1
    return spread


def pair_map(synergy: Synergy, facts: Facts) -> str:
    """A triangle with a cell for each pair, clients in the order of their values."""
    clients, n = facts.clients, len(facts.clients)
    height = 30 if n <= _NUMBERS else 20
    found = {frozenset((pair.first, pair.second)): pair for pair in synergy.pairs}
    strongest = max(abs(pair.effect) for pair in synergy.pairs)
    numbers = n <= _NUMBERS and (strongest == 0 or _READABLE[0] <= strongest < _READABLE[1])
    width = 100 / n
    cells = "".join(
        element("text", str(k + 1), x=percent(round(width * (k + 0.5), 2)), y=12, text_anchor="middle")
        for k in range(n - 1)
    )
    for row in range(n):
        for column in range(row):
            pair = found.get(frozenset((clients[row].index, clients[column].index)))
            who = shown(f"{called(clients[row].name, NAME)} and {called(clients[column].name, NAME)}")
            place = (round(width * column, 2), 18 + height * row, round(width, 2), height)
            cells += _cell(pair, who, place, strongest, facts.decimals, numbers)
    described = (
        f"Strongest pairs are in the table below; {len(synergy.pairs)} of {synergy.possible} pairs are known."
    )
    image = _image("Synergy and redundancy of pairs of clients", described, cells, 18 + height * n)
    labels = "".join(
        element("li", f"{k} {named(client.name, NAME)}", style=f"height:{height}px;line-height:{height}px")
        for k, client in enumerate(clients, 1)
    )
    rows = element("ol", labels, aria_hidden="true", style="padding-top:18px")
    return element("div", rows + image, class_="map", style=f"max-width:{max(22, 3.4 * n + 14):g}rem")


def _cell(
    pair: Pair | None,
    who: str,
    place: tuple[float, float, float, float],
    strongest: float,
    decimals: int,
    numbers: bool,
) -> str:
    x, y, width, height = place
    middle = {"x": percent(round(x + width / 2, 2)), "y": y + height / 2 + 4, "text_anchor": "middle"}
    if pair is None:
        title = element("title", f"{who}: not known, no four such coalitions were trained")
        box = element(
            "rect", title, class_="unknown", **_box(x + 0.1 * width, y + 3, 0.8 * width, height - 6)
        )
        return box + element("text", "?", **middle)
    kind = shade(pair.effect, strongest)
    title = element("title", f"{who}: {signed(pair.effect, decimals)}, mean of {pair.quadruples}")
    drawn = element("rect", title, class_=kind, **_box(x, y, width, height))
    if numbers:
        text_kind = "cell" if kind == "none" else f"cell {kind}t"
        drawn += element("text", signed(pair.effect, 3), class_=text_kind, **middle)
    return drawn


def shade(effect: float, strongest: float) -> str:
    """The class of a cell: p1 to p4 for synergy, m1 to m4 for redundancy.

    >>> shade(0.1, 0.1), shade(-0.03, 0.1), shade(0.0, 0.1)
    ('p4', 'm2', 'none')
    """
    if abs(effect) <= _FAINT * strongest:
        return "none"
    return f"{'p' if effect > 0 else 'm'}{min(LEVELS, math.ceil(LEVELS * abs(effect) / strongest))}"


def panels(convergence: Convergence, clients: Sequence[Client], facts: Facts) -> str:
    """A small chart for each client: its value against the number of coalitions, and the value reported."""
    every = [value for values in convergence.values for value in values]
    low, high = core_range(every + [client.value for client in facts.clients], [0.0])
    room = 0.06 * (high - low) or 1.0
    up = Scale(high + room, low - room, _PANEL)
    across = Scale(
        convergence.counts[0], max(convergence.counts[-1], convergence.counts[0] + 1), 94, log=True
    )
    drawn = []
    for client in clients:
        way = [
            (across(count), up(values[client.index]))
            for count, values in zip(convergence.counts, convergence.values, strict=True)
        ]
        marks = _line("zero", 0, up(0.0), 100, up(0.0)) + _curve(way, _PANEL)
        marks += element("circle", class_="mean", cx="97%", cy=min(max(up(client.value), 0.0), _PANEL), r=4.5)
        title = f"Value of {called(client.name, NAME)} against trained coalitions"
        described = f"From {signed(convergence.values[0][client.index], facts.decimals)} to {signed(client.value, facts.decimals)}."
        image = _image(title, described, marks, _PANEL, "below" if client.value < 0 else None)
        head = element("b", named(client.name, NAME))
        drawn.append(element("li", head + image))
    return element("ul", "".join(drawn), class_="multiples")


def _curve(points: Sequence[tuple[float, float]], height: float) -> str:
    """A line through points; stretched to the width there is, its stroke is not."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    line = element("polyline", class_="curve", points=path, vector_effect="non-scaling-stroke")
    view = {"viewBox": f"0 0 100 {height}", "preserveAspectRatio": "none"}
    return element("svg", line, class_="clip", width="100%", height=height, **view)


def _image(title: str, described: str, marks: str, height: float, kind: str | None = None) -> str:
    inside = element("title", shown(title)) + element("desc", shown(described)) + marks
    return element("svg", inside, role="img", width="100%", height=height, class_=kind)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return element("line", class_=kind, x1=percent(x1), y1=y1, x2=percent(x2), y2=y2)


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return element("rect", class_=kind, **_box(x, y, width, height))


def _box(x: float, y: float, width: float, height: float) -> dict[str, Any]:
    return {"x": percent(round(x, 2)), "y": y, "width": percent(round(width, 2)), "height": height}


def _number(number: float) -> str:
    return f"{number:g}".replace("-", "−")
