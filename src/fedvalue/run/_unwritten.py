"""Finished outcomes on their way into the store."""

from __future__ import annotations

import time

from fedvalue.coalitions import Trial, by_seed
from fedvalue.games import Game, refuse_changed
from fedvalue.outcome import Outcome
from fedvalue.store import Store

__all__ = ["Unwritten"]

_COMMIT_SECONDS = 0.01  # finished outcomes that come at once are written together, this often
_CHECKED_EVERY = 20  # times as long as a check takes: it costs a twentieth of the time at most
_DEAR_SECONDS = 0.1  # what took this long is written at once: the next one may be long in coming


class Unwritten:
    """Outcomes that wait for others, to be written together; without a store they are forgotten."""

    def __init__(self, game: Game, store: Store | None) -> None:
        self._game, self._store = game, store
        self._outcomes: dict[Trial, Outcome] = {}
        self._check_seconds = 0.0  # that it took to see whether the game is still the same
        self.begin()

    def begin(self) -> None:
        """Outcomes will come from now on."""
        self._written = time.monotonic()

    def add(self, trial: Trial, outcome: Outcome) -> None:
        """One more. All are written once that is due."""
        if self._store is None:
            return
        self._outcomes[trial] = outcome
        waited = time.monotonic() - self._written
        due = outcome.seconds >= _DEAR_SECONDS or waited >= _COMMIT_SECONDS
        if due and waited >= _CHECKED_EVERY * self._check_seconds:
            self.write()

    def write(self) -> None:
        """Stores what there is, once it is sure that it is of the game as its id says."""
        if self._store is None or not self._outcomes:
            return
        outcomes, self._outcomes = self._outcomes, {}
        began = time.monotonic()
        refuse_changed(self._game)
        self._check_seconds = time.monotonic() - began
        for seed, masks in by_seed(outcomes).items():
            self._store.append(self._game.id, [(mask, outcomes[mask, seed]) for mask in masks], seed)
        self._written = time.monotonic()
