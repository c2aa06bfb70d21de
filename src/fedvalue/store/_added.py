"""Metrics that were added to stored trainings later: a table beside the outcomes, which are never changed.

It is made when there is the first of them; earlier releases read such a store as if there were none.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

__all__ = ["TABLE", "AddedMetric", "extended", "insert", "make_table", "problems", "read", "table_exists"]

TABLE = "added_metrics"


class AddedMetric(NamedTuple):
    """One number, as the store keeps it."""

    game_id: str
    replicate: int
    mask: str
    name: str
    value: float
    created: str


def extended(metrics: Mapping[str, float], added: Mapping[str, float]) -> dict[str, float]:
    """The metrics of a training with those added later; what is there from the beginning stays.

    >>> extended({"accuracy": 0.5}, {"profit": 2.0, "accuracy": 0.9})
    {'accuracy': 0.5, 'profit': 2.0}
    """
    return {**metrics, **{name: number for name, number in added.items() if name not in metrics}}


def table_exists(db: sqlite3.Connection, schema: str = "main") -> bool:
    """Whether anything was ever added."""
    return db.execute(f"SELECT 1 FROM {schema}.sqlite_master WHERE name=?", (TABLE,)).fetchone() is not None


def make_table(db: sqlite3.Connection) -> None:
    """Makes the table, if it is not there."""
    db.execute(
        f"CREATE TABLE IF NOT EXISTS main.{TABLE} (game_id TEXT NOT NULL, replicate INTEGER NOT NULL, "
        "mask TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL, created TEXT NOT NULL, "
        "PRIMARY KEY (game_id, replicate, mask, name)) WITHOUT ROWID"
    )


def insert(db: sqlite3.Connection, metrics: Sequence[AddedMetric]) -> None:
    """Adds numbers; one that is there stays."""
    if metrics:
        make_table(db)
        db.executemany(f"INSERT OR IGNORE INTO main.{TABLE} VALUES (?, ?, ?, ?, ?, ?)", metrics)


def read(
    db: sqlite3.Connection,
    game_id: str,
    replicate: int | None = None,
    masks: Sequence[str] | None = None,
) -> Iterable[AddedMetric]:
    """What was added to trainings of a game, or of one of its replicates, or of some coalitions."""
    if not table_exists(db):
        return ()
    query, given = f"SELECT * FROM main.{TABLE} WHERE game_id=?", [game_id, replicate, *(masks or ())]
    query += "" if replicate is None else " AND replicate=?"
    query += "" if masks is None else f" AND mask IN ({','.join('?' * len(masks))})"
    rows = map(AddedMetric._make, db.execute(query, [one for one in given if one is not None]))
    return (row._replace(value=float(row.value)) for row in rows)  # what is damaged is not handed out


def problems(db: sqlite3.Connection) -> Iterator[str]:
    """What is wrong with added metrics."""
    if not table_exists(db):
        return
    query = (
        f"SELECT a.*, o.mask FROM main.{TABLE} a LEFT JOIN outcomes o "
        "ON o.game_id = a.game_id AND o.mask = a.mask AND o.replicate = a.replicate"
    )
    for *columns, training in db.execute(query):
        metric = AddedMetric._make(columns)
        where = f"{metric.game_id} / {metric.mask} / {metric.replicate}"
        if training is None:
            yield f"{where}: the metric {metric.name} was added to a training that is not there"
        elif not isinstance(metric.value, float) or not math.isfinite(metric.value):
            yield f"{where}: the metric {metric.name}, which was added later, is not a finite number"
