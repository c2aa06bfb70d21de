"""What one client may claim and send, next to the others: rows that it says it has, and the length of its updates.

A node cannot be made to tell the truth about its rows. But a claim far beyond all others, and an update a thousand times as
long, are not accepted in silence: they are noted, and beyond the limits that were agreed they are refused. Honest updates
differ with the number of steps, and so with rows; the limits leave room for that, and lies within them are not found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from numpy.typing import NDArray

from fedvalue._text import count
from fedvalue.errors import InputError
from fedvalue.flower._arrays import Arrays, row_digest
from fedvalue.flower._roster import Roster
from fedvalue.scenarios import Scenario
from fedvalue.training import claims_apart

__all__ = ["Limits", "Watch"]

_NOTED = 10.0  # times the median of the others: worth a word
_FEWEST = 2  # others: with fewer there is no telling who is the odd one out
# Cosine with the mean of the others. Honest clients of the digits, even with one or two classes each or with all labels
# flipped, came to 0 at least; one that turns its update round to −0.4.
_AGAINST = -0.25


@dataclass(frozen=True)
class Limits:
    """`claim` and `update`: how many times the median of the others is too much to be accepted; 0: nothing is."""

    claim: float = 1000.0
    update: float = 100.0

    def __post_init__(self) -> None:
        for name, limit in (("max-claim", self.claim), ("max-update", self.update)):
            if not (limit == 0 or limit > 1):
                raise InputError(
                    f"{name} is how many times the median of the others is refused: above 1, or 0 for no limit. Got {limit:g}."
                )

    def check_claims(self, roster: Roster, scenario: Scenario) -> None:
        """Notes who claims far more rows than the others, and refuses who claims more than was agreed."""
        sizes = [len(data) for data in scenario.clients]
        for client in claims_apart(sizes, _NOTED):
            others = median(size for other, size in enumerate(sizes) if other != client and size)
            said = f"{roster.called(client)} says that it has {count(sizes[client])} rows; the median of the others is {count(round(others))}"
            if self.claim and sizes[client] > self.claim * others:
                raise InputError(
                    f"{said}, and at most {self.claim:g} times as many are accepted. Ask that client, or set max-claim (0: "
                    "no limit); weights = 'clipped' bounds what a claim is worth."
                )
            if said not in roster.incidents:
                roster.note(said)


@dataclass
class Watch:
    """Lengths of updates next to those of other clients that started from the same model in the same round.

    In round 1 all start from the same model, so that there `lengths` of earlier messages count as well. In later rounds a
    model that was led astray makes honest clients take long steps, too: who starts elsewhere is not compared.
    """

    limits: Limits
    roster: Roster
    lengths: dict[int, float] = field(default_factory=dict)
    noted: set[tuple[int, str]] = field(default_factory=set)

    def too_long(self, sent: Arrays, rows: Mapping[tuple[int, int], Arrays], t: int) -> dict[int, str]:
        """Clients whose updates are not accepted, and why. `rows` came back, by client and row of what was `sent`."""
        starts: dict[bytes | None, dict[int, NDArray[np.float64]]] = {}
        for (client, row), model in rows.items():
            starts.setdefault(row_digest(sent, row), {})[client] = _update(sent, row, model)
        worst: dict[int, float] = {}
        for updates in starts.values():
            lengths = {client: float(np.linalg.norm(update)) for client, update in updates.items()}
            if t == 1:
                self.lengths |= lengths
                self._note_directions(updates)
            for client, length in lengths.items():
                usual = _usual(client, self.lengths if t == 1 else lengths)
                if usual is not None:
                    worst[client] = max(worst.get(client, 0.0), length / usual)
        return {client: said for client, times in worst.items() if (said := self._judged(client, times, t))}

    def _judged(self, client: int, times: float, t: int) -> str:
        """Why an update so many times as long as others is refused; nothing where it is accepted, maybe with a note."""
        said = f"sent an update {times:,.0f} times as long as the median of the others"
        if self.limits.update and times > self.limits.update:
            return f"{said}; at most {self.limits.update:g} times are accepted (max-update)"
        if times > _NOTED:
            self._note(client, said, t)
        return ""

    def _note_directions(self, updates: Mapping[int, NDArray[np.float64]]) -> None:
        directions = {client: _unit(update) for client, update in updates.items()}
        for client, own in directions.items():
            others = [other for name, other in directions.items() if name != client]
            if len(others) >= _FEWEST and float(own @ _unit(np.mean(others, axis=0))) < _AGAINST:
                self._note(client, "sent an update that points against those of the others", 1)

    def _note(self, client: int, said: str, t: int) -> None:
        if (client, said[:20]) not in self.noted:
            self.noted.add((client, said[:20]))
            self.roster.note(f"round {t}: {self.roster.called(client)} {said}")


def _usual(client: int, lengths: Mapping[int, float]) -> float | None:
    """The median length of the others; None where there are too few."""
    others = [length for other, length in lengths.items() if other != client and length > 0]
    return median(others) if len(others) >= _FEWEST else None


def _update(sent: Arrays, row: int, model: Arrays) -> NDArray[np.float64]:
    """The change of one model, all parameters in a row; counters are no part of it."""
    parts = [
        np.asarray(model[name], np.float64).ravel() - np.asarray(array[row], np.float64).ravel()
        for name, array in sent.items()
        if array.dtype.kind == "f"
    ]
    return np.concatenate(parts) if parts else np.zeros(1)


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector
