"""The game of those who answered: what a valuation can still say when clients of a federation are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fedvalue.coalition import members
from fedvalue.errors import MethodError, UnavailableError
from fedvalue.federation import FederatedGame
from fedvalue.outcome import Outcome
from fedvalue.run import value
from fedvalue.store import UtilityStore
from fedvalue.values import Values

__all__ = ["RestGame", "value_of_those_who_answer"]


class RestGame:
    """The game restricted to some clients: coalitions of others do not exist.

    Utilities are those of the whole game, read from and kept in its part of the store.
    """

    doubts: tuple[str, ...] = ()

    def __init__(self, game: FederatedGame, clients: Sequence[int], store: UtilityStore) -> None:
        self.game = game
        self.clients = tuple(clients)
        self.store = store
        self.n = len(self.clients)
        self.replicates = game.replicates
        self.names = tuple(game.names[i] for i in self.clients)
        self.id = f"{game.id} without {[i for i in range(game.n) if i not in self.clients]}"

    def utility(self, outcome: Outcome) -> float:
        return self.game.utility(outcome)

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        whole = {sum(1 << self.clients[i] for i in members(mask)): mask for mask in masks}
        known = self.store.read(self.game.id, list(whole), replicate)
        for mask, outcome in known.items():
            yield whole[mask], outcome
        for mask, outcome in self.game.evaluate([mask for mask in whole if mask not in known], replicate):
            self.store.append(self.game.id, [(mask, outcome)], replicate)
            yield whole[mask], outcome


def value_of_those_who_answer(
    game: FederatedGame,
    error: UnavailableError,
    method: str,
    budget: int | None,
    seed: int,
    store: UtilityStore,
) -> Values:
    """Values in the game of the clients that are left, after those that the error names were lost.

    A client that is missing gets no number at all: nothing is known of what its data adds.
    """
    lost = dict(error.reasons)
    while True:
        left = [i for i in range(game.n) if i not in lost]
        if not left:
            raise error
        try:
            values = value(RestGame(game, left, store), method, budget, seed)
        except MethodError as impossible:  # gradient methods look at a run of all clients
            raise error from impossible
        except UnavailableError as further:
            if not set(further.reasons) - set(lost):
                raise
            lost |= further.reasons
            continue
        missing = {game.names[i]: reason for i, reason in sorted(lost.items())}
        return replace(values, details={**values.details, "unavailable": missing, "game_of_all": game.id})
