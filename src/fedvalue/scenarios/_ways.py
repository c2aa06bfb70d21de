"""Two ways of reading a column: which one a file means, by its own cells, its other columns, or the user's word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._readings import Readings
from fedvalue.scenarios._tables import Cells, Table, texts

__all__ = ["DATES", "NUMBERS", "Choices", "Ways", "habit_of", "read_numbers", "resolved"]


@dataclass(frozen=True)
class Choices:
    """What the user has decided: columns to keep whatever they look like, and how cells are to be read."""

    keep: frozenset[str] = frozenset()
    decimal: str | None = None
    dates: str | None = None
    missing: frozenset[str] = frozenset()
    impute: str = "median"  # what a missing number becomes


@dataclass(frozen=True)
class Ways:
    """The two ways of reading a column, in words, and the option that chooses."""

    option: str
    one: str
    other: str
    what: str

    def choice(self, said: str | None) -> int | None:
        return None if said is None else [self.one, self.other].index(said)


NUMBERS = Ways("decimal", ".", ",", "the comma or the point separates thousands or decimals")
DATES = Ways("dates", "day-first", "month-first", "the day or the month comes first")


def read_numbers(
    name: str, tables: Sequence[Table], what: str, choices: Choices, habits: Sequence[int | None]
) -> list[NDArray[np.float64]]:
    """A column as numbers, each file in the one way that it writes them; NaN where a cell is none."""
    way = NUMBERS.choice(choices.decimal)
    return [
        resolved(table.numbers(name), table.columns[name], table, what, NUMBERS, way, habit)
        for table, habit in zip(tables, habits, strict=True)
    ]


def habit_of(table: Table, names: Sequence[str]) -> int | None:
    """How a file writes decimals, where its columns of numbers agree: 0 with a point, 1 with a comma."""
    said = set()
    for name in names:
        found = table.numbers(name)
        if isinstance(table.columns[name], list) and 2 * int(found.valid.sum()) > len(table):
            said |= {way for way, places in enumerate(found.says()) if len(places)}
    return said.pop() if len(said) == 1 else None


def resolved(
    found: Readings, cells: Cells, table: Table, what: str, ways: Ways, way: int | None, habit: int | None
) -> NDArray[np.float64]:
    """The way of reading that the file's own cells decide; where they do not, its other columns; else refused."""
    if way is not None:
        return (found.one, found.other)[way]
    one, other = found.says()
    if len(one) and len(other):
        raise ScenarioError(
            f"{table.at(int(other[0]))}: {what} is written in two ways in one file, here {texts(cells)[other[0]]!r}, and "
            f"{texts(cells)[one[0]]!r} in {table.unit} {table.lines[one[0]]}. Write all alike, or say "
            f"{ways.option}={ways.one} or {ways.option}={ways.other}."
        )
    unclear = np.flatnonzero(found.unclear)
    if len(one) or len(other) or not len(unclear):
        return found.other if len(other) else found.one
    # 1.250 and 2.375: three decimals in every cell. With whole numbers among them it might as well be 1250 and 800,
    # and a file with other decimals does not tell: only that they separate thousands makes sense of both.
    small = np.abs(found.one[unclear]) < np.abs(found.other[unclear])
    alone = len(unclear) == int(found.valid.sum())
    if ways is NUMBERS and small.all() and (alone or habit == 1):
        return found.one if habit != 1 else found.other
    if ways is NUMBERS and not small.any() and habit is not None and (alone or habit == 0):
        return (found.one, found.other)[habit]
    raise ScenarioError(
        f"{table.at(int(unclear[0]))}: {what} can be read in two ways, such as {texts(cells)[unclear[0]]!r}, and no "
        f"cell of this file tells whether {ways.what}. Say {ways.option}={ways.one} or {ways.option}={ways.other}."
    )
