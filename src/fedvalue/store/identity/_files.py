"""Files that code reads, named by the user: their content is part of what the code is recognised by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from fedvalue.errors import InputError

__all__ = ["FileNames", "file_contents"]

FileNames = Iterable[str | PathLike[str]]


def file_contents(files: FileNames) -> list[list[str]]:
    """A digest of each file, in the order given; of a folder, name and digest of every file in it.

    Where the files are is no part of it: the same content elsewhere is the same.
    """
    if isinstance(files, (str, bytes, PathLike)) or not isinstance(files, Iterable):
        raise InputError(f"files must be a list of paths, such as files=['rows.csv']. Got {files!r}.")
    return [_content(given) for given in files]


def _content(given: str | PathLike[str]) -> list[str]:
    if not isinstance(given, (str, PathLike)):
        raise InputError(f"files must hold paths. Got {given!r}.")
    path = Path(given)
    try:
        if not path.is_dir():
            return [_digest(path)]
        inside = sorted(found for found in path.rglob("*") if found.is_file())
        return [text for found in inside for text in (found.relative_to(path).as_posix(), _digest(found))]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Cannot read {path}, which files=[…] names: {reason}.") from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
