"""The end of a connection to a store: the last one to go leaves everything in one file.

While a store is written, its newest rows are in a log beside it, and the file says so. A copy of the file alone then
shows that something is missing. The mark is set when the log exists, and taken back before it goes.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from fedvalue.store._file import in_log_mode, leave_log_mode, log_of
from fedvalue.store._schema import is_in_use, mark_in_use

__all__ = ["close_file", "lacks_log"]


_TRIES, _PAUSE = 4, 0.01  # seconds: whoever only looks into the store is gone by then


def lacks_log(database: sqlite3.Connection, had_log: bool) -> bool:
    """Whether the file that was just opened speaks of a log that was not there."""
    return not had_log and in_log_mode(database) and is_in_use(database)


def close_file(database: sqlite3.Connection, path: Path, wrote: bool) -> None:
    """Ends a connection. Who only read leaves the log to others, unless it is the last one to go."""
    try:
        alone = _settle(database) if wrote else not in_log_mode(database)
    except sqlite3.Error:  # closed before, or damaged: nothing to settle
        return
    finally:
        database.close()
    if not alone and not log_of(path).exists():  # the last one after all: SQLite has removed the log
        with suppress(sqlite3.Error), closing(sqlite3.connect(path, isolation_level=None)) as last:
            _settle(last)


def _settle(database: sqlite3.Connection) -> bool:
    """Makes one file of file and log, if nobody else uses them."""
    if not in_log_mode(database):
        return True
    marked = is_in_use(database)
    if marked:
        mark_in_use(database, False)
    alone = _alone(database)
    if marked and not alone:
        mark_in_use(database, True)
        database.execute("PRAGMA main.wal_checkpoint(PASSIVE)")
    return alone


def _alone(database: sqlite3.Connection) -> bool:
    """Copies the log into the file and removes it; False where somebody else goes on using the file."""
    for _ in range(_TRIES):
        if leave_log_mode(database):
            return True
        time.sleep(_PAUSE)
    return False
