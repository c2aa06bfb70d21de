"""The store: every evaluated coalition, kept for ever, found by anyone with the same game.

One SQLite file (write-ahead log) that several processes may write at once. Rows are only ever added,
keyed by (game, coalition, replicate). Coalitions are stored as hexadecimal text, because SQLite's
integers end at 64 bits and consortia do not.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from types import TracebackType
from typing import Any

from fedvalue._checks import as_path
from fedvalue.errors import FedvalueError, InputError, StoreError
from fedvalue.outcome import Outcome
from fedvalue.store import _added
from fedvalue.store._added import AddedMetric
from fedvalue.store._file import APPLICATION_ID, LOCK_SECONDS, open_file
from fedvalue.store._merge import MergeReport, merge_attached
from fedvalue.store._names import default_names, other_names
from fedvalue.store._protocol import agree
from fedvalue.store._rows import as_object, metrics_text, outcomes_of, row_problem

__all__ = ["StoredGame", "UtilityStore"]

_SCHEMA_VERSION = 1
_SCHEMA = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {_SCHEMA_VERSION};
CREATE TABLE IF NOT EXISTS games (
    game_id TEXT PRIMARY KEY, n INTEGER NOT NULL, description TEXT NOT NULL, created TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outcomes (
    game_id TEXT NOT NULL, mask TEXT NOT NULL, replicate INTEGER NOT NULL, metrics TEXT NOT NULL,
    backend TEXT NOT NULL, device TEXT NOT NULL, seconds REAL NOT NULL, created TEXT NOT NULL,
    PRIMARY KEY (game_id, mask, replicate)
) WITHOUT ROWID;
COMMIT;
"""
_KEYS_PER_QUERY = 500
_ROW_COLUMNS = "game_id, mask, replicate, metrics, backend, device, seconds, created"


@dataclass(frozen=True)
class StoredGame:
    """A game that the store knows, and how much of it: repeated evaluations are outcomes of one coalition."""

    id: str
    n: int
    coalitions: int
    outcomes: int
    created: str
    description: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "id": self.id,
            "clients": self.n,
            "coalitions": self.coalitions,
            "outcomes": self.outcomes,
            "created": self.created,
            "description": dict(self.description),
        }


