"""The store: every evaluated coalition, kept for ever, found by anyone with the same game.

One SQLite file (write-ahead log) that several processes may write at once. Rows are only ever added,
keyed by (game, coalition, replicate). Coalitions are stored as hexadecimal text, because SQLite's
integers end at 64 bits and consortia do not.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from os import PathLike
from types import TracebackType
from typing import Any, Self

from fedvalue._checks import as_path
from fedvalue.coalitions import Trial
from fedvalue.errors import InputError, StoreError
from fedvalue.outcome import Outcome
from fedvalue.store import _added, _chain, _claims, _told
from fedvalue.store._chain import Addition, Entry, Head, additions
from fedvalue.store._closing import close_file, lacks_log
from fedvalue.store._explained import explained
from fedvalue.store._file import LOCK_SECONDS, enter_log_mode, file_at, log_of, open_file
from fedvalue.store._games import StoredGame, description_of, signed
from fedvalue.store._merge import MergeReport, merge_attached
from fedvalue.store._names import description_with, learnt_names, other_names
from fedvalue.store._rows import as_object, checked, in_queries, outcome_of, row_of
from fedvalue.store._schema import (
    OLDEST,
    VERSION,
    create,
    is_chained,
    is_in_use,
    is_signed,
    mark_in_use,
    schema_problems,
    version_of,
)
from fedvalue.store._taken import bring_up_to_date
from fedvalue.store._verify import problems, row_columns

__all__ = ["UtilityStore"]

_MOST_BY_KEY = 10_000  # coalitions that are asked for one by one; beyond, a game is read as a whole
_CHECKPOINT_SECONDS = (
    2.0  # the log is copied into the file this often, so that the file alone is nearly complete
)


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
        if self.path.is_dir():
            raise StoreError(
                f"{self.path} is a folder. A store is a file: name one in it, such as {self.path / 'store.db'}."
            )
        with self._explained("open"):
            self._place = (
                self.path.resolve()
            )  # wherever a link leads to, whatever folder becomes the current one
            had_log = log_of(self._place).exists()
            self._db = open_file(self._place, create)
            self._writes, self._without_log, self._copied = False, False, -_CHECKPOINT_SECONDS
            try:
                self._prepare(had_log)
                self._file = file_at(self._place)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; what was appended stays, in this one file if nobody else uses it."""
        with self._explained("close"):
            if self._without_log and not self._writes:  # looking into a copy does not make it complete
                self._db.close()
            else:
                close_file(self._db, self._place, self._writes)

    @property
    def has_checksums(self) -> bool:
        """Whether its rows have checksums; those of the first release have none until something is stored."""
        return is_signed(self._db)

    def register(self, game_id: str, n: int, description: Mapping[str, Any] | None = None) -> None:
        """Makes a game known, with a description for people; a second time changes nothing.

        Clients that had no names get those of the description; a game with other names than before is refused.
        """
        given = dict(description or {})
        row = (game_id, n, signed(game_id, n, given), _now())
        with self._explained("write"), self._writing():
            new = self._db.execute("INSERT OR IGNORE INTO games VALUES (?, ?, ?, ?)", row).rowcount > 0
            query = "SELECT game_id, n, description FROM games WHERE game_id=?"
            described = self._description(*self._db.execute(query, (game_id,)).fetchone())
            refusal = other_names(game_id, n, described, given)
            if refusal is not None:
                raise refusal
            if names := learnt_names(n, described, given):
                described = {**described, **names}
                self._describe(game_id, n, described)
            elif new:
                self._chain_entry(game_id)
            if "members" in given and "members" not in described:  # the entry is of an earlier release
                self._describe(game_id, n, {**described, "members": given["members"]})

    def rename(self, game: str, names: Sequence[str]) -> StoredGame:
        """Gives the clients of a game other names, in the same order; the outcomes stay as they are."""
        stored = self.game(game)
        given = [str(name) for name in names]
        if isinstance(names, str) or len(given) != stored.n or len(set(given)) != stored.n:
            raise InputError(f"names must hold {stored.n} different names. Got {given[:12]}.")
        with self._explained("write"), self._writing():
            self._describe(stored.id, stored.n, {**stored.description, **description_with(given, True)})
        return self.game(stored.id)

    def _describe(self, game_id: str, n: int, description: Mapping[str, Any]) -> None:
        text = signed(game_id, n, description)
        self._db.execute("UPDATE games SET description=? WHERE game_id=?", (text, game_id))
        self._chain_entry(game_id)

    def _chain_entry(self, game_id: str) -> None:
        entry = self._db.execute("SELECT * FROM games WHERE game_id=?", (game_id,)).fetchall()
        _chain.append(self._db, game_id, [Addition(_chain.GAME, 0, "", (), entry)])

    def _description(self, game_id: str, n: int, text: str) -> dict[str, Any]:
        return description_of(game_id, n, text, unsigned=not is_chained(self._db))

    def read(
        self, game_id: str, masks: Sequence[int] | None = None, replicate: int = 0
    ) -> dict[int, Outcome]:
        """The known outcomes of a game, of all coalitions or of the given ones."""
        with self._explained("read"):
            if masks is None or len(masks) > _MOST_BY_KEY:
                stored = self._read(game_id, replicate)
                return stored if masks is None else {m: stored[m] for m in masks if m in stored}
            some: dict[int, Outcome] = {}
            for keys in in_queries(masks):
                some |= self._read(game_id, replicate, keys)
        return some

    def append(self, game_id: str, outcomes: Iterable[tuple[int, Outcome]], replicate: int = 0) -> None:
        """Adds outcomes, all or none of them. A number that is there is never changed.

        A coalition that is known already only gets the metrics that it lacks, and what test rows said if that is not
        known; both only if the other metrics agree.
        """
        now, given = _now(), list(outcomes)
        rows = [row_of(game_id, mask, replicate, outcome, now) for mask, outcome in given]
        with self._explained("write"):
            with self._writing():
                there = self._present(game_id, given, replicate)
                inserted = self._db.executemany(
                    "INSERT OR IGNORE INTO outcomes VALUES (?,?,?,?,?,?,?,?,?)", rows
                )
                stored = self._known(game_id, given, replicate) if inserted.rowcount < len(rows) else {}
                added = _added.further(game_id, given, stored, replicate, now)
                _added.insert(self._db, added)
                told = _told.insert(self._db, game_id, given, stored, replicate)
                fresh = [row[:-1] for row in rows if row[1] not in there]
                _chain.append(self._db, game_id, additions(fresh, told, added))
                _claims.finish(self._db, game_id, [f"{mask:x}" for mask, _ in given], replicate)
            if time.monotonic() - self._copied >= _CHECKPOINT_SECONDS:
                self._db.execute("PRAGMA main.wal_checkpoint(PASSIVE)")
                self._copied = time.monotonic()

    def head(self, game_id: str) -> Head:
        """Where the chain of a game's rows ends now. Signed, it says what the store held at this moment."""
        with self._explained("read"):
            return _chain.head(self._db, game_id)

    def entries(self, game_id: str, since: int = 0) -> list[Entry]:
        """The chain of a game from one place on: what was added, in which order."""
        with self._explained("read"):
            return list(_chain.entries(self._db, game_id, since))

    def claim(
        self, game_id: str, masks: Sequence[int], replicate: int, owner: str, seconds: float
    ) -> list[int]:
        """Claims coalitions for this owner, as far as nobody else is at them; see `Claiming`."""
        with self._explained("write"), self._writing(lasting=False):
            return _claims.claim(self._db, game_id, masks, replicate, owner, seconds)

    def renew(self, owner: str, seconds: float) -> None:
        """Prolongs all claims of an owner; from any thread."""
        self._refuse_other_file()
        with self._explained("write"), closing(sqlite3.connect(self._place, LOCK_SECONDS)) as own, own:
            _claims.renew(own, owner, seconds)

    def release(self, owner: str) -> None:
        """Ends all claims of an owner."""
        with self._explained("write"), self._writing(lasting=False):
            _claims.release(self._db, owner)

    def games(self) -> list[StoredGame]:
        """All games, oldest first."""
        query = (
            "SELECT g.game_id, g.n, count(DISTINCT o.mask), count(o.mask), g.created, g.description FROM games g "
            "LEFT JOIN outcomes o ON o.game_id = g.game_id GROUP BY g.game_id ORDER BY g.created, g.game_id"
        )
        with self._explained("read"):
            found = []
            for id_, n, coalitions, outcomes, created, text in self._db.execute(query):
                description = self._description(id_, n, text)
                found.append(StoredGame(id_, n, coalitions, outcomes, created, description))
            return found

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

    def descriptions(self) -> dict[str, Mapping[str, Any]]:
        """What was said of every game when it was registered, oldest first."""
        query = "SELECT game_id, n, description FROM games ORDER BY created, game_id"
        with self._explained("read"):
            return {entry[0]: self._description(*entry) for entry in self._db.execute(query)}

    def trials(self, game_id: str) -> set[Trial]:
        """Every coalition of a game that is there, with its replicate or seed."""
        query = "SELECT mask, replicate FROM outcomes WHERE game_id=?"
        with self._explained("read"):
            return {(int(mask, 16), replicate) for mask, replicate in self._db.execute(query, (game_id,))}

    def rows(self, game_id: str) -> Iterator[dict[str, Any]]:
        """Every stored row of a game as plain data, provenance included."""
        order = "ORDER BY length(mask), mask, replicate"
        with self._explained("read"):
            added: dict[tuple[str, int], dict[str, float]] = {}
            for metric in _added.read(self._db, game_id):
                added.setdefault((metric.mask, metric.replicate), {})[metric.name] = metric.value
            query = f"SELECT {row_columns(self._db)} FROM outcomes WHERE game_id=? {order}"
            for row in map(checked, self._db.execute(query, (game_id,))):
                further = added.get((row["mask"], row["replicate"]), {})
                yield row | {"metrics": _added.extended(as_object(row["metrics"]), further)}

    def row_errors(self, game_id: str) -> dict[tuple[str, int], dict[str, float]]:
        """By coalition (as text) and replicate, how far another sample of test rows would move each metric."""
        with self._explained("read"):
            return _told.stderrs(self._db, game_id)

    def verify(self) -> list[str]:
        """Everything that is wrong with the file; an empty list when nothing is."""
        with self._explained("verify"):
            self._db.execute(
                "SELECT 1"
            )  # that the store was closed, or opened elsewhere, is not wrong with the file
        return list(problems(self._db, self.path, self._without_log))

    def merge(self, other: str | PathLike[str]) -> MergeReport:
        """Adds everything from another store. Where both know a coalition, this one's numbers stay.

        Refused where both know a game, with other names or in another order.
        """
        if as_path("A store", other).exists() and self.path.samefile(other):
            raise StoreError(f"{other} is the store itself; name another one to merge.")
        with UtilityStore(other, create=False) as source:
            wrong = source.verify()
            if wrong:
                raise StoreError(f"{other} is damaged and was not merged: {wrong[0]}.")
            ours = {game.id for game in self.games()}
            for game in source.games():
                if game.id in ours:
                    self.register(game.id, game.n, game.description)
        with self._explained("merge"):
            self._db.execute("ATTACH DATABASE ? AS other", (str(other),))
            try:
                with self._writing():
                    return merge_attached(self._db, _now())
            finally:
                self._db.execute("DETACH DATABASE other")

    def _read(self, game_id: str, replicate: int, keys: Sequence[str] | None = None) -> dict[int, Outcome]:
        query = f"SELECT {row_columns(self._db)} FROM outcomes WHERE game_id=? AND replicate=?"
        some = "" if keys is None else f" AND mask IN ({','.join('?' * len(keys))})"
        stored = dict(map(outcome_of, self._db.execute(query + some, (game_id, replicate, *(keys or ())))))
        for metric in _added.read(self._db, game_id, replicate, keys):
            mask = int(metric.mask, 16)
            if mask in stored:
                metrics = _added.extended(stored[mask].metrics, {metric.name: metric.value})
                stored[mask] = stored[mask]._replace(metrics=metrics)
        for mask, rows in _told.read(self._db, game_id, replicate, keys).items():
            if mask in stored:
                stored[mask] = stored[mask]._replace(rows=rows)
        return stored

    def _known(
        self, game_id: str, given: Sequence[tuple[int, Outcome]], replicate: int
    ) -> dict[int, Outcome]:
        """What the store holds of these outcomes, some of which were there before."""
        stored = self.read(game_id, [mask for mask, _ in given], replicate)
        for mask, _ in given:
            if mask not in stored:
                raise ValueError(f"{game_id} / {mask:x} / {replicate}: it is there and cannot be found")
        return stored

    def _present(self, game_id: str, given: Sequence[tuple[int, Outcome]], replicate: int) -> set[str]:
        """Which of these coalitions have an outcome."""
        found: set[str] = set()
        for keys in in_queries([mask for mask, _ in given]):
            query = "SELECT mask FROM outcomes WHERE game_id=? AND replicate=? AND mask IN "
            some = f"({','.join('?' * len(keys))})"
            found |= {mask for (mask,) in self._db.execute(query + some, (game_id, replicate, *keys))}
        return found

    def _prepare(self, had_log: bool) -> None:
        version = version_of(self._db)
        if version not in (0, *range(OLDEST, VERSION + 1)):
            raise StoreError(
                f"{self.path} has store format {version}; this version of fedvalue reads up to "
                f"{VERSION}. Use the version that wrote it, or another file."
            )
        if version == 0:
            create(self._db)
        wrong = next(schema_problems(self._db), None)
        if wrong:
            raise StoreError(
                f"{self.path} is not a sound store: {wrong}. It was not changed; restore it from a copy."
            )
        self._without_log = lacks_log(self._db, had_log)

    @contextmanager
    def _writing(self, *, lasting: bool = True) -> Iterator[None]:
        """A transaction. What is `lasting` survives a power cut, not only a crash, once it is reported as kept."""
        self._refuse_other_file()
        if not self._writes:
            enter_log_mode(self._db)
            self._writes = True
        self._db.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'NORMAL'}")
        self._db.execute("BEGIN IMMEDIATE")
        try:
            if version_of(self._db) < VERSION:
                bring_up_to_date(self._db)
            if lasting and not is_in_use(self._db):
                mark_in_use(self._db, True)
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _refuse_other_file(self) -> None:
        """What is written to a file that was removed is gone with it, and its log would damage one in its place."""
        if file_at(self._place) != self._file:
            raise StoreError(
                f"The store {self.path} was removed, moved or replaced while it was in use, so nothing more can be kept in "
                "it. If it was moved, move it back together with the file that ends in -wal. If another one was put in its "
                "place, delete what ends in -wal and -shm beside that before it is opened. Then run again."
            )

    def _explained(self, doing: str) -> AbstractContextManager[None]:
        return explained(doing, self.path)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
