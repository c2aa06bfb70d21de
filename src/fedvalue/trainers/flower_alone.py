"""Coalitions of one client, trained at its node in one message while the other coalitions advance.

To average one model is to leave it as it is: between the rounds of such a coalition there is nothing to ask the
server for. Flower starts an app for every message, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import numpy as np

from fedvalue.coalition import members
from fedvalue.learners.base import Stack
from fedvalue.trainers.flower_grid import Failure
from fedvalue.trainers.flower_session import FlowerSession, from_arrays, key_of, to_arrays
from fedvalue.trainers.flower_wire import RecordDict

__all__ = ["Alone"]


class Alone:
    """Those of the coalitions that are one client each, and in none of the others; on their way once this is made.

    A client of larger coalitions gets a message in every round anyway, and trains all its models as one stack,
    which is faster than one of them after the others: it does not go alone.
    """

    def __init__(self, session: FlowerSession, rounds: int, masks: Sequence[int]) -> None:
        self.session = session
        self._sent = to_arrays(session.initial())
        in_larger = reduce(or_, (mask for mask in masks if mask.bit_count() > 1), 0)
        single = [members(mask)[0] for mask in masks if mask.bit_count() == 1 and not mask & in_larger]
        known = session.remembered.alone
        packed = {c: session.packing.pack_alone(self._sent, c) for c in single if c not in known}
        contents = {client: content for client, content in packed.items() if content is not None}
        self._asked = list(contents)
        self._rounds_before = session.roster.rounds
        self._exchange = session.post(session.packing.kind, self._asked, list(contents.values()), 1, rounds)
        self.masks = [1 << client for client in single if client in known or client in contents]

    def finished(self) -> list[tuple[list[int], Stack]]:
        """The coalitions whose clients have answered, with their final models; waits for those on their way."""
        roster, known = self.session.roster, self.session.remembered.alone
        for client, answer in zip(self._asked, self._exchange.answers(), strict=True):
            self._keep(client, answer)
        if self._asked and roster.rounds == self._rounds_before:
            roster.rounds += 1  # beside others they take no message round of their own
        ended = [mask for mask in self.masks if members(mask)[0] in known]
        models = [known[members(mask)[0]] for mask in ended]
        rows = {name: np.stack([model[name] for model in models]) for name in self._sent if models}
        return [(ended, from_arrays(rows, like=self.session.initial()))] if ended else []

    def _keep(self, client: int, answer: RecordDict | Failure) -> None:
        """Its first model, which all coalitions with this client share, and its last; or notes that it is lost.

        Only its own models went into these: if one is not sound, that is its doing.
        """
        two = {name: np.broadcast_to(array, (2, *array.shape[1:])) for name, array in self._sent.items()}
        back, sound = self.session.checked(answer, two, client, 1, least=2)
        if sound:
            first, last = ({name: array[row] for name, array in back.items()} for row in sound)
            key = key_of(self._sent, 0, client, 1)
            assert key is not None  # a session refuses an initial model that is not finite
            self.session.remembered.add(key, first)
            self.session.remembered.alone[client] = last
