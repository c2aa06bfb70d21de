"""Opening a store's file: SQLite looks at it first in ways that cannot change it, and what is not a store is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from fedvalue.errors import NoStoreError, StoreError

__all__ = ["APPLICATION_ID", "LOCK_SECONDS", "open_file"]

APPLICATION_ID = 0x66764C31  # "fvL1": marks the file as ours in SQLite's header
LOCK_SECONDS = 60.0


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
    return bool(pages)


def _refuse_cut_off(path: Path) -> None:
    """SQLite itself notices where a file is shorter than its header says, unless a log speaks of more pages.

    These may be in the log and not yet in the file: another process is writing, or one was killed. Whether they all
    are, the check of the whole file tells, on a connection that cannot write.
    """
    log = path.with_name(f"{path.name}-wal")
    if not log.exists() or not log.stat().st_size:
        return
    with closing(_look(path, "mode=ro")) as database:
        ((pages,),) = database.execute("PRAGMA page_count")
        ((page_size,),) = database.execute("PRAGMA page_size")
        if pages * page_size <= path.stat().st_size:
            return
        ((finding,),) = database.execute("PRAGMA quick_check(1)")
    if finding != "ok":
        raise StoreError(
            f"{path} was cut off or damaged (SQLite: {finding}). It was not changed; restore it from a copy."
        )


def _look(path: Path, how: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{how}"
    return sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS, isolation_level=None)
