"""Opening a store's file: SQLite looks at it first in ways that cannot change it, and what is not a store is refused."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from fedvalue.errors import NoStoreError, StoreError

__all__ = [
    "APPLICATION_ID",
    "LOCK_SECONDS",
    "enter_log_mode",
    "file_at",
    "in_log_mode",
    "leave_log_mode",
    "log_of",
    "open_file",
]

APPLICATION_ID = 0x66764C31  # "fvL1": marks the file as ours in SQLite's header
LOCK_SECONDS = 60.0
_LOG_HEADER, _FRAME_HEADER = 32, 24  # bytes, in SQLite's format of write-ahead logs


def open_file(path: Path, create: bool) -> sqlite3.Connection:
    """A connection to a store, or to an empty file that will be one; anything else is left as it is.

    Only SQLite opens the file: by a rule of POSIX, closing a file that was opened beside it would end the locks that
    SQLite holds on it in this process.
    """
    if not path.exists():
        if not create:
            raise NoStoreError(f"There is no store at {path}. Check the path.")
    elif _is_ours(path):
        _refuse_cut_off(path)
    return sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)


def _is_ours(path: Path) -> bool:
    """Whether the file is a store (True) or empty (False); raises where it is neither.

    An immutable connection takes no locks and looks for no log: it reads the beginning of the file and leaves nothing
    beside it, whoever the file belongs to.
    """
    size = path.stat().st_size  # before the look: another process may be making a store of it
    with closing(_look(path, "immutable=1")) as database:
        database.execute("PRAGMA writable_schema = ON")  # says what a file is even where its end is missing
        try:
            ((mark,),) = database.execute("PRAGMA application_id")
            ((pages,),) = database.execute("PRAGMA page_count")
        except sqlite3.DatabaseError as error:
            if "not a database" not in str(error):
                raise
            raise StoreError(f"{path} is not a fedvalue store, and was not changed.") from error
    if pages and mark != APPLICATION_ID:
        raise StoreError(f"{path} is an SQLite database of another program, and was not changed.")
    if not pages and size:  # SQLite takes a single byte for an empty database
        raise StoreError(f"{path} is not a fedvalue store, and was not changed.")
    return bool(pages)


def _refuse_cut_off(path: Path) -> None:
    """SQLite itself notices where a file is shorter than its header says, unless a log speaks of more pages.

    These may be in the log and not yet in the file: another process is writing, or one was killed. Where the log does
    not hold them all, a check of the whole file tells, on a connection that cannot write.
    """
    log = log_of(path)
    if not log.exists() or not log.stat().st_size:
        return
    with closing(_look(path, "mode=ro")) as database:
        ((pages,),) = database.execute("PRAGMA page_count")
        ((page_size,),) = database.execute("PRAGMA page_size")
        in_file = path.stat().st_size // page_size
        if pages <= in_file or set(range(in_file + 1, pages + 1)) <= _pages_in(log, page_size):
            return
        ((finding,),) = database.execute("PRAGMA quick_check(1)")  # takes its time: reads everything
    if finding != "ok":
        raise StoreError(
            f"{path} was cut off or damaged (SQLite: {finding}). It was not changed; restore it from a copy."
        )


def _pages_in(log: Path, page_size: int) -> set[int]:
    """Which pages the current part of a write-ahead log holds. SQLite has no locks on that file to lose."""
    pages: set[int] = set()
    with suppress(OSError), log.open("rb") as file:
        salts = file.read(_LOG_HEADER)[16:24]
        while len(frame := file.read(_FRAME_HEADER)) == _FRAME_HEADER and frame[8:16] == salts:
            pages.add(int.from_bytes(frame[:4], "big"))
            file.seek(page_size, os.SEEK_CUR)
    return pages


def enter_log_mode(database: sqlite3.Connection) -> None:
    """From now on what is written goes to a log first. SQLite does not wait for others when it changes the mode."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            database.execute("PRAGMA main.journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def leave_log_mode(database: sqlite3.Connection) -> bool:
    """Copies the log into the file and removes it; False where somebody else has the file open."""
    if not in_log_mode(database):
        return True
    try:
        database.execute("PRAGMA busy_timeout = 0")
        return bool(database.execute("PRAGMA main.journal_mode = DELETE").fetchone()[0] == "delete")
    except sqlite3.OperationalError:
        return False
    finally:
        database.execute(f"PRAGMA busy_timeout = {LOCK_SECONDS * 1000:.0f}")


def in_log_mode(database: sqlite3.Connection) -> bool:
    """Whether the header of the file says that there is a log."""
    return bool(database.execute("PRAGMA main.journal_mode").fetchone()[0] == "wal")


def file_at(path: Path) -> tuple[int, int] | None:
    """Which file has this name now, by the numbers of its disk and on it; None where there is none."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino


def log_of(path: Path) -> Path:
    """The write-ahead log of a store."""
    return path.with_name(f"{path.name}-wal")


def _look(path: Path, how: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{how}"
    return sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS, isolation_level=None)
