"""The rows of an experiment on disk: one line per run, written as it finishes."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from fedvalue_paper.files import read_text, write_whole
from fedvalue_paper.grid import GameSpec, games_of
from fedvalue_paper.measures import MEASURES
from fedvalue_paper.spec import Experiment

__all__ = ["Row", "RowFile", "columns_of", "key_of", "value_in"]

Row: TypeAlias = dict[str, Any]

_BEFORE = (
    "experiment", "scale", "variant", "game", "game_id", "scenario", "partition", "model", "n", "samples",
    "game_seed", "training_seed", "empty", "empty_rule", "metric", "method", "label", "options", "budget", "seed", "applicable", "reason", "trainings",
)  # fmt: skip
_EXPECTED = ("error_expected", "skill_expected", "better_expected")  # against the mean over training seeds
_AFTER = (*_EXPECTED, "sample_epochs", "paper_seconds", "extrapolated", "wall_seconds", "values", "expected")
_KEY = ("game_id", "metric", "method", "label", "options", "budget", "seed")
_TEXT = {
    "experiment", "scale", "variant", "game", "game_id", "scenario", "partition", "model", "empty_rule", "metric", "method",
    "label", "options", "reason", "values", "expected",
}  # fmt: skip


def columns_of(experiment: Experiment, games: Sequence[GameSpec] | None = None) -> list[str]:
    """The columns of the rows: those that all experiments have, and one for every option in the grid."""
    of_games = [key for game in games or games_of(experiment) for key in game.options]
    of_methods = [key for listed in experiment.methods for key in listed.options]
    return list(dict.fromkeys([*_BEFORE, *MEASURES, *_AFTER, *of_games, *of_methods]))


def key_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What makes two rows the same run."""
    return tuple("" if row.get(name) is None else str(row[name]) for name in _KEY)


def value_in(cell: str | None) -> Any:
    """What a cell of a table holds: nothing, a truth, a number or text.

    >>> [value_in(cell) for cell in ("", "True", "3", "0.5", "mlp")]
    [None, True, 3, 0.5, 'mlp']
    """
    if not cell:
        return None
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


class RowFile:
    """A CSV file that grows row by row; a line that was cut off by a crash is dropped when it is read."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path = path
        self.columns = list(columns)

    def read(self) -> list[Row]:
        """The complete rows; none where there is no file, or one with other columns."""
        try:
            text = read_text(self.path)
        except (OSError, EOFError, zlib.error):
            return []
        lines = text[: text.rfind("\n") + 1].splitlines()
        if not lines or next(csv.reader(lines[:1])) != self.columns:
            return []
        cells = [line for line in csv.reader(lines[1:]) if len(line) == len(self.columns)]
        return [
            {
                name: (cell or None) if name in _TEXT else value_in(cell)
                for name, cell in zip(self.columns, line, strict=True)
            }
            for line in cells
        ]

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """All rows anew."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self._cells(row) for row in rows)
        write_whole(self.path, buffer.getvalue())

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds rows at the end."""
        with self.path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(self._cells(row) for row in rows)

    def _cells(self, row: Mapping[str, Any]) -> list[str]:
        return [_written(row.get(name)) for name in self.columns]


def _written(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
