"""What was learnt from the clients of a folder, fixed: kinds of columns, categories, scales and classes.

All that is learnt from clients changes with who they are, and with it every feature of everybody. Where clients come and
go it is learnt once, kept in a file, and taken from there: the rows of those who stay become the same features again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._base import Scenario
from fedvalue.scenarios._scale import Scale

__all__ = ["FixedColumn", "Preprocessing", "preprocessing_of"]

_FORMAT = "fedvalue.preprocessing/1"
_KINDS = ("number", "date", "yes/no", "category", "text")


@dataclass(frozen=True)
class FixedColumn:
    """One column: its categories, or the scale of its numbers, what a missing one is set to, and whether it is marked.

    Of a text the `levels` are the words with numbers of their own, and `length` words of each row are used.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    marked: bool = False
    centre: float = 0.0
    spread: float = 1.0
    usual: float = 0.0
    length: int = 0

    @property
    def scale(self) -> Scale:
        """Where its numbers lie and how far they spread."""
        return Scale(self.centre, self.spread)


@dataclass(frozen=True)
class Preprocessing:
    """How the files of a folder become features and labels. `target` is the scale of the targets of a regression."""

    label: str
    task: str
    classes: tuple[str, ...]
    columns: tuple[FixedColumn, ...]
    standardise: bool = True
    target: Scale | None = None

    def column(self, name: str) -> FixedColumn:
        """The column of this name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise ScenarioError(
            f"Column {name!r} is not among those that the preprocessing fixes ({', '.join(c.name for c in self.columns)}). "
            f"Leave it out: drop={name!r}."
        )

    def check(self, names: list[str]) -> None:
        """Refuses a folder that lacks columns, or has others."""
        for name in names:
            self.column(name)
        lacking = [column.name for column in self.columns if column.name not in names]
        if lacking:
            raise ScenarioError(f"The preprocessing fixes columns that these files have not: {lacking}.")

    def to_plain(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"format": _FORMAT, **asdict(self)}

    @classmethod
    def read(cls, given: Any) -> Preprocessing:
        """From a file, or from what `to_plain` gave."""
        where = "The preprocessing"
        if isinstance(given, (str, PathLike)):
            where = str(given)
            try:
                given = json.loads(Path(given).read_text(encoding="utf-8"))
            except OSError as error:
                raise ScenarioError(f"Cannot read {where}: {error.strerror}.") from error
            except (ValueError, RecursionError) as error:
                raise ScenarioError(f"{where} is not a preprocessing: it does not hold JSON.") from error
        if not isinstance(given, Mapping) or given.get("format") != _FORMAT:
            raise ScenarioError(f"{where} is not a preprocessing that fedvalue wrote ({_FORMAT}).")
        try:
            columns = tuple(
                FixedColumn(**{**column, "levels": tuple(column["levels"])}) for column in given["columns"]
            )
            target = None if given["target"] is None else Scale(**given["target"])
            found = cls(
                str(given["label"]), str(given["task"]), tuple(map(str, given["classes"])), columns,
                bool(given["standardise"]), target,
            )  # fmt: skip
            sound = all(column.kind in _KINDS and float(column.spread) > 0 for column in columns)
        except (KeyError, TypeError, ValueError) as error:
            raise ScenarioError(f"{where} is not a complete preprocessing: {error}.") from error
        if not sound:
            raise ScenarioError(
                f"{where} is not a preprocessing: a kind of column is unknown, or a spread is not above 0."
            )
        return found


def preprocessing_of(scenario: Scenario) -> dict[str, Any] | None:
    """What was learnt from the clients of a scenario made of files, as plain data to fix it by: `preprocessing=`.

    None for other scenarios, which bring their features with them.
    """
    learnt = scenario.details.get("preprocessing")
    if not isinstance(learnt, Mapping):
        return None
    target = None if scenario.classes else asdict(scenario.scale)
    return {**learnt, "target": target}
