"""What a run remembers of each client's own test rows: the utility of every training on them, and what they said."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import Trial
from fedvalue.errors import InputError
from fedvalue.games import Game, TestedByClient, TestPart
from fedvalue.outcome import Outcome
from fedvalue.per_row import PerRow

__all__ = ["OwnRows"]


class OwnRows:
    """By training and part of the test set. `unknown` says why there is nothing, where one would expect it."""

    def __init__(self, game: Game) -> None:
        self.unknown = ""
        self.parts: tuple[TestPart, ...] = ()
        self.utilities: dict[Trial, NDArray[np.float64]] = {}
        self._told: dict[Trial, list[PerRow | None]] = {}
        if isinstance(game, TestedByClient):
            try:
                self.parts = game.parts_of_test()
            except InputError as error:
                self.unknown = str(error)

    def remember(self, trial: Trial, outcome: Outcome, is_empty: bool) -> None:
        """Notes what a training reached on each client's rows."""
        if not self.parts:
            return
        try:
            found = [part.read(outcome, is_empty) for part in self.parts]
        except InputError as error:
            self.unknown, self.parts = str(error), ()
            return
        self.utilities[trial] = np.array([utility for utility, _ in found])
        self._told[trial] = [told for _, told in found]

    def told(self, place: int) -> dict[Trial, PerRow]:
        """What the rows of one part said about each training; those of which that is not known are left out."""
        return {trial: row for trial, rows in self._told.items() if (row := rows[place]) is not None}
