"""Metrics that were added to stored trainings later: a table beside the outcomes, which are never changed.

It is made when there is the first of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fedvalue.outcome import LARGEST, Outcome
from fedvalue.store._protocol import agree
from fedvalue.store._rows import UNSIGNED, checksum
from fedvalue.store._schema import ADDED as TABLE
from fedvalue.store._schema import checksum_column

__all__ = [
    "TABLE",
    "AddedMetric",
    "columns",
    "extended",
    "further",
    "insert",
    "make_table",
    "problems",
    "read",
    "table_exists",
]


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


def further(
    game_id: str,
    given: Iterable[tuple[int, Outcome]],
    stored: Mapping[int, Outcome],
    replicate: int,
    now: str,
) -> list[AddedMetric]:
    """Metrics of these outcomes that those which are there lack, where the two agree in the others."""
    return [
        AddedMetric(game_id, replicate, f"{mask:x}", name, float(number), now)
        for mask, outcome in given
        if mask in stored
        and outcome.metrics.keys() - stored[mask].metrics.keys()
        and agree(stored[mask].metrics, outcome.metrics)
        for name, number in outcome.metrics.items()
        if name not in stored[mask].metrics
    ]


def table_exists(db: sqlite3.Connection, schema: str = "main") -> bool:
    """Whether anything was ever added."""
    return db.execute(f"SELECT 1 FROM {schema}.sqlite_master WHERE name=?", (TABLE,)).fetchone() is not None


def make_table(db: sqlite3.Connection) -> None:
    """Makes the table, if it is not there."""
    db.execute(
        f"CREATE TABLE IF NOT EXISTS main.{TABLE} (game_id TEXT NOT NULL, replicate INTEGER NOT NULL, "
        "mask TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL, created TEXT NOT NULL, checksum TEXT NOT NULL, "
        "PRIMARY KEY (game_id, replicate, mask, name)) WITHOUT ROWID"
    )


def insert(db: sqlite3.Connection, metrics: Sequence[AddedMetric]) -> None:
    """Adds numbers; one that is there stays."""
    if metrics:
        make_table(db)
        signed = [(*metric, checksum(metric)) for metric in metrics]
        db.executemany(f"INSERT OR IGNORE INTO main.{TABLE} VALUES (?, ?, ?, ?, ?, ?, ?)", signed)


def read(
    db: sqlite3.Connection,
    game_id: str,
    replicate: int | None = None,
    masks: Sequence[str] | None = None,
) -> Iterable[AddedMetric]:
    """What was added to trainings of a game, or of one of its replicates, or of some coalitions."""
    if not table_exists(db):
        return ()
    query, given = (
        f"SELECT {columns(db)} FROM main.{TABLE} WHERE game_id=?",
        [game_id, replicate, *(masks or ())],
    )
    query += "" if replicate is None else " AND replicate=?"
    query += "" if masks is None else f" AND mask IN ({','.join('?' * len(masks))})"
    return map(_checked, db.execute(query, [one for one in given if one is not None]))


def columns(db: sqlite3.Connection, schema: str = "main") -> str:
    """What to select: stores of earlier releases have no checksums."""
    return ", ".join((*AddedMetric._fields, checksum_column(db, schema)))


def _checked(row: Sequence[Any]) -> AddedMetric:
    metric, wrong = AddedMetric._make(row[:-1]), _problem(row)
    if wrong:  # what is damaged is not handed out
        raise ValueError(f"{metric.game_id} / {metric.mask} / {metric.replicate}: {wrong}")
    return metric


def _problem(row: Sequence[Any]) -> str | None:
    metric = AddedMetric._make(row[:-1])
    texts = (metric.game_id, metric.mask, metric.name, metric.created)
    if not all(isinstance(text, str) for text in texts) or not isinstance(metric.replicate, int):
        return "a metric that was added later cannot be read"
    if not isinstance(metric.value, float) or not abs(metric.value) <= LARGEST:
        return f"the metric {metric.name}, which was added later, is not a finite number"
    if row[-1] != UNSIGNED and row[-1] != checksum(metric):
        return f"the metric {metric.name} was altered after it was stored: its checksum does not fit"
    return None


def problems(db: sqlite3.Connection) -> Iterator[str]:
    """What is wrong with added metrics."""
    if not table_exists(db):
        return
    known = "SELECT 1 FROM outcomes WHERE game_id=? AND mask=? AND replicate=?"
    for row in db.execute(f"SELECT {columns(db)} FROM main.{TABLE}").fetchall():
        metric = AddedMetric._make(row[:-1])
        where = f"{metric.game_id} / {metric.mask} / {metric.replicate}"
        if db.execute(known, (metric.game_id, metric.mask, metric.replicate)).fetchone() is None:
            yield f"{where}: the metric {metric.name} was added to a training that is not there"
        elif wrong := _problem(row):
            yield f"{where}: {wrong}"
