"""The store: every evaluated coalition, kept for ever, found by anyone with the same game.

One SQLite file (write-ahead log) that several processes may write at once. Rows are only ever added,
keyed by (game, coalition, replicate). Coalitions are stored as hexadecimal text, because SQLite's
integers end at 64 bits and consortia do not.
"""

from __future__ import annotations

import json
import math
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from fedvalue.errors import StoreError
from fedvalue.outcome import Outcome
from fedvalue.storefile import APPLICATION_ID, refuse_foreign_file, same_file

__all__ = ["MergeReport", "StoredGame", "UtilityStore"]

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
_LOCK_SECONDS = 60.0
_KEYS_PER_QUERY = 500
_ROW_COLUMNS = "game_id, mask, replicate, metrics, backend, device, seconds, created"
_opening = threading.Lock()
_open_stores: weakref.WeakSet[UtilityStore] = weakref.WeakSet()  # of this process


@dataclass(frozen=True)
class StoredGame:
    """A game that the store knows, and how much of it: repeated evaluations are outcomes of one coalition."""

    id: str
    n: int
    coalitions: int
    outcomes: int
    created: str
    description: Mapping[str, Any]


@dataclass(frozen=True)
class MergeReport:
    """What a merge did: rows added, rows already there, and keys whose metrics differ."""

    added: int
    present: int
    conflicts: tuple[str, ...]


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
        self.path = Path(path)
        self._file: tuple[int, int] | None = None
        with self._explained("open"):
            self._db = self._connect(create)
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
        _open_stores.discard(self)

    def register(self, game_id: str, n: int, description: Mapping[str, Any] | None = None) -> None:
        """Makes a game known, with a description for people; a second time changes nothing."""
        row = (game_id, n, json.dumps(dict(description or {}), sort_keys=True), _now())
        with self._explained("write"), self._transaction():
            self._db.execute("INSERT OR IGNORE INTO games VALUES (?, ?, ?, ?)", row)

    def read(
        self, game_id: str, masks: Sequence[int] | None = None, replicate: int = 0
    ) -> dict[int, Outcome]:
        """The known outcomes of a game, of all coalitions or of the given ones."""
        query = "SELECT mask, metrics, seconds, backend, device FROM outcomes WHERE game_id=? AND replicate=?"
        found: dict[int, Outcome] = {}
        with self._explained("read"):
            if masks is None or len(masks) > 20 * _KEYS_PER_QUERY:
                rows = self._db.execute(query, (game_id, replicate))
                found = _outcomes(rows)
                return found if masks is None else {m: found[m] for m in masks if m in found}
            for start in range(0, len(masks), _KEYS_PER_QUERY):
                keys = [f"{mask:x}" for mask in masks[start : start + _KEYS_PER_QUERY]]
                holes = ",".join("?" * len(keys))
                rows = self._db.execute(f"{query} AND mask IN ({holes})", (game_id, replicate, *keys))
                found.update(_outcomes(rows))
        return found

    def append(self, game_id: str, outcomes: Iterable[tuple[int, Outcome]], replicate: int = 0) -> None:
        """Adds outcomes, all or none of them; a coalition that is already known is left as it is."""
        now = _now()
        rows = [
            (game_id, f"{mask:x}", replicate, _metrics_text(mask, outcome), *_provenance(outcome), now)
            for mask, outcome in outcomes
        ]
        with self._explained("write"), self._transaction():
            self._db.executemany("INSERT OR IGNORE INTO outcomes VALUES (?,?,?,?,?,?,?,?)", rows)

    def games(self) -> list[StoredGame]:
        """All games, oldest first."""
        query = (
            "SELECT g.game_id, g.n, count(DISTINCT o.mask), count(o.mask), g.created, g.description FROM games g "
            "LEFT JOIN outcomes o ON o.game_id = g.game_id GROUP BY g.game_id ORDER BY g.created, g.game_id"
        )
        with self._explained("read"):
            return [
                StoredGame(id_, n, coalitions, outcomes, created, _object(text))
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
            for row in self._db.execute(query, (game_id,)):
                yield dict(zip(names, row, strict=True)) | {"metrics": _object(row[3])}

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
                    _object(description)
                except (TypeError, ValueError):
                    problems.append(f"{game_id}: its description cannot be read")
            for row in self._db.execute("SELECT game_id, mask, replicate, metrics FROM outcomes"):
                wrong = _row_problem(row[1], row[3], sizes.get(row[0]))
                if wrong:
                    problems.append(f"{row[0]} / {row[1]} / {row[2]}: {wrong}")
        except sqlite3.Error as error:  # the rest cannot be read, which is a finding, not a failure
            problems.append(f"SQLite: {error}")
        return problems

    def merge(self, other: str | PathLike[str]) -> MergeReport:
        """Adds everything from another store. Where both know a coalition, this one's outcome stays."""
        if same_file(Path(other)) == self._file:
            raise StoreError(f"{other} is the store itself; name another one to merge.")
        with UtilityStore(other, create=False) as source:
            problems = source.verify()
            if problems:
                raise StoreError(f"{other} is damaged and was not merged: {problems[0]}.")
        with self._explained("merge"):
            self._db.execute("ATTACH DATABASE ? AS other", (str(other),))
            try:
                return self._merge_attached()
            finally:
                self._db.execute("DETACH DATABASE other")

    def _merge_attached(self) -> MergeReport:
        same_key = (
            "FROM other.outcomes b JOIN main.outcomes a ON a.game_id = b.game_id AND a.mask = b.mask "
            "AND a.replicate = b.replicate"
        )
        with self._transaction():
            both = self._db.execute(f"SELECT a.game_id, a.mask, a.metrics, b.metrics {same_key}")
            present, conflicts = 0, []
            for game_id, mask, mine, theirs in both:
                present += 1
                if json.loads(mine) != json.loads(theirs):
                    conflicts.append(f"{game_id} / {mask}")
            self._db.execute("INSERT OR IGNORE INTO main.games SELECT * FROM other.games")
            added = self._db.execute("INSERT OR IGNORE INTO main.outcomes SELECT * FROM other.outcomes")
        return MergeReport(added.rowcount, present, tuple(conflicts))

    def _connect(self, create: bool) -> sqlite3.Connection:
        """Checks the file, unless this process has it open: then it has been checked, and closing a file
        that was opened beside SQLite would end the locks that SQLite holds on it (a rule of POSIX).
        """
        with _opening:
            this = same_file(self.path)
            if this is None or all(this != store._file for store in _open_stores):
                refuse_foreign_file(self.path, create)
            connection = sqlite3.connect(self.path, timeout=_LOCK_SECONDS, isolation_level=None)
            self._file = same_file(self.path)
            _open_stores.add(self)
        return connection

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
        deadline = time.monotonic() + _LOCK_SECONDS
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
        return "the file is damaged; it was left as it is, restore it from a copy"
    if "locked" in text:
        return f"another process kept it locked for {_LOCK_SECONDS:.0f} s; run again when it is done"
    return "SQLite refused"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _metrics_text(mask: int, outcome: Outcome) -> str:
    try:
        if all(math.isfinite(number) for number in outcome.metrics.values()):
            numbers = {name: float(number) for name, number in outcome.metrics.items()}
            return json.dumps(numbers, sort_keys=True)
    except (ArithmeticError, TypeError):
        pass
    raise StoreError(f"Only finite numbers are stored. Got {dict(outcome.metrics)} for coalition {mask:x}.")


def _provenance(outcome: Outcome) -> tuple[str, str, float]:
    return outcome.backend, outcome.device, outcome.seconds


def _outcomes(rows: Iterable[tuple[str, str, float, str, str]]) -> dict[int, Outcome]:
    return {
        int(mask, 16): Outcome(_object(metrics), seconds, backend, device)
        for mask, metrics, seconds, backend, device in rows
    }


def _object(text: str) -> dict[str, Any]:
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError(f"expected a JSON object, got {text[:40]!r}")
    return data


def _row_problem(mask: str, metrics: str, n: int | None) -> str | None:
    if n is None:
        return "its game is not registered"
    try:
        coalition = int(mask, 16)
        if coalition >> n:
            return f"the coalition names clients beyond the {n} of its game"
        if f"{coalition:x}" != mask:
            return "the coalition is not written as the store writes it"
        numbers = _object(metrics).values()
        if not numbers or not all(math.isfinite(number) for number in numbers):
            return "a metric is missing or not finite"
    except (ArithmeticError, TypeError, ValueError):
        return "the coalition or its metrics cannot be read"
    return None
