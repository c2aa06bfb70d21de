"""Weights of what a client would be worth under other names: copied, split in two, or merged with another.

A copy X' of X changes nothing where X is there. So in the game of n + 1 clients both together are worth

    2 Σ_{S ⊆ N∖X} w(|S|)·[v(S ∪ X) − v(S)],    w(s) = 1/((n+1)·C(n, s))

X in two parts, of which one alone adds the fraction α of what X adds, is worth

    2 Σ_{S ⊆ N∖X} [α·w(|S|) + (1 − α)·w(|S| + 1)]·[v(S ∪ X) − v(S)]

together: for α = 1 these are copies; for α = 1/2 it is the value of X, since w(s) + w(s + 1) is the weight in a Shapley value.
X and Y as one party are worth their Owen values together.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import shapley_weights
from fedvalue.weights import Weights, owen, weights_of

__all__ = ["MOST_CLIENTS", "changes"]

MOST_CLIENTS = 13  # 2^n coalitions count
_MOST_FOR_PAIRS = 10  # clients: beyond, there are too many pairs to merge

Row = dict[int, float]


def changes(n: int) -> tuple[list[tuple[int, ...]], Weights]:
    """By how much what clients are worth changes, and who: first all copied, then all in two parts that are worth nothing
    by themselves, then all pairs merged. Pairs are left out where there are many clients.
    """
    w, plain = shapley_weights(n + 1), shapley_weights(n)
    who: list[tuple[int, ...]] = [*((i,) for i in range(n)), *((i,) for i in range(n))]
    rows = [_step_row(n, i, 2 * w[:n] - plain) for i in range(n)]
    rows += [_step_row(n, i, 2 * w[1 : n + 1] - plain) for i in range(n)]
    for i, j in combinations(range(n), 2) if n <= _MOST_FOR_PAIRS else ():
        who.append((i, j))
        rows.append(_merged(n, i, j, plain))
    like = np.zeros((len(rows), n))
    for row, of in zip(like, who, strict=True):
        row[list(of)] = 0.1  # a rough guess of what is at stake
    return who, weights_of(n, rows, like)


def _step_row(n: int, i: int, weight_of_size: NDArray[np.float64]) -> Row:
    """Σ_S weight(|S|)·[v(S ∪ i) − v(S)]."""
    row: Row = {}
    for mask in range(1 << n):
        if not mask >> i & 1:
            weight = float(weight_of_size[mask.bit_count()])
            row[mask], row[mask | 1 << i] = -weight, weight
    return row


def _merged(n: int, i: int, j: int, plain: NDArray[np.float64]) -> Row:
    blocks = tuple(sorted([(i, j), *((k,) for k in range(n) if k not in (i, j))]))
    together = owen(n, blocks)
    row: Row = dict(zip(together.masks, (together.matrix[i] + together.matrix[j]).tolist(), strict=True))
    for client in (i, j):
        for mask, weight in _step_row(n, client, plain).items():
            row[mask] = row.get(mask, 0.0) - weight
    return row
