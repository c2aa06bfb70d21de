"""The chain of a game's rows: each addition carries the hash of the one before.

A row that is altered, removed, moved or slipped in breaks it. Who can write the file can also make the whole chain anew: its
head, written down elsewhere and signed, is what shows that. Additions of several processes follow each other, because
each is made within a transaction that writes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from fedvalue.store._rows import COLUMNS
from fedvalue.store._schema import ADDED, CHAIN, PER_ROW

__all__ = [
    "Addition",
    "Entry",
    "Head",
    "additions",
    "append",
    "entries",
    "head",
    "problems",
    "start_of",
    "uncovered",
]

GAME, OUTCOME, ROWS, METRICS, TAKEN = "game", "outcome", "rows", "metrics", "taken over"
_FIELDS = "place, kind, replicate, mask, names, digest, link"
_OF_GAME = "game_id, n, description, created"
_OF_ROW = "game_id, replicate, mask, name, kind, length, data, rows"
_OF_METRIC = "game_id, replicate, mask, name, value, created"
_ORDER = "ORDER BY replicate, created, length(mask), mask"


class Head(NamedTuple):
    """Where a chain ends: how many additions it has, and the hash of the last one."""

    rows: int
    link: str


class Addition(NamedTuple):
    """What is stored at once: an outcome with what test rows said (`names`), or something added to it later."""

    kind: str
    replicate: int
    mask: str
    names: Sequence[str]
    rows: Sequence[Sequence[object]]


class Entry(NamedTuple):
    """An addition in the chain: `digest` is that of its rows, `link` that of everything up to here."""

    place: int
    kind: str
    replicate: int
    mask: str
    names: tuple[str, ...]
    digest: str
    link: str


def additions(
    outcomes: Iterable[Sequence[Any]], told: Iterable[Sequence[Any]], added: Iterable[Sequence[Any]]
) -> list[Addition]:
    """Rows that were just stored, as additions: an outcome with what test rows said of it is one."""
    with_it = dict[tuple[str, int], list[Sequence[Any]]]()
    for row in told:
        with_it.setdefault((row[2], row[1]), []).append(row)
    found = dict[tuple[str, int], Addition]()
    for row in outcomes:
        mask, replicate = row[1:3]
        if (mask, replicate) not in found:
            said = sorted(with_it.pop((mask, replicate), []), key=_name)
            names = [one[3] for one in said]
            found[mask, replicate] = Addition(OUTCOME, replicate, mask, names, [row, *said])
    later = [
        Addition(ROWS, replicate, mask, sorted(row[3] for row in rows), sorted(rows, key=_name))
        for (mask, replicate), rows in with_it.items()
    ]
    return [*found.values(), *later, *(Addition(METRICS, m[1], m[2], (m[3],), [m]) for m in added)]


def start_of(game_id: str) -> str:
    """What the first addition of a game follows."""
    return sha256(f"fedvalue chain\n{game_id}".encode()).hexdigest()


def head(db: sqlite3.Connection, game_id: str) -> Head:
    """Where the chain of a game ends now; stores of earlier formats have none."""
    found = _last(db, game_id) if _exists(db) else None
    return Head(0, start_of(game_id)) if found is None else found


def append(db: sqlite3.Connection, game_id: str, additions: Iterable[Addition]) -> None:
    """Adds to the end of a chain, within the caller's transaction."""
    rows, (place, link) = [], head(db, game_id)
    for kind, replicate, mask, names, stored in additions:
        digest = _digest(stored)
        link = _link(link, place, kind, replicate, mask, names, digest)
        rows.append((game_id, place, kind, replicate, mask, json.dumps(list(names)), digest, link))
        place += 1
    db.executemany(f"INSERT INTO main.{CHAIN} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def entries(db: sqlite3.Connection, game_id: str, since: int = 0) -> Iterator[Entry]:
    """The additions of a game in their order, from one place on; unreadable ones are a ValueError."""
    if not _exists(db):
        return
    query = f"SELECT {_FIELDS} FROM main.{CHAIN} WHERE game_id=? AND place>=? ORDER BY place"
    for place, kind, replicate, mask, names, digest, link in db.execute(query, (game_id, since)):
        try:
            listed = tuple(str(name) for name in json.loads(names))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{game_id}: the chain cannot be read at row {place}") from error
        yield Entry(place, kind, replicate, mask, listed, digest, link)


def uncovered(db: sqlite3.Connection, game_id: str) -> list[Addition]:
    """The rows of a game that are not in its chain, as additions."""
    covered = {key for entry in entries(db, game_id) for key in _keys(entry)}
    found = []
    for row in db.execute(f"SELECT {_OF_GAME} FROM main.games WHERE game_id=?", (game_id,)):
        latest = [entry.digest for entry in entries(db, game_id) if entry.kind == GAME]
        found += [] if latest and latest[-1] == _digest([row]) else [Addition(GAME, 0, "", (), [row])]
    query = f"SELECT {', '.join(COLUMNS)} FROM main.outcomes WHERE game_id=? {_ORDER}"
    outcomes = [r for r in db.execute(query, (game_id,)) if (OUTCOME, r[1], r[2], "") not in covered]
    told, added = (
        [row for row in _all(db, table, columns, game_id) if (kind, row[2], row[1], row[3]) not in covered]
        for kind, table, columns in ((ROWS, PER_ROW, _OF_ROW), (METRICS, ADDED, _OF_METRIC))
    )
    return found + additions(outcomes, told, added)


def problems(db: sqlite3.Connection) -> Iterator[str]:
    """What is wrong with the chains, and which rows are in none; a store without them has no problem here."""
    if not _exists(db):
        return
    query = f"SELECT game_id FROM main.{CHAIN} UNION SELECT game_id FROM main.games UNION SELECT game_id FROM main.outcomes"
    for (game_id,) in db.execute(query).fetchall():
        try:
            yield from _broken(db, game_id)
            for extra in uncovered(db, game_id):
                what = f" ({', '.join(extra.names)})" if extra.names and extra.kind != OUTCOME else ""
                where = f"{game_id} / {extra.mask} / {extra.replicate}" if extra.mask else f"{game_id}"
                yield f"{where}: {_CALLED[extra.kind]}{what} was slipped in or altered: it is not in the chain"
        except (TypeError, ValueError) as error:
            yield f"{game_id}: its chain cannot be followed: {error}"


_CALLED = {
    GAME: "the entry of the game",
    OUTCOME: "the training",
    ROWS: "what test rows said",
    METRICS: "a metric",
}


def _broken(db: sqlite3.Connection, game_id: str) -> Iterator[str]:
    """Entries that do not follow from the one before, and rows that are not as their entries say."""
    link, seen = start_of(game_id), set[tuple[object, ...]]()
    latest = max((entry.place for entry in entries(db, game_id) if entry.kind == GAME), default=-1)
    for expected, entry in enumerate(entries(db, game_id)):
        if entry.place != expected:
            yield f"{game_id}: the chain lacks row {expected}: something was removed"
            return
        if entry.link != _link(link, *entry[:-1]):
            yield f"{game_id}: row {expected} of the chain was altered, moved or slipped in"
            return
        link, keys = entry.link, set(_keys(entry))
        if not _CALLED.get(entry.kind) and entry.kind != TAKEN:
            yield f"{game_id}: row {expected} of the chain is of no known kind"
        if seen & keys:
            yield f"{game_id}: row {expected} of the chain repeats an earlier one"
        seen |= keys
        if entry.kind == TAKEN or (entry.kind == GAME and entry.place != latest):
            continue  # an entry of the game under earlier names is no more
        rows = _rows_of(db, game_id, entry)
        if _digest(rows) != entry.digest:
            what = _CALLED.get(entry.kind, "something")
            where = f"{game_id} / {entry.mask} / {entry.replicate}" if entry.mask else game_id
            yield f"{where}: {what} was {'altered' if rows else 'removed'}: the chain has it otherwise"


def _keys(entry: Entry) -> Iterator[tuple[object, ...]]:
    if entry.kind == OUTCOME:
        yield OUTCOME, entry.mask, entry.replicate, ""
    if entry.kind in (OUTCOME, ROWS):
        yield from ((ROWS, entry.mask, entry.replicate, name) for name in entry.names)
    if entry.kind == METRICS:
        yield from ((METRICS, entry.mask, entry.replicate, name) for name in entry.names)


def _rows_of(db: sqlite3.Connection, game_id: str, entry: Entry) -> list[Sequence[object]]:
    """The rows that an entry speaks of, as they are now."""
    if entry.kind == GAME:
        return db.execute(f"SELECT {_OF_GAME} FROM main.games WHERE game_id=?", (game_id,)).fetchall()
    key = (game_id, entry.replicate, entry.mask)
    where = "WHERE game_id=? AND replicate=? AND mask=?"
    found: list[Sequence[object]] = []
    if entry.kind == OUTCOME:
        found += db.execute(f"SELECT {', '.join(COLUMNS)} FROM main.outcomes {where}", key).fetchall()
    table, columns = (ADDED, _OF_METRIC) if entry.kind == METRICS else (PER_ROW, _OF_ROW)
    if entry.names and _exists(db, table):
        some = f"AND name IN ({','.join('?' * len(entry.names))})"
        rows = db.execute(f"SELECT {columns} FROM main.{table} {where} {some}", (*key, *entry.names))
        found += sorted(rows.fetchall(), key=_name)
    return found


def _all(db: sqlite3.Connection, table: str, columns: str, game_id: str) -> list[tuple[Any, ...]]:
    if not _exists(db, table):
        return []
    query = f"SELECT {columns} FROM main.{table} WHERE game_id=? ORDER BY replicate, length(mask), mask, name"
    return db.execute(query, (game_id,)).fetchall()


def _name(row: Sequence[Any]) -> str:
    return str(row[3])


def _digest(rows: Iterable[Sequence[object]]) -> str:
    plain = [[part.hex() if isinstance(part, bytes) else part for part in row] for row in rows]
    return sha256(json.dumps(plain).encode()).hexdigest()


def _link(
    before: str, place: int, kind: str, replicate: int, mask: str, names: Sequence[str], digest: str
) -> str:
    told = json.dumps([before, place, kind, replicate, mask, list(names), digest])
    return sha256(told.encode()).hexdigest()


def _last(db: sqlite3.Connection, game_id: str) -> Head | None:
    query = f"SELECT place, link FROM main.{CHAIN} WHERE game_id=? ORDER BY place DESC LIMIT 1"
    found = db.execute(query, (game_id,)).fetchone()
    return None if found is None else Head(found[0] + 1, found[1])


def _exists(db: sqlite3.Connection, table: str = CHAIN) -> bool:
    return db.execute("SELECT 1 FROM main.sqlite_master WHERE name=?", (table,)).fetchone() is not None
