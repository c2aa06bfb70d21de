"""Games whose Shapley values are known, to try an estimator on, and a game that remembers what it was asked.

>>> from fedvalue import value
>>> game = airport()
>>> value(game.table, "exact").mean.round(2).tolist() == game.values.round(2).tolist()
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import mask_of, members
from fedvalue.games import FunctionGame

__all__ = [
    "GAMES",
    "Array",
    "KnownGame",
    "Recorder",
    "additive",
    "airport",
    "brute_force",
    "glove",
    "known_game",
    "learning_curve",
    "null_and_copies",
    "random_table",
    "saturating",
    "unanimity",
    "weighted_majority",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KnownGame:
    """All 2**n utilities, by bitmask, and the Shapley values that they are known to have.

    `copies` are pairs of clients that no coalition can tell apart; `nulls` never change a utility.
    """

    name: str
    n: int
    table: Array
    values: Array
    copies: tuple[tuple[int, int], ...] = ()
    nulls: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.table.flags.writeable = False

    def __str__(self) -> str:
        return self.name

    @property
    def gain(self) -> float:
        """What all clients together bring: v(N) − v(∅)."""
        return float(self.table[-1] - self.table[0])

    @property
    def only_size_counts(self) -> bool:
        """Whether coalitions of the same size have the same utility."""
        of_size: dict[int, float] = {}
        return all(of_size.setdefault(m.bit_count(), u) == u for m, u in enumerate(self.table.tolist()))


def known_game(
    name: str,
    n: int,
    utility: Callable[[set[int]], float],
    values: Sequence[float],
    copies: Sequence[tuple[int, int]] = (),
    nulls: Sequence[int] = (),
) -> KnownGame:
    """A known game from a function of the set of clients."""
    table = np.array([utility(set(members(mask))) for mask in range(1 << n)], dtype=float)
    return KnownGame(name, n, table, np.array(values, dtype=float), tuple(copies), tuple(nulls))


def brute_force(table: Array) -> Array:
    """The definition itself: marginal contributions averaged over every single order.

    >>> brute_force(np.array([0.0, 1.0, 1.0, 4.0])).tolist()
    [2.0, 2.0]
    """
    n = len(table).bit_length() - 1
    orders = list(permutations(range(n)))
    total = np.zeros(n)
    for order in orders:
        mask = 0
        for client in order:
            total[client] += table[mask | 1 << client] - table[mask]
            mask |= 1 << client
    return total / len(orders)


def glove(right: int = 3) -> KnownGame:
    """One left glove and some right ones; a pair is worth 1."""
    left_value = right / (right + 1)
    return known_game(
        "glove",
        right + 1,
        lambda s: float(0 in s and len(s) > 1),
        [left_value, *[(1 - left_value) / right] * right],
        copies=[(i, i + 1) for i in range(1, right)],
    )


def airport(costs: Sequence[float] = (1.0, 2.0, 2.0, 5.0, 9.0)) -> KnownGame:
    """A runway as long as the largest plane needs; each piece is shared by those who need it. Costs ascend."""
    n = len(costs)
    pieces = np.diff([0.0, *costs]) / np.arange(n, 0, -1)
    copies = [(i, i + 1) for i in range(n - 1) if costs[i] == costs[i + 1]]
    return known_game(
        "airport", n, lambda s: max((costs[i] for i in s), default=0.0), np.cumsum(pieces).tolist(), copies
    )


def weighted_majority() -> KnownGame:
    """Quota 3, weights 2 1 1 1: an apex game, in which the strong voter holds (n − 2)/n of the power."""
    weights = (2, 1, 1, 1)
    return known_game(
        "weighted-majority",
        4,
        lambda s: float(sum(weights[i] for i in s) >= 3),
        [1 / 2, 1 / 6, 1 / 6, 1 / 6],
        copies=[(1, 2), (2, 3)],
    )


def additive(worth: Sequence[float] = (0.5, -0.25, 2.0, 1.0, 1.0), base: float = 0.125) -> KnownGame:
    """Everyone brings the same to any coalition."""
    copies = [(i, i + 1) for i in range(len(worth) - 1) if worth[i] == worth[i + 1]]
    return known_game("additive", len(worth), lambda s: base + sum(worth[i] for i in s), worth, copies)


def saturating(n: int = 6) -> KnownGame:
    """Only the size counts, with diminishing returns: all clients are worth the same."""
    curve = 1 - 0.9 * np.exp(-np.arange(n + 1) / 2)
    share = (curve[n] - curve[0]) / n
    return known_game("saturating", n, lambda s: curve[len(s)], [share] * n, copies=[(0, 1), (2, n - 1)])


def unanimity(n: int = 5, needed: Sequence[int] = (1, 2, 4)) -> KnownGame:
    """Worth 1 when all of some clients take part; the others are null players."""
    values = [1 / len(needed) if i in needed else 0.0 for i in range(n)]
    nulls = [i for i in range(n) if i not in needed]
    copies = [(needed[0], needed[1])] if len(needed) > 1 else []
    return known_game("unanimity", n, lambda s: float(s.issuperset(needed)), values, copies, nulls)


def null_and_copies() -> KnownGame:
    """Client 0 brings 2, one of the copies 1 and 2 brings 3, 0 and 3 together bring 1, client 4 nothing."""
    return known_game(
        "null-and-copies",
        5,
        lambda s: 2.0 * (0 in s) + 3.0 * bool(s & {1, 2}) + 1.0 * s.issuperset({0, 3}),
        [2.5, 1.5, 1.5, 0.5, 0.0],
        copies=[(1, 2)],
        nulls=[4],
    )


def learning_curve(records: Sequence[int] = (900, 700, 400, 250, 150, 100, 20)) -> KnownGame:
    """What federated games look like: more records, better models, diminishing returns."""
    n = len(records)
    totals = np.array([sum(records[i] for i in members(mask)) for mask in range(1 << n)])
    table = 0.1 + 0.85 * totals / (totals + 300)
    return KnownGame("learning-curve", n, table, brute_force(table))


def random_table(n: int, seed: int) -> KnownGame:
    """No structure at all: uniform utilities."""
    table = np.random.default_rng(seed).random(1 << n)
    return KnownGame(f"random-{n}-{seed}", n, table, brute_force(table))


GAMES = (
    glove(),
    airport(),
    weighted_majority(),
    additive(),
    saturating(),
    unanimity(),
    null_and_copies(),
    random_table(5, 1),
)


class Recorder(FunctionGame):
    """A function game over a table, or over a function of one mask, that remembers what it evaluated.

    >>> game = Recorder(2, np.array([0.0, 1.0, 1.0, 3.0]))
    >>> game([3, 0]), game.evaluated
    ([3.0, 0.0], [3, 0])
    """

    def __init__(self, n: int, utility: Array | Callable[[int], float]) -> None:
        self.evaluated: list[int] = []
        of_mask = utility if callable(utility) else utility.__getitem__

        def evaluate(coalitions: list[tuple[int, ...]]) -> list[float]:
            masks = [mask_of(clients) for clients in coalitions]
            self.evaluated += masks
            return [float(of_mask(mask)) for mask in masks]

        super().__init__(n, evaluate, key="recorder")
