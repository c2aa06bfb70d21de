"""A federated game whose trainings are shared: by methods, by experiments, and with whoever stops and resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from fedvalue.games import FederatedGame
from fedvalue.outcome import UTILITY, Outcome
from fedvalue.run import Ledger
from fedvalue.store import UtilityStore
from fedvalue.training import TraceGames
from fedvalue.yardsticks import Empty
from fedvalue_paper.costs import seconds_alone, smallest_client

__all__ = ["KnownGame"]


class KnownGame:
    """Every coalition comes from memory, then from the store, and is trained only where neither has it.

    To a method it is a game like any other. `asked` are the coalitions that were asked for since it was last
    emptied; an outcome carries the seconds of its training, whenever that was. All gradient methods look at
    the same recorded run.
    """

    replicates = 1
    doubts: tuple[str, ...] = ()

    def __init__(self, game: FederatedGame, store: UtilityStore, trained: Callable[[int], None]) -> None:
        self.game = game
        self.n = game.n
        self.names = game.names
        self.id = game.id
        self.asked: set[int] = set()
        self.averages = game.averages
        self._ledger = Ledger(_Watched(game, trained), store)

    @cached_property
    def _trace(self) -> TraceGames:
        return self.game.trace_games(self._ledger.keep)

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        """Utilities with the seconds that they once took."""
        self.asked.update(masks)
        self._ledger.learn([masks])
        utilities = self._ledger.utilities(masks).tolist()
        for mask, utility in zip(masks, utilities, strict=True):
            yield mask, Outcome({UTILITY: utility}, self._ledger.took[mask])

    def utility(self, outcome: Outcome) -> float:
        """The number that the game's metric gave."""
        return outcome.metrics[UTILITY]

    def trace_games(self, keep: Callable[[int, Outcome], None] | None = None) -> TraceGames:
        """The one recorded run."""
        return self._trace


class _Watched:
    """The game itself; says which coalition has just been trained.

    The first training of a process starts libraries, which is no cost of a coalition: one is trained before.
    """

    def __init__(self, game: FederatedGame, trained: Callable[[int], None]) -> None:
        self._game = game
        self._trained = trained
        self._warm = False

    @property
    def n(self) -> int:
        return self._game.n

    @property
    def names(self) -> tuple[str, ...]:
        return self._game.names

    @property
    def id(self) -> str:
        return self._game.id

    @property
    def doubts(self) -> tuple[str, ...]:
        return self._game.doubts

    @property
    def replicates(self) -> int:
        return self._game.replicates

    @property
    def empty_as(self) -> str:
        return self._game.empty_as

    def is_empty(self, mask: int) -> bool:
        return self._game.is_empty(mask)

    def empty_of(self, outcome: Outcome) -> Empty:
        return self._game.empty_of(outcome)

    def utility(self, outcome: Outcome) -> float:
        return self._game.utility(outcome)

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        if not self._warm:
            seconds_alone(self._game, smallest_client(self._game))
            self._warm = True
        for mask, outcome in self._game.evaluate(masks, replicate):
            self._trained(mask)
            yield mask, outcome
