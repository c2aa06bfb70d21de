"""Everything that can be wrong with the file of a store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from fedvalue.store import _added, _chain, _told
from fedvalue.store._file import log_of
from fedvalue.store._games import description_of
from fedvalue.store._rows import COLUMNS, UNSIGNED, row_problem
from fedvalue.store._schema import checksum_column, is_chained, is_signed, schema_problems

__all__ = ["problems", "row_columns"]


def row_columns(db: sqlite3.Connection) -> str:
    """What to select for a row: stores of earlier releases have no checksums."""
    return ", ".join((*COLUMNS, checksum_column(db)))


def problems(db: sqlite3.Connection, path: Path, without_log: bool) -> Iterator[str]:
    """What is wrong, in words, as far as the file can be read. What is wrong with a row by itself comes first."""
    said = set()
    for problem in _of_single_rows(db, path, without_log):
        said.add(problem.partition(": ")[0])
        yield problem
    try:
        for problem in _chain.problems(db):
            if problem.partition(": ")[0] not in said:
                yield problem
    except sqlite3.Error as error:
        yield f"SQLite: {error}"


def _of_single_rows(db: sqlite3.Connection, path: Path, without_log: bool) -> Iterator[str]:
    if without_log:
        yield (
            f"{log_of(path).name} is missing: the store was copied while it was in use, without that file, and lacks "
            "what was stored last. Copy both, or copy it when no run uses it"
        )
    try:
        for (line,) in db.execute("PRAGMA integrity_check(20)"):
            if line != "ok":
                yield f"SQLite: {line}"
        yield from schema_problems(db)
        sizes = {}
        for game_id, n, description in db.execute("SELECT game_id, n, description FROM games"):
            sizes[game_id] = n if isinstance(n, int) else 0
            try:
                description_of(game_id, n, description, unsigned=not is_chained(db))
            except ValueError as error:
                yield str(error)
        for row in db.execute(f"SELECT {row_columns(db)} FROM outcomes"):
            registered = row[0] in sizes
            wrong = row_problem(row, sizes[row[0]]) if registered else "its game is not registered"
            if wrong:
                yield f"{row[0]} / {row[1]} / {row[2]}: {wrong}"
        yield from _without_checksums(db)
        yield from _added.problems(db)
        yield from _told.problems(db)
    except sqlite3.Error as error:  # the rest cannot be read, which is a finding, not a failure
        yield f"SQLite: {error}"


def _without_checksums(db: sqlite3.Connection) -> Iterator[str]:
    """Rows that say they are older than checksums, in a store of a format that has them."""
    if not is_signed(db) or is_chained(db):
        return
    query = f"SELECT game_id, mask, replicate FROM outcomes WHERE checksum='{UNSIGNED}'"
    for game_id, mask, replicate in db.execute(query):
        yield (
            f"{game_id} / {mask} / {replicate}: it has no checksum, so nobody can tell whether it was altered. If you trust "
            "it, whatever is stored next gives it one"
        )
