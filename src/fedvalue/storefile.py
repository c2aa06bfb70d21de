"""A look at a store's file before SQLite may touch it: what is not a whole store is left as it is."""

from __future__ import annotations

from pathlib import Path

from fedvalue.errors import StoreError

__all__ = ["APPLICATION_ID", "refuse_foreign_file", "same_file"]

APPLICATION_ID = 0x66764C31  # "fvL1": marks the file as ours in SQLite's header
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_WAL_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24


def refuse_foreign_file(path: Path, create: bool) -> None:
    """Raises unless the file is a store, is empty, or is missing and may be created."""
    try:
        if not path.exists():
            if create:
                return
            raise StoreError(f"There is no store at {path}. Check the path.")
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        if header:
            _check_header(path, header)
    except OSError as error:
        raise StoreError(
            f"The store {path} cannot be read: {error.strerror}. Give the path of a file that you may "
            "read and write."
        ) from error


def same_file(path: Path) -> tuple[int, int] | None:
    """What is equal for two paths of one file, or None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _check_header(path: Path, header: bytes) -> None:
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise StoreError(f"{path} is not a fedvalue store, and was left as it is.")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise StoreError(f"{path} is an SQLite database of another program, and was left as it is.")
    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    pages = int.from_bytes(header[28:32], "big")
    # Pages that are promised and not there may be on their way: another process, or one that was killed,
    # is copying them from its log. The logs are looked at first and the size last, so that a copy that
    # ends in between is seen as complete.
    logged = _logged_pages(_beside(path, "-wal"), page_size)
    unfinished = _beside(path, "-journal").exists()
    size = path.stat().st_size
    missing = range(size // page_size + 1, pages + 1)
    if not unfinished and any(page not in logged for page in missing):
        raise StoreError(
            f"{path} was cut off: its header promises {pages} pages, the file is shorter ({size} bytes). "
            "It was left as it is; restore it from a copy."
        )


def _logged_pages(log: Path, page_size: int) -> set[int]:
    """Page numbers in a write-ahead log (https://sqlite.org/fileformat2.html#walformat)."""
    pages: set[int] = set()
    try:
        with log.open("rb") as file:
            salts = file.read(_WAL_HEADER_BYTES)[16:24]
            while len(frame := file.read(_FRAME_HEADER_BYTES)) == _FRAME_HEADER_BYTES:
                if frame[8:16] != salts:  # left over from before the log was last restarted
                    break
                pages.add(int.from_bytes(frame[:4], "big"))
                file.seek(page_size, 1)
    except FileNotFoundError:
        pass
    return pages


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
