"""The ledger of a run: asks each coalition once, from memory first, then the store, then the game."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalition import members
from fedvalue.errors import FedvalueWarning, UtilityError
from fedvalue.game import Game, TableGame
from fedvalue.outcome import Outcome
from fedvalue.store import UtilityStore

__all__ = ["Ledger"]

_COMMIT_SECONDS = 0.01  # finished outcomes that come at once are written together, this often
_DEAR_SECONDS = 0.1  # what took this long is written at once: the next one may be long in coming


class Ledger:
    """Every utility known in this run."""

    def __init__(self, game: Game, store: UtilityStore | None, report: Callable[[int, int], None]) -> None:
        self.game = game
        self.store = store
        self.report = report
        if hasattr(game, "follow") and hasattr(report, "stage"):
            game.follow(report.stage)
        self.known: list[dict[int, float]] = [{} for _ in range(game.replicates)]
        self.took: dict[int, float] = {}
        # A table is its own memory; a copy of it as a dict would be a hundred times as large.
        self.table = game.utilities if isinstance(game, TableGame) and store is None else None
        if store is not None:
            if game.doubts:
                warnings.warn(
                    f"The store recognises this game by its code, which refers to {', '.join(game.doubts)}; "
                    "changes in there go unnoticed. Pass key='…' to FunctionGame to name the game yourself.",
                    FedvalueWarning,
                    stacklevel=4,  # the line that called value or compare
                )
            store.register(game.id, game.n, {"names": list(game.names)})

    def learn(self, asks: Iterable[Sequence[int]]) -> None:
        """Makes sure that everything asked is known, evaluating in one batch what is not."""
        if self.table is not None:
            return
        asked = list(dict.fromkeys(mask for ask in asks for mask in ask))
        for replicate in range(self.game.replicates):
            known = self.known[replicate]
            missing = [mask for mask in asked if mask not in known]
            if self.store is not None and missing:
                stored = self.store.read(self.game.id, missing, replicate)
                for mask, outcome in stored.items():
                    self._remember(mask, outcome, replicate)
                missing = [mask for mask in missing if mask not in known]
            if missing:
                self._evaluate(missing, replicate)

    def utilities(self, ask: Sequence[int]) -> NDArray[np.float64]:
        """The utilities in the order of the ask: means where evaluations are repeated."""
        if self.table is not None:
            if isinstance(ask, range) and len(ask) == len(self.table):
                return self.table
            return self.table[np.fromiter(ask, np.int64, len(ask))]
        columns = [np.fromiter((known[mask] for mask in ask), np.float64, len(ask)) for known in self.known]
        mean: NDArray[np.float64] = np.mean(columns, axis=0)
        return mean

    def stored(self) -> dict[int, tuple[float, float]]:
        """Utilities that the store had before this run, and the variances of their errors.

        Where only r of R replicates are known, their mean errs by σ²(1/r − 1/R), σ² being the pooled variance of
        single evaluations; where that is not known either, only complete ones count.
        """
        if self.store is None:
            return {}
        replicates = self.game.replicates
        found: dict[int, list[float]] = {}
        for replicate in range(replicates):
            for mask, outcome in self.store.read(self.game.id, None, replicate).items():
                utility = float(self.game.utility(outcome))
                if math.isfinite(utility):
                    found.setdefault(mask, []).append(utility)
        repeated = [np.var(seen, ddof=1) for seen in found.values() if len(seen) > 1]
        variance = float(np.mean(repeated)) if repeated else None
        return {
            mask: (float(np.mean(seen)), (variance or 0.0) * (1 / len(seen) - 1 / replicates))
            for mask, seen in found.items()
            if len(seen) == replicates or variance is not None
        }

    def noise(self) -> float | None:
        """Standard deviation of a single evaluation of a coalition, pooled over all; None without repeats."""
        repeated = [mask for mask in self.known[0] if all(mask in known for known in self.known)]
        if len(self.known) < 2 or not repeated:
            return None
        table = np.array([[known[mask] for known in self.known] for mask in repeated])
        return float(np.sqrt(table.var(axis=1, ddof=1).mean()))

    def keep(self, mask: int, outcome: Outcome) -> None:
        """An outcome that came about otherwise: known and stored from now on, unless there already was one."""
        if self.store is not None:
            self.store.append(self.game.id, [(mask, outcome)])
            outcome = self.store.read(self.game.id, [mask])[mask]
        if mask not in self.known[0]:
            self._remember(mask, outcome, 0)

    def seconds(self, ask: Sequence[int]) -> float:
        """What evaluating these took, now or when they were stored."""
        return sum(self.took[mask] for mask in ask) if self.took else 0.0

    def _evaluate(self, missing: list[int], replicate: int) -> None:
        known = self.known[replicate]
        done_before = sum(map(len, self.known))
        total = done_before + len(missing) * (self.game.replicates - replicate)
        unwritten: list[tuple[int, Outcome]] = []
        written = time.monotonic()
        self.report(done_before, total)
        outcomes = self.game.evaluate(missing, replicate)
        try:
            for mask, outcome in outcomes:
                self._remember(mask, outcome, replicate)
                unwritten.append((mask, outcome))
                due = outcome.seconds >= _DEAR_SECONDS or time.monotonic() - written >= _COMMIT_SECONDS
                if self.store is not None and due:
                    self.store.append(self.game.id, unwritten, replicate)
                    unwritten, written = [], time.monotonic()
                self.report(sum(map(len, self.known)), total)
        finally:  # also when a coalition fails or the user interrupts: nothing finished is lost
            if self.store is not None and unwritten:
                self.store.append(self.game.id, unwritten, replicate)
            if isinstance(outcomes, Generator):
                outcomes.close()  # ends worker processes now, not when the generator is collected
        lost = [mask for mask in missing if mask not in known]
        if lost:
            raise UtilityError(
                f"The game returned nothing for {len(lost)} coalitions, the first {members(lost[0])}.",
                members(lost[0]),
            )

    def _remember(self, mask: int, outcome: Outcome, replicate: int) -> None:
        utility = self.game.utility(outcome)
        if not math.isfinite(utility):
            raise UtilityError(
                f"The utility of a coalition must be a finite number. Got {utility} for coalition "
                f"{members(mask)}. It was not stored.",
                members(mask),
            )
        self.known[replicate][mask] = float(utility)
        self.took[mask] = self.took.get(mask, 0.0) + outcome.seconds
