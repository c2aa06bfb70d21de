"""One store into another: rows that are new, metrics that rows lack, and rows that contradict each other."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass
from typing import Any

from fedvalue._text import count, plural
from fedvalue.store import _added, _told
from fedvalue.store._added import TABLE, AddedMetric
from fedvalue.store._rows import COLUMNS, UNSIGNED, as_object
from fedvalue.store._schema import is_signed
from fedvalue.store._taken import chain_what_came, sign_what_came

__all__ = ["MergeReport", "merge_attached"]

_SAME_KEY = "a.game_id = b.game_id AND a.mask = b.mask AND a.replicate = b.replicate"


@dataclass(frozen=True)
class MergeReport:
    """What a merge did: rows added, rows already there, keys whose metrics differ, and rows that got further metrics."""

    added: int
    present: int
    conflicts: tuple[str, ...]
    extended: int = 0

    def line(self) -> str:
        """The report in words."""
        parts = [f"{count(self.added)} added", f"{count(self.present)} already there"]
        parts += [f"{count(self.extended)} of them with further metrics now"] if self.extended else []
        return ", ".join([*parts, plural(len(self.conflicts), "conflict")])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "conflicts": list(self.conflicts)}


def merge_attached(db: sqlite3.Connection, now: str) -> MergeReport:
    """Adds everything from the database attached as `other`, within the caller's transaction.

    Where both know a coalition, the rows of the main one stay. They get the metrics that only the other has, unless
    the two contradict each other in one that both have.
    """
    if _added.table_exists(db, "other"):  # what was added to rows that are new here comes with them
        _added.make_table(db)
        db.execute(
            f"INSERT OR IGNORE INTO main.{TABLE} SELECT {_added.columns(db, 'other')} FROM other.{TABLE} b "
            f"WHERE NOT EXISTS (SELECT 1 FROM main.outcomes a WHERE {_SAME_KEY})"
        )
    later = {schema: _by_key(db, schema) for schema in ("main", "other")}
    both = db.execute(
        "SELECT a.game_id, a.replicate, a.mask, a.metrics, b.metrics FROM other.outcomes b "
        f"JOIN main.outcomes a ON {_SAME_KEY}"
    )
    present, extended, conflicts, further = 0, 0, [], []
    differing: list[tuple[Any, ...]] = []
    for *key, mine_text, theirs_text in both:
        present += 1
        mine, theirs = (
            _added.extended(as_object(text), later[schema].get(tuple(key), {}))
            for schema, text in (("main", mine_text), ("other", theirs_text))
        )
        shared = mine.keys() & theirs.keys()
        if not shared or any(mine[name] != theirs[name] for name in shared):
            conflicts.append(f"{key[0]} / {key[2]}")
            differing.append(tuple(key))
        elif new := [name for name in theirs if name not in mine]:
            extended += 1
            further += [AddedMetric._make((*key, name, theirs[name], now)) for name in new]
    _added.insert(db, further)
    _told.merge(db, differing)
    db.execute("INSERT OR IGNORE INTO main.games SELECT * FROM other.games")
    columns = ", ".join((*COLUMNS, "checksum" if is_signed(db, "other") else f"'{UNSIGNED}'"))
    added = db.execute(f"INSERT OR IGNORE INTO main.outcomes SELECT {columns} FROM other.outcomes")
    sign_what_came(db)
    chain_what_came(db)
    return MergeReport(added.rowcount, present, tuple(conflicts), extended)


def _by_key(db: sqlite3.Connection, schema: str) -> dict[tuple[object, ...], dict[str, float]]:
    found: dict[tuple[object, ...], dict[str, float]] = {}
    if _added.table_exists(db, schema):
        query = f"SELECT {', '.join(AddedMetric._fields)} FROM {schema}.{TABLE}"
        for metric in map(AddedMetric._make, db.execute(query)):
            found.setdefault(metric[:3], {})[metric.name] = metric.value
    return found
