"""An experiment once more from the utilities that a finished run kept: no training, no data set.

Every method that asks for utilities is run again, and tables and figures are made anew. Rows of gradient methods
and seconds by the clock are taken over, because what they come from cannot be kept. The rest must come out as it
was, and then stays bit for bit; where a method has changed since, its new rows can be accepted in place of the old.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedvalue.errors import FedvalueError, InputError
from fedvalue_paper.authors import known_methods
from fedvalue_paper.effort import Watch
from fedvalue_paper.engine import ROWS, Played, completed, play
from fedvalue_paper.grid import games_of
from fedvalue_paper.kept import UTILITIES, Kept, read_kept
from fedvalue_paper.manifest import settings_of
from fedvalue_paper.rows import Row, RowFile, columns_of, key_of
from fedvalue_paper.spec import Experiment

__all__ = ["KEPT_ROWS", "Recomputed", "Source", "about", "recompute", "source_of"]

KEPT_ROWS = f"{ROWS}.gz"
_CLOCK = ("wall_seconds",)
_RELATIVE, _ABSOLUTE = 1e-6, 1e-9  # libraries of linear algebra differ in the last bits


@dataclass(frozen=True)
class Source:
    """What a finished run left: the file of utilities, its games by their place among all, and the rows beside it."""

    utilities: Path
    games: dict[int, Kept]
    rows: list[Row]

    @property
    def folder(self) -> Path:
        """Where all of it lies."""
        return self.utilities.parent


@dataclass(frozen=True)
class Recomputed:
    """All rows, the games, and how many rows were computed, how many taken over, and how many changed, by method."""

    rows: list[Row]
    played: list[Played]
    computed: int
    taken: int
    changed: Mapping[str, int]


def about(experiment: Experiment) -> dict[str, Any]:
    """What a file of utilities says of its experiment."""
    return {
        "experiment": experiment.name,
        "scale": experiment.scale,
        "variant": experiment.variant,
        "settings": settings_of(experiment),
        "seeds": list(experiment.seeds),
    }


def source_of(experiment: Experiment, path: Path, folder_name: str) -> Source:
    """Finds and reads what was kept: `path` is the file, its folder, or a folder of such folders."""
    places = [path, path / UTILITIES, path / folder_name / UTILITIES]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise InputError(
            f"There are no utilities of {folder_name} in {path}. Expected {UTILITIES} there or in {folder_name}."
        )
    header, games = read_kept(file)
    for key, expected in about(experiment).items():
        if header.get(key) != expected:
            raise InputError(
                f"{file} is of another experiment: its {key} is {header.get(key)!r}, expected {expected!r}."
            )
    placed = _placed(experiment, games, file)
    rows_file = next(filter(Path.is_file, (file.parent / KEPT_ROWS, file.parent / ROWS)), None)
    if rows_file is None:
        raise InputError(f"{file.parent} has no {KEPT_ROWS}: its rows are needed beside the utilities.")
    rows = RowFile(rows_file, columns_of(experiment)).read()
    if not rows:
        raise InputError(f"{rows_file} holds no rows of this experiment. Get it anew.")
    return Source(file, placed, rows)


def _placed(experiment: Experiment, games: Sequence[Kept], file: Path) -> dict[int, Kept]:
    """The games that were trained, by their place; those that stand in the experiment as a table need no file."""
    trained = [
        (place, spec) for place, spec in enumerate(games_of(experiment), 1) if "table" not in spec.settings
    ]
    wanted = [(spec.label, spec.n) for _, spec in trained]
    found = [(kept.label, len(kept.sizes)) for kept in games]
    if found != wanted:
        raise InputError(f"{file} has other games (label, clients): {found}. Expected {wanted}.")
    return {place: kept for (place, _), kept in zip(trained, games, strict=True)}


def recompute(
    experiment: Experiment,
    source: Source,
    folder: Path,
    watch: Watch | None = None,
    *,
    accept_changes: bool = False,
) -> Recomputed:
    """Runs every method on the kept utilities; a row that does not come out as it was takes the place of the old one
    with `accept_changes`, and is an error without.
    """
    gradient = {method.name for method in known_methods().values() if method.view}
    committed = {key_of(row): row for row in source.rows}
    taken = [row for row in source.rows if row["method"] in gradient]
    file = RowFile(folder / ROWS, columns_of(experiment))
    file.write(taken)
    _, played = play(experiment, folder, folder, watch=watch, kept=source.games)
    rows, changed = [], Counter[str]()
    for row in file.read():
        before = committed.pop(key_of(row), None)
        if before is None:
            raise FedvalueError(f"{_named(row)} is not among the rows of {source.folder}.")
        now = row | {name: before[name] for name in _CLOCK}
        name = _first_difference(now, before)
        if name is None:
            rows.append(before)
        elif accept_changes:
            rows.append(now)
            changed[now["label"]] += 1
        else:
            raise FedvalueError(
                f"{_named(now)}: {name} is {now[name]} from the kept utilities, and {before[name]} in the rows of "
                f"{source.folder}. If the method has changed since, --accept-changes writes the new rows."
            )
    if committed:
        missing = next(iter(committed.values()))
        raise FedvalueError(f"{_named(missing)} is in {source.folder} and did not come out here.")
    file.write(rows)
    return Recomputed(completed(experiment, rows), played, len(rows) - len(taken), len(taken), changed)


def _first_difference(now: Row, before: Row) -> str | None:
    return next((name for name, old in before.items() if not _same(now[name], old)), None)


def _same(new: Any, old: Any) -> bool:
    if new == old:
        return True
    if isinstance(new, str) and isinstance(old, str):
        return _close(_numbers(new), _numbers(old))
    numbers = [
        value for value in (new, old) if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return len(numbers) == 2 and _close(numbers[:1], numbers[1:])


def _close(new: Sequence[float], old: Sequence[float]) -> bool:
    return bool(new) and len(new) == len(old) and all(
        math.isclose(a, b, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE) for a, b in zip(new, old, strict=True)
    )  # fmt: skip


def _numbers(text: str) -> list[float]:
    try:
        return list(map(float, text.split()))
    except ValueError:
        return []


def _named(row: Row) -> str:
    budget = "" if row["budget"] is None else f", γ = {row['budget']}"
    return f"The row of {row['label']} on {row['game']}{budget}, seed {row['seed']}"
