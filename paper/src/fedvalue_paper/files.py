"""Files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Writes a draft and then puts it in its place: whoever stops the program leaves no half of a file."""
    draft = path.with_suffix(".part")
    draft.write_text(text, encoding="utf-8", newline="\n")
    draft.replace(path)
