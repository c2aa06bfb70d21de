"""A federated game whose trainings are shared: by methods, by experiments, and with whoever stops and resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from typing import Any, cast

from fedvalue.coalitions import members
from fedvalue.errors import InputError
from fedvalue.estimators import Method, Plan
from fedvalue.games import FederatedGame, TableGame
from fedvalue.outcome import UTILITY, Outcome
from fedvalue.run import Ledger
from fedvalue.store import UtilityStore
from fedvalue.training import TraceGames
from fedvalue.values import Estimate
from fedvalue.yardsticks import Empty
from fedvalue_paper.costs import seconds_alone, smallest_client

__all__ = ["KeptGame", "KnownGame", "SharedGame", "noting"]


class SharedGame:
    """A game of clients with data, whose coalitions are trained once for all methods.

    To a method it is a game like any other. `asked` are the coalitions that were asked for since it was last
    emptied; `sizes` are the samples of the clients.
    """

    replicates = 1
    doubts: tuple[str, ...] = ()

    def __init__(self, identity: str, names: Sequence[str], sizes: Sequence[int]) -> None:
        self.id = identity
        self.n = len(names)
        self.names = tuple(names)
        self.sizes = list(sizes)
        self.asked: set[int] = set()

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        """Utilities with the seconds that they once took."""
        raise NotImplementedError

    def utility(self, outcome: Outcome) -> float:
        """The number that the game's metric gave."""
        return outcome.metrics[UTILITY]


class KeptGame(SharedGame):
    """Every coalition comes from a file that a finished experiment left; nothing can be trained."""

    def __init__(
        self, identity: str, names: Sequence[str], sizes: Sequence[int], utilities: Mapping[int, float]
    ) -> None:
        super().__init__(identity, names, sizes)
        self._utilities = utilities

    @cached_property
    def table(self) -> TableGame | None:
        """The same as a table, which methods are answered from many times as quickly; None where coalitions are missing."""
        if len(self._utilities) < 1 << self.n:
            return None
        return TableGame([self._utilities[mask] for mask in range(1 << self.n)], self.names)

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        """Utilities; what they took is not known here."""
        self.asked.update(masks)
        for mask in masks:
            if mask not in self._utilities:
                raise InputError(
                    f"The kept utilities lack coalition {members(mask)}, which a method asked for. They fit another "
                    "version of the methods: train anew, without --from-utilities."
                )
            yield mask, Outcome({UTILITY: self._utilities[mask]}, 0.0)


def noting(method: Method, asked: set[int]) -> Method:
    """The method; what its plan asks for is noted in `asked`, as a `SharedGame` would."""
    plan = method.plan
    if plan is None:
        return method

    @wraps(plan)
    def noted(*args: Any, **options: Any) -> Plan:
        steps = plan(*args, **options)
        masks = next(steps)
        while True:
            asked.update(masks)
            try:
                masks = steps.send((yield masks))
            except StopIteration as done:
                return cast(Estimate, done.value)

    return replace(method, plan=noted)


class KnownGame(SharedGame):
    """Every coalition comes from memory, then from the store, and is trained only where neither has it.

    An outcome carries the seconds of its training, whenever that was. All gradient methods look at the same
    recorded run.
    """

    def __init__(self, game: FederatedGame, store: UtilityStore, trained: Callable[[int], None]) -> None:
        super().__init__(game.id, game.names, [len(data) for data in game.scenario.clients])
        self.game = game
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

    def known(self) -> dict[int, float]:
        """Every utility that memory or the store has."""
        return {mask: utility for mask, (utility, _) in self._ledger.stored().items()} | self._ledger.known[0]

    def trained_here(self) -> int:
        """How many coalitions this process trained; it took the others from the store."""
        return len(self._ledger.fresh[0])

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
