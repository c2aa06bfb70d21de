"""From rows to what is drawn: choosing, checking, averaging over repeats, Pareto fronts. No matplotlib here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import isfinite
from numbers import Real
from statistics import fmean, stdev
from typing import NamedTuple

from fedvalue.errors import InputError

__all__ = [
    "KINDS",
    "Entry",
    "FigureSpec",
    "Mark",
    "NothingToShow",
    "entries_of",
    "mark_of",
    "marks_by_x",
    "pareto_front",
]

KINDS = ("line", "scatter", "bars", "front")


class NothingToShow(InputError):  # noqa: N818 - a state of the rows, not a mistake
    """No row has what a figure shows: a variance, say, after a single run."""


@dataclass(frozen=True)
class FigureSpec:
    """What one figure shows: the columns of the rows that become its axes, colours and panels.

    `series`: one colour per value, fixed for methods. `panels`: columns that span small multiples.
    `band`: "sd" draws ± one standard deviation over repeated rows, "none" does not. `where` keeps the
    rows whose column equals the given value, or is one of a list.

    Kinds: "line" (mean against x), "scatter" (one mark per series), "bars" (x are categories), "front" (all
    repeats and the Pareto front of each series: small is good on both axes).

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
    title: str = ""
    band: str = "sd"
    where: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        choices = {
            "kind": KINDS,
            "x_scale": ("linear", "log"),
            "y_scale": ("linear", "log"),
            "band": ("sd", "none"),
        }
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
    """One row as far as the figure is concerned. Bars stand at a `category`, everything else at an `x`."""

    panel: tuple[object, ...]
    series: object
    x: float
    y: float
    extrapolated: bool = False
    category: object = None


class Mark(NamedTuple):
    """Mean and standard deviation of repeated rows; a single row has deviation 0."""

    x: float
    y: float
    x_sd: float = 0.0
    y_sd: float = 0.0
    extrapolated: bool = False


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
        if x is not None and y is not None and series is not None and None not in panel:
            found.append(Entry(panel, series, x, y, timed and bool(row.get("extrapolated")), category))
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


def mark_of(entries: Sequence[Entry]) -> Mark:
    """The mean of both coordinates over repeats.

    >>> mark_of([Entry((), "IPSS", 1.0, 2.0), Entry((), "IPSS", 3.0, 2.0)])[:2]
    (2.0, 2.0)
    """
    xs, ys = [entry.x for entry in entries], [entry.y for entry in entries]
    return Mark(
        fmean(xs), fmean(ys), _deviation(xs), _deviation(ys), any(entry.extrapolated for entry in entries)
    )


def marks_by_x(entries: Iterable[Entry]) -> list[Mark]:
    """One mark per distinct number x, from left to right."""
    rising = sorted(entries, key=lambda entry: entry.x)
    return [mark_of(list(same)) for _, same in groupby(rising, key=lambda entry: entry.x)]


def _deviation(numbers: Sequence[float]) -> float:
    # Rounding in the mean of equal numbers is not spread.
    return stdev(numbers) if len(numbers) > 1 and min(numbers) < max(numbers) else 0.0


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
