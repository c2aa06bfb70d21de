"""Coalitions as bitmasks: bit i of an integer is set when client i takes part.

Python integers have no width, so a hundred or a thousand clients work like ten. Everything here is
pure: what is random takes a generator, and treats all clients alike (relabelling the clients relabels
the outcome), which is what makes stratum means over these samples unbiased.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MOST_CLIENTS",
    "Pairs",
    "Trial",
    "allocate",
    "balanced_layer",
    "by_seed",
    "complement",
    "complementary_pairs",
    "full_mask",
    "layer",
    "marginal_pairs",
    "mask_of",
    "members",
    "membership",
    "prefix_masks",
    "random_layer",
    "random_splits",
    "random_subset",
    "shapley_weights",
    "subset_total",
]

MOST_CLIENTS = 10_000
"""A game has no more: estimators hold a number for every two clients, and these are 800 MB already."""

Trial: TypeAlias = tuple[int, int]
"""One training: a coalition as a bitmask, and the number of the seed (0, 1, …) that it is trained with."""


def by_seed(trials: Iterable[Trial]) -> dict[int, list[int]]:
    """The coalitions of every seed, in the order in which they are named.

    >>> by_seed([(0b1, 0), (0b11, 2), (0b10, 0)])
    {0: [1, 2], 2: [3]}
    """
    found: dict[int, list[int]] = {}
    for mask, seed in trials:
        found.setdefault(seed, []).append(mask)
    return found


# Layers up to this many coalitions are listed outright when distinct ones must be drawn from them.
_LISTABLE = 20_000
_DEALS = 100  # attempts at a balanced family; the first one nearly always succeeds


def full_mask(n: int) -> int:
    """The grand coalition of n clients.

    >>> full_mask(3)
    7
    """
    return (1 << n) - 1


def complement(mask: int, n: int) -> int:
    """The clients that are not in the coalition.

    >>> complement(0b001, 3) == 0b110
    True
    """
    return full_mask(n) ^ mask


def mask_of(clients: Iterable[int]) -> int:
    """The bitmask of some client indices.

    >>> mask_of([0, 2])
    5
    """
    mask = 0
    for client in clients:
        mask |= 1 << int(client)
    return mask


def members(mask: int) -> tuple[int, ...]:
    """The client indices of a coalition, ascending.

    >>> members(5)
    (0, 2)
    """
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return tuple(found)


def membership(masks: Sequence[int], n: int) -> NDArray[np.bool_]:
    """One row per coalition, one column per client.

    >>> membership([0b01, 0b11], 2).astype(int).tolist()
    [[1, 0], [1, 1]]
    """
    width = (n + 7) // 8
    packed = b"".join(mask.to_bytes(width, "little") for mask in masks)
    rows = np.frombuffer(packed, np.uint8).reshape(len(masks), width)
    return np.unpackbits(rows, axis=1, count=n, bitorder="little").astype(bool)


def layer(n: int, k: int) -> Iterator[int]:
    """All coalitions of k clients.

    >>> sorted(layer(3, 2))
    [3, 5, 6]
    """
    return (mask_of(clients) for clients in combinations(range(n), k))


def subset_total(n: int, k: int) -> int:
    """How many coalitions have at most k clients.

    >>> subset_total(4, 1)
    5
    """
    return sum(comb(n, j) for j in range(k + 1))


def shapley_weights(n: int) -> NDArray[np.float64]:
    """Weight 1/(n·C(n−1,s)) of a marginal contribution to a coalition of size s = 0..n−1 (Eq. 4).

    >>> shapley_weights(3).tolist()
    [0.3333333333333333, 0.16666666666666666, 0.3333333333333333]
    """
    # Beyond about 1,000 clients the binomial exceeds the largest float; its reciprocal is then 0.
    return np.array([_reciprocal(n * comb(n - 1, s)) for s in range(n)])


def _reciprocal(count: int) -> float:
    return 1.0 / count if count.bit_length() < 1024 else 0.0


def prefix_masks(order: Iterable[int]) -> list[int]:
    """The growing coalitions of an order of clients, the empty one left out.

    >>> prefix_masks([2, 0, 1])
    [4, 5, 7]
    """
    grown, mask = [], 0
    for client in order:
        mask |= 1 << int(client)
        grown.append(mask)
    return grown


def random_subset(n: int, k: int, rng: np.random.Generator) -> int:
    """A uniformly drawn coalition of k clients."""
    return mask_of(rng.permutation(n)[:k])


def random_layer(
    n: int, k: int, count: int, rng: np.random.Generator, taken: Iterable[int] = ()
) -> list[int]:
    """`count` distinct coalitions of size k, uniformly, none of them in `taken`; fewer if there are not
    that many.

    >>> rng = np.random.default_rng(0)
    >>> sorted(random_layer(3, 1, 5, rng))
    [1, 2, 4]
    """
    seen = {mask for mask in taken if mask.bit_count() == k}
    count = min(count, comb(n, k) - len(seen))
    if count <= 0:
        return []
    if comb(n, k) <= max(_LISTABLE, 2 * (count + len(seen))):
        free = [mask for mask in layer(n, k) if mask not in seen]
        return [free[j] for j in rng.choice(len(free), count, replace=False)]
    drawn: list[int] = []
    while len(drawn) < count:  # at most half of the layer is known: a draw is new with chance 1/2
        mask = random_subset(n, k, rng)
        if mask not in seen:
            seen.add(mask)
            drawn.append(mask)
    return drawn


def random_splits(
    n: int, k: int, count: int, rng: np.random.Generator, taken: Iterable[int] = ()
) -> list[int]:
    """`count` distinct ways to split the clients into k and n − k, each given by its part of size k.

    Like `random_layer`, but for k = n/2 a coalition and its complement are the same split.

    >>> sorted(random_splits(4, 2, 9, np.random.default_rng(0)))
    [3, 5, 9]
    """
    if 2 * k != n:
        return random_layer(n, k, count, rng, taken)
    # A split into halves is named by its half with client 0: k − 1 others out of n − 1.
    named = [mask if mask & 1 else complement(mask, n) for mask in taken if mask.bit_count() == k]
    others = random_layer(n - 1, k - 1, count, rng, (mask >> 1 for mask in named))
    return [mask << 1 | 1 for mask in others]


def allocate(total: int, weights: NDArray[np.float64], caps: Sequence[int]) -> list[int]:
    """Whole numbers close to `total` in proportion to the weights, none above its cap.

    Largest remainders round; what a cap cuts off goes to the others. The sum is `total`, or the sum of
    the caps if that is less.

    >>> allocate(10, np.ones(3), [1, 9, 9])
    [1, 5, 4]
    """
    shares = [0] * len(caps)
    while (left := total - sum(shares)) > 0:
        room = np.array([cap > share for cap, share in zip(caps, shares, strict=True)])
        if not room.any():
            break
        if not (weights * room).any():
            weights = np.ones(len(caps))
        ideal = left * weights * room / (weights * room).sum()
        extra = np.floor(ideal).astype(int)
        by_remainder = np.argsort(extra - ideal, kind="stable")
        extra[by_remainder[: left - int(extra.sum())]] += 1
        shares = [min(cap, share + int(e)) for cap, share, e in zip(caps, shares, extra, strict=True)]
    return shares


def balanced_layer(n: int, k: int, count: int, rng: np.random.Generator) -> list[int]:
    """`count` distinct coalitions of size k in which all clients appear equally often (±1).

    The set P of IPSS (Alg. 3, line 9). Clients are dealt like cards from shuffled decks, k to a
    coalition, so that counts never differ by more than one.

    >>> drawn = balanced_layer(4, 2, 5, np.random.default_rng(0))
    >>> len(set(drawn)), sorted(membership(drawn, 4).sum(0).tolist())
    (5, [2, 2, 3, 3])
    """
    total = comb(n, k)
    count = min(count, total)
    if count > total // 2:
        # The whole layer is balanced, so what remains of it when a balanced family is taken out is too.
        left_out = set(balanced_layer(n, k, total - count, rng))
        return [mask for mask in layer(n, k) if mask not in left_out]
    if 2 * k > n:
        full = full_mask(n)
        return [full ^ mask for mask in balanced_layer(n, n - k, count, rng)]
    for _ in range(_DEALS):
        hands = _deal(n, k, count, rng)
        if _made_distinct(hands, rng):
            return hands
    raise RuntimeError(f"no balanced family of {count} distinct coalitions of {k} of {n} clients was found")


def _deal(n: int, k: int, count: int, rng: np.random.Generator) -> list[int]:
    """Hands of k different cards from one shuffled deck of n after the other."""
    hands: list[int] = []
    deck: list[int] = []
    for _ in range(count):
        hand, deck = deck[:k], deck[k:]
        if len(hand) < k:  # the deck ran out: a new one, beginning with cards not in the hand
            held = set(hand)
            fresh = [int(client) for client in rng.permutation(n)]
            first = [client for client in fresh if client not in held][: k - len(hand)]
            hand += first
            deck = [client for client in fresh if client not in first]
        hands.append(mask_of(hand))
    return hands


def _made_distinct(hands: list[int], rng: np.random.Generator) -> bool:
    """Exchanges one client between two hands, which keeps all counts, until no hand occurs twice.

    In small layers that can lead into a corner from which no exchange helps: False, deal again.
    """
    seen: set[int] = set()
    repeated: list[int] = []
    for j, hand in enumerate(hands):
        if hand in seen:
            repeated.append(j)
        seen.add(hand)
    tries = 200 * (len(repeated) + 1)  # a try succeeds with fair chance: half of the layer is free
    while repeated and tries:
        tries -= 1
        j, other = repeated[-1], int(rng.integers(len(hands)))
        only_j, only_other = members(hands[j] & ~hands[other]), members(hands[other] & ~hands[j])
        if other in repeated or not only_j:
            continue
        swap = 1 << int(rng.choice(only_j)) | 1 << int(rng.choice(only_other))
        new_j, new_other = hands[j] ^ swap, hands[other] ^ swap
        if new_j in seen or new_other in seen:
            continue
        seen.remove(hands[other])
        seen.update((new_j, new_other))
        hands[j], hands[other] = new_j, new_other
        repeated.pop()
    return not repeated


@dataclass(frozen=True)
class Pairs:
    """Contributions v(S) − v(S̄) that can be formed from a list of coalitions, as index arrays.

    Entry p credits `client[p]` ∈ S, |S| = `size[p]`, with utilities[`index[p]`] − utilities[`partner[p]`].
    """

    client: NDArray[np.intp]
    size: NDArray[np.intp]
    index: NDArray[np.intp]
    partner: NDArray[np.intp]

    def contributions(self, utilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """v(S) − v(S̄) of every entry."""
        return utilities[self.index] - utilities[self.partner]


def marginal_pairs(masks: Sequence[int]) -> Pairs:
    """Every (S, S∖{i}) with both among the coalitions: the pairs of MC-SV."""
    position = {mask: j for j, mask in enumerate(masks)}
    sizes = {mask.bit_count() for mask in masks}
    rows = [
        (client, mask.bit_count(), j, position[mask ^ 1 << client])
        for mask, j in position.items()
        if mask.bit_count() - 1 in sizes
        for client in members(mask)
        if mask ^ 1 << client in position
    ]
    return _pairs(rows)


def complementary_pairs(masks: Sequence[int], n: int) -> Pairs:
    """Every (S, N∖S) with both among the coalitions, once for each i ∈ S: the pairs of CC-SV."""
    full = full_mask(n)
    position = {mask: j for j, mask in enumerate(masks)}
    rows = [
        (client, mask.bit_count(), j, position[full ^ mask])
        for mask, j in position.items()
        if full ^ mask in position
        for client in members(mask)
    ]
    return _pairs(rows)


def _pairs(rows: list[tuple[int, int, int, int]]) -> Pairs:
    columns = np.array(rows, dtype=np.intp).reshape(-1, 4).T
    return Pairs(*(np.ascontiguousarray(column) for column in columns))
