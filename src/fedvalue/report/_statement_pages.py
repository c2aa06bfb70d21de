"""A page for each client, to be sent to that client alone: no other client is named in it."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedvalue._files import write_file
from fedvalue._text import one_line
from fedvalue.errors import InputError
from fedvalue.report._facts import Facts
from fedvalue.report._page import script_text
from fedvalue.report._parties import group_of
from fedvalue.report._statement import Statement
from fedvalue.report._templates import html, markdown, style_sheet

__all__ = ["statement_page", "write_statements"]

_FORMAT = "fedvalue.statement/1"
_LETTERS = 40  # of a name in the name of a file


def write_statements(facts: Facts, folder: Path, kind: str = "html") -> list[Path]:
    """Writes a file for every client, numbered in the order in which the clients are listed; the folder may be new."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Cannot write to {folder}: {error.strerror}.") from error
    digits = len(str(len(facts.statements)))
    written = []
    for one in sorted(facts.statements, key=lambda one: one.client.index):
        name = f"{one.client.index + 1:0{digits}d}-{file_name(one.client.name)}.{kind}"
        with write_file(folder / name) as file:
            file.write(statement_page(facts, one, kind).encode())
        written.append(folder / name)
    return written


def statement_page(facts: Facts, one: Statement, kind: str = "html") -> str:
    """The page of one client. The same facts give the same bytes."""
    if kind == "md":
        return re.sub(r"\n{3,}", "\n\n", markdown("statement", facts, one=one)).strip("\n") + "\n"
    return str(
        html(
            "statement",
            facts,
            one=one,
            group=group_of(facts.values, one.client.name),
            style=style_sheet(),
            data=script_text(_data(facts, one)),
        )
    )


def file_name(name: str) -> str:
    """A part of the name of a file that every system takes, whatever a client is called.

    >>> file_name("Charité  Berlin"), file_name("../x"), file_name("医院")
    ('charite-berlin', 'x', 'client')
    """
    plain = unicodedata.normalize("NFKD", one_line(name)).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_LETTERS].strip("-") or "client"


def _data(facts: Facts, one: Statement) -> dict[str, Any]:
    client = one.client
    return {
        "format": _FORMAT,
        "fedvalue": facts.version,
        "game_id": facts.values.game_id,
        "client": client.name,
        "value": client.value,
        "interval_95": None if client.low is None else [client.low, client.high],
        "payout": client.paid,
        "range_95": client.paid_range,
        "unit": facts.unit,
        "group": group_of(facts.values, client.name),
        "paragraphs": list(one.paragraphs),
        "cover": asdict(facts.cover),
        "terms": facts.terms.to_dict(),  # with them, somebody else can write the same page
    }
