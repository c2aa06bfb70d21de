"""Semivalues by the surrogate in closed form: against enumeration, and against exact sums where n is large."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
from marks import first_fast
from numpy.typing import NDArray
from scipy.special import betaln

import fedvalue as fv
from fedvalue.by_size import BySize, signed_weights
from fedvalue.coalitions import full_mask, membership
from fedvalue.estimators import weighted_values
from fedvalue.estimators.surrogate._by_size_target import BySizeTarget
from fedvalue.estimators.surrogate._kernel import MEAN, SD, Coalitions, Landmarks
from fedvalue.estimators.surrogate._one_seed import OneSeed
from fedvalue.estimators.surrogate._prior import Prior
from fedvalue.estimators.surrogate._target import target_of
from fedvalue.estimators.surrogate._terms import terms
from fedvalue.indices import read_index
from fedvalue.weights import Weights, shapley

Array = NDArray[np.float64]
NAMES = ("banzhaf", "beta(16,1)", "beta(1,4)", "leave-one-out")


def by_size(name: Any, n: int) -> BySize:
    found = read_index(name).weights(n)
    assert isinstance(found, BySize)
    return found


def listed(weights: BySize) -> Weights:
    """The same, with a weight for every coalition."""
    masks = tuple(range(1 << weights.n))
    matrix = signed_weights(membership(masks, weights.n), weights.of_coalition).T
    return Weights(weights.n, masks, matrix, np.eye(weights.n))


def saturating(n: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    size = rng.uniform(0.2, 2, n)
    inside = np.arange(1 << n)[:, None] >> np.arange(n) & 1
    luck = rng.normal(0, 0.01, 1 << n) / np.maximum(inside.sum(1), 1)  # of models of many, less
    table: Array = 1 - np.exp(-(inside @ size) / n * 2) + luck
    return table


class TestChances:
    @pytest.mark.parametrize("n", [2, 14, 1000])
    def test_banzhaf_counts_coalitions(self, n: int) -> None:
        exact = [float(Fraction(comb(n - 1, s), 1 << n - 1)) for s in range(n)]
        assert by_size("banzhaf", n).chance == pytest.approx(exact, rel=1e-9, abs=0)

    @pytest.mark.parametrize("n", [2, 14, 1000])
    def test_beta_as_its_paper_defines_it(self, n: int) -> None:
        s = np.arange(n)
        chance = betaln(s + 1, n - 1 - s + 16) - betaln(16, 1) - betaln(s + 1, n - s) - np.log(n)
        assert by_size("beta(16,1)", n).chance == pytest.approx(np.exp(chance), rel=1e-8, abs=0)

    @pytest.mark.parametrize(
        "name", [*NAMES, "beta(1e-06,1e6)", "beta(1e6,1e6)", "sizes(" + "1," * 999 + "0)"]
    )
    def test_they_add_up_at_a_thousand_clients(self, name: str) -> None:
        found = by_size(name, 1000)
        assert found.chance.sum() == pytest.approx(1)
        assert np.isfinite(found.of_coalition).all()
        assert (found.chance >= 0).all()
        assert not found.adds_up

    def test_where_all_sizes_count_the_same_it_is_shapley(self) -> None:
        for name in ("shapley", "beta(1,1)", [3, 3, 3, 3, 3]):
            assert by_size(name, 5).adds_up
            assert listed(by_size(name, 5)).matrix == pytest.approx(shapley(5).matrix)
        assert not by_size([1, 2, 0], 3).adds_up  # though v(∅) counts a third


class TestInClosedForm:
    @pytest.mark.parametrize("n", first_fast([5, 2, 3, 4, 8], keep=3))
    def test_as_by_all_coalitions(self, n: int) -> None:
        rng = np.random.default_rng(n)
        alone, left_out = (part - part.mean() for part in rng.normal(size=(2, n)))
        parts = terms(n, Landmarks(alone, left_out) if n > 2 else Landmarks())
        everything = Coalitions.of(range(1, 1 << n), n)
        q = MEAN + SD * rng.normal(size=len(MEAN)) / 2
        for name in (*NAMES, (np.arange(n) + 1.0) ** 2):
            weights = by_size(name, n)
            closed, summed = target_of(weights), target_of(listed(weights))
            a, b = Prior(parts, q, n, closed), Prior(parts, q, n, summed)
            unit = np.abs(b.values()).max()
            assert a.values() == pytest.approx(b.values(), abs=1e-11 * unit)
            assert a.rows(everything) == pytest.approx(b.rows(everything), abs=1e-11 * unit)
            assert closed.luck(q) == pytest.approx(summed.luck(q))

    @pytest.mark.parametrize("n", first_fast([50, 200]))
    @pytest.mark.parametrize("name", [*NAMES, "shapley"])
    def test_at_large_n_by_two_kinds_of_clients(self, n: int, name: str) -> None:
        """What a term says of v(S) depends on how many members S has in T and elsewhere: sums over these two are exact."""
        weights, m = by_size(name, n), n // 3
        of_t = np.where(np.arange(n) < m, 1.0, -m / (n - m))
        parts = terms(n, Landmarks(of_t, 2 * of_t))
        t = Coalitions.of([full_mask(m)], n)
        counts = list(product(range(m + 1), range(n - m + 1)))
        place = {pair: j for j, pair in enumerate(counts)}
        some = Coalitions.of([full_mask(j) | full_mask(k) << m for j, k in counts], n)
        log_size = np.log(np.arange(1, n + 1))
        for part in parts:
            profile = part.profile(MEAN, log_size, log_size, False)[0]
            h = part.likeness(some, t)[:, 0] * np.where(some.size > 0, profile[some.size - 1, m - 1], 0.0)
            found = target_of(weights).row(part, profile, t)[:, 0]
            unit = np.abs(h).max()
            for client, (inner, outer) in {0: (m - 1, n - m), n - 1: (m, n - m - 1)}.items():
                expected = 0.0
                for j, k in product(range(inner + 1), range(outer + 1)):
                    if chance := weights.chance[j + k] * (
                        comb(inner, j) * comb(outer, k) / comb(n - 1, j + k)
                    ):
                        joined = (j + (client == 0), k + (client > 0))
                        expected += chance * (h[place[joined]] - h[place[j, k]])
                assert found[client] == pytest.approx(expected, abs=1e-9 * unit)

    @pytest.mark.parametrize("n", first_fast([6, 13]))
    def test_values_from_trainings(self, n: int) -> None:
        """From end to end, of one seed and of several."""
        table, rng = saturating(n, 1), np.random.default_rng(0)
        masks = [0, full_mask(n), *(1 << i for i in range(n)), *rng.choice(np.arange(1, 1 << n), 3 * n)]
        one = {(int(mask), 0): float(table[mask]) for mask in masks}
        two = one | {(int(mask), 1): float(table[mask]) + rng.normal(0, 0.01) for mask in masks[1:]}
        for name, trials in product(NAMES[:2], (one, two)):
            weights = by_size(name, n)
            a, b = (weighted_values(n, trials, w) for w in (weights, listed(weights)))
            assert a.mean == pytest.approx(b.mean, abs=1e-9)


class TestManyClients:
    @pytest.mark.parametrize("n", [20, *(pytest.param(n, marks=pytest.mark.slow) for n in (50, 200))])
    @pytest.mark.parametrize("name", NAMES)
    def test_clients_alike_and_clients_of_their_own(self, n: int, name: str) -> None:
        """f(|S|) and a sum over members: semivalues are the mean step of f and what the client adds."""
        own = np.random.default_rng(n).uniform(0, 1 / n, n)
        f = 1 - (1 + np.arange(n + 1) / n * 6) ** -0.7
        game = fv.FunctionGame(n, lambda of: float(f[len(of)] + own[list(of)].sum()), batch=False)
        truth = by_size(name, n).chance @ np.diff(f) + own
        values = fv.value(game, "surrogate", 4 * n, index=name)
        assert np.corrcoef(values.mean, truth)[0, 1] > 0.999
        assert np.linalg.norm(values.mean - truth) < (0.03 if n == 20 else 0.5) * np.linalg.norm(truth)
        if name != "beta(1,4)":  # too narrow there: docs/indices.md
            low, high = values.interval().T
            assert ((low <= truth) & (truth <= high)).all()

    def test_the_level_between_sizes_is_looked_at_twice(self) -> None:
        """The second opinion is exact where utility is a sum over members, whatever was not trained."""
        own = np.arange(30.0)
        masks = [0, full_mask(30), *(1 << i for i in range(30)), full_mask(15), full_mask(15) << 15]
        known = {mask: 0.1 + float(own @ membership([mask], 30)[0]) for mask in masks}
        for name in ("banzhaf", "beta(16,1)", "shapley"):
            target = target_of(by_size(name, 30))
            assert isinstance(target, BySizeTarget)
            assert target.level(known) == pytest.approx(own.mean(), rel=1e-6)
            assert target.level({0: 0.1, full_mask(30): 1.0}) is None
        several = fv.value(saturating(6, 0), "surrogate", 20, index="banzhaf")
        data = OneSeed(6, {0: 0.1, 63: 1.0, 1: 0.2, 7: 0.9}, target=target_of(by_size("banzhaf", 6)))
        assert abs(data.unseen_level(several.mean + 1)) > 0.4
        assert replace(data, target=None).unseen_level(several.mean + 1) == 0

    def test_exact_values_of_more_clients_than_weights_could_be_listed_for(self) -> None:
        inside = np.arange(1 << 18)[:, None] >> np.arange(18) & 1
        values = fv.value((inside @ np.arange(18.0)) / 100, "exact", index="banzhaf")
        assert values.mean == pytest.approx(np.arange(18) / 100)

    def test_leave_one_out_of_many_is_exact_where_its_coalitions_are_known(self) -> None:
        n, everyone = 60, full_mask(60)
        table = fv.FunctionGame(n, lambda of: len(of) ** 0.5, batch=False)
        values = fv.value(table, "surrogate", n + 2)
        known = {
            mask: [mask.bit_count() ** 0.5] for mask in (0, everyone, *(everyone ^ 1 << i for i in range(n)))
        }
        found = fv.other_indices(values, ["leave-one-out", "banzhaf"], known)
        assert found.values["leave-one-out"].guarantee == "exact"
        assert found.values["leave-one-out"].mean == pytest.approx(60**0.5 - 59**0.5)
        assert found.values["banzhaf"].guarantee == "biased"

    def test_a_constant_game_is_not_taken_for_certain(self) -> None:
        game = fv.FunctionGame(40, lambda of: 0.7 if of else 0.1, batch=False)
        values = fv.value(game, "surrogate", 82, index="banzhaf")
        assert values.mean == pytest.approx(0, abs=1e-9)
        assert (values.stderr > 1e-5).all()

    @pytest.mark.slow
    def test_coverage_in_games_that_saturate(self) -> None:
        held: dict[str, list[bool]] = {name: [] for name in NAMES}
        for seed in range(20):
            table = saturating(9, seed)
            for name, of_name in held.items():
                truth = fv.value(table, "exact", index=name).mean
                low, high = fv.value(table, "surrogate", 40, index=name).interval().T
                of_name += ((low <= truth) & (truth <= high)).tolist()
        assert {name for name, of_name in held.items() if np.mean(of_name) < 0.9} == set()


def test_values_of_some_clients_do_not_add_up_to_what_all_have() -> None:
    """Shapley values among three of four clients share v of the three, which is not v(N)."""
    small = shapley(3)
    among = Weights(4, small.masks, small.matrix, np.eye(4)[:3])
    assert small.adds_up
    assert not among.adds_up
    table = saturating(4, 0)
    trials = {(mask, 0): float(table[mask]) for mask in range(16) if mask not in (0b0011, 0b1100)}
    assert weighted_values(4, trials, among).mean.sum() == pytest.approx(table[0b0111] - table[0], abs=1e-4)
