"""Where the files of real data sets are: `data_dir`, then $FEDVALUE_DATA, then the user's cache folder."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

from fedvalue.errors import ScenarioError

__all__ = ["CHECKSUMS", "Files", "cache_folder", "content_of", "folders", "located", "sha256"]

CHECKSUMS = "checksums.json"  # beside fetched files: sha256 of the content of each, uncompressed


def cache_folder() -> Path:
    """The user's cache folder for fedvalue: below $XDG_CACHE_HOME, or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "fedvalue"


def folders(data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Where data is looked for, in this order."""
    named = os.environ.get("FEDVALUE_DATA", "")
    given = [Path(data_dir).expanduser()] if data_dir is not None else []
    return [*given, *([Path(named).expanduser()] if named else []), cache_folder()]


def located(needs: tuple[str, ...], data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """The first folder that holds all these files (compressed or not), or None."""
    for folder in folders(data_dir):
        if all(_present(folder, name) for name in needs):
            return folder
    return None


class Files:
    """The files of one data set, all from one folder; keeps the checksum of what was read."""

    def __init__(self, needs: tuple[str, ...], data_dir: str | os.PathLike[str] | None, how: str) -> None:
        folder = located(needs, data_dir)
        if folder is None:
            raise _missing(needs, data_dir, how)
        self.folder = folder
        self.how = how
        self.sources: dict[str, str] = {}

    def read(self, name: str) -> bytes:
        """The uncompressed content of a file; refused if it is not what was once recorded."""
        path = _present(self.folder, name)
        if path is None:
            raise _missing((name,), self.folder, self.how)
        data = content_of(path)
        digest = sha256(data)
        recorded = _recorded(path.parent).get(path.name, digest)
        if recorded != digest:
            raise ScenarioError(
                f"{path} is not what was fetched: its content has the checksum {digest[:12]}…, "
                f"recorded is {recorded[:12]}…. Remove the file and get it again: {self.how}."
            )
        self.sources[name.removesuffix(".gz")] = digest
        return data


def content_of(path: Path) -> bytes:
    """The bytes of a file, decompressed where its name ends in .gz."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise ScenarioError(f"{path} cannot be read: {error}. Is the file complete?") from error


def sha256(data: bytes) -> str:
    """The checksum of some content."""
    return hashlib.sha256(data).hexdigest()


def _present(folder: Path, name: str) -> Path | None:
    for candidate in (folder / name, folder / name.removesuffix(".gz")):
        if candidate.is_file():
            return candidate
    return None


def _recorded(folder: Path) -> dict[str, Any]:
    path = folder / CHECKSUMS
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{path} cannot be read: {error}. Remove it, or fetch the data again.") from error
    return found if isinstance(found, dict) else {}


def _missing(needs: tuple[str, ...], data_dir: str | os.PathLike[str] | None, how: str) -> ScenarioError:
    looked = folders(data_dir)
    nearest = max(looked, key=lambda folder: sum(_present(folder, name) is not None for name in needs))
    absent = [name for name in needs if _present(nearest, name) is None]
    return ScenarioError(
        f"Missing data: {', '.join(absent)}. Looked in {', '.join(map(str, looked))}. To get it: {how}."
    )
