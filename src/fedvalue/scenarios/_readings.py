"""What the cells of a column say: numbers in any one way of writing them, dates, yes and no, nothing.

A number such as 1,234 and a date such as 03/04/2024 can be read in two ways. All cells of a column in one file are
read in both, and a cell for which only one way works decides for all. Nothing is guessed from a single cell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CODE",
    "NOTHING",
    "NO",
    "YES",
    "Readings",
    "as_dates",
    "as_numbers",
    "is_code",
    "is_nothing",
    "plain",
]

NOTHING = frozenset(
    ["", "nan", "na", "n/a", "<na>", "null", "none", "?", "-", "--", ".", "#n/a", "#na", "nil"]
)
"""What programs and people write where there is nothing, in small letters."""
YES = frozenset(["1", "1.0", "yes", "y", "true", "t"])
NO = frozenset(["0", "0.0", "no", "n", "false", "f"])

_INVISIBLE = "\u200b\u200c\u2060\ufeff"
_MONEY = "€|\\$|£|¥|₹|EUR|USD|GBP|CHF|JPY|INR|SEK|NOK|DKK|PLN|CZK"
_AMOUNT = re.compile(
    rf"(?P<sign>[+\-−]?) ?(?P<before>{_MONEY})? ?(?P<inner>[+\-−]?)"
    rf"(?P<body>[0-9.,'’ ]*[0-9][.,]?)(?P<power>[eE][+-]?[0-9]{{1,3}})? ?(?P<after>%|{_MONEY})?"
)
_POINT = re.compile(r"(?:[0-9]+|[1-9][0-9]{0,2}(?:([,'’ ])[0-9]{3})(?:\1[0-9]{3})*)?(?:\.[0-9]*)?")
_COMMA = re.compile(r"(?:[0-9]+|[1-9][0-9]{0,2}(?:([.'’ ])[0-9]{3})(?:\1[0-9]{3})*)?(?:,[0-9]*)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")
_USUAL = re.compile(r"[+-]?(?:[0-9]+\.[0-9]{1,2}|[0-9]+\.[0-9]{4,}|0\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_USUAL_COLUMN = re.compile(
    r"(?:(?:[+-]?[0-9]{1,15}(?:\.(?:[0-9]{1,2}|[0-9]{4,25}))?|[+-]?0\.[0-9]{3})?\n)*+", re.ASCII
)
_GROUPS = str.maketrans("", "", "'’ ")
CODE = re.compile(r"0[0-9]+")

_TIME = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}(?:\.[0-9]+)?))?"
_ZONE = r"(?P<zone> ?(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2}))?"
_DATES = tuple(
    re.compile(rf"{day}(?:[T ]{_TIME}{_ZONE})?")
    for day in (
        r"(?P<year>[0-9]{4})([-/.])(?P<month>[0-9]{1,2})\2(?P<day>[0-9]{1,2})",
        r"(?P<day>[0-9]{1,2})\.(?P<month>[0-9]{1,2})\.(?P<year>[0-9]{4})",
        r"(?P<one>[0-9]{1,2})([-/])(?P<two>[0-9]{1,2})\2(?P<year>[0-9]{4})",
        r"(?P<year>(?:19|20)[0-9]{2})(?P<month>[0-9]{2})(?P<day>[0-9]{2})",
    )
)
_CLOCK = re.compile(_TIME)
_EPOCH = date(1970, 1, 1).toordinal()
_NOT = float("nan")
_LONGEST = 60  # characters of a number or a date


@dataclass(frozen=True)
class Readings:
    """A column of one file read in two ways (decimal point and comma; day and month first): NaN where that fails.

    `marks` are what else was written in each cell: %, a currency, a time zone; empty for nothing.
    """

    one: NDArray[np.float64]
    other: NDArray[np.float64]
    marks: Sequence[str] = ()

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Cells that can be read at all."""
        found: NDArray[np.bool_] = ~(np.isnan(self.one) & np.isnan(self.other))
        return found

    @property
    def unclear(self) -> NDArray[np.bool_]:
        """Cells that mean different things in the two ways."""
        both = ~np.isnan(self.one) & ~np.isnan(self.other)
        found: NDArray[np.bool_] = both & (self.one != self.other)
        return found

    def marks_of(self, which: NDArray[np.bool_]) -> set[str]:
        """What else was written in some of the cells, those that cannot be read left out; of no cells, nothing."""
        read = np.flatnonzero(which & self.valid).tolist()
        return {self.marks[i] if self.marks else "" for i in read}

    def says(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The places of cells that work in the first way only, and in the other only."""
        lost_one, lost_other = np.isnan(self.one), np.isnan(self.other)
        return np.flatnonzero(~lost_one & lost_other), np.flatnonzero(lost_one & ~lost_other)


def plain(cell: str) -> str:
    """A cell without what cannot be seen: spaces around it, zero-width characters, two ways to write an é."""
    cell = cell.strip()
    return cell if cell.isascii() else normalize("NFC", cell.strip(_INVISIBLE).strip())


def is_nothing(cells: Sequence[str], also: frozenset[str] = frozenset()) -> NDArray[np.bool_]:
    """Which cells are empty or say so; `also` are further words for nothing."""
    known = NOTHING | also
    return np.fromiter((cell.lower() in known for cell in cells), dtype=bool, count=len(cells))


def is_code(cells: Sequence[str]) -> bool:
    """Digits of one length, some with zeros in front: postal codes and numbers of records are no quantities.

    >>> is_code(["01067", "50667"]), is_code(["0", "10"])
    (True, False)
    """
    return (
        bool(cells)
        and all(cell.isascii() and cell.isdigit() for cell in cells)
        and any(CODE.fullmatch(cell) for cell in cells)
        and len({len(cell) for cell in cells}) == 1
    )


def as_numbers(cells: Sequence[str]) -> Readings:
    """The cells read with a decimal point, and with a decimal comma.

    >>> as_numbers(["1.234,5", "1,234"]).one.tolist(), as_numbers(["1.234,5", "1,234"]).other.tolist()
    ([nan, 1234.0], [1234.5, 1.234])
    """
    if _USUAL_COLUMN.fullmatch("\n".join(cells) + "\n"):  # the same, ten times as fast
        one = np.asarray([float(cell) if cell else _NOT for cell in cells], np.float64)
        other = np.asarray([_NOT if "." in cell else number for cell, number in zip(cells, one, strict=True)])
        return Readings(one, other.astype(np.float64))
    return _readings([_number(cell) for cell in cells])


def as_dates(cells: Sequence[str]) -> Readings:
    """Days since 1970 (times of day: hours), read with the day first, and with the month first.

    >>> as_dates(["1970-01-02", "03/01/1970"]).one.tolist()
    [1.0, 2.0]
    """
    return _readings([_date(cell) for cell in cells])


def _readings(found: Sequence[tuple[float, float, str]]) -> Readings:
    one, other, marks = zip(*found, strict=True) if found else ((), (), ())
    return Readings(np.asarray(one, np.float64), np.asarray(other, np.float64), marks)


def _number(cell: str) -> tuple[float, float, str]:
    if len(cell) > _LONGEST:
        return _NOT, _NOT, ""
    if _WHOLE.fullmatch(cell):
        return float(cell), float(cell), ""
    if _USUAL.fullmatch(cell):
        return float(cell), _NOT, ""
    if cell.lower().lstrip("+-") in ("inf", "infinity"):  # a number, which is refused as one
        return float(cell), float(cell), ""
    found = _AMOUNT.fullmatch(re.sub(r"\s", " ", cell))
    if found is None or (found["before"] and found["after"]) or (found["sign"] and found["inner"]):
        return _NOT, _NOT, ""
    power, body = found["power"] or "", found["body"]
    sign = -1.0 if found["sign"] in ("-", "−") or found["inner"] in ("-", "−") else 1.0
    mark = found["before"] or found["after"] or ""
    share = 0.01 if mark == "%" else 1.0
    values = []
    for way, group, decimal in ((_POINT, ",", "."), (_COMMA, ".", ",")):
        match = way.fullmatch(body)
        if match is None or (power and match[1]):
            values.append(_NOT)
        else:
            digits = body.translate(_GROUPS).replace(group, "").replace(decimal, ".")
            values.append(sign * share * float(digits + power))
    return values[0], values[1], mark


def _date(cell: str) -> tuple[float, float, str]:
    if len(cell) > _LONGEST or (":" not in cell and not cell[-1:].isdigit()):
        return _NOT, _NOT, ""
    clock = _CLOCK.fullmatch(cell)
    if clock is not None:
        hours = _hours(clock.groupdict())
        return hours, hours, "time of day"
    for pattern in _DATES:
        match = pattern.fullmatch(cell)
        if match is None:
            continue
        said = match.groupdict()
        hours = _hours(said) if said["hour"] else 0.0
        part = hours / 24 - _offset(said["zone"])
        year = int(said["year"])
        if "one" in said:
            one, two = int(said["one"]), int(said["two"])
            return _day(year, two, one) + part, _day(year, one, two) + part, _zone_mark(said)
        day = _day(year, int(said["month"]), int(said["day"])) + part
        return day, day, _zone_mark(said)
    return _NOT, _NOT, ""


def _day(year: int, month: int, day: int) -> float:
    try:
        return float(date(year, month, day).toordinal() - _EPOCH)
    except ValueError:
        return _NOT


def _hours(said: dict[str, str | Any]) -> float:
    hour, minute, second = int(said["hour"]), int(said["minute"]), float(said["second"] or 0)
    return hour + minute / 60 + second / 3600 if hour < 25 and minute < 60 and second < 61 else _NOT


def _offset(zone: str | None) -> float:
    """A time zone in days."""
    text = (zone or "").strip()
    if text in ("", "Z", "UTC"):
        return 0.0
    digits = text[1:].replace(":", "")
    return (-1 if text[0] == "-" else 1) * (int(digits[:2]) / 24 + int(digits[2:]) / 1440)


def _zone_mark(said: dict[str, str | Any]) -> str:
    return "time zone" if said["zone"] else ""
