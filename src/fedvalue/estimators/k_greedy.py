"""K-Greedy (Alg. 2): all coalitions of at most K clients, none larger."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import whole
from fedvalue.coalitions import layer, marginal_pairs, shapley_weights, subset_total
from fedvalue.errors import MethodError
from fedvalue.estimators._plan import Plan
from fedvalue.values import Estimate

__all__ = ["full_layers", "k_greedy", "truncated_sum"]


def k_greedy(n: int, budget: int, rng: np.random.Generator, *, k: int | None = None) -> Plan:
    """φ_i = Σ_{S∌i, |S|<K} [v(S∪i) − v(S)] / (n·C(n−1,|S|)); K = n is exact.

    The paper prints C(n,|S|); its Eq. 4 and its authors' code use C(n−1,|S|), and so does this. Without
    `k`, the largest K that the budget covers.
    """
    chosen = full_layers(n, budget) if k is None else whole("The option 'k'", k, 0, n, MethodError)
    masks = [mask for size in range(chosen + 1) for mask in layer(n, size)]
    utilities = yield masks
    return Estimate(
        truncated_sum(n, masks, utilities), details={"k": chosen}, guarantee="exact" if chosen == n else None
    )


def full_layers(n: int, budget: int) -> int:
    """k* = max{k : Σ_{j≤k} C(n,j) ≤ γ} (Alg. 3, line 1).

    >>> full_layers(4, 10)
    1
    """
    k = 0
    while k < n and subset_total(n, k + 1) <= budget:
        k += 1
    return k


def truncated_sum(n: int, masks: list[int], utilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ [v(S∪i) − v(S)] / (n·C(n−1,|S|)) over the pairs that were evaluated."""
    pairs = marginal_pairs(masks)
    weighted = pairs.contributions(utilities) * shapley_weights(n)[pairs.size - 1]
    return np.bincount(pairs.client, weighted, minlength=n).astype(float)
