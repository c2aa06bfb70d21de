"""The map of pairs: which clients complement or replace each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from fedvalue.report._facts import Facts
from fedvalue.report._templates import html
from fedvalue.report._trained import Absent, Pair, Synergy
from fedvalue.report._words import called, signed

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["MOST_IN_MAP", "NUMBERS_UP_TO", "READABLE", "SHADES", "Cell", "pairs", "shade"]

MOST_IN_MAP = 40  # clients; beyond, a map of pairs cannot be read
NUMBERS_UP_TO = 12  # clients: cells are wide enough for numbers
READABLE = (0.01, 100.0)  # strongest pairs whose numbers say something in the three decimals of a cell
_FAINT = 0.02  # of the end of the scale: less is shown as nothing
_LEVELS = 4  # shades to either side of zero in a map
SHADES = [f"m{k}" for k in range(_LEVELS, 0, -1)] + [f"p{k}" for k in range(1, _LEVELS + 1)]


class Cell(NamedTuple):
    """A pair in the map: its place, its shade, what it says when pointed at, and its number where there is room."""

    x: float
    y: int
    shade: str
    title: str
    text: str


def pairs(facts: Facts) -> Markup:
    """A triangle with a cell for each pair, clients in the order of their values; for many clients a table."""
    found, n = facts.synergy, len(facts.clients)
    if isinstance(found, Absent):
        return html("absent", facts, part=found)
    height, end = 30 if n <= NUMBERS_UP_TO else 20, scale_of(facts, found)
    return html(
        "pairs",
        facts,
        cells=_cells(facts, found, height, end) if n <= MOST_IN_MAP else None,
        columns=[round(100 / n * (k + 0.5), 2) for k in range(n - 1)],
        width=round(100 / n, 2),
        height=height,
        widest=max(22, 3.4 * n + 14),
        unknown=found.possible - len(found.pairs),
        scale=signed(end, facts.decimals).lstrip("+"),
        step=signed(end / _LEVELS, facts.decimals).lstrip("+"),
        shades=SHADES,
    )


def _cells(facts: Facts, synergy: Synergy, height: int, end: float) -> list[Cell]:
    clients, n = facts.clients, len(facts.clients)
    effects = {frozenset((pair.first, pair.second)): pair for pair in synergy.pairs}
    strongest = max(abs(pair.effect) for pair in synergy.pairs)
    numbers = n <= NUMBERS_UP_TO and (strongest == 0 or READABLE[0] <= strongest < READABLE[1])
    cells = []
    for row, first in enumerate(clients):
        for column, second in enumerate(clients[:row]):
            pair = effects.get(frozenset((first.index, second.index)))
            who = f"{called(first.name)} and {called(second.name)}"
            place = round(100 / n * column, 2), 18 + height * row
            cells.append(Cell(*place, *_shown(pair, who, end, facts.decimals, numbers)))
    return cells


def _shown(pair: Pair | None, who: str, end: float, decimals: int, numbers: bool) -> tuple[str, str, str]:
    if pair is None:
        return "unknown", f"{who}: unknown, the four coalitions were not trained", "?"
    title = f"{who}: {signed(pair.effect, decimals)}, mean over {pair.quadruples} sets"
    return shade(pair.effect, end), title, signed(pair.effect, 3) if numbers else ""


def scale_of(facts: Facts, synergy: Synergy) -> float:
    """Where the scale ends: at what a client is worth on average, so that small effects look small, or at the strongest."""
    mean = sum(abs(client.value) for client in facts.clients) / len(facts.clients)
    return max(mean, *(abs(pair.effect) for pair in synergy.pairs)) or 1.0


def shade(effect: float, end: float) -> str:
    """The class of a cell: p1 to p4 for synergy, m1 to m4 for redundancy.

    >>> shade(0.1, 0.1), shade(-0.03, 0.1), shade(0.0, 0.1)
    ('p4', 'm2', 'none')
    """
    if abs(effect) <= _FAINT * end:
        return "none"
    return f"{'p' if effect > 0 else 'm'}{min(_LEVELS, math.ceil(_LEVELS * abs(effect) / end))}"
