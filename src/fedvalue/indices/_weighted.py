"""Weighted Shapley values: clients of unequal weight (Shapley 1953; Kalai and Samet 1987)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import InputError
from fedvalue.weights import Weights

__all__ = ["weighted"]

Array = NDArray[np.float64]
_MOST_CLIENTS = 14  # sums with alternating signs, over all coalitions around each


def weighted(omega: Array, n: int) -> Weights:
    """What a coalition adds beyond all smaller ones (its dividend) is shared among its members in proportion to their weights.

    φ_i = Σ_{T∋i} ω_i/ω(T)·d(T), d(T) = Σ_{S⊆T} (−1)^{|T∖S|} v(S); so v(S) counts Σ_{T⊇S, T∋i} (−1)^{|T∖S|} ω_i/ω(T).
    """
    if n > _MOST_CLIENTS:
        raise InputError(f"Weighted Shapley values are for up to {_MOST_CLIENTS} clients. Got {n}.")
    inside = np.arange(1 << n) >> np.arange(n)[:, None] & 1
    together = omega @ inside
    together[0] = 1.0  # nobody is in ∅
    matrix = omega[:, None] * inside / together
    for j in range(n):  # v(S) counts what T = S does, less what T = S ∪ j does
        halves = matrix.reshape(n, -1, 2, 1 << j)
        halves[:, :, 0] -= halves[:, :, 1]
    return Weights(n, tuple(range(1 << n)), matrix, np.eye(n))