class UtilityStore:
    """An append-only SQLite file of outcomes. Use it in a `with` block, or `close()` it.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "store.db")
    >>> with UtilityStore(path) as store:
    ...     store.register("g", 2)
    ...     store.append("g", [(0b11, Outcome({"utility": 0.9}))])
    ...     store.read("g")[0b11].metrics
    {'utility': 0.9}
    """

    def __init__(self, path: str | PathLike[str], *, create: bool = True) -> None:
        self.path = as_path("A store", path)
        if (
            str(path) == ":memory:"
        ):  # to SQLite a database that is gone at the end, and with it every training
            raise StoreError("A store is a file, so that trainings are kept. Got ':memory:'.")
        with self._explained("open"):
            self._db = open_file(self.path, create)
            try:
                self._prepare()
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> UtilityStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; what was appended stays."""
        self._db.close()

    def register(self, game_id: str, n: int, description: Mapping[str, Any] | None = None) -> None:
        """Makes a game known, with a description for people; a second time changes nothing.

        Clients that had no names get those of the description; a game with other names than before is refused.
        """
        given = dict(description or {})
        row = (game_id, n, json.dumps(given, sort_keys=True), _now())
        with self._explained("write"), self._transaction():
            self._db.execute("INSERT OR IGNORE INTO games VALUES (?, ?, ?, ?)", row)
            found = self._db.execute("SELECT description FROM games WHERE game_id=?", (game_id,)).fetchone()
            known = as_object(found[0]).get("names")
            names = [str(name) for name in given.get("names") or ()]
            refusal = other_names(game_id, n, known, names)
            if refusal is not None:
                raise refusal
            if known in (None, default_names(n)) and names not in ([], known):
                self._describe(game_id, {**as_object(found[0]), "names": names})

    def rename(self, game: str, names: Sequence[str]) -> StoredGame:
        """Gives the clients of a game other names, in the same order; the outcomes stay as they are."""
        stored = self.game(game)
        given = [str(name) for name in names]
        if isinstance(names, str) or len(given) != stored.n or len(set(given)) != stored.n:
            raise InputError(f"names must hold {stored.n} different names. Got {given[:12]}.")
        with self._explained("write"), self._transaction():
            self._describe(stored.id, {**stored.description, "names": given})
        return self.game(stored.id)

    def _describe(self, game_id: str, description: Mapping[str, Any]) -> None:
        text = json.dumps(dict(description), sort_keys=True)
        self._db.execute("UPDATE games SET description=? WHERE game_id=?", (text, game_id))

    def read(
        self, game_id: str, masks: Sequence[int] | None = None, replicate: int = 0
    ) -> dict[int, Outcome]:
        """The known outcomes of a game, of all coalitions or of the given ones."""
        with self._explained("read"):
            if masks is None or len(masks) > 20 * _KEYS_PER_QUERY:
                stored = self._read(game_id, replicate)
                return stored if masks is None else {m: stored[m] for m in masks if m in stored}
            some: dict[int, Outcome] = {}
            for start in range(0, len(masks), _KEYS_PER_QUERY):
                keys = [f"{mask:x}" for mask in masks[start : start + _KEYS_PER_QUERY]]
                some |= self._read(game_id, replicate, keys)
        return some

    def append(self, game_id: str, outcomes: Iterable[tuple[int, Outcome]], replicate: int = 0) -> None:
        """Adds outcomes, all or none of them. A number that is there is never changed.

        A coalition that is known already only gets the metrics that it lacks, and those only if the others agree.
        """
        now, given = _now(), list(outcomes)
        rows = [
            (game_id, f"{mask:x}", replicate, metrics_text(mask, o), o.backend, o.device, o.seconds, now)
            for mask, o in given
        ]
        with self._explained("write"), self._transaction():
            inserted = self._db.executemany("INSERT OR IGNORE INTO outcomes VALUES (?,?,?,?,?,?,?,?)", rows)
            if inserted.rowcount < len(rows):
                _added.insert(self._db, self._further(game_id, given, replicate, now))

    def games(self) -> list[StoredGame]:
        """All games, oldest first."""
        query = (
            "SELECT g.game_id, g.n, count(DISTINCT o.mask), count(o.mask), g.created, g.description FROM games g "
            "LEFT JOIN outcomes o ON o.game_id = g.game_id GROUP BY g.game_id ORDER BY g.created, g.game_id"
        )
        with self._explained("read"):
            return [
                StoredGame(id_, n, coalitions, outcomes, created, as_object(text))
                for id_, n, coalitions, outcomes, created, text in self._db.execute(query)
            ]

    def game(self, prefix: str) -> StoredGame:
        """The game with this id, or the one whose id begins so."""
        games = self.games()
        matching = [game for game in games if game.id == prefix]
        matching = matching or [game for game in games if game.id.startswith(prefix)]
        if len(matching) == 1:
            return matching[0]
        known = ", ".join(game.id for game in (matching or games)[:8]) or "none"
        raise StoreError(
            f"Expected the beginning of exactly one game id in {self.path}. Got {prefix!r}, which fits "
            f"{len(matching)}. Games there: {known}."
        )

    def rows(self, game_id: str) -> Iterator[dict[str, Any]]:
        """Every stored row of a game as plain data, provenance included."""
        names = _ROW_COLUMNS.split(", ")
        query = f"SELECT {_ROW_COLUMNS} FROM outcomes WHERE game_id=? ORDER BY length(mask), mask, replicate"
        with self._explained("read"):
            added: dict[tuple[str, int], dict[str, float]] = {}
            for metric in _added.read(self._db, game_id):
                added.setdefault((metric.mask, metric.replicate), {})[metric.name] = metric.value
            for row in self._db.execute(query, (game_id,)):
                metrics = _added.extended(as_object(row[3]), added.get((row[1], row[2]), {}))
                yield dict(zip(names, row, strict=True)) | {"metrics": metrics}

    def verify(self) -> list[str]:
        """Everything that is wrong with the file; an empty list when nothing is."""
        problems: list[str] = []
        try:
            for (line,) in self._db.execute("PRAGMA integrity_check(20)"):
                if line != "ok":
                    problems.append(f"SQLite: {line}")
            sizes = {}
            for game_id, n, description in self._db.execute("SELECT game_id, n, description FROM games"):
                sizes[game_id] = n
                try:
                    as_object(description)
                except (TypeError, ValueError):
                    problems.append(f"{game_id}: its description cannot be read")
            for row in self._db.execute("SELECT game_id, mask, replicate, metrics FROM outcomes"):
                wrong = row_problem(row[1], row[3], sizes.get(row[0]))
                if wrong:
                    problems.append(f"{row[0]} / {row[1]} / {row[2]}: {wrong}")
            problems += _added.problems(self._db)
        except sqlite3.Error as error:  # the rest cannot be read, which is a finding, not a failure
            problems.append(f"SQLite: {error}")
        return problems

    def merge(self, other: str | PathLike[str]) -> MergeReport:
        """Adds everything from another store. Where both know a coalition, this one's numbers stay."""
        if as_path("A store", other).exists() and self.path.samefile(other):
            raise StoreError(f"{other} is the store itself; name another one to merge.")
        with UtilityStore(other, create=False) as source:
            problems = source.verify()
            if problems:
                raise StoreError(f"{other} is damaged and was not merged: {problems[0]}.")
        with self._explained("merge"):
            self._db.execute("ATTACH DATABASE ? AS other", (str(other),))
            try:
                with self._transaction():
                    return merge_attached(self._db, _now())
            finally:
                self._db.execute("DETACH DATABASE other")

    def _read(self, game_id: str, replicate: int, keys: Sequence[str] | None = None) -> dict[int, Outcome]:
        query = "SELECT mask, metrics, seconds, backend, device FROM outcomes WHERE game_id=? AND replicate=?"
        some = "" if keys is None else f" AND mask IN ({','.join('?' * len(keys))})"
        stored = outcomes_of(self._db.execute(query + some, (game_id, replicate, *(keys or ()))))
        for metric in _added.read(self._db, game_id, replicate, keys):
            mask = int(metric.mask, 16)
            if mask in stored:
                metrics = _added.extended(stored[mask].metrics, {metric.name: metric.value})
                stored[mask] = stored[mask]._replace(metrics=metrics)
        return stored

    def _further(
        self, game_id: str, given: Sequence[tuple[int, Outcome]], replicate: int, now: str
    ) -> list[AddedMetric]:
        """Metrics of these outcomes that the rows which are there lack, where the two agree in the others."""
        stored = self.read(game_id, [mask for mask, _ in given], replicate)
        return [
            AddedMetric(game_id, replicate, f"{mask:x}", name, float(number), now)
            for mask, outcome in given
            if outcome.metrics.keys() - stored[mask].metrics.keys()
            and agree(stored[mask].metrics, outcome.metrics)
            for name, number in outcome.metrics.items()
            if name not in stored[mask].metrics
        ]

    def _prepare(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _SCHEMA_VERSION):
            raise StoreError(
                f"{self.path} has store format {version}; this version of fedvalue reads "
                f"{_SCHEMA_VERSION}. Use the version that wrote it, or another file."
            )
        if version == 0:  # the header reaches the file itself, before any write-ahead log exists
            self._db.executescript(_SCHEMA)
        self._enter_wal_mode()
        # FULL: an outcome that was reported as kept survives a power cut, not only a crash.
        self._db.execute("PRAGMA synchronous = FULL")

    def _enter_wal_mode(self) -> None:
        """SQLite does not wait for other processes when it changes the mode, so this does."""
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            text = str(error)
            raise StoreError(f"Could not {doing} the store {self.path}: {_advice(text)} ({text}).") from error
        except FedvalueError:
            raise
        except ValueError as error:
            raise StoreError(
                f"Could not {doing} the store {self.path}: a row is damaged ({error}). "
                "`fedvalue store verify` lists what is wrong."
            ) from error


def _advice(text: str) -> str:
    if "full" in text:
        return "the disk is full; free some space and run again, what was stored is intact"
    if "unable to open" in text or "readonly" in text:
        return "the path is not writable; choose a file in a folder that exists and that you may write to"
    if "malformed" in text or "not a database" in text or "encrypted" in text:
        return "the file was cut off or damaged; it was not changed, restore it from a copy"
    if "locked" in text:
        return f"another process kept it locked for {LOCK_SECONDS:.0f} s; run again when it is done"
    return "SQLite refused"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
