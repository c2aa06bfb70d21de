"""A store that is only looked into, for as long as a read takes: whoever writes it is not disturbed."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from fedvalue._checks import as_path
from fedvalue.errors import NoStoreError, StoreError
from fedvalue.store import _added, _claims
from fedvalue.store._file import APPLICATION_ID, log_of
from fedvalue.store._rows import as_object, checked
from fedvalue.store._schema import CLAIMS, is_in_use
from fedvalue.store._sqlite import UtilityStore
from fedvalue.store._verify import row_columns

__all__ = ["LatestRow", "StoreLook"]

_PATIENCE = 2.0  # seconds that a look waits where SQLite keeps readers out for a moment


@dataclass(frozen=True)
class LatestRow:
    """An outcome as the store has it, and when it was stored."""

    mask: int
    replicate: int
    metrics: Mapping[str, float]
    seconds: float
    created: str


class StoreLook(UtilityStore):
    """A store that SQLite opens for reading alone. Keep it open for one read, not for a whole run.

    Beside a store that nobody has open there is no log; then no lock is taken at all, and nothing is left beside the file.
    `is_open_elsewhere` says that there is one: a process has the store open, or was killed while it had.
    `lacks_log` says that the file speaks of newer rows in a log that is not there, as in a copy of the file alone.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = as_path("A store", path)
        if not self.path.is_file():
            raise NoStoreError(f"There is no store at {self.path}. Check the path.")
        with self._explained("read"):
            self._place = self.path.resolve()
            while not self._opened():  # a process has just begun to write, so that there is a log now
                pass

    def _opened(self) -> bool:
        """Opens the file; False where a log came about meanwhile, without which this would be half of what is stored."""
        has_log = _has_log(self._place)
        how = "mode=ro" if has_log else "mode=ro&immutable=1"
        uri = f"{self._place.as_uri()}?{how}"
        self._db = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
        try:
            self._refuse_others()
            self._prepare(has_log)
            self.lacks_log = not has_log and is_in_use(self._db)
            self.is_open_elsewhere = has_log
            self._db.execute("BEGIN")  # one moment of the store, whatever is read of it
            self._db.execute("SELECT 1 FROM games").fetchone()
            is_whole = has_log or not _has_log(self._place)
        except BaseException:
            self._db.close()
            raise
        if not is_whole:
            self._db.close()
        return is_whole

    def close(self) -> None:
        """Ends the look."""
        self._db.close()

    def latest(self, game_id: str, most: int) -> list[LatestRow]:
        """The newest outcomes of a game, the last one first."""
        query = (
            f"SELECT {row_columns(self._db)} FROM outcomes WHERE game_id=? "
            "ORDER BY created DESC, length(mask), mask LIMIT ?"
        )
        with self._explained("read"):
            found = [checked(row) for row in self._db.execute(query, (game_id, most))]
            further: dict[tuple[str, int], dict[str, float]] = {}
            for replicate in {row["replicate"] for row in found}:
                keys = [row["mask"] for row in found if row["replicate"] == replicate]
                for metric in _added.read(self._db, game_id, replicate, keys):
                    further.setdefault((metric.mask, replicate), {})[metric.name] = metric.value
            return [_latest(row, further.get((row["mask"], row["replicate"]), {})) for row in found]

    def stored_after(self, game_id: str, moment: str) -> int:
        """How many outcomes of a game were stored after a moment, written as the store writes them."""
        query = "SELECT count(*) FROM outcomes WHERE game_id=? AND created>?"
        with self._explained("read"):
            return int(self._db.execute(query, (game_id, moment)).fetchone()[0])

    def claimed(self, game_id: str) -> int:
        """How many trainings of a game some process says it is at."""
        with self._explained("read"):
            if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name=?", (CLAIMS,)).fetchone():
                return 0
            query = f"SELECT owner, until FROM {CLAIMS} WHERE game_id=?"
            claims = self._db.execute(query, (game_id,)).fetchall()
        lives = {str(owner): _claims.lives(str(owner)) for owner in {owner for owner, _ in claims}}
        now = time.time()
        return sum(lives[str(owner)] and isinstance(until, float) and until > now for owner, until in claims)

    def _refuse_other_file(self) -> None:
        """Whatever writes asks this first."""
        raise StoreError(f"{self.path} was opened to look into it; nothing can be written.")

    def _refuse_others(self) -> None:
        ((mark,),) = self._db.execute("PRAGMA application_id")
        ((pages,),) = self._db.execute("PRAGMA page_count")
        if not pages:
            raise StoreError(f"{self.path} is empty: no run has stored anything in it yet.")
        if mark != APPLICATION_ID:
            raise StoreError(f"{self.path} is not a fedvalue store.")


def _has_log(path: Path) -> bool:
    try:
        return log_of(path).stat().st_size > 0
    except OSError:
        return False


def _latest(row: Mapping[str, Any], further: Mapping[str, float]) -> LatestRow:
    metrics = _added.extended(as_object(row["metrics"]), further)
    return LatestRow(int(row["mask"], 16), row["replicate"], metrics, float(row["seconds"]), row["created"])
