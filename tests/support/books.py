"""Books of signed replies as an operator may alter them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedvalue import Values
from fedvalue.agreement import canonical
from fedvalue.replies import Reply
from fedvalue.replies._book import _FIRST, _link, _said

Lines = list[dict[str, Any]]


def lines_of(folder: Path) -> Lines:
    """The lines of the book in the folder of a run."""
    return [json.loads(line) for line in (folder / "store.db.replies").read_text().splitlines()]


def write_lines(folder: Path, lines: Lines | None, anew: bool = True) -> None:
    """Other lines, or no book; `anew` also makes all hashes again, and the head in the values."""
    file, link = folder / "store.db.replies", _FIRST
    for line in lines or () if anew else ():
        kind = next(key for key in line if key != "link")
        line["link"] = link = _link(link, _said(kind, line[kind]))
    file.write_bytes(b"".join(canonical(line) + b"\n" for line in lines or ()))
    if not anew:
        return
    values = json.loads((folder / "values.json").read_text())
    values["details"]["replies"] = {"lines": len(lines or ()), "link": link}
    if lines is None:
        file.unlink()
        del values["details"]["replies"]
    Values.from_dict({k: v for k, v in values.items() if k != "checksum"}).save(folder / "values.json")


def signature_under(reply: dict[str, Any], sitting: dict[str, Any], key: Path) -> str:
    """What a node with this key signs if it is asked."""
    plain = {name: part for name, part in reply.items() if name not in ("client", "signature")}
    lists = {name: tuple(part) for name, part in plain.items() if isinstance(part, list)}
    told = Reply(**{**plain, **lists}, learner=sitting["learner"], training=sitting["training"])
    return told.signed(key).signature
