"""Committed results as lines: one per game, method and budget, read from rows.csv or, without it, table.csv."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeAlias

from fedvalue_paper.rows import value_in

__all__ = ["Figure", "Line", "Results", "figure_of", "read_results", "where"]

Line: TypeAlias = Mapping[str, Any]
Results: TypeAlias = Mapping[str, Sequence[Line]]  # by the folder's name, NAME-SCALE

_SEEDS = ("seed", "reason", "wall_seconds", "values", "expected")  # what runs of one line differ by, or text
_DEVIATION = "_sd"


@dataclass(frozen=True)
class Figure:
    """A mean over the games of a setting; its standard error from their spread, if there are several."""

    mean: float
    stderr: float | None = None

    def __str__(self) -> str:
        text = short(self.mean)
        return text if self.stderr is None else f"{text} ± {short(self.stderr)}"


def short(number: float) -> str:
    """Three digits.

    >>> short(0.04567), short(123456.0), short(62.2)
    ('0.0457', '123,456', '62.2')
    """
    if number and not 1e-4 <= abs(number) < 1e6:
        return f"{number:.2e}"
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def read_results(folder: Path) -> dict[str, list[Line]]:
    """The lines of every NAME-SCALE under a folder."""
    found: dict[str, list[Line]] = {}
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        if (place / "rows.csv").exists():
            found[place.name] = _over_seeds(_read(place / "rows.csv"))
        elif (place / "table.csv").exists():
            found[place.name] = _read(place / "table.csv")
    return found


def where(lines: Iterable[Line], conditions: Mapping[str, Any]) -> list[Line]:
    """The lines that have these values; of a list, one of them."""
    return [line for line in lines if all(_fits(line.get(key), want) for key, want in conditions.items())]


def figure_of(lines: Sequence[Line], column: str) -> Figure | None:
    """The mean of a column over lines; None where there is none."""
    numbers = [number for line in lines if (number := _number(line, column)) is not None]
    if not numbers:
        return None
    games = {(line.get("game_id"), line.get("game_seed"), line.get("training_seed")) for line in lines}
    several = len(numbers) > 1 and len(games) == len(numbers)
    return Figure(fmean(numbers), stdev(numbers) / math.sqrt(len(numbers)) if several else None)


def _number(line: Line, column: str) -> float | None:
    """What stands there; the variance of a measure over runs is its deviation squared."""
    value = line.get(column)
    if value is None and column.endswith("_variance"):
        deviation = line.get(column.removesuffix("_variance") + _DEVIATION)
        value = None if deviation is None else deviation**2
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable and value is not None else None


def _fits(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list) else bool(value == wanted)


def _read(path: Path) -> list[Line]:
    with path.open(encoding="utf-8", newline="") as file:
        return [{key: value_in(cell) for key, cell in row.items()} for row in csv.DictReader(file)]


def _over_seeds(rows: Sequence[Line]) -> list[Line]:
    """Runs that differ by their seed become one line, with means and deviations of what is a number."""
    groups: dict[tuple[Any, ...], list[Line]] = {}
    names = ("game", "game_id", "partition_seed", "training_seed", "metric", "label", "options", "budget")
    for row in rows:
        if row.get("applicable") is not False:
            groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return [_mean_line(group) for group in groups.values()]


def _mean_line(group: Sequence[Line]) -> Line:
    line: dict[str, Any] = {"runs": len(group)}
    for name, first in group[0].items():
        numbers = [row[name] for row in group if isinstance(row.get(name), float | int)]
        if name in _SEEDS or len(set(numbers)) <= 1:
            line[name] = next((row[name] for row in group if row.get(name) is not None), first)
        else:
            line[name] = fmean(numbers)
        if len(numbers) > 1 and name not in _SEEDS:
            line[name + _DEVIATION] = stdev(map(float, numbers))
    line["variance"] = _variance([str(row["values"]) for row in group if row.get("values") is not None])
    return line


def _variance(values: Sequence[str]) -> float | None:
    """The variance over runs of a client's value, mean over clients."""
    vectors = [[float(number) for number in text.split()] for text in values]
    if len(vectors) < 2:
        return None
    return fmean(stdev(of_client) ** 2 for of_client in zip(*vectors, strict=True))
