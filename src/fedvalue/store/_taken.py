"""Rows of stores of earlier formats: they get checksums where they have none, and a place in the chain of their game."""

from __future__ import annotations

import sqlite3

from fedvalue.store import _chain
from fedvalue.store._added import TABLE, AddedMetric, table_exists
from fedvalue.store._games import signed_text
from fedvalue.store._rows import COLUMNS, UNSIGNED, checksum
from fedvalue.store._schema import is_chained, upgrade, version_of

__all__ = ["bring_up_to_date", "chain_what_came", "sign_what_came"]


def bring_up_to_date(db: sqlite3.Connection) -> None:
    """Takes a store of an earlier format over, within the caller's transaction. Each chain says where that was."""
    before, chained = version_of(db), is_chained(db)
    upgrade(db)
    if chained:
        return
    sign_what_came(db)
    for (game_id,) in db.execute("SELECT game_id FROM main.games").fetchall():
        taken = _chain.Addition(_chain.TAKEN, 0, "", (f"format {before}",), ())
        _chain.append(db, game_id, [*_chain.uncovered(db, game_id), taken])


def chain_what_came(db: sqlite3.Connection) -> None:
    """Rows that were added in bulk get their places in the chains."""
    for (game_id,) in db.execute("SELECT game_id FROM main.games").fetchall():
        _chain.append(db, game_id, _chain.uncovered(db, game_id))


def sign_what_came(db: sqlite3.Connection) -> None:
    """Rows and entries without a checksum get one. Nobody can tell whether they were altered before."""
    tables: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [
        ("outcomes", COLUMNS, ("game_id", "mask", "replicate"))
    ]
    if table_exists(db):
        tables.append((TABLE, AddedMetric._fields, ("game_id", "replicate", "mask", "name")))
    for table, columns, key in tables:
        query = f"SELECT {', '.join(columns)} FROM main.{table} WHERE checksum=?"
        where = " AND ".join(f"{name}=?" for name in key)
        for row in db.execute(query, (UNSIGNED,)).fetchall():
            named = dict(zip(columns, row, strict=True))
            given = (checksum(row), *(named[name] for name in key))
            db.execute(f"UPDATE main.{table} SET checksum=? WHERE {where}", given)
    for game_id, n, text in db.execute("SELECT game_id, n, description FROM main.games").fetchall():
        db.execute(
            "UPDATE main.games SET description=? WHERE game_id=?", (signed_text(game_id, n, text), game_id)
        )
