"""Whose data a game is played with, and which of its coalitions are coalitions of another game as well.

After a client has joined, left or changed its data, the others are the same: what their coalitions reached need not be
trained again. A training depends on the data of the members, in the order in which their models are averaged, and on
the rules. Nothing else, which `Separable` learners promise and tests/games/test_members.py shows bit by bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedvalue.coalitions import members

__all__ = ["Members", "translation"]


@dataclass(frozen=True)
class Members:
    """The clients of a game by the fingerprints and numbers of their rows, and `beyond`: what else trainings take from all.

    >>> before, after = Members(("a", "b"), (5, 5), ""), Members(("c", "b"), (5, 5), "")
    >>> translation(before, after)(0b10), translation(before, after)(0b11)
    (2, None)
    """

    data: tuple[str, ...]
    rows: tuple[int, ...]
    beyond: str

    def trained(self, mask: int) -> tuple[str, ...]:
        """The data that is trained on for a coalition, in the order in which models are averaged.

        Clients without rows are nowhere, and of clients with the same data those that come first take part.
        """
        often = Counter(self.data[i] for i in members(mask) if self.rows[i])
        found = []
        for data, rows in zip(self.data, self.rows, strict=True):
            if rows and often[data]:
                often[data] -= 1
                found.append(data)
        return tuple(found)

    def to_plain(self) -> dict[str, Any]:
        """As stores keep it."""
        return {"data": list(self.data), "rows": list(self.rows), "beyond": self.beyond}

    @classmethod
    def from_plain(cls, plain: object) -> Members | None:
        """From what `to_plain` gave; None for anything else: a store may be of an earlier release."""
        if not isinstance(plain, Mapping):
            return None
        data, rows, beyond = plain.get("data"), plain.get("rows"), plain.get("beyond")
        if not isinstance(data, list) or not isinstance(rows, list) or not isinstance(beyond, str):
            return None
        sound = len(data) == len(rows) and all(isinstance(digest, str) for digest in data)
        return cls(tuple(data), tuple(rows), beyond) if sound and set(map(type, rows)) <= {int} else None


def translation(theirs: Members, ours: Members) -> Callable[[int], int | None]:
    """For a coalition of one game the one of the other that is the same training; None where there is none.

    Of clients with the same data the first is the first, the second the second. Averages are sums, and sums in another
    order have other bits: a coalition whose members stand in another order is another one.
    """
    place = {client: i for i, client in enumerate(_numbered(ours))}
    moved = [place.get(client) for client in _numbered(theirs)]

    def translate(mask: int) -> int | None:
        found = 0
        for i in members(mask):
            to = moved[i]
            if to is None:
                return None
            found |= 1 << to
        return found if theirs.trained(mask) == ours.trained(found) else None

    return translate


def _numbered(of: Members) -> list[tuple[str, int, int]]:
    """Every client by its data and how many with the same data stand before it."""
    seen: Counter[tuple[str, int]] = Counter()
    found = []
    for data, rows in zip(of.data, of.rows, strict=True):
        found.append((data, rows, seen[data, rows]))
        seen[data, rows] += 1
    return found
