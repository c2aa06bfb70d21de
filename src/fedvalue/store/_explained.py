"""What SQLite refuses, in words that say what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedvalue.errors import FedvalueError, StoreError
from fedvalue.store._file import LOCK_SECONDS

__all__ = ["explained"]


@contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Whatever goes wrong with a store meanwhile is a StoreError that says at what, and why."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        raise StoreError(f"Could not {doing} the store {path}: {_advice(doing, text)} ({text}).") from error
    except FedvalueError:
        raise
    except ValueError as error:
        raise StoreError(
            f"Could not {doing} the store {path}: a row is damaged or was altered ({error}). Restore the file "
            "from a copy, or use another store; `fedvalue store verify` lists all that is wrong."
        ) from error


def _advice(doing: str, text: str) -> str:
    if "full" in text:
        return "the disk is full; free some space and run again, what was stored is intact"
    if "disk I/O" in text:
        return "the disk failed, or a limit on the size of files was reached; what was stored is intact"
    if "unable to open" in text and doing == "read":
        return "it cannot be opened; see that it is still there, and that you may read it and its folder"
    if "unable to open" in text or "readonly" in text:
        return "the path is not writable; choose a file in a folder that exists and that you may write to"
    if "malformed" in text or "not a database" in text or "encrypted" in text:
        return "the file was cut off or damaged; it was not changed, restore it from a copy"
    if "locked" in text:
        return f"another process kept it locked for {LOCK_SECONDS:.0f} s; run again when it is done"
    if "same thread" in text:
        return "it was opened in another thread; open it in every thread that uses it, or pass on its path"
    if "closed database" in text:
        return "it was closed; open it again"
    return "SQLite refused"
