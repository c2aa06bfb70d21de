"""Files that are written whole or not at all."""

from __future__ import annotations

import gzip
from pathlib import Path

__all__ = ["read_text", "write_bytes_whole", "write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Writes a draft and then puts it in its place: whoever stops the program leaves no half of a file."""
    write_bytes_whole(path, text.encode())


def write_bytes_whole(path: Path, content: bytes) -> None:
    """The same for bytes; a name that ends in .gz is compressed, and the same content gives the same file."""
    draft = path.with_suffix(".part")
    draft.write_bytes(gzip.compress(content, 9, mtime=0) if path.suffix == ".gz" else content)
    draft.replace(path)


def read_text(path: Path) -> str:
    """The text of a file, decompressed where its name ends in .gz."""
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
