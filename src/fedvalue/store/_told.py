"""What single test rows said about stored models: a table beside the outcomes.

It is made when there is the first of them. An outcome takes at most two kilobytes for its accuracy and 144 bytes for every
other metric of a built-in learner, besides names and checksums; what a function of one's own returns per row, or the mean
over untrained models, at most 33 kilobytes.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fedvalue.errors import StoreError
from fedvalue.outcome import Outcome
from fedvalue.per_row import PerRow
from fedvalue.store._protocol import agree
from fedvalue.store._rows import as_object, checksum
from fedvalue.store._schema import PER_ROW as TABLE

__all__ = ["insert", "merge", "problems", "read", "stderrs"]

_COLUMNS = "game_id, replicate, mask, name, kind, length, data, rows, checksum"
_SAME_MEAN = 2e-3  # of what the largest number differs from the others: two bytes round


def insert(
    db: sqlite3.Connection,
    game_id: str,
    given: Iterable[tuple[int, Outcome]],
    stored: Mapping[int, Outcome],
    replicate: int,
) -> list[tuple[Any, ...]]:
    """Adds what test rows said about these models, and gives the rows that are new; what is there stays.

    Of outcomes that were stored before only those whose metrics agree: others are of another model.
    """
    there = {(mask, name) for mask, known in stored.items() for name in known.rows}
    new: dict[tuple[int, str], tuple[Any, ...]] = {}
    for mask, outcome in given:
        if mask in stored and not agree(stored[mask].metrics, outcome.metrics):
            continue
        for name, row in outcome.rows.items():
            wrong = row.problem() if name in outcome.metrics else "there is no metric of that name"
            if wrong:
                raise StoreError(f"The metric {name} of coalition {mask:x} cannot be stored: {wrong}.")
            if (mask, name) not in there:
                new.setdefault((mask, name), (game_id, replicate, f"{mask:x}", name, *row))
    if new:
        _make_table(db)
        signed = [(*columns, _checksum(columns)) for columns in new.values()]
        db.executemany(f"INSERT OR IGNORE INTO main.{TABLE} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", signed)
    return list(new.values())


def read(
    db: sqlite3.Connection, game_id: str, replicate: int, masks: Sequence[str] | None = None
) -> dict[int, dict[str, PerRow]]:
    """By coalition and metric, of one replicate of a game, or of some of its coalitions."""
    if not _exists(db):
        return {}
    query = f"SELECT {_COLUMNS} FROM main.{TABLE} WHERE game_id=? AND replicate=?"
    query += "" if masks is None else f" AND mask IN ({','.join('?' * len(masks))})"
    found: dict[int, dict[str, PerRow]] = {}
    for columns in db.execute(query, (game_id, replicate, *(masks or ()))):
        wrong = _problem(columns)
        if wrong:  # what is damaged is not handed out
            raise ValueError(f"{columns[0]} / {columns[2]} / {columns[1]}: {wrong}")
        found.setdefault(int(columns[2], 16), {})[columns[3]] = PerRow._make(columns[4:-1])
    return found


def stderrs(db: sqlite3.Connection, game_id: str) -> dict[tuple[str, int], dict[str, float]]:
    """By coalition and replicate, how far another sample of test rows would move each metric."""
    if not _exists(db):
        return {}
    found: dict[tuple[str, int], dict[str, float]] = {}
    query = f"SELECT mask, replicate, name, kind, length, data, rows FROM main.{TABLE} WHERE game_id=?"
    for mask, replicate, name, *row in db.execute(query, (game_id,)):
        found.setdefault((mask, replicate), {})[name] = PerRow._make(row).stderr
    return found


def merge(db: sqlite3.Connection, differing: Sequence[tuple[Any, ...]]) -> None:
    """Adds what only the attached store knows, but for coalitions (game, replicate, mask) whose metrics differ."""
    if not _exists(db, "other"):
        return
    _make_table(db)
    db.execute("CREATE TEMP TABLE differing (game_id, replicate, mask)")
    try:
        db.executemany("INSERT INTO temp.differing VALUES (?, ?, ?)", differing)
        db.execute(
            f"INSERT OR IGNORE INTO main.{TABLE} SELECT {_COLUMNS} FROM other.{TABLE} "
            "WHERE (game_id, replicate, mask) NOT IN (SELECT * FROM temp.differing)"
        )
    finally:
        db.execute("DROP TABLE temp.differing")


def problems(db: sqlite3.Connection) -> Iterator[str]:
    """What is wrong with what test rows said; the metric of a sound one is its mean."""
    if not _exists(db):
        return
    query = "SELECT metrics FROM outcomes WHERE game_id=? AND mask=? AND replicate=?"
    for columns in db.execute(f"SELECT {_COLUMNS} FROM main.{TABLE}"):
        game_id, replicate, mask, name = columns[:4]
        where = f"{game_id} / {mask} / {replicate}"
        training = db.execute(query, (game_id, mask, replicate)).fetchone()
        if training is None:
            yield f"{where}: test rows of the metric {name} belong to a training that is not there"
        elif wrong := _problem(columns) or _other_mean(name, PerRow._make(columns[4:-1]), training[0]):
            yield f"{where}: {wrong}"


def _other_mean(name: str, row: PerRow, metrics: str) -> str | None:
    with suppress(ValueError, RecursionError):  # metrics that cannot be read are complained about elsewhere
        number = as_object(metrics).get(name)  # one that was added later is not there
        if isinstance(number, float) and row.kind != "error":
            spread = float(abs(row.array() - row.mean).max())
            if not math.isclose(row.mean, number, rel_tol=1e-6, abs_tol=_SAME_MEAN * spread + 1e-9):
                return f"the metric {name} is {number:g}, but test rows said {row.mean:g}"
    return None


def _problem(columns: Sequence[Any]) -> str | None:
    *key, name = columns[:4]
    if not all(isinstance(text, str) for text in (key[0], key[2], name)) or not isinstance(key[1], int):
        return "what test rows said cannot be read"
    row = PerRow._make(columns[4:-1])
    if wrong := row.problem():
        return f"{name}: {wrong}"
    if columns[-1] != _checksum(columns[:-1]):
        return f"what test rows said of {name} was altered after it was stored: its checksum does not fit"
    return None


def _checksum(columns: Sequence[Any]) -> str:
    return checksum(part.hex() if isinstance(part, bytes) else part for part in columns)


def _exists(db: sqlite3.Connection, schema: str = "main") -> bool:
    return db.execute(f"SELECT 1 FROM {schema}.sqlite_master WHERE name=?", (TABLE,)).fetchone() is not None


def _make_table(db: sqlite3.Connection) -> None:
    db.execute(
        f"CREATE TABLE IF NOT EXISTS main.{TABLE} (game_id TEXT NOT NULL, replicate INTEGER NOT NULL, "
        "mask TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, length INTEGER NOT NULL, data BLOB NOT NULL, "
        "rows INTEGER NOT NULL, checksum TEXT NOT NULL, PRIMARY KEY (game_id, replicate, mask, name)) WITHOUT ROWID"
    )
