"""All periods side by side: as JSON, as CSV, and as a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedvalue._files import json_text, write_file
from fedvalue._text import csv_text
from fedvalue.periods._entry import Period
from fedvalue.periods._page import page

__all__ = ["HISTORY", "as_csv", "as_plain", "history_problems", "write_history"]

HISTORY = "history"
_FORMAT = "fedvalue.history/1"
_AMOUNTS = ("earned", "owes", "held", "to_escrow", "released", "paid")
_COLUMNS = (
    "period", "client", "status", "rows", "value", "low", "high", *_AMOUNTS, "debt", "escrow", "currency", "seal"
)  # fmt: skip


def write_history(folder: Path, closed: Sequence[Period]) -> Path:
    """The three files, each whole or not at all; the page is given back."""
    for name, content in _files(closed).items():
        with write_file(folder / name) as file:
            file.write(content)
    return folder / f"{HISTORY}.html"


def history_problems(folder: Path, closed: Sequence[Period]) -> Iterator[str]:
    """Which of the three files say something else than the closed periods."""
    for name, content in _files(closed).items():
        file = folder / name
        if not file.is_file():
            yield f"{name} is missing. `fedvalue period show` writes it anew"
        elif file.read_bytes() != content:
            yield (
                f"{name} is not what the closed periods give: it was altered, or another release of fedvalue wrote it. "
                "`fedvalue period show` writes it anew"
            )


def _files(closed: Sequence[Period]) -> dict[str, bytes]:
    texts = {"json": json_text(as_plain(closed)) + "\n", "csv": as_csv(closed), "html": page(closed)}
    return {f"{HISTORY}.{ending}": text.encode() for ending, text in texts.items()}


def as_plain(closed: Sequence[Period]) -> dict[str, Any]:
    """Everything that the closed periods say, as plain data."""
    return {"format": _FORMAT, "periods": [period.to_plain() for period in closed]}


def as_csv(closed: Sequence[Period]) -> str:
    """A row for every client of every period, and for those who left but have an account. Amounts are plain numbers."""
    text = io.StringIO()
    written = csv.writer(text)
    written.writerow(_COLUMNS)
    for period in closed:
        for cells in _rows(period):
            written.writerow([cells.get(column, "") for column in _COLUMNS])
    return text.getvalue()


def _rows(period: Period) -> Iterator[dict[str, Any]]:
    lines = {} if period.money is None else {line.name: line for line in period.money.settlement.lines}
    members = {member.name: member for member in period.members}
    for name in dict.fromkeys((*members, *period.balances.accounts, *period.left, *period.absent)):
        account = period.balances.of(name)
        cells: dict[str, Any] = {"period": period.name, "client": csv_text(name)}
        cells["status"] = "absent" if name in period.absent else "left"
        if (member := members.get(name)) is not None:
            of_value = {
                part: "" if (number := getattr(member, part)) is None else number
                for part in ("value", "low", "high")
            }
            cells |= {"status": member.status, "rows": member.rows, **of_value}
        if (line := lines.get(name)) is not None and period.money is not None:
            cells |= {amount: getattr(line, amount) for amount in _AMOUNTS}
            cells |= {"currency": csv_text(period.money.currency)}
        yield cells | {"debt": account.debt, "escrow": account.escrow, "seal": period.seal}
