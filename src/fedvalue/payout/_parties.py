"""Who is paid as one: clients on their own, groups, and interchangeable clients that share one part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import checked_init
from fedvalue.errors import InputError
from fedvalue.values import Values

__all__ = ["Copies", "Parties"]

Array: TypeAlias = "NDArray[np.float64]"


@checked_init
@dataclass(frozen=True, eq=False)
class Copies:
    """Values of the game in which of every set of interchangeable clients there is one only: the first of its `sets`."""

    values: Values
    sets: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Parties:
    """`values` are those of the parties, `members` the clients of each by number, in the order of `values`.

    The uncertainty of amounts is that of `drawn_from`: the values of clients in groups, of parties otherwise. Members of
    a group share by their values, copies `equally`.
    """

    values: Values
    members: tuple[tuple[int, ...], ...]
    drawn_from: Values
    equally: bool
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Values, copies: Copies | None) -> Parties:
        if copies is not None and copies.sets:
            return cls._of_copies(values, copies)
        if copies is not None:
            said = "Interchangeable clients would share one part; the audit found none."
            return replace(cls.of(values, None), words=(said,))
        if not values.groups:
            return cls(values, tuple((i,) for i in range(values.n)), values, equally=True)
        named = "; ".join(f"{name} ({', '.join(of)})" for name, of in values.groups.items())
        said = (
            f"Groups are paid as one party: {named}. Members share what their group gets in proportion to their values in "
            "it; those below zero get nothing of it. Where no member is above zero, they share it equally."
        )
        return cls(values.of_groups(), values.blocks, values, equally=False, words=(said,))

    @classmethod
    def _of_copies(cls, values: Values, copies: Copies) -> Parties:
        if values.groups:
            raise InputError(
                "Values in groups cannot be paid with copies sharing one part: put the copies into a group of their own."
            )
        of_first = {names[0]: names for names in copies.sets}
        named = [*copies.values.names, *(name for names in copies.sets for name in names)]
        if set(named) != set(values.names):
            raise InputError(
                "These copies are not those of the values: find them with the same values and store."
            )
        members = tuple(
            tuple(values.names.index(name) for name in of_first.get(first, (first,)))
            for first in copies.values.names
        )
        listed = "; ".join(" and ".join(names) for names in copies.sets)
        said = (
            f"Interchangeable clients share one part: what one of them would get were the others not there ({listed}). "
            "Everyone is paid by the values of that smaller game."
        )
        return cls(copies.values, members, copies.values, equally=True, words=(said,))

    def unpaid(self, party: int, note: str) -> str:
        """Why a client gets nothing: `note` is about its party, which may be a group."""
        return f"its group: {note}" if self._is_group(party) else note

    def without_share(self, party: int, share: Fraction, value: float) -> str:
        """Why a client gets nothing although the rule pays its party: the lowest share is zero, or that of a member."""
        if not share:  # by a rule that counts from the lowest value
            return "its group: the lowest value" if self._is_group(party) else "the lowest value"
        return "zero in its group" if value == 0 else "below zero in its group"

    def _is_group(self, party: int) -> bool:
        return len(self.members[party]) > 1 and not self.equally

    def of_drawn(self, drawn: Array) -> Array:
        """What parties are worth in each draw."""
        if self.drawn_from is self.values:
            return drawn
        return np.stack([drawn[:, list(of)].sum(1) for of in self.members], axis=1)

    def among_clients(self, shares: Array, drawn: Array) -> Array:
        """What clients get of the shares of their parties, in each draw."""
        clients = np.zeros((len(shares), sum(map(len, self.members))))
        for party, of in enumerate(self.members):
            weight = np.ones((len(drawn), len(of))) if self.equally else np.maximum(drawn[:, list(of)], 0.0)
            weight = np.where(weight.any(1, keepdims=True), weight, 1.0)
            clients[:, list(of)] = shares[:, [party]] * weight / weight.sum(1, keepdims=True)
        return clients

    def exactly(self, shares: Sequence[Fraction], mean: Array) -> list[Fraction]:
        """What clients get of the shares of their parties; `mean` are the values that members share by."""
        clients = [Fraction(0)] * sum(map(len, self.members))
        for share, of in zip(shares, self.members, strict=True):
            weights = [Fraction(1) if self.equally else Fraction(max(float(mean[i]), 0.0)) for i in of]
            weights = weights if any(weights) else [Fraction(1)] * len(of)
            for i, weight in zip(of, weights, strict=True):
                clients[i] = share * weight / sum(weights)
        return clients
