"""The folder of a consortium: a sealed file for every closed period, which nothing writes twice.

consortium/
  periods/0001.json 0002.json      closed periods, each with the seal of the one before
  2026-Q1/ 2026-Q2/                the runs behind them: values, record and report
  store.db                         every training of all periods
  preprocessing.json               what was learnt from the files of the first period
  history.html history.json history.csv
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedvalue._files import json_from, json_text
from fedvalue.errors import FedvalueError, InputError
from fedvalue.periods._entry import Period
from fedvalue.run import AGREEMENT_FILE, DISCLOSURE_FILE, RECORD_FILE, REPORT_FILE, VALUES_FILE

__all__ = [
    "PREPROCESSING_FILE",
    "SEALED",
    "STORE_FILE",
    "altered",
    "append",
    "check_name",
    "digest_of",
    "read_closed",
]

PREPROCESSING_FILE = "preprocessing.json"
STORE_FILE = "store.db"
SEALED = (
    VALUES_FILE,
    RECORD_FILE,
    REPORT_FILE,
    DISCLOSURE_FILE,
    AGREEMENT_FILE,
    STORE_FILE,  # in the folder of a period that a federation has valued
    f"{STORE_FILE}.replies",
)  # of a run, as far as it has them
_CLOSED = "periods"
_TAKEN = ("periods", STORE_FILE, "history.html", "history.json", "history.csv", PREPROCESSING_FILE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.+-]{0,39}")
_FIRST = "0" * 64


def read_closed(folder: Path) -> tuple[Period, ...]:
    """All closed periods in their order, each checked against its seal and the one before."""
    found: list[Period] = []
    files = sorted((folder / _CLOSED).glob("[0-9]*.json"))
    for number, file in enumerate(files, 1):
        if file.name != _file_name(number):
            raise InputError(
                f"{folder}: period {number} is missing; there is {file.name}. Restore it from a copy."
            )
        try:
            plain = json_from(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{file} cannot be read: {error}. Restore it from a copy.") from error
        period = Period.from_plain(plain, str(file))
        if period.number != number or period.previous != previous_seal(found):
            raise InputError(
                f"{file} does not follow the period before it: another one was closed there. Restore it."
            )
        found.append(period)
    return tuple(found)


def previous_seal(closed: Sequence[Period]) -> str:
    """The seal that the next period must name."""
    return closed[-1].seal if closed else _FIRST


def append(folder: Path, period: Period) -> None:
    """Writes a closed period, whole or not at all; one that is there is never replaced."""
    file = folder / _CLOSED / _file_name(period.number)
    draft = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as written:
            written.write(json_text(period.to_plain()).encode() + b"\n")
            written.flush()
            os.fsync(written.fileno())
        os.link(draft, file)  # which fails where somebody else was first
    except FileExistsError as error:
        raise InputError(
            f"Another process has closed a period in {folder} meanwhile. Look at it, and try again."
        ) from error
    except OSError as error:
        raise InputError(f"Cannot write {file}: {error.strerror}.") from error
    finally:
        draft.unlink(missing_ok=True)


def check_name(name: str, closed: Sequence[Period]) -> None:
    """Refuses a name that cannot be that of a folder, of a period that is closed, or of one before it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.endswith((".", " ")) or name in _TAKEN:
        raise InputError(
            f"A period has a short name of letters, digits and hyphens, such as 2026-Q1. Got {name!r}."
        )
    if any(period.name.casefold() == name.casefold() for period in closed):
        raise InputError(f"The period {name} is closed. What is closed is not altered; close the next one.")
    if closed and _in_order(name) <= _in_order(closed[-1].name):
        raise InputError(
            f"The period {name} lies before {closed[-1].name}, which is closed. Periods are closed in order."
        )


def digest_of(file: Path) -> str:
    """The digest of a file's content."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"Cannot read {file}: {error.strerror}.") from error


def altered(file: Path, digest: str) -> Iterator[str]:
    """Says so where a file is not the one with this digest."""
    try:
        if digest_of(file) != digest:
            yield f"{file.name} was altered after the period was closed"
    except FedvalueError as error:
        yield str(error)


def _in_order(name: str) -> list[tuple[int, int, str]]:
    """Numbers in a name count as numbers: 2026-9 is before 2026-10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name.casefold())
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def _file_name(number: int) -> str:
    return f"{number:04}.json"
