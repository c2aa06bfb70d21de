"""Counts what came from each client: the record of what left it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from fedvalue.flower._arrays import Arrays, row_digest, rows_of
from fedvalue.values import Disclosed

__all__ = ["Tally"]


class Tally:
    """By the number of the client. A reply that cannot be read is an incident, and not counted.

    A model was trained on a client's rows alone in round 1, and later where it began from such a model: the average of one
    model is that model.
    """

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.metrics: Counter[int] = Counter()
        self._models: Counter[int] = Counter()
        self._solo: Counter[int] = Counter()
        self._own: defaultdict[int, set[bytes]] = defaultdict(
            set
        )  # digests of models trained on its rows alone

    def came(self, client: int, sent: Arrays, back: Arrays, t: int) -> None:
        """A reply with what became in round t of the models that were sent."""
        for row in range(rows_of(back) if back else 0):
            self._models[client] += 1
            if t > 1 and row_digest(sent, row) not in self._own[client]:
                continue
            self._solo[client] += 1
            if (digest := row_digest(back, row)) is not None:
                self._own[client].add(digest)

    def leave_out(self, lost: Collection[int]) -> None:
        """The other clients take the numbers of these, which take no part."""
        known = {*self.counts, *self.metrics, *self._models, *self._own, *lost}
        left = [client for client in range(max(known, default=-1) + 1) if client not in lost]
        for counted in (self.counts, self.metrics, self._models, self._solo):
            numbers = [counted[client] for client in left]
            counted.clear()
            counted.update(dict(enumerate(numbers)))
        digests = [self._own[client] for client in left]
        self._own = defaultdict(set, enumerate(digests))

    def sent(self, names: Sequence[str], algorithm: str) -> list[Disclosed]:
        """What was counted; a model of fedsgd is one gradient step from the model that was sent."""
        return [
            Disclosed(
                name,
                self._models[client],
                self._solo[client],
                self._models[client] if algorithm == "fedsgd" else 0,
                self.metrics[client],
                self.counts[client],
            )
            for client, name in enumerate(names)
        ]
