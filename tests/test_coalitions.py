"""Coalitions as bitmasks: counting, drawing, balancing, pairing."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedvalue.coalitions import (
    allocate,
    balanced_layer,
    complement,
    complementary_pairs,
    full_mask,
    layer,
    marginal_pairs,
    mask_of,
    members,
    membership,
    prefix_masks,
    random_layer,
    random_splits,
    random_subset,
    shapley_weights,
    subset_total,
)

clients = st.sets(st.integers(0, 200))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def spread(masks: list[int], n: int) -> int:
    """Largest minus smallest number of appearances of a client."""
    return int(np.ptp(membership(masks, n).sum(0))) if masks else 0


class TestMasks:
    @given(clients)
    def test_masks_and_members_are_inverse(self, who: set[int]) -> None:
        assert members(mask_of(who)) == tuple(sorted(who))

    @given(clients)
    def test_a_coalition_and_its_complement_share_the_clients(self, who: set[int]) -> None:
        n = 201
        rest = complement(mask_of(who), n)
        assert set(members(rest)) == set(range(n)) - who
        assert rest | mask_of(who) == full_mask(n)

    @given(st.lists(clients, max_size=5))
    def test_membership_has_a_row_for_each_coalition(self, coalitions: list[set[int]]) -> None:
        table = membership([mask_of(who) for who in coalitions], 201)
        assert table.shape == (len(coalitions), 201)
        assert [set(np.flatnonzero(row)) for row in table] == coalitions

    @pytest.mark.parametrize("n", [1, 2, 5, 8, 9])
    def test_layers_hold_every_coalition_once(self, n: int) -> None:
        layers = [list(layer(n, k)) for k in range(n + 1)]
        assert [len(masks) for masks in layers] == [comb(n, k) for k in range(n + 1)]
        assert sorted(mask for masks in layers for mask in masks) == list(range(1 << n))
        assert [subset_total(n, k) for k in range(n + 1)] == np.cumsum([len(m) for m in layers]).tolist()

    @given(st.permutations(range(9)))
    def test_prefixes_grow_by_one_client_in_order(self, order: list[int]) -> None:
        assert prefix_masks(order) == [mask_of(order[: j + 1]) for j in range(9)]

    @pytest.mark.parametrize("n", [1, 2, 7, 100, 2000])
    def test_shapley_weights_sum_to_one_over_all_coalitions(self, n: int) -> None:
        weights = shapley_weights(n)
        assert weights.shape == (n,)
        assert np.isfinite(weights).all()
        if n <= 100:
            assert sum(w * comb(n - 1, s) for s, w in enumerate(weights)) == pytest.approx(1)


class TestBalancedLayer:
    @pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7])
    def test_every_count_of_every_small_layer(self, n: int) -> None:
        for k in range(n + 1):
            for count in range(comb(n, k) + 2):
                for seed in range(3):
                    drawn = balanced_layer(n, k, count, rng(seed))
                    assert len(drawn) == len(set(drawn)) == min(count, comb(n, k))
                    assert {mask.bit_count() for mask in drawn} <= {k}
                    assert max(drawn, default=0) <= full_mask(n)
                    assert spread(drawn, n) <= 1

    def test_half_of_a_small_layer_where_exchanges_can_get_stuck(self) -> None:
        # Now and then no exchange of the dealt hands helps (seed 5): they are dealt again.
        for seed in range(200):
            drawn = balanced_layer(6, 3, 10, rng(seed))
            assert len(set(drawn)) == 10
            assert spread(drawn, 6) == 0

    @given(st.data(), st.integers(8, 40), st.integers(0, 10**6))
    def test_larger_layers_from_both_ends(self, data: st.DataObject, n: int, seed: int) -> None:
        k = data.draw(st.integers(0, n))
        total = comb(n, k)
        few = st.integers(0, min(total, 400))
        nearly_all = st.integers(max(0, total - 60), total)
        count = data.draw(few | nearly_all if total <= 10_000 else few)
        drawn = balanced_layer(n, k, count, rng(seed))
        assert len(drawn) == len(set(drawn)) == count
        assert {mask.bit_count() for mask in drawn} <= {k}
        assert spread(drawn, n) <= 1

    def test_all_coalitions_are_equally_likely(self) -> None:
        seen = Counter(mask for seed in range(3000) for mask in balanced_layer(5, 2, 3, rng(seed)))
        expected = 3000 * 3 / comb(5, 2)
        assert len(seen) == comb(5, 2)
        assert max(abs(count - expected) for count in seen.values()) < 5 * np.sqrt(expected)


class TestDraws:
    @given(st.integers(1, 30), st.data())
    def test_a_random_subset_has_the_size_asked_for(self, n: int, data: st.DataObject) -> None:
        k = data.draw(st.integers(0, n))
        mask = random_subset(n, k, rng(k))
        assert mask.bit_count() == k
        assert mask <= full_mask(n)

    @given(st.data(), st.integers(1, 40), st.integers(0, 10**6))
    def test_a_random_layer_is_distinct_and_avoids_what_is_taken(
        self, data: st.DataObject, n: int, seed: int
    ) -> None:
        k = data.draw(st.integers(0, n))
        taken = random_layer(n, k, data.draw(st.integers(0, 50)), rng(seed))
        elsewhere = [] if k == n else random_layer(n, k + 1, 3, rng(seed))
        count = data.draw(st.integers(0, 200))
        drawn = random_layer(n, k, count, rng(seed + 1), [*taken, *elsewhere])
        assert len(drawn) == len(set(drawn)) == min(count, comb(n, k) - len(taken))
        assert {mask.bit_count() for mask in drawn} <= {k}
        assert not set(drawn) & set(taken)

    def test_a_random_layer_is_uniform(self) -> None:
        seen = Counter(mask for seed in range(3000) for mask in random_layer(5, 2, 4, rng(seed)))
        expected = 3000 * 4 / comb(5, 2)
        assert max(abs(seen[mask] - expected) for mask in layer(5, 2)) < 5 * np.sqrt(expected)

    @given(st.data(), st.integers(2, 14), st.integers(0, 10**6))
    def test_a_split_is_never_drawn_from_both_sides(self, data: st.DataObject, n: int, seed: int) -> None:
        k = data.draw(st.integers(1, n - 1))
        splits = comb(n, k) // (2 if 2 * k == n else 1)
        before = random_splits(n, k, data.draw(st.integers(0, splits)), rng(seed))
        turned = [complement(mask, n) if 2 * k == n and j % 2 else mask for j, mask in enumerate(before)]
        drawn = random_splits(n, k, splits, rng(seed + 1), turned)
        assert {mask.bit_count() for mask in [*before, *drawn]} <= {k}
        named = {frozenset((mask, complement(mask, n))) for mask in [*before, *drawn]}
        assert len(named) == len(before) + len(drawn) == splits


class TestAllocate:
    @given(st.data(), st.integers(0, 500), st.lists(st.integers(0, 60), min_size=1, max_size=12))
    def test_everything_is_given_out_and_no_cap_exceeded(
        self, data: st.DataObject, total: int, caps: list[int]
    ) -> None:
        weight = st.floats(0, 1e6)
        weights = np.array(data.draw(st.lists(weight, min_size=len(caps), max_size=len(caps))))
        shares = allocate(total, weights, caps)
        assert sum(shares) == min(total, sum(caps))
        assert all(0 <= share <= cap for share, cap in zip(shares, caps, strict=True))

    @given(st.lists(st.floats(0.01, 100), min_size=1, max_size=10), st.integers(0, 300))
    def test_without_caps_shares_are_the_proportions_rounded(self, weights: list[float], total: int) -> None:
        shares = np.array(allocate(total, np.array(weights), [10**6] * len(weights)))
        ideal = total * np.array(weights) / sum(weights)
        assert np.abs(shares - ideal).max() < 1 + 1e-9

    def test_weights_of_zero_get_something_only_when_nothing_else_has_room(self) -> None:
        assert allocate(3, np.array([1.0, 0.0]), [5, 5]) == [3, 0]
        assert allocate(8, np.array([1.0, 0.0]), [5, 5]) == [5, 3]

    def test_layers_beyond_the_largest_float_can_be_caps(self) -> None:
        caps = [comb(2000, k) for k in range(1, 2000)]
        assert sum(allocate(5000, np.ones(len(caps)), caps)) == 5000


class TestPairs:
    @given(st.sets(st.integers(0, 31)), st.sampled_from(["marginal", "complementary"]))
    def test_every_pair_is_found_once_and_no_other(self, drawn: set[int], kind: str) -> None:
        n, masks = 5, sorted(drawn)
        assume(masks)
        pairs = marginal_pairs(masks) if kind == "marginal" else complementary_pairs(masks, n)
        found = sorted(
            (int(c), int(s), masks[i], masks[j])
            for c, s, i, j in zip(pairs.client, pairs.size, pairs.index, pairs.partner, strict=True)
        )
        expected = []
        for a, b in combinations([*masks, *masks], 2):
            for client in members(a):
                partner = a ^ 1 << client if kind == "marginal" else complement(a, n)
                if partner == b:
                    expected.append((client, a.bit_count(), a, b))
        assert found == sorted(set(expected))
        utilities = np.arange(len(masks), dtype=float) ** 2
        assert pairs.contributions(utilities) == pytest.approx(
            utilities[pairs.index] - utilities[pairs.partner]
        )
