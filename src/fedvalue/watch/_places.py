"""Where there is something to watch: a store, the folder of a run, or a folder of such folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from fedvalue._checks import as_path
from fedvalue.errors import FedvalueError, InputError
from fedvalue.run import PROGRESS_FILE, RECORD_FILE, STORE_FILE, VALUES_FILE, find_store, read_progress

__all__ = ["ERROR_FILE", "Place", "check_target", "places", "signature"]

ERROR_FILE = "error.json"  # of a federation whose valuation failed
_MARKS = (PROGRESS_FILE, RECORD_FILE, VALUES_FILE, ERROR_FILE)
_MOST_FOLDERS = 100


@dataclass(frozen=True)
class Place:
    """A store, and the folders of runs that keep their trainings in it; None: no store is there yet."""

    store: Path | None
    folders: tuple[Path, ...]


def check_target(target: str | PathLike[str]) -> Path:
    """Where to look; refuses what cannot be watched."""
    path = as_path("What is watched", target)
    if not path.exists():
        raise InputError(
            f"There is no store and no folder at {path}. Name the store of a run, its folder (--out), or a folder with "
            "several of them."
        )
    return path


def places(target: Path) -> list[Place]:
    """The stores at a target, in the order of their names, each with the folders of its runs."""
    found: dict[Path | None, list[Path]] = {}
    if target.is_dir():
        for folder in _folders(target):
            store = _store_of(folder)
            if store is not None or _is_run(folder):
                found.setdefault(store, []).extend([folder] if _is_run(folder) else [])
    else:
        store, folder = target.parent.resolve() / target.name, target.parent
        found[store] = [folder] if _is_run(folder) and _store_of(folder) == store else []
    return [Place(store, tuple(folders)) for store, folders in found.items()]


def signature(target: Path) -> tuple[object, ...]:
    """Changes whenever anything changes that is shown; nothing is opened for it."""
    seen: list[object] = []
    for place in places(target):
        logs = [] if place.store is None else [place.store, place.store.with_name(f"{place.store.name}-wal")]
        for file in [*logs, *(folder / name for folder in place.folders for name in _MARKS)]:
            try:
                about = file.stat()
            except OSError:
                seen.append((file, None))
            else:
                seen.append((file, about.st_ino, about.st_size, about.st_mtime_ns))
    return tuple(seen)


def _folders(target: Path) -> Iterator[Path]:
    yield target
    try:
        inside = sorted(path for path in target.iterdir() if not path.name.startswith(".") and path.is_dir())
    except OSError:  # it was removed, or belongs to somebody else
        return
    yield from [path for path in inside if _is_run(path) or _is_file(path / STORE_FILE)][:_MOST_FOLDERS]


def _is_run(folder: Path) -> bool:
    return any(_is_file(folder / name) for name in _MARKS)


def _is_file(path: Path) -> bool:
    """Whether it is there for us: no, in a folder that is closed to us, or under a name that cannot be."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _store_of(folder: Path) -> Path | None:
    """Where the run in a folder keeps its trainings; None where no such file is there yet."""
    progress = read_progress(folder)
    try:
        file = folder / progress.store if progress and progress.store else find_store(folder, None)
    except FedvalueError:
        file = folder / STORE_FILE
    file = file.parent.resolve() / file.name
    return file if _is_file(file) else None
