"""A run's part of the work on a store that other processes use, too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from threading import Event, Thread
from types import TracebackType
from typing import Any

from fedvalue.coalitions import Trial, by_seed
from fedvalue.errors import StoreError
from fedvalue.store import Claiming, UtilityStore, new_owner

__all__ = ["Shift"]

_CLAIM_SECONDS = 30.0
_RENEW_SECONDS = 10.0
# An owner that finishes nothing for so long, and for many times as long as anything took before, is overtaken.
_PATIENCE_SECONDS, _PATIENCE = 600.0, 10.0
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 0.5

# Games and stores that runs of this thread are at, one within the other.
_UNDER_WAY: ContextVar[tuple[Any, ...]] = ContextVar("under_way", default=())


class Shift:
    """Claims coalitions in the name of this run, renews the claims while it gets on, and ends them at its end.

    A process that is stopped renews nothing, and neither does one that has not finished anything for a long time:
    its claims run out and another one takes over.
    """

    def __init__(self, store: Claiming, game_id: str) -> None:
        self.store = store
        self._work = game_id, store.path.resolve() if isinstance(store, UtilityStore) else id(store)
        self.owner = new_owner()
        self._moved = time.monotonic()
        self._longest = 0.0
        self._wait = _FIRST_WAIT
        self._over = Event()
        self._renewing = Thread(target=self._renew, name="fedvalue-claims", daemon=True)

    def __enter__(self) -> Shift:
        self._renewing.start()
        self._before = _UNDER_WAY.set((*_UNDER_WAY.get(), self._work))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _UNDER_WAY.reset(self._before)
        self._over.set()
        self._renewing.join()
        if kind is None:
            self.store.release(self.owner)
        else:  # what went wrong is what matters
            with suppress(StoreError):
                self.store.release(self.owner)

    def claim(self, game_id: str, trials: Sequence[Trial]) -> list[Trial]:
        """Those of the trials that are left to this run."""
        mine = [
            (mask, seed)
            for seed, masks in by_seed(trials).items()
            for mask in self.store.claim(game_id, masks, seed, self.owner, _CLAIM_SECONDS)
        ]
        self.moved()
        return mine

    def moved(self) -> None:
        """Something was finished or begun."""
        now = time.monotonic()
        self._longest = max(self._longest, now - self._moved)
        self._moved, self._wait = now, _FIRST_WAIT

    def refuse_to_wait_for_itself(self, what: str) -> None:
        """Raises where a run waits for one that goes on only when it has returned: an observer of that one called it."""
        if self._work in _UNDER_WAY.get()[:-1]:
            raise StoreError(
                f"This run was started by an observer of a run of the same game with the same store, which is at {what} "
                "that it needs, so each would wait for the other. Call it when that run has ended, or with another store."
            )

    def wait(self) -> None:
        """For others, a little longer each time."""
        time.sleep(self._wait)
        self._wait = min(2 * self._wait, _LONGEST_WAIT)

    def _renew(self) -> None:
        while not self._over.wait(_RENEW_SECONDS):
            if time.monotonic() - self._moved < max(_PATIENCE_SECONDS, _PATIENCE * self._longest):
                with suppress(
                    StoreError
                ):  # tried again; without it somebody may take over, which costs time only
                    self.store.renew(self.owner, _CLAIM_SECONDS)
