"""A game restricted to some of its clients: coalitions with others do not exist."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from fedvalue.coalitions import Trial, by_seed, members
from fedvalue.games._base import (
    Disclosing,
    Game,
    Grounded,
    Judged,
    Measured,
    Reseeded,
    Staged,
    evaluate_trials,
    is_named,
    is_random,
)
from fedvalue.games._lacking import completed, lacking
from fedvalue.outcome import UTILITY, Outcome
from fedvalue.store import Store, register
from fedvalue.trainers import ClaimTrials
from fedvalue.values import Disclosure
from fedvalue.yardsticks import Baseline, Empty

__all__ = ["RestrictedGame"]


class RestrictedGame:
    """The game of the given clients (by number). Utilities are those of the whole game.

    They are read from and kept in the whole game's part of the `store`, under its id: a client that comes back
    finds everything that was trained without it. `reused` are the trials that were read.
    """

    def __init__(self, game: Game, clients: Sequence[int], store: Store) -> None:
        self.game = game
        self.clients = tuple(clients)
        self.store = store
        self.reused: set[Trial] = set()
        self.n = len(self.clients)
        self.replicates = game.replicates
        self.seeds = game.seeds if isinstance(game, Reseeded) else 1
        self.random = is_random(game)
        self.names = tuple(game.names[i] for i in self.clients)
        self.whole_id = game.id
        # Its coalitions are numbered otherwise: to a store of its own it is another game.
        self.id = f"{game.id}-of-{'.'.join(map(str, self.clients))}"
        self.doubts = game.doubts
        self.metric = game.metric if isinstance(game, Measured) else UTILITY
        self.higher_is_better = game.higher_is_better if isinstance(game, Measured) else True
        self.stored_as = game.stored_as if isinstance(game, Measured) else UTILITY
        self.retrain = game.retrain if isinstance(game, Measured) else False
        self.empty_as = game.empty_as if isinstance(game, Grounded) else self.stored_as
        register(store, game.id, game.names, is_named(game))

    def is_empty(self, mask: int) -> bool:
        """Whether nobody in the coalition has data, where the whole game can tell."""
        return isinstance(self.game, Grounded) and self.game.is_empty(self._whole(mask))

    def empty_of(self, outcome: Outcome) -> Empty:
        """As in the whole game."""
        assert isinstance(self.game, Grounded)  # others have no coalition that is_empty
        return self.game.empty_of(outcome)

    def baseline(self) -> Baseline | None:
        """As in the whole game."""
        return self.game.baseline() if isinstance(self.game, Judged) else None

    def disclosure(self, trials: Collection[Trial], is_complete: bool = True) -> Disclosure | None:
        """As in the whole game, of all its clients; None where that does not know."""
        if not isinstance(self.game, Disclosing):
            return None
        return self.game.disclosure([(self._whole(mask), seed) for mask, seed in trials], is_complete)

    def _whole(self, mask: int) -> int:
        return sum(1 << self.clients[i] for i in members(mask))

    def follow(self, on_stage: Callable[[str], None]) -> None:
        """Has the whole game say what it is doing, where it can."""
        if isinstance(self.game, Staged):
            self.game.follow(on_stage)

    def utility(self, outcome: Outcome) -> float:
        """As in the whole game."""
        return self.game.utility(outcome)

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        """What the store of the whole game holds, then what has to be evaluated."""
        for (mask, _), outcome in self.evaluate_trials([(mask, replicate) for mask in masks]):
            yield mask, outcome

    def evaluate_trials(
        self, trials: Sequence[Trial], claim: ClaimTrials = list
    ) -> Iterator[tuple[Trial, Outcome]]:
        """The same with several seeds."""
        restricted = {(self._whole(mask), seed): (mask, seed) for mask, seed in claim(trials)}
        left: list[Trial] = []
        incomplete: dict[Trial, Outcome] = {}
        for seed, masks in by_seed(restricted).items():
            stored = self.store.read(self.game.id, masks, seed)
            lacks = lacking(self.game, stored)
            incomplete |= {(mask, seed): outcome for mask, outcome in lacks.items()}
            left += [(mask, seed) for mask in masks if mask not in stored or mask in lacks]
            for mask, outcome in stored.items():
                if mask not in lacks:
                    self.reused.add(restricted[mask, seed])
                    yield restricted[mask, seed], outcome
        for (mask, seed), outcome in evaluate_trials(self.game, left):
            if (mask, seed) in incomplete:
                outcome = completed(self.game, mask, incomplete[mask, seed], outcome)
            self.store.append(self.game.id, [(mask, outcome)], seed)
            yield restricted[mask, seed], outcome
