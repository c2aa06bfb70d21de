"""What users say about data of their own: what is predicted, what is left out, how cells are to be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._checks import flag, unknown, whole
from fedvalue.scenarios._fixed import Preprocessing
from fedvalue.scenarios._ways import Choices

__all__ = ["LENGTH", "VOCABULARY", "Wanted", "listed_names"]

VOCABULARY, LENGTH = 5000, 32
_LABELS = ("same", "exact")
_DECIMALS = {".": ".", ",": ",", "point": ".", "comma": ","}
_DATES = ("day-first", "month-first")
_IMPUTES = ("median", "mean", "zero")


@dataclass(frozen=True)
class Wanted:
    """Options of data of one's own, checked.

    Of the column `text`, if there is one, `words` different ones get numbers, and `length` words of a row are used.
    """

    label: str | None = None
    task: str | None = None
    drop: tuple[str, ...] = ()
    choices: Choices = field(default_factory=Choices)
    exact: bool = False
    standardise: bool = True
    text: str | None = None
    words: int = VOCABULARY
    length: int = LENGTH
    fixed: Preprocessing | None = None

    @classmethod
    def of(
        cls,
        *,
        label: str | None = None,
        task: str | None = None,
        standardise: bool = True,
        drop: str | Sequence[str] = (),
        keep: str | Sequence[str] = (),
        decimal: str | None = None,
        dates: str | None = None,
        missing: Any = (),
        impute: str = "median",
        labels: str = "same",
        text: str | None = None,
        vocabulary: int = VOCABULARY,
        length: int = LENGTH,
        preprocessing: Any = None,
    ) -> Wanted:
        """From what was given; docs/own-data.md says what each option means."""
        fixed = None if preprocessing is None else Preprocessing.read(preprocessing)
        standardise = flag("standardise", standardise)
        if fixed is not None:
            label, task = _agreed("label", label, fixed.label), _agreed("task", task, fixed.task)
            standardise = fixed.standardise
        return cls(
            label,
            task,
            tuple(listed_names(drop)),
            _choices(keep, decimal, dates, missing, impute),
            _exact(labels),
            standardise,
            text,
            whole("vocabulary", vocabulary, 3),
            whole("length", length, 1),
            fixed,
        )


def listed_names(given: Any) -> list[str]:
    """Names, from a sequence or from a text with commas."""
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return [str(part) for part in (given if isinstance(given, (list, tuple, set, frozenset)) else [given])]


def _agreed(what: str, given: str | None, fixed: str) -> str:
    if given not in (None, fixed):
        raise ScenarioError(
            f"The preprocessing fixes {what}={fixed}. Got {given!r}. Leave it out, or say the same."
        )
    return fixed


def _choices(keep: Any, decimal: str | None, dates: str | None, missing: Any, impute: str) -> Choices:
    if decimal is not None and decimal not in _DECIMALS:
        raise unknown("decimal", decimal, _DECIMALS)
    if dates is not None and dates not in _DATES:
        raise unknown("order of dates", dates, _DATES)
    if impute not in _IMPUTES:
        raise unknown("value for missing numbers", impute, _IMPUTES)
    words = frozenset(word.lower() for word in listed_names(missing))
    return Choices(
        frozenset(listed_names(keep)),
        None if decimal is None else _DECIMALS[decimal],
        dates,
        words,
        impute,
    )


def _exact(labels: str) -> bool:
    if labels not in _LABELS:
        raise unknown("way of reading labels", labels, _LABELS)
    return labels == "exact"
