"""From rows to what is drawn: choosing, checking, averaging over repeats, Pareto fronts. No matplotlib here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from numbers import Real
from statistics import fmean, stdev
from typing import NamedTuple

from fedvalue.errors import InputError
from fedvalue_paper.figures.words import Quantity, quantity

__all__ = [
    "KINDS",
    "SCALES",
    "Entry",
    "FigureSpec",
    "Mark",
    "NothingToShow",
    "Spread",
    "entries_of",
    "marks_of",
    "pareto_front",
]

KINDS = ("line", "scatter", "bars", "front")
SCALES = ("linear", "log", "symlog")


class NothingToShow(InputError):  # noqa: N818 - a state of the rows, not a mistake
    """No row has what a figure shows: a variance, say, after a single run."""


@dataclass(frozen=True)
class FigureSpec:
    """What one figure shows: the columns of the rows that become its axes, colours and panels.

    `series`: one look per value, fixed for methods. `panels`: columns that span small multiples. Whatever else
    rows differ in (seeds of methods, partitions, trainings) is averaged over; `band`: "sd" draws ± one standard
    deviation of it, "none" does not. `where` keeps the rows whose column equals the given value, or is one of a list.

    Kinds: "line" (means against x), "scatter" (a mark per series, budget and options), "bars" (x are categories),
    "front" (a scatter with the Pareto front of each series: small is good on both axes).

    Scales: "symlog" for values near 0, which is logarithmic but for a linear part around 0; a "log" axis on which
    something would not be above 0 becomes one. Labels of axes are those of `words` where none are given.

    >>> FigureSpec("budget", "line", "budget", "error", where={"n": [6, 10]}).series
    'label'
    """

    name: str
    kind: str
    x: str
    y: str
    series: str = "label"
    panels: tuple[str, ...] = ()
    x_scale: str = "linear"
    y_scale: str = "linear"
    x_label: str = ""
    y_label: str = ""
    band: str = "sd"
    where: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        choices = {"kind": KINDS, "x_scale": SCALES, "y_scale": SCALES, "band": ("sd", "none")}
        for key, allowed in choices.items():
            if (came := getattr(self, key)) not in allowed:
                raise InputError(
                    f"Figure {self.name!r}: {key} must be one of {', '.join(allowed)}; got {came!r}. Change {key}."
                )
        if isinstance(self.panels, str):
            raise InputError(
                f"Figure {self.name!r}: panels must be a list of columns; got {self.panels!r}. "
                f"Write [{self.panels!r}]."
            )


class Entry(NamedTuple):
    """One row as far as the figure is concerned. Rows of a series with the same `at` are repeats of one mark."""

    panel: tuple[object, ...]
    series: object
    at: object
    x: float
    y: float
    extrapolated: bool = False


class Spread(NamedTuple):
    """A mean, and the ends of its error bar."""

    mean: float
    low: float
    high: float


class Mark(NamedTuple):
    """What is drawn at one place; `at` is the category of a bar."""

    at: object
    x: Spread
    y: Spread


def entries_of(spec: FigureSpec, rows: Sequence[Mapping[str, object]]) -> list[Entry]:
    """The rows that the figure shows. None and NaN mean that something does not apply: left out.

    Only the paper's time is ever extrapolated, so other figures do not show the mark of it.
    """
    _check_columns(spec, rows)
    timed = "paper_seconds" in (spec.x, spec.y)
    kept = [
        row for row in rows if all(_matches(row.get(column), want) for column, want in spec.where.items())
    ]
    found = []
    for row in kept:
        category = row.get(spec.x)
        x = _number(spec, row, spec.x) if spec.kind != "bars" else None if category is None else 0.0
        y = _number(spec, row, spec.y)
        panel = tuple(row.get(column) for column in spec.panels)
        series = row.get(spec.series)
        at = category if spec.kind in ("line", "bars") else (row.get("budget"), row.get("options"))
        if x is not None and y is not None and series is not None and None not in panel:
            found.append(Entry(panel, series, at, x, y, timed and bool(row.get("extrapolated"))))
    if not found:
        raise NothingToShow(
            f"Figure {spec.name!r}: expected rows with numbers in {spec.x!r} and {spec.y!r}; of {len(rows)} rows "
            f"{len(kept)} match where={dict(spec.where)!r} and none has both. Run the experiment first, or change where."
        )
    return found


def _check_columns(spec: FigureSpec, rows: Sequence[Mapping[str, object]]) -> None:
    known = {column for row in rows for column in row}
    asked = (spec.x, spec.y, spec.series, *spec.panels, *spec.where)
    if rows and (unknown := [column for column in asked if column not in known]):
        raise InputError(
            f"Figure {spec.name!r}: no row has the column {', '.join(map(repr, unknown))}. "
            f"Choose among: {', '.join(sorted(map(str, known)))}."
        )


def _matches(value: object, want: object) -> bool:
    if isinstance(want, Collection) and not isinstance(want, str | bytes):
        return value in want
    return value == want


def _number(spec: FigureSpec, row: Mapping[str, object], column: str) -> float | None:
    value = row.get(column)
    if value is None:
        return None
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InputError(
            f"Figure {spec.name!r}: column {column!r} must hold numbers; got {value!r}. "
            "Choose another column, or kind = 'bars' if x holds categories."
        )
    return float(value) if isfinite(value) else None


def marks_of(spec: FigureSpec, entries: Iterable[Entry]) -> list[Mark]:
    """One mark for all repeats of a place, from left to right."""
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.at, []).append(entry)
    x, y = quantity(spec.x), quantity(spec.y)
    shown = spec.band == "sd"
    marks = [
        Mark(at, _spread([e.x for e in same], x, shown), _spread([e.y for e in same], y, shown))
        for at, same in groups.items()
    ]
    return sorted(marks, key=lambda mark: mark.x.mean)


def _spread(numbers: Sequence[float], possible: Quantity, shown: bool) -> Spread:
    """Mean and one deviation to both sides, as far as the quantity can go: an error is never below 0."""
    mean = fmean(numbers)
    # Rounding in the mean of equal numbers is not spread.
    differ = shown and len(numbers) > 1 and min(numbers) < max(numbers)
    deviation = stdev(numbers) if differ else 0.0
    low, high = max(mean - deviation, possible.low), min(mean + deviation, possible.high)
    return Spread(mean, min(low, mean), max(high, mean))


def pareto_front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other one beats: x rises along the front and y falls.

    >>> pareto_front([(1, 5), (2, 6), (3, 2), (3, 4)])
    [(1, 5), (3, 2)]
    """
    front: list[tuple[float, float]] = []
    for point in sorted(points):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return front
