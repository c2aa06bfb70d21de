"""The unified stratified framework (Alg. 1) with marginal (MC) or complementary (CC) contributions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import comb, lgamma
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import (
    allocate,
    balanced_layer,
    complement,
    complementary_pairs,
    full_mask,
    marginal_pairs,
    members,
    random_layer,
    random_splits,
)
from fedvalue.errors import MethodError
from fedvalue.estimators._plan import Plan
from fedvalue.estimators._strata import stratum_means

__all__ = ["stratified_cc", "stratified_mc"]

Design = Literal["paired", "paper", "uniform"]
_LISTABLE = 24  # clients: beyond, the numbers of all coalitions are too many to draw from a list
Allocation = Literal["equal", "proportional"] | Sequence[int]


def stratified_mc(
    n: int,
    budget: int,
    rng: np.random.Generator,
    *,
    design: Design = "paired",
    allocation: Allocation = "equal",
) -> Plan:
    """Alg. 1 with pairs (S, S∖{i}).

    Stratum k holds the coalitions of size k, `allocation` says how many are evaluated: `equal`,
    `proportional` to C(n,k), or a list for k = 1..n. `design="paper"` samples the strata independently
    and uses the pairs that happen to exist, an empty stratum contributing 0; that is Alg. 1 as published.
    `design="uniform"` does the same with coalitions drawn uniformly from all 2^n, without strata, ∅ and N by chance,
    which is what the paper's authors ran for its Fig. 10. `design="paired"`, ours and the default, grows each
    coalition of stratum k from one of stratum k−1, so that every evaluation completes a pair, for the
    client that has the fewest; a client without a pair at some size takes the mean of the others there.
    Unbiased once every stratum has a sample; ∅ is always evaluated, except by `uniform`.
    """
    masks = _designed(n, budget, rng, design, allocation, _chains)
    utilities = yield masks
    pairs = marginal_pairs(masks)
    return stratum_means(
        n, pairs.client, pairs.size, pairs.contributions(utilities), borrow=design == "paired"
    )


def stratified_cc(
    n: int,
    budget: int,
    rng: np.random.Generator,
    *,
    design: Design = "paired",
    allocation: Allocation = "equal",
) -> Plan:
    """Alg. 1 with pairs (S, N∖S); options as for `stratified_mc`.

    With `design="paired"` the coalitions of size k < n/2 contain all clients equally often and each brings
    its complement.
    """
    masks = _designed(n, budget, rng, design, allocation, _balanced_splits)
    utilities = yield masks
    pairs = complementary_pairs(masks, n)
    return stratum_means(
        n, pairs.client, pairs.size, pairs.contributions(utilities), borrow=design == "paired"
    )


def _designed(
    n: int,
    budget: int,
    rng: np.random.Generator,
    design: Design,
    allocation: Allocation,
    in_pairs: Callable[[int, int, list[int], np.random.Generator], list[int]],
) -> list[int]:
    """The coalitions that a design evaluates."""
    if design not in ("paired", "paper", "uniform"):
        raise MethodError(f"The option 'design' must be 'paired', 'paper' or 'uniform'. Got {design!r}.")
    if design == "uniform":
        if allocation != "equal":
            raise MethodError(
                "The design 'uniform' has no strata to allot coalitions to: leave the option 'allocation' out. "
                f"Got {allocation!r}."
            )
        return _uniform(n, budget, rng)
    strata = _strata_sizes(n, budget, allocation, [comb(n, k) for k in range(1, n + 1)])
    grow = in_pairs if design == "paired" else _independent_strata
    return grow(n, budget, strata, rng)


def _uniform(n: int, count: int, rng: np.random.Generator) -> list[int]:
    """`count` distinct coalitions out of all 2**n, fewer if there are not that many."""
    if n <= _LISTABLE:
        return [int(mask) for mask in rng.choice(1 << n, min(count, 1 << n), replace=False)]
    width = (n + 7) // 8
    found: set[int] = set()
    while len(found) < count:  # a budget is a small part of so many: a draw is nearly always new
        found.add(int.from_bytes(rng.bytes(width), "little") >> (8 * width - n))
    return sorted(found)


def _strata_sizes(n: int, budget: int, allocation: Allocation, caps: list[int]) -> list[int]:
    """m_1..m_n. Stratum n is the grand coalition; ∅, stratum 0, comes out of the budget first."""
    if isinstance(allocation, str):
        if allocation not in ("equal", "proportional"):
            raise MethodError(
                "The option 'allocation' must be 'equal', 'proportional' or a list of n numbers. "
                f"Got {allocation!r}."
            )
        inner = _layer_weights(n) if allocation == "proportional" else np.ones(n - 1)
        return [*allocate(budget - 2, inner, caps[:-1]), 1]
    given = list(allocation) if isinstance(allocation, Iterable) else []
    whole = all(isinstance(m, (int, np.integer)) for m in given)
    if len(given) != n or not whole or any(not 0 <= m <= cap for m, cap in zip(given, caps, strict=True)):
        raise MethodError(
            f"A list for 'allocation' must hold m_k for k = 1..{n}, each between 0 and C(n,k). "
            f"Got {allocation!r}."
        )
    if sum(given) + 1 > budget:
        raise MethodError(f"The allocation asks for {sum(given)} coalitions and ∅; the budget is {budget}.")
    return given


def _layer_weights(n: int) -> NDArray[np.float64]:
    """C(n,k) for k = 1..n−1, scaled to the largest (the numbers themselves overflow)."""
    logs = np.array([lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) for k in range(1, n)])
    weights: NDArray[np.float64] = np.exp(logs - logs.max(initial=-np.inf))
    return weights


def _independent_strata(n: int, budget: int, strata: list[int], rng: np.random.Generator) -> list[int]:
    """Lines 1–9 of Alg. 1: m_k coalitions of size k, uniformly and without replacement."""
    return [0, *(mask for k, m in enumerate(strata, 1) for mask in random_layer(n, k, m, rng))]


def _balanced_splits(n: int, budget: int, strata: list[int], rng: np.random.Generator) -> list[int]:
    """Complementary pairs; sizes k and n − k share what the allocation gives to the two."""
    half = n // 2
    caps = [comb(n, k) // (2 if 2 * k == n else 1) for k in range(1, half + 1)]
    wanted = np.array([strata[k - 1] + (strata[n - k - 1] if 2 * k != n else 0) for k in range(1, half + 1)])
    splits = allocate(min((budget - 2) // 2, int(wanted.sum()) // 2), wanted.astype(float), caps)
    masks = [0, full_mask(n)]
    for k, count in enumerate(splits, 1):
        drawn = random_splits(n, k, count, rng) if 2 * k == n else balanced_layer(n, k, count, rng)
        masks += [part for mask in drawn for part in (mask, complement(mask, n))]
    return masks


def _chains(n: int, budget: int, strata: list[int], rng: np.random.Generator) -> list[int]:
    """m_k coalitions of size k, each one of size k−1 that was drawn before, plus one client."""
    known = {0}
    below = [0]
    if strata[-1]:
        known.add(full_mask(n))
    for k, wanted in enumerate(strata[:-1], 1):
        drawn: list[int] = []
        pairs_of = np.zeros(n)  # how many pairs each client has in this stratum
        while len(drawn) < min(wanted, comb(n, k)) and len(known) < budget:
            mask = _grown(n, below, known, pairs_of, rng)
            if mask is None:  # no coalition below that could grow: a new one, with a partner of its own
                mask = random_layer(n, k, 1, rng, drawn)[0]
                partner = mask ^ 1 << int(rng.choice(members(mask)))
                if partner not in known and len(known) + 2 > budget:
                    break
                known.add(partner)
                below.append(partner)
            known.add(mask)
            drawn.append(mask)
            pairs_of[[i for i in members(mask) if mask ^ 1 << i in known]] += 1
        below = drawn
    return sorted(known)


def _grown(
    n: int, below: list[int], known: set[int], pairs_of: NDArray[np.float64], rng: np.random.Generator
) -> int | None:
    """A new coalition made of a drawn one and the client that has the fewest pairs, ties at random."""
    for i in np.lexsort((rng.random(n), pairs_of)):
        bit = 1 << int(i)
        larger = [mask | bit for mask in below if not mask & bit and mask | bit not in known]
        if larger:
            return larger[int(rng.integers(len(larger)))]
    return None
