"""How accurate the surrogate was where the exact values are known, and what that means for other sizes.

`accuracy.csv` holds its errors by number of clients n and of coalitions γ (`bench/advice.py` measures them). With two
coalitions, none and all of the clients, it pays everyone the same: those rows are the errors of the equal split.

Errors of different n are most alike at the same x = (γ − 2)/(n ln n), after a division by √(1 − γ/2^n): an error vanishes
where all coalitions are known, as when one samples without replacement. Between what was measured the logarithm of the
error is interpolated linearly, in log n and in log(1 + x). Outside, the nearest measured error is taken and said to be
extrapolated. `docs/choosing.md` says how well that works.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "COLUMNS",
    "Cell",
    "Expected",
    "between",
    "equal_split",
    "expected",
    "largest_measured",
    "measured",
    "rows_of_table",
]


class Cell(NamedTuple):
    """A row of the table: the error over so many games, four of five of which lie from low to high.

    `left` is the error as a fraction of that of the equal split, 1 − skill: it differs less from game to game.
    """

    clients: int
    coalitions: int
    games: int
    error: float
    low: float
    high: float
    left: float
    left_low: float
    left_high: float


COLUMNS = Cell._fields


@dataclass(frozen=True)
class Expected:
    """The relative l2 error to expect: geometric mean over games, and what four of five games lie between.

    `skill` is 1 − error / error of the equal split, with its own bounds. `clients_measured` and
    `coalitions_measured` are False where the table does not reach that far. `parts` are the errors from coalitions that
    are not trained, from the luck of training and from test rows; None where that is not known, or not in the error.
    """

    error: float = 0.0
    low: float = 0.0
    high: float = 0.0
    skill: float = 1.0
    skill_low: float = 1.0
    skill_high: float = 1.0
    clients_measured: bool = True
    coalitions_measured: bool = True
    parts: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def mostly(self) -> str | None:
        """The largest part of the error: "coalitions", "training" or "test"; None where parts are not known."""
        known = {name: part for name, part in self.parts.items() if part}
        return max(known, key=lambda name: known[name]) if known else None


@lru_cache(maxsize=1)
def measured() -> tuple[Cell, ...]:
    """The table that comes with the package."""
    return tuple(Cell(*map(int, row[:3]), *map(float, row[3:])) for row in rows_of_table("accuracy.csv"))


def rows_of_table(name: str) -> list[list[str]]:
    """The rows of a table that comes with the package, without their header."""
    text = files("fedvalue.advice").joinpath(name).read_text(encoding="utf-8")
    return list(csv.reader(text.splitlines()))[1:]


def expected(clients: int, coalitions: int, cells: Iterable[Cell] | None = None) -> Expected:
    """What the surrogate's error will be with so many clients and coalitions.

    >>> expected(10, 20).error > 3 * expected(10, 200).error
    True
    """
    if clients == 1 or coalitions.bit_length() > clients:
        return Expected()  # all 2**n coalitions are known
    table: dict[int, list[Cell]] = {}
    for cell in measured() if cells is None else cells:
        table.setdefault(cell.clients, []).append(cell)
    here = _position(clients, coalitions)
    share, below, above = between(clients, sorted(table))
    logs = (1 - share) * _logs(table[below], here) + share * _logs(table[above], here)
    error, low, high, left, left_low, left_high = (_unknown(clients, coalitions) * np.exp(logs)).tolist()
    reach = max(_position(n, table[n][-1].coalitions) for n in (below, above))
    return Expected(
        error,
        low,
        high,
        1 - left,
        1 - left_high,
        1 - left_low,
        clients_measured=min(table) <= clients <= max(table),
        coalitions_measured=here <= reach + 1e-12,
    )


def equal_split(clients: int) -> float:
    """The relative error to expect where everyone is paid the same.

    >>> round(equal_split(10), 2)
    0.12
    """
    if clients == 1:
        return 0.0
    errors = {cell.clients: cell.error for cell in measured() if cell.coalitions == 2}
    share, below, above = between(clients, sorted(errors))
    return math.exp((1 - share) * math.log(errors[below]) + share * math.log(errors[above]))


def largest_measured(clients: int) -> int:
    """As many coalitions as the table reaches to for this number of clients, or all."""
    if clients == 1:
        return 2
    reach = math.expm1(max(_position(cell.clients, cell.coalitions) for cell in measured()))
    largest = 2 + int(reach * clients * math.log(clients))
    return 1 << clients if clients < largest.bit_length() else largest


def _position(clients: int, coalitions: int) -> float:
    """Where games with different numbers of clients are most alike: log(1 + (γ − 2)/(n ln n))."""
    return math.log1p(max(0, coalitions - 2) / (clients * math.log(clients)))


def _unknown(clients: int, coalitions: int) -> float:
    """√ of the share of all coalitions that stays unknown."""
    return math.sqrt(1 - math.ldexp(coalitions, -clients))


def between(clients: int, numbers: Sequence[int]) -> tuple[float, int, int]:
    """The measured numbers of clients on either side, and how far it is from the first to the second."""
    below = max((n for n in numbers if n <= clients), default=numbers[0])
    above = min((n for n in numbers if n >= clients), default=numbers[-1])
    return 0.0 if below == above else math.log(clients / below) / math.log(above / below), below, above


def _logs(cells: Sequence[Cell], here: float) -> NDArray[np.float64]:
    """Logarithms of all six measures at a position, for one measured number of clients."""
    places = [_position(cell.clients, cell.coalitions) for cell in cells]
    logs = np.log([[measure / _unknown(*cell[:2]) for measure in cell[3:]] for cell in cells])
    return np.array([np.interp(here, places, column) for column in logs.T])
