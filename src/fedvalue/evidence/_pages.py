"""What fedvalue has written among the files of a run: payouts, reports and statements, and what a page says of how it was written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedvalue._files import json_from
from fedvalue._version import __version__
from fedvalue.errors import FedvalueError
from fedvalue.report import Cover, Terms

__all__ = [
    "PAYOUT_FORMAT",
    "Told",
    "is_page",
    "is_payout",
    "is_statement",
    "kind_of",
    "payout_in",
    "told_by",
]

PAYOUT_FORMAT = "fedvalue.payout/1"
_CSV, _MARKDOWN = "client,value,half_width_95,share,payout", "# Payout\n"
# However somebody who was sent a file has named it: capitals count for nothing.
_KINDS = {
    ".htm": "html",
    ".html": "html",
    ".xhtml": "html",
    ".md": "md",
    ".markdown": "md",
    ".json": "json",
    ".csv": "csv",
}

_DATA = re.compile(rb'<script type="application/json" id="fedvalue-(?:report|statement)">')
_RELEASE = re.compile(rb"Written by fedvalue ([^\s<]+)\.(?=\s|<)")
_STATEMENT = {"html": b'id="fedvalue-statement"', "md": b"# Statement for "}
# By any of these, so that no single one that is altered makes a page one of others.
_REPORT = {
    "html": (b'id="fedvalue-report"', b"Written by fedvalue "),
    "md": (b"# What the data of ", b"\nWritten by fedvalue "),
}


class Told(NamedTuple):
    """What a page says of how it was written; None where it does not say so, or in no way that fedvalue does."""

    releases: frozenset[str]
    terms: Terms | None
    cover: Cover | None


def kind_of(file: Path) -> str:
    """html, md, json or csv, by the ending of the name; "" for any other."""
    return _KINDS.get(file.suffix.lower(), "")


def is_payout(file: Path) -> bool:
    """Whether a file is one that `fedvalue payout` writes."""
    kind = kind_of(file)
    if kind == "json":
        return payout_in(file) is not None
    return kind in ("csv", "md") and file.read_bytes()[:64].startswith((_CSV.encode(), _MARKDOWN.encode()))


def payout_in(file: Path) -> Mapping[str, Any] | None:
    """The payout in a file as plain data; None where there is none."""
    if kind_of(file) != "json":
        return None
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and data.get("format") == PAYOUT_FORMAT else None


def is_statement(file: Path) -> bool:
    """Whether a file is one that `fedvalue report --statements` writes."""
    mark = _STATEMENT.get(kind_of(file))
    if mark is None:
        return False
    content = file.read_bytes()
    return mark in content if kind_of(file) == "html" else content.startswith(mark)


def is_page(file: Path) -> bool:
    """Whether a file is a report or a statement."""
    marks = _REPORT.get(kind_of(file))
    if marks is None:
        return False
    content = file.read_bytes()
    return any(mark in content for mark in marks) or is_statement(file)


def told_by(file: Path) -> Told:
    """A page has its data in itself; a text has only the release."""
    content = file.read_bytes()
    releases = {name.decode(errors="replace") for name in _RELEASE.findall(content)}
    found = _data_in(content)
    if found is None and kind_of(file) == "md":
        return Told(frozenset(releases), None, None)
    try:
        data: Any = json_from(found or b"")
        releases.add(str(data["fedvalue"]))
        return Told(frozenset(releases), Terms(**data["terms"]), Cover(**data["cover"]))
    except (ValueError, KeyError, TypeError, FedvalueError):
        # Altered: no page that is written now will be the same.
        return Told(frozenset({__version__}), Terms(), Cover())


def _data_in(content: bytes) -> bytes | None:
    """What stands between the marks, found in one pass: an expression would try each of many marks that never end."""
    begin = _DATA.search(content)
    end = -1 if begin is None else content.find(b"</script>", begin.end())
    return None if begin is None or end < 0 else content[begin.end() : end]
