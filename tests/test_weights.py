"""Owen values against brute force over all admissible orders, and their closed forms."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fedvalue as fv
from fedvalue.coalitions import members
from fedvalue.estimators.exact import shapley_values
from fedvalue.weights import Blocks, blocks_of, coalitions_of, owen, shapley, weights_of

Array = NDArray[np.float64]
NAMES = ("a", "b", "c", "d", "e")
DIVISIONS: list[Blocks] = [
    ((0,), (1, 2)),
    ((0, 1, 2, 3),),
    ((0, 3), (1, 2, 4)),
    ((0,), (1, 3), (2,), (4,)),
    ((0, 1, 2), (3,), (4,)),
]


def clients_of(blocks: Blocks) -> int:
    return sum(map(len, blocks))


def over_admissible_orders(blocks: Blocks, v: Array) -> Array:
    """The mean contribution over all orders in which the members of a block come one right after the other."""
    values, orders = np.zeros(clients_of(blocks)), 0
    for order in permutations(blocks):
        for inside in product(*(permutations(block) for block in order)):
            mask, orders = 0, orders + 1
            for i in chain(*inside):
                values[i] += v[mask | 1 << i] - v[mask]
                mask |= 1 << i
    return values / orders


@pytest.mark.parametrize("blocks", DIVISIONS)
class TestOwen:
    def table(self, blocks: Blocks) -> Array:
        return np.random.default_rng(3).normal(size=1 << clients_of(blocks))

    def test_is_the_mean_over_admissible_orders(self, blocks: Blocks) -> None:
        v = self.table(blocks)
        assert owen(clients_of(blocks), blocks).apply(v) == pytest.approx(over_admissible_orders(blocks, v))

    def test_groups_get_their_shapley_value_in_the_game_of_groups(self, blocks: Blocks) -> None:
        v = self.table(blocks)
        unions = [
            sum(sum(1 << i for i in blocks[k]) for k in members(chosen)) for chosen in range(1 << len(blocks))
        ]
        values = owen(clients_of(blocks), blocks).apply(v)
        together = [values[list(block)].sum() for block in blocks]
        assert together == pytest.approx(shapley_values(len(blocks), v[unions]))
        assert sum(together) == pytest.approx(v[-1] - v[0])

    def test_only_the_coalitions_that_it_says_count(self, blocks: Blocks) -> None:
        weights = owen(clients_of(blocks), blocks)
        assert len(weights.masks) == coalitions_of(blocks)
        assert weights.matrix.sum(1) == pytest.approx(0)
        assert weights.share.sum() == pytest.approx(1)
        v = self.table(blocks)
        known = {mask: float(v[mask]) for mask in weights.masks}
        assert weights.of(known) == pytest.approx(weights.apply(v))
        assert weights.known_in(known)
        assert not weights.known_in([*known][1:])
        assert weights.adds_up

    def test_who_adds_the_same_in_one_group_gets_the_same(self, blocks: Blocks) -> None:
        sizes = np.array([mask.bit_count() for mask in range(1 << clients_of(blocks))])
        values = owen(clients_of(blocks), blocks).apply(np.sqrt(sizes))
        for block in blocks:
            assert values[list(block)] == pytest.approx(values[block[0]])


def test_groups_of_one_are_shapley_values() -> None:
    v = np.random.default_rng(0).normal(size=32)
    assert shapley(5).apply(v) == pytest.approx(shapley_values(5, v))
    tables = np.random.default_rng(0).normal(size=(32, 3))
    assert shapley(5).apply(tables) == pytest.approx(shapley_values(5, tables))


def test_any_sums_of_utilities() -> None:
    weights = weights_of(2, [{3: 1.0, 0: -1.0}, {1: 2.0, 2: -2.0}], np.zeros((2, 2)))
    assert weights.apply(np.array([0.5, 1.0, 2.0, 4.0])).tolist() == [3.5, -2.0]
    assert weights.share.tolist() == [1.0, 0.0]


class TestWhoBelongsTogether:
    def test_by_name_and_by_number(self) -> None:
        assert blocks_of(NAMES, {"H": ["a", 3], "single": ["b"]}) == ((0, 3), (1,), (2,), (4,))

    def test_nobody(self) -> None:
        assert blocks_of(NAMES, None) is None
        assert blocks_of(NAMES, {"single": ["a"]}) is None

    @pytest.mark.parametrize(
        ("groups", "message"),
        [
            ({"H": ["a", "x"]}, "no client 'x' for the group 'H'"),
            ({"H": ["a", "b"], "G": ["b", "c"]}, "'b' of the group 'G' is also in 'H'"),
            ({"H": ["a", "a"]}, "twice in it"),
            ({"H": "ab"}, "must be a list of clients"),
            ({"H": []}, "must be a list of clients"),
            ({"": ["a", "b"]}, "needs a name"),
            ({"c": ["a", "b"]}, "has the name of a client"),
            ({"H": ["a", 9]}, "no client 9"),
            ({"H": [True, 1]}, "no client True"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, groups: Mapping[str, Any], message: str) -> None:
        with pytest.raises(fv.InputError, match=message):
            blocks_of(NAMES, groups)

    def test_too_many_parties_are_refused(self) -> None:
        with pytest.raises(fv.InputError, match="Put the 39 groups and single clients into fewer groups"):
            owen(40, ((0, 1), *((i,) for i in range(2, 40))))
