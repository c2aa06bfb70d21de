"""What was read from a folder, what was done to it, what looks suspicious and what was refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from fedvalue._text import count, plural, shortened

__all__ = ["ColumnReport", "DataReport", "PartyReport"]

_SHOWN = 3  # statements of a kind in the short form


@dataclass(frozen=True)
class ColumnReport:
    """One column: `kind` is number, date, yes/no or category; `features` is how many numbers a model gets for it."""

    name: str
    kind: str
    features: int
    done: tuple[str, ...] = ()


@dataclass(frozen=True)
class PartyReport:
    """One file: rows that are used, blank lines that are not, missing cells, its labels in words, and what is
    suspicious about it."""

    name: str
    file: str
    rows: int
    blank: int = 0
    missing: int = 0
    is_test: bool = False
    labels: str = ""
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataReport:
    """A folder as fedvalue understands it.

    `done` is what was decided or changed without being asked. A finding is no error: it names a client and what is
    odd about its data. Whatever is `refused` has to be repaired, or decided by an option, before anything is trained.
    """

    folder: str
    label: str = ""
    task: str = ""
    classes: tuple[str, ...] = ()
    parties: tuple[PartyReport, ...] = ()
    columns: tuple[ColumnReport, ...] = ()
    done: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    is_folder: bool = True  # else data in memory

    @property
    def features(self) -> int:
        """How many numbers a model gets for a row."""
        return sum(column.features for column in self.columns)

    @property
    def suspicious(self) -> tuple[str, ...]:
        """All findings, those about single files first."""
        return (*(finding for party in self.parties for finding in party.findings), *self.findings)

    def lines(self) -> list[str]:
        """A few lines for the heading of a run: features, classes, and what was done."""
        kinds = Counter(column.kind for column in self.columns)
        made = ", ".join(plural(number, _WORDS.get(kind, kind)) for kind, number in kinds.items())
        lines = [f"{plural(self.features, 'feature')} from {made}; {self.predicts}."]
        done = [f"{column.name}: {what}" for column in self.columns for what in column.done]
        rest = "fedvalue data check shows all" if self.is_folder else "scenario.report has all"
        return [*lines, *_some([*self.done, *done], "", rest), *_some(self.suspicious, "Suspicious: ", rest)]

    @property
    def predicts(self) -> str:
        """What is to be predicted, in words."""
        if self.task != "classification":
            return f"regression of {self.label}"
        names = ", ".join(shortened(name, 20) for name in self.classes[:5])
        more = ", …" if len(self.classes) > 5 else ""
        return f"{count(len(self.classes))} classes of {self.label}: {names}{more}"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {**asdict(self), "features": self.features}


_WORDS = {
    "number": "number column",
    "date": "date column",
    "yes/no": "yes/no column",
    "category": "category column",
    "text": "text column",
}


def _some(said: list[str] | tuple[str, ...], before: str, rest: str) -> list[str]:
    shown = [f"{before}{what}." for what in said[:_SHOWN]]
    if len(said) > _SHOWN:
        shown.append(f"{before}{len(said) - _SHOWN} more: {rest}.")
    return shown
