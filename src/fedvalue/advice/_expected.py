"""How far values were from those of the expected utility, and what that means for other sizes.

`expected.csv` holds errors by plan, number of clients n and budget γ (`bench/advice.py --expected` measures them on games
that were trained with many seeds). They have a part from coalitions that were not trained and one from the luck of
training; what a single test row would err by stands beside them, and m of them add 1/√m of it.

Errors of different n are most alike at the same γ/n. Between what was measured the logarithm of the error is interpolated
linearly, in log n and in log(γ/n). Outside, the nearest measured error is taken and said to be extrapolated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedvalue.advice._accuracy import Expected, between, rows_of_table

__all__ = [
    "EQUAL",
    "EXACT",
    "EXPECTED_COLUMNS",
    "ONE_SEED",
    "SEVERAL_SEEDS",
    "ExpectedCell",
    "against_expected",
    "expected_cells",
    "largest_budget",
    "test_rows_add",
]

EQUAL = "equal"
EXACT = "exact"  # all coalitions of one seed
ONE_SEED = "one seed"
SEVERAL_SEEDS = "several seeds"  # as many as the surrogate takes for the budget


class ExpectedCell(NamedTuple):
    """A row of the table: the error over so many games, four of five of which lie from low to high.

    `left` is the error as a fraction of that of the equal split. `luck` is the part of its square that is luck of
    training, the rest are coalitions that were not trained. `test_row` is the error that one test row would add.
    """

    plan: str
    clients: int
    budget: int
    games: int
    error: float
    low: float
    high: float
    left: float
    left_low: float
    left_high: float
    luck: float
    test_row: float


EXPECTED_COLUMNS = ExpectedCell._fields


@lru_cache(maxsize=1)
def expected_cells() -> tuple[ExpectedCell, ...]:
    """The table that comes with the package."""
    rows = rows_of_table("expected.csv")
    return tuple(ExpectedCell(row[0], *map(int, row[1:4]), *map(float, row[4:])) for row in rows)


def against_expected(
    clients: int,
    budget: int,
    plan: str = SEVERAL_SEEDS,
    test_rows: int | None = None,
    cells: Iterable[ExpectedCell] | None = None,
) -> Expected:
    """What a plan's error against the values of the expected utility will be; without test rows, on those there are.

    >>> against_expected(10, 32).error > 1.5 * against_expected(10, 128).error
    True
    >>> against_expected(10, 64).error < against_expected(10, 1024, EXACT).error
    True
    """
    table: dict[int, list[ExpectedCell]] = {}
    for cell in expected_cells() if cells is None else cells:
        if cell.plan in (plan, EQUAL) if plan != EXACT else cell.plan == EXACT:
            table.setdefault(cell.clients, []).append(cell)
    here = math.log(budget / clients)
    share, below, above = between(clients, sorted(table))
    found = (1 - share) * _measures(table[below], here) + share * _measures(table[above], here)
    error, low, high, left, left_low, left_high, a_row = np.exp(found[:-1]).tolist()
    luck = float(found[-1])
    of_rows = 0.0 if test_rows is None else a_row / math.sqrt(test_rows)
    wider = math.hypot(error, of_rows) / error
    reach = max(math.log(table[n][-1].budget / n) for n in (below, above))
    return Expected(
        math.hypot(error, of_rows),
        math.hypot(low, of_rows),
        math.hypot(high, of_rows),
        1 - left * wider,
        1 - left_high * wider,
        1 - left_low * wider,
        clients_measured=min(table) <= clients <= max(table),
        coalitions_measured=plan == EXACT or here <= reach + 1e-12,
        parts={
            "coalitions": error * math.sqrt(1 - luck),
            "training": error * math.sqrt(luck),
            "test": None if test_rows is None else of_rows,
        },
    )


def test_rows_add(clients: int, budget: int, test_rows: int) -> float:
    """The error that so many test rows add by themselves."""
    return against_expected(clients, budget, test_rows=test_rows).parts["test"] or 0.0


def largest_budget(clients: int) -> int:
    """As many trainings as the table reaches to for this number of clients."""
    several = [cell for cell in expected_cells() if cell.plan == SEVERAL_SEEDS]
    return max(2, int(clients * max(cell.budget / cell.clients for cell in several)))


def _measures(cells: Sequence[ExpectedCell], here: float) -> NDArray[np.float64]:
    """Logarithms of errors, and the part of luck, at a position, for one measured number of clients."""
    cells = sorted(cells, key=lambda cell: cell.budget)
    places = [math.log(cell.budget / cell.clients) for cell in cells]
    logs = np.log([[*cell[4:10], cell.test_row] for cell in cells])
    measures = np.column_stack([logs, [cell.luck for cell in cells]])
    return np.array([np.interp(here, places, column) for column in measures.T])
