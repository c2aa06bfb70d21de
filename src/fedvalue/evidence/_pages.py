"""Reports and statements among the files of a run: what a page is, and what it says of how it was written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from fedvalue._files import json_from
from fedvalue._version import __version__
from fedvalue.errors import FedvalueError
from fedvalue.report import Cover, Terms

__all__ = ["Told", "is_page", "is_statement", "told_by"]

_DATA = re.compile(rb'<script type="application/json" id="fedvalue-(?:report|statement)">')
_RELEASE = re.compile(rb"Written by fedvalue ([^\s<]+)\.(?=\s|<)")
_STATEMENT = {".html": b'id="fedvalue-statement"', ".md": b"# Statement for "}
# By any of these, so that no single one that is altered makes a page one of others.
_REPORT = {
    ".html": (b'id="fedvalue-report"', b"Written by fedvalue "),
    ".md": (b"# What the data of ", b"\nWritten by fedvalue "),
}


class Told(NamedTuple):
    """What a page says of how it was written; None where it does not say so, or in no way that fedvalue does."""

    releases: frozenset[str]
    terms: Terms | None
    cover: Cover | None


def is_statement(file: Path) -> bool:
    """Whether a file is one that `fedvalue report --statements` writes."""
    mark = _STATEMENT.get(file.suffix)
    if mark is None:
        return False
    content = file.read_bytes()
    return mark in content if file.suffix == ".html" else content.startswith(mark)


def is_page(file: Path) -> bool:
    """Whether a file is a report or a statement."""
    marks = _REPORT.get(file.suffix)
    if marks is None:
        return False
    content = file.read_bytes()
    return any(mark in content for mark in marks) or is_statement(file)


def told_by(file: Path) -> Told:
    """A page has its data in itself; a text has only the release."""
    content = file.read_bytes()
    releases = {name.decode(errors="replace") for name in _RELEASE.findall(content)}
    found = _data_in(content)
    if found is None and file.suffix == ".md":
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
