"""IPSS (Alg. 3), the paper's algorithm, and our repair of its last stratum."""

from __future__ import annotations

from math import gcd
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import balanced_layer, full_mask, layer, marginal_pairs, subset_total
from fedvalue.errors import MethodError
from fedvalue.estimators._plan import Plan
from fedvalue.estimators._strata import stratum_moments
from fedvalue.estimators.k_greedy import full_layers, truncated_sum
from fedvalue.values import Estimate

__all__ = ["ipss", "ipss_balanced"]


Balance = Literal["near", "strict"]


def ipss(n: int, budget: int, rng: np.random.Generator, *, balance: Balance = "near") -> Plan:
    """Importance-pruned stratified sampling, as published.

    1. k* = max{k : Σ_{j≤k} C(n,j) ≤ γ}; every coalition of at most k* clients.
    2. With what is left of γ, a set P of coalitions of size k*+1 in which every client appears equally often.
    3. φ_i = Σ_{S∌i} [v(S∪i) − v(S)] / (n·C(n−1,|S|)) over the pairs that were evaluated.

    Step 3 does not divide the sampled stratum by its number of samples, and drops all strata above: the
    values are biased towards zero and do not add up to v(N) − v(∅). That is the paper's definition.

    Line 11 of Alg. 3 asks for exact equality in P, with |P| at most what is left: `balance="strict"` takes the largest
    |P| that allows it, which may be 0 (n = 3, γ = 5 and n = 6, γ = 8). The paper's Example 3 uses all that is left
    instead, with counts as equal as can be (±1), and so does the default.
    """
    if balance not in ("near", "strict"):
        raise MethodError(f"The option 'balance' must be 'near' or 'strict'. Got {balance!r}.")
    k_star, masks = _important_coalitions(n, budget, rng, strict=balance == "strict")
    utilities = yield masks
    sampled = len(masks) - subset_total(n, k_star)
    return Estimate(truncated_sum(n, masks, utilities), details={"k_star": k_star, "sampled": sampled})


def ipss_balanced(n: int, budget: int, rng: np.random.Generator) -> Plan:
    """IPSS with its two biases mended, at the same price.

    One evaluation is kept for v(N); the sampled stratum enters as a mean per client (a client that P does
    not contain takes the mean of the others); what the values then lack of v(N) − v(∅) is spread equally.
    """
    k_star, masks = _important_coalitions(n, budget - 1, rng)
    masks.append(full_mask(n))
    utilities = yield masks
    gain = utilities[-1] - utilities[0]
    phi = _layer_means(n, k_star + 1, masks[:-1], utilities[:-1]) / n
    phi += (gain - phi.sum()) / n
    return Estimate(phi, details={"k_star": k_star, "sampled": len(masks) - 1 - subset_total(n, k_star)})


def _important_coalitions(
    n: int, budget: int, rng: np.random.Generator, strict: bool = False
) -> tuple[int, list[int]]:
    """Lines 1–11 of Alg. 3: the full layers up to k*, then the balanced set P."""
    k_star = full_layers(n, budget)
    masks = [mask for size in range(k_star + 1) for mask in layer(n, size)]
    if k_star < n:
        left = budget - len(masks)
        if strict:  # |P|·(k*+1) places among n clients: as many to each only where n divides them
            left -= left % (n // gcd(n, k_star + 1))
        masks += balanced_layer(n, k_star + 1, left, rng)
    return k_star, masks


def _layer_means(
    n: int, k_last: int, masks: list[int], utilities: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Σ_{k≤k_last} of the mean marginal contribution of each client at size k."""
    pairs = marginal_pairs(masks)
    count, mean, _ = stratum_moments(n, pairs.client, pairs.size, pairs.contributions(utilities))
    seen = count > 0
    of_size = mean.sum(0) / np.maximum(seen.sum(0), 1)
    total: NDArray[np.float64] = np.where(seen, mean, of_size)[:, 1 : k_last + 1].sum(1)
    return total
