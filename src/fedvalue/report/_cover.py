"""What a report is of, as its readers know it: whose clients, which period, what day, who ran it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedvalue._checks import expect
from fedvalue._text import one_line
from fedvalue.errors import InputError

__all__ = ["Cover", "cover_of"]

_LONGEST = 200  # letters: what is longer is no name


@dataclass(frozen=True)
class Cover:
    """Texts for the head of a report; empty where nothing is said."""

    consortium: str = ""
    period: str = ""
    date: str = ""
    operator: str = ""

    def __post_init__(self) -> None:
        for name, text in asdict(self).items():
            expect(f"The {name} of a report", text, str, "a text")
            if len(text) > _LONGEST:
                raise InputError(f"The {name} of a report has at most {_LONGEST} letters. Got {len(text)}.")

    @classmethod
    def of(
        cls,
        consortium: str | None = None,
        period: str | None = None,
        date: str | datetime.date | None = None,
        operator: str | None = None,
    ) -> Cover:
        """From what was given; None is nothing said."""
        day = date.isoformat() if isinstance(date, datetime.date) else date
        return cls(consortium or "", period or "", day or "", operator or "")

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """Labels and texts, of what there is."""
        return tuple(
            (name.capitalize(), text) for name, text in asdict(self).items() if one_line(text).strip()
        )


def cover_of(given: Cover | None, record: Mapping[str, Any] | None) -> Cover:
    """What was given, and the rest as the record of the run has it."""
    recorded = (record or {}).get("cover")
    known = recorded if isinstance(recorded, Mapping) else {}
    said = asdict(given or Cover())
    return Cover(**{name: text or str(known.get(name) or "")[:_LONGEST] for name, text in said.items()})
