"""Values as weighted sums of utilities, φ = Σ_S weight(S)·v(S): the Owen value of clients in groups, and what else is linear.

A group acts as one: the orders in which clients join are those in which the members of a group come one right after the
other. The mean contribution over these orders is the Owen value (Owen 1977). What the members of a group get together is
the Shapley value of the group in the game whose players are the groups.

>>> weights = owen(3, ((0,), (1, 2)))
>>> v = np.array([0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96])
>>> weights.apply(v).round(3).tolist()
[0.23, 0.315, 0.315]
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import did_you_mean, expect
from fedvalue._text import is_one_line
from fedvalue.coalitions import full_mask, mask_of, members, shapley_weights
from fedvalue.errors import InputError

__all__ = [
    "Blocks",
    "Weights",
    "blocks_of",
    "coalitions_of",
    "owen",
    "read_groups",
    "shapley",
    "weights_of",
    "without_clients",
]

Array: TypeAlias = "NDArray[np.float64]"
Blocks: TypeAlias = tuple[tuple[int, ...], ...]
"""Who belongs together: every client is in one block, those without a group in one of their own."""

MOST_COALITIONS = 1 << 17  # with weights of their own: beyond, a matrix of weights fills the memory


@dataclass(frozen=True, eq=False)
class Weights:
    """How much every coalition counts in each of several values; `masks` are those that count, ∅ first.

    `matrix` has a row for each value and adds up to 0 in each. `like` says of which clients a value is, as a combination
    of their Shapley values: what a rough guess is made of where nothing better is known.
    """

    n: int
    masks: tuple[int, ...]
    matrix: Array
    like: Array

    @property
    def rows(self) -> int:
        """How many values."""
        return len(self.matrix)

    @property
    def share(self) -> Array:
        """How much of v(∅) is taken off each value: 1/n of it in a Shapley value."""
        share: Array = -self.matrix[:, 0]
        return share

    def apply(self, table: Array) -> Array:
        """The values, from utilities of all 2^n coalitions by bitmask; further axes are further tables."""
        values: Array = np.tensordot(self.matrix, table[list(self.masks)], axes=1)
        return values

    @property
    def adds_up(self) -> bool:
        """Whether the values are parts of v(N) − v(∅)."""
        ends = {0: -1.0, full_mask(self.n): 1.0}
        wanted = [ends.get(mask, 0.0) for mask in self.masks]
        return sum(wanted) == 0 and bool(np.abs(self.matrix.sum(0) - wanted).max() < 1e-9)

    def known_in(self, known: Collection[int]) -> bool:
        """Whether all coalitions that count are among these."""
        return set(self.masks) <= set(known)

    def of(self, utilities: Mapping[int, float]) -> Array:
        """The values, from utilities of all coalitions that count."""
        values: Array = self.matrix @ np.array([utilities[mask] for mask in self.masks])
        return values


def weights_of(n: int, rows: Sequence[Mapping[int, float]], like: Array) -> Weights:
    """Weights from a mapping for each value."""
    masks = (0, *sorted({mask for row in rows for mask in row} - {0}))
    place = {mask: j for j, mask in enumerate(masks)}
    matrix = np.zeros((len(rows), len(masks)))
    for i, row in enumerate(rows):
        for mask, weight in row.items():
            matrix[i, place[mask]] = weight
    return Weights(n, masks, matrix, like)


def shapley(n: int) -> Weights:
    """The weights of Shapley values."""
    return owen(n, tuple((i,) for i in range(n)))


def coalitions_of(blocks: Blocks) -> int:
    """How many coalitions count in Owen values: unions of blocks, and those with a part of one block.

    >>> coalitions_of(((0, 1), (2, 3), (4,)))
    24
    """
    others = 1 << len(blocks) - 1
    return 2 * others + sum(others * ((1 << len(block)) - 2) for block in blocks if len(block) > 1)


def owen(n: int, blocks: Blocks) -> Weights:
    """The weights of Owen values.

    φ_i = Σ_H Σ_T weight(|H|)·weight(|T|)·[v(H ∪ T ∪ i) − v(H ∪ T)], H unions of other blocks, T of other members.
    """
    count = coalitions_of(blocks)
    if count > MOST_COALITIONS:
        raise InputError(
            f"Values in these groups rest on {count:,} coalitions; at most {MOST_COALITIONS:,} can be weighed. "
            f"Put the {len(blocks)} groups and single clients into fewer groups."
        )
    whole = [mask_of(block) for block in blocks]
    between, rows = shapley_weights(len(blocks)), [dict[int, float]() for _ in range(n)]
    for k, block in enumerate(blocks):
        inside = shapley_weights(len(block))
        parts = [mask_of(block[j] for j in members(part)) for part in range(1 << len(block))]
        others = [mask for j, mask in enumerate(whole) if j != k]
        for chosen in range(1 << len(others)):
            union, first = sum(others[j] for j in members(chosen)), between[chosen.bit_count()]
            for part in parts:
                size, mask = part.bit_count(), union | part
                for i in block:
                    if part >> i & 1:
                        rows[i][mask] = first * inside[size - 1]
                    else:
                        rows[i][mask] = -first * inside[size]
    return weights_of(n, rows, np.eye(n))


def blocks_of(names: Sequence[str], groups: Mapping[str, Sequence[str | int]] | None) -> Blocks | None:
    """Clients in groups by name or number; the others are on their own. None where nobody shares a group.

    >>> blocks_of(("a", "b", "c"), {"Holding": ["a", "c"]})
    ((0, 2), (1,))
    """
    if groups is None:
        return None
    expect("groups", groups, Mapping, "a dict from names of groups to lists of clients")
    taken: dict[int, str] = {}
    for name, clients in groups.items():
        if not isinstance(name, str) or not is_one_line(name):
            raise InputError(
                f"A group needs a name, a text without line breaks or control characters. Got {name!r}."
            )
        if isinstance(clients, str) or not isinstance(clients, Sequence) or not clients:
            raise InputError(f"The group {name!r} must be a list of clients. Got {clients!r}.")
        if name in names and tuple(clients) != (name,):
            raise InputError(f"The group {name!r} has the name of a client. Choose another name.")
        for client in clients:
            number = _number(names, name, client)
            if number in taken:
                twice = "twice in it" if taken[number] == name else f"also in {taken[number]!r}"
                raise InputError(
                    f"The client {names[number]!r} of the group {name!r} is {twice}. One group each."
                )
            taken[number] = name
    found = [tuple(sorted(i for i, of in taken.items() if of == name)) for name in groups]
    found += [(i,) for i in range(len(names)) if i not in taken]
    return tuple(sorted(found)) if any(len(block) > 1 for block in found) else None


def read_groups(texts: Iterable[str]) -> dict[str, list[str]] | None:
    """Groups of clients by name, as they are written on a command line; None where there are none.

    >>> read_groups(["Holding=A,B", "Other=C, D"])
    {'Holding': ['A', 'B'], 'Other': ['C', 'D']}
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, clients = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"A group is written as NAME=CLIENT,CLIENT. Got {text!r}.")
        if name.strip() in found:
            raise InputError(f"The group {name.strip()!r} was given twice.")
        found[name.strip()] = [client.strip() for client in clients.split(",")]
    return found or None


def without_clients(
    groups: Mapping[str, Sequence[str]] | None, gone: Iterable[str]
) -> dict[str, list[str]] | None:
    """The groups without clients that are absent; None where nobody is left in any.

    >>> without_clients({"Holding": ["A", "B"], "Other": ["C"]}, ["C"])
    {'Holding': ['A', 'B']}
    """
    absent = set(gone)
    left = {name: [client for client in of if client not in absent] for name, of in (groups or {}).items()}
    return {name: of for name, of in left.items() if of} or None


def _number(names: Sequence[str], group: str, client: str | int) -> int:
    if isinstance(client, str) and client in names:
        return names.index(client)
    if isinstance(client, int) and not isinstance(client, bool) and 0 <= client < len(names):
        return client
    raise InputError(
        f"There is no client {client!r} for the group {group!r}. {did_you_mean(client, names)}"
        f"Clients: {', '.join(names[:12])}."
    )
