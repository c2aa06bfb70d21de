"""How accurate the methods were where the exact values are known, and what that foretells for other sizes.

`accuracy.csv` holds the errors by number of clients n and of coalitions γ (`bench/advice.py` measures it). Errors of
different n are most alike at the same x = (γ − 2)/(n ln n), after a division by √(1 − γ/2^n): an error vanishes where all
coalitions are known, as when one samples without replacement. Between what was measured the logarithm of the
error is interpolated linearly, in log n and in log(1 + x). Outside, the nearest measured error is taken and said to be
extrapolated. `docs/choosing.md` says how well that foretells.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple, TypeAlias

import numpy as np

from fedvalue.errors import InputError

__all__ = ["COLUMNS", "Cell", "Expected", "expected", "measured", "position"]


class Cell(NamedTuple):
    """A row of the measured table: a method's error over so many games; four of five lie from low to high.

    `left` is the error in parts of what the equal split errs by, 1 − skill: it differs less from game to game.
    """

    method: str
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
_MEASURES = COLUMNS[4:]
Scale: TypeAlias = Callable[[int, int], float]
_FIXED = ("loo", "equal")  # ask for the same coalitions whatever the budget


@dataclass(frozen=True)
class Expected:
    """The relative l2 error to expect: geometric mean over games, and what four of five games lie between.

    `skill` is 1 − error / error of the equal split, with its own bounds. `clients_measured` and
    `coalitions_measured` are False where the table does not reach that far.
    """

    error: float = 0.0
    low: float = 0.0
    high: float = 0.0
    skill: float = 1.0
    skill_low: float = 1.0
    skill_high: float = 1.0
    clients_measured: bool = True
    coalitions_measured: bool = True


def expected(
    method: str,
    clients: int,
    coalitions: int,
    cells: Iterable[Cell] | None = None,
    scale: Scale | None = None,
) -> Expected:
    """What the table says about a method with this many clients and coalitions.

    >>> few, many = expected("surrogate", 10, 20), expected("surrogate", 10, 200)
    >>> few.error > 3 * many.error
    True
    """
    if clients == 1 or (coalitions.bit_length() > clients and method not in _FIXED):
        return Expected()  # all 2**n coalitions are known
    place = scale or position
    curves = _curves(method, None if cells is None else tuple(cells), place)
    here = place(clients, coalitions)
    numbers = sorted(curves)
    below = max((n for n in numbers if n <= clients), default=numbers[0])
    above = min((n for n in numbers if n >= clients), default=numbers[-1])
    share = 0.0 if below == above else math.log(clients / below) / math.log(above / below)
    unknown = _unknown(method, clients, coalitions)
    error, low, high, left, left_low, left_high = (
        unknown
        * math.exp(
            (1 - share) * float(np.interp(here, curves[below].x, of_below))
            + share * float(np.interp(here, curves[above].x, of_above))
        )
        for of_below, of_above in zip(curves[below].logs, curves[above].logs, strict=True)
    )
    reach = max(curves[below].x[-1], curves[above].x[-1])
    return Expected(
        error,
        low,
        high,
        1 - left,
        1 - left_high,
        1 - left_low,
        clients_measured=numbers[0] <= clients <= numbers[-1],
        coalitions_measured=here <= reach + 1e-12,
    )


def position(clients: int, coalitions: int) -> float:
    """Where games with different numbers of clients are most alike: log(1 + (γ − 2)/(n ln n))."""
    return math.log1p(max(0, coalitions - 2) / (clients * math.log(clients)))


def _unknown(method: str, clients: int, coalitions: int) -> float:
    """√ of the share of all coalitions that stays unknown, to methods that learn from more of them."""
    return 1.0 if method in _FIXED else math.sqrt(1 - math.ldexp(coalitions, -clients))


@lru_cache(maxsize=1)
def measured() -> tuple[Cell, ...]:
    """The table that comes with the package."""
    text = files("fedvalue").joinpath("accuracy.csv").read_text(encoding="utf-8")
    rows = list(csv.reader(text.splitlines()))[1:]
    return tuple(Cell(row[0], *map(int, row[1:4]), *map(float, row[4:])) for row in rows)


class _Curve(NamedTuple):
    """One method, one number of clients: coordinates, and the logarithms of all measures there."""

    x: list[float]
    logs: list[list[float]]


@lru_cache(maxsize=64)
def _curves(method: str, cells: tuple[Cell, ...] | None, scale: Scale) -> dict[int, _Curve]:
    rows: dict[int, list[Cell]] = {}
    for cell in cells or measured():
        if cell.method == method:
            rows.setdefault(cell.clients, []).append(cell)
    if not rows:
        raise InputError(f"The accuracy of {method!r} was not measured.")
    return {
        n: _Curve(
            [scale(n, cell.coalitions) for cell in of],
            [
                [math.log(getattr(cell, which) / _unknown(method, n, cell.coalitions)) for cell in of]
                for which in _MEASURES
            ],
        )
        for n, of in rows.items()
    }
