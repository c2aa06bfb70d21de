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

__all__ = ["HISTORY", "as_csv", "as_plain", "write_history"]

HISTORY = "history"
_FORMAT = "fedvalue.history/1"
_AMOUNTS = ("earned", "owes", "held", "to_escrow", "released", "paid")
_COLUMNS = (
    "period", "client", "status", "rows", "value", "low", "high", *_AMOUNTS, "debt", "escrow", "currency", "seal"
)  # fmt: skip


def write_history(folder: Path, closed: Sequence[Period]) -> Path:
    """The three files, each whole or not at all; the page is given back."""
    texts = {"json": json_text(as_plain(closed)) + "\n", "csv": as_csv(closed), "html": page(closed)}
    for ending, text in texts.items():
        with write_file(folder / f"{HISTORY}.{ending}") as file:
            file.write(text.encode())
    return folder / f"{HISTORY}.html"


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
    for name in dict.fromkeys((*members, *period.balances.accounts, *period.left)):
        account = period.balances.of(name)
        cells: dict[str, Any] = {"period": period.name, "client": csv_text(name), "status": "left"}
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
