"""A store as it was: what its chain had up to a certain row. Values can be computed again from a store that has grown since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fedvalue.outcome import Outcome
from fedvalue.store._chain import METRICS, OUTCOME, ROWS
from fedvalue.store._sqlite import UtilityStore

__all__ = ["StoreUntil"]

Key = tuple[str, int]


class StoreUntil:
    """The outcomes of one game among the first `rows` additions of its chain. Nothing can be added to it."""

    def __init__(self, store: UtilityStore, game_id: str, rows: int) -> None:
        self._store = store
        self.path: Path = store.path
        self.game_id = game_id
        self._later: set[Key] = set()
        self._metrics: dict[Key, set[str]] = {}
        self._told: dict[Key, set[str]] = {}
        for entry in store.entries(game_id, rows):
            key = entry.mask, entry.replicate
            if entry.kind == OUTCOME:
                self._later.add(key)
            elif entry.kind == METRICS:
                self._metrics.setdefault(key, set()).update(entry.names)
            elif entry.kind == ROWS:
                self._told.setdefault(key, set()).update(entry.names)

    def read(
        self, game_id: str, masks: Sequence[int] | None = None, replicate: int = 0
    ) -> dict[int, Outcome]:
        """As `UtilityStore.read`, without what came later."""
        if game_id != self.game_id:
            return {}
        found = {}
        for mask, outcome in self._store.read(game_id, masks, replicate).items():
            key = f"{mask:x}", replicate
            if key not in self._later:
                metrics = _without(outcome.metrics, self._metrics.get(key))
                rows = _without(outcome.rows, self._told.get(key))
                found[mask] = outcome._replace(metrics=metrics, rows=rows)
        return found

    def rows(self, game_id: str) -> Iterator[dict[str, Any]]:
        """As `UtilityStore.rows`, without what came later."""
        for row in self._store.rows(game_id) if game_id == self.game_id else ():
            key = row["mask"], row["replicate"]
            if key not in self._later:
                yield row | {"metrics": _without(row["metrics"], self._metrics.get(key))}

    def append(self, game_id: str, outcomes: Iterable[tuple[int, Outcome]], replicate: int = 0) -> None:
        """Adds nothing: what is computed again was stored before."""


def _without(named: Any, later: set[str] | None) -> dict[str, Any]:
    return {name: each for name, each in named.items() if not later or name not in later}
