"""The surrogate over several seeds: its plan, its closed forms against brute force, and the parts of its error."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import numpy as np
import pytest
from marks import first_fast

import fedvalue as fv
from fedvalue.coalitions import complement, full_mask
from fedvalue.errors import MethodError
from fedvalue.estimators.exact import shapley_values
from fedvalue.estimators.surrogate import _posterior
from fedvalue.estimators.surrogate._kernel import MEAN, SD, Coalitions, Landmarks
from fedvalue.estimators.surrogate._posterior import Likelihood
from fedvalue.estimators.surrogate._prior import Prior
from fedvalue.estimators.surrogate._seeds import candidate_trials, default_seeds, seeded_plan
from fedvalue.estimators.surrogate._several_seeds import SeveralSeeds
from fedvalue.estimators.surrogate._terms import luck, terms
from fedvalue.testing.games import Array
from fedvalue.values import Estimate

_module = import_module("fedvalue.estimators.surrogate")  # the plan of that name hides the module
surrogate, surrogate_adaptive = _module.surrogate, _module.surrogate_adaptive


def lucky_table(n: int, seeds: int, seed: int = 0, noise: float = 0.02) -> Array:
    """Utilities that grow with the clients' weights, each seed with a level, clients with luck, trainings with noise."""
    rng = np.random.default_rng(seed)
    inside = (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(float)
    weight = rng.uniform(0.2, 1.0, n)
    expected = 1 - np.exp(-(inside @ weight))
    level = rng.normal(0, noise, (seeds, 1))
    fortune = rng.normal(0, noise, (seeds, n)) @ (inside / np.maximum(inside.sum(1, keepdims=True), 1)).T
    table: Array = expected + (level + fortune + rng.normal(0, noise, (seeds, 1 << n))) * (inside.sum(1) > 0)
    return table


def drive(
    table: Array, budget: int, seed: int = 0, **options: object
) -> tuple[Estimate, list[tuple[int, int]]]:
    n = table.shape[1].bit_length() - 1
    plan = surrogate(n, budget, np.random.default_rng(seed), most_seeds=len(table), **options)
    trials = next(plan)
    with pytest.raises(StopIteration) as done:
        plan.send(np.array([table[r, mask] for mask, r in trials]))
    return done.value.value, trials


class TestPlan:
    @pytest.mark.parametrize("n", first_fast([2, 3, 5, 8, 10, 24], keep=4))
    @pytest.mark.parametrize("seeds", first_fast([2, 5, 16], keep=4))
    @pytest.mark.parametrize("per_client", first_fast([1.5, 4, 13, 40], keep=4))
    def test_spends_the_budget_on_different_trainings(self, n: int, seeds: int, per_client: float) -> None:
        budget = max(int(per_client * n), seeds)
        plan = seeded_plan(n, budget, seeds, np.random.default_rng(1))
        assert len(plan) == len(set(plan)) == min(budget, seeds * full_mask(n))
        assert all(0 < mask <= full_mask(n) and 0 <= seed < seeds for mask, seed in plan)
        assert plan == seeded_plan(n, budget, seeds, np.random.default_rng(1))

    def test_seeds_have_their_level_and_splits_stay_together(self) -> None:
        n, seeds = 10, 8
        plan = seeded_plan(n, 64, seeds, np.random.default_rng(0))
        assert sorted(seed for mask, seed in plan if mask == full_mask(n)) == list(range(seeds // 2))
        alone = [{mask for mask, r in plan if r == seed and mask.bit_count() == 1} for seed in range(seeds)]
        assert sorted(map(len, alone)) == [0] * 6 + [n] * 2  # all single clients with the same seed, twice
        load = Counter(seed for _, seed in plan if seed not in (6, 7))
        assert max(load.values()) - min(load.values()) <= 2
        seed_of = dict(plan)
        middle = [mask for mask in seed_of if mask.bit_count() == 5 and complement(mask, n) in seed_of]
        assert len(middle) >= 10
        assert all(seed_of[mask] == seed_of[complement(mask, n)] for mask in middle)

    def test_clients_alone_are_trained_again_where_there_is_room(self) -> None:
        """More often than three times: their luck is an n-th of each value, and may be many times that of others."""
        for budget, copies in ((24, 1), (64, 2), (128, 4), (256, 6)):
            often = Counter(mask for mask, _ in seeded_plan(10, budget, 16, np.random.default_rng(0)))
            assert {often[1 << i] for i in range(10)} == {copies}

    def test_some_clients_alone_are_trained_again_where_there_is_no_room_for_all(self) -> None:
        plan = seeded_plan(10, 32, 4, np.random.default_rng(0))
        alone = [{mask for mask, r in plan if r == seed and mask.bit_count() == 1} for seed in range(4)]
        assert sorted(map(len, alone)) == [0, 0, 4, 10]

    @pytest.mark.slow
    def test_luck_that_falls_steeply_with_size_is_seen_with_few_trainings(self) -> None:
        """Of clients trained alone only once, half of all intervals held the expected value."""
        n, held = 7, []
        for run in range(12):
            rng = np.random.default_rng(run)
            size = np.maximum([mask.bit_count() for mask in range(1 << n)], 1)
            expected = lucky_table(n, 1, run, noise=0.0)[0]
            table = expected + rng.normal(0, 0.1, (4, 1 << n)) / size**1.5
            table[:, 0] = expected[0]
            found, _ = drive(table, 32, run)
            assert found.stderr is not None
            held.append(np.abs(found.mean - shapley_values(n, expected)) <= 1.96 * found.stderr)
        assert np.mean(held) > 0.85

    def test_the_budget_decides_how_many_seeds(self) -> None:
        assert [default_seeds(10, budget, None) for budget in (4, 32, 64, 10_000)] == [1, 4, 8, 16]
        assert default_seeds(10, 64, 3) == 3

    def test_more_seeds_than_the_game_has_are_refused(self) -> None:
        with pytest.raises(MethodError, match="trained with 2"):
            next(surrogate(4, 30, np.random.default_rng(0), seeds=3, most_seeds=2))


class TestClosedForms:
    def trained(self, n: int, seed: int) -> tuple[Coalitions, Array]:
        rng = np.random.default_rng(seed)
        trials = seeded_plan(n, 30, 4, rng)
        coalitions = Coalitions.of([mask for mask, _ in trials], n, np.array([r for _, r in trials]))
        return coalitions, np.sqrt(coalitions.inside @ rng.random(n)) + 0.1 * rng.standard_normal(len(trials))

    @pytest.mark.parametrize("seed", range(3))
    def test_the_gradient_is_the_slope_of_the_density(self, seed: int) -> None:
        n = 6
        coalitions, y = self.trained(n, seed)
        likelihood = Likelihood(coalitions, y, terms(n, Landmarks()) + luck(n))
        q = MEAN + 0.5 * SD * np.random.default_rng(seed).standard_normal(len(MEAN))
        density, gradient = likelihood(q)
        assert density == pytest.approx(likelihood.value(q))
        for k in range(len(q)):
            step = np.zeros(len(q))
            step[k] = 1e-5
            slope = (likelihood.value(q + step) - likelihood.value(q - step)) / 2e-5
            assert gradient[k] == pytest.approx(slope, rel=1e-4, abs=1e-4)

    @pytest.mark.parametrize("seed", range(3))
    def test_values_and_both_parts_of_their_error_equal_brute_force(self, seed: int) -> None:
        """The joint normal distribution of all 2^n expected utilities and the trainings, conditioned in full."""
        n = 5
        trained, y = self.trained(n, seed)
        q = MEAN + 0.3 * SD * np.random.default_rng(seed).standard_normal(len(MEAN))
        prior = Prior(terms(n, Landmarks()) + luck(n), q, n)
        expected = Prior(terms(n, Landmarks()), q, n)
        everyone = Coalitions.of(range(1, 1 << n), n)
        to_values = np.array([shapley_values(n, unit) for unit in np.eye(1 << n)]).T[:, 1:]
        of_all = expected.utilities(everyone)
        index = [int(row @ (1 << np.arange(n))) - 1 for row in trained.inside]
        with_luck = of_all[np.ix_(index, index)] + sum(
            part.profile(q, np.log(trained.size), np.log(trained.size), False)[0]
            * part.likeness(trained, trained)
            for part in luck(n)
        )
        gain = np.linalg.solve(with_luck, of_all[index]).T
        left = to_values @ (of_all - gain @ of_all[index]) @ to_values.T

        mean, covariance, _ = _posterior._values_given(prior, trained, y, None)
        assert mean == pytest.approx(to_values @ gain @ y, abs=1e-5)
        scale = np.trace(covariance) / np.trace(left)
        assert covariance == pytest.approx(scale * left, abs=1e-5 * np.abs(covariance).max())

        weights = to_values @ gain
        only_luck = with_luck - of_all[np.ix_(index, index)]
        part = _posterior._luck_of(prior, trained, y, _posterior.weights_given(prior, trained))
        brute = weights @ only_luck @ weights.T
        assert part / np.trace(part) == pytest.approx(brute / np.trace(brute), abs=1e-5)
        assert (np.diag(part) < np.diag(covariance)).all()

    def test_all_coalitions_with_every_seed_give_the_mean_of_the_seeds(self) -> None:
        table = lucky_table(4, 6)
        table[:, 0] = 0.0
        n, trials = 4, [(mask, r) for mask in range(1, 16) for r in range(6)]
        data = SeveralSeeds(n, 0.0, {trial: float(table[trial[1], trial[0]]) for trial in trials})
        estimate, prior = data.fit()
        values = np.array([shapley_values(n, row) for row in table])
        assert prior is None
        assert estimate.mean == pytest.approx(values.mean(0))
        assert estimate.stderr == pytest.approx(values.std(0, ddof=1) / np.sqrt(6))
        assert np.diag(estimate.parts["coalitions"]) == pytest.approx(np.zeros(n), abs=1e-15)


class TestAdaptive:
    def adapt(
        self, table: Array, budget: int, **options: object
    ) -> tuple[Estimate, list[list[tuple[int, int]]]]:
        n = table.shape[1].bit_length() - 1
        plan = surrogate_adaptive(n, budget, np.random.default_rng(0), most_seeds=len(table), **options)
        asks = [next(plan)]
        while True:
            try:
                asks.append(plan.send(np.array([table[r, mask] for mask, r in asks[-1]])))
            except StopIteration as done:
                return done.value, asks

    def test_it_spends_the_budget_on_different_trainings_of_all_seeds(self) -> None:
        estimate, asks = self.adapt(lucky_table(7, 12), 64)
        trials = [trial for ask in asks for trial in ask if trial[0]]
        assert len(asks) == 3
        assert len(trials) == len(set(trials)) == 64
        assert {seed for _, seed in trials} <= set(range(8))
        assert len({seed for _, seed in asks[0]}) < len({seed for _, seed in trials})
        assert estimate.parts["training"].shape == (7, 7)

    @pytest.mark.slow
    def test_other_utilities_of_all_its_trainings_have_values(self) -> None:
        table = lucky_table(6, 8)
        estimate, asks = self.adapt(table, 48)
        utilities = np.array([table[r, mask] for ask in asks for mask, r in ask])
        assert estimate.linear is not None
        assert estimate.linear(utilities) == pytest.approx(estimate.mean, abs=1e-8)

    def test_it_stops_when_the_total_error_is_small_enough(self) -> None:
        table = lucky_table(6, 16, noise=0.01)
        estimate, asks = self.adapt(table, 150, target=0.02, seeds=6)
        assert sum(map(len, asks)) < 150
        assert estimate.stderr is not None
        assert 1.96 * estimate.stderr.max() <= 0.02

    def test_what_few_seeds_tell_of_luck_does_not_reach_a_target_too_early(self) -> None:
        """With two seeds a 95 % interval has 12.7 standard errors on either side."""
        plan = surrogate_adaptive(3, 64, np.random.default_rng(0), most_seeds=16, target=0.01)
        table = lucky_table(3, 16, noise=0.001)
        trials = next(plan)
        second = plan.send(np.array([table[r, mask] for mask, r in trials]))
        assert {seed for _, seed in [*trials, *second]} == {0, 1, 2}

    def test_with_one_seed_it_asks_for_coalitions(self) -> None:
        plan = surrogate_adaptive(5, 20, np.random.default_rng(0), seeds=1, most_seeds=None)
        assert all(isinstance(mask, int) for mask in next(plan))

    @pytest.mark.parametrize("n", [2, 3, 30, 200])
    def test_candidates_are_new_and_few(self, n: int) -> None:
        rng = np.random.default_rng(0)
        known = seeded_plan(n, 3 * n, 2, rng)
        offered = candidate_trials(n, known, range(16), 256, rng)
        assert len(offered) == len(set(offered)) <= 3000
        assert not set(offered) & set(known)
        assert all(0 < mask <= full_mask(n) for mask, _ in offered)


class TestForecast:
    def test_additions_foresee_the_variances_that_come_about(self) -> None:
        """Also where a coalition that is known is trained again."""
        n = 5
        q = MEAN + 0.3 * SD * np.random.default_rng(0).standard_normal(len(MEAN))
        prior = Prior(terms(n, Landmarks()) + luck(n), q, n)
        data = SeveralSeeds(n, 0.0, dict.fromkeys(seeded_plan(n, 20, 3, np.random.default_rng(0)), 0.0))
        candidates = [(mask, seed) for mask in range(1, 32) for seed in range(5)]
        new, shrunk = data.best_additions(prior, [t for t in candidates if t not in data.utility], 12)
        assert {mask for mask, _ in new} & set(data.masks)
        more = data.extended(new, np.zeros(12))

        def widest(trained: SeveralSeeds) -> float:
            known = Coalitions.of(trained.masks, n, trained.seeds)
            return float(prior.given(known, known[:1])[2].max())

        assert shrunk[-1] == pytest.approx(1 - np.sqrt(widest(more) / widest(data)), abs=1e-5)

    def test_what_more_trainings_gain_is_told_apart(self) -> None:
        estimate, _ = drive(lucky_table(7, 20), 48)
        gain = estimate.details["gain"]
        assert set(gain) == {"in the same seeds", "in new seeds"}
        assert max(gain.values()) == estimate.forecast[-1]
        assert all(0 < part < 1 for part in gain.values())

    def test_no_seeds_are_left_to_buy(self) -> None:
        estimate, _ = drive(lucky_table(7, 6), 48)
        assert set(estimate.details["gain"]) == {"in the same seeds"}

    def test_much_luck_makes_new_seeds_the_better_buy(self) -> None:
        """The luck of clients with a seed does not average out within it."""
        table = lucky_table(7, 30, noise=0.001)
        rng = np.random.default_rng(1)
        inside = (np.arange(128)[:, None] >> np.arange(7) & 1).astype(float)
        share = inside / np.maximum(inside.sum(1, keepdims=True), 1)
        table += rng.normal(0, 0.1, (30, 7)) @ share.T
        gain = drive(table, 60, seeds=4)[0].details["gain"]
        assert gain["in new seeds"] > gain["in the same seeds"]


class TestOtherUtilities:
    """`linear`: the values of other utilities of the same trainings."""

    @pytest.mark.parametrize("budget", [40, 6 * 31])
    def test_those_that_were_asked_for_have_the_values_that_came_out(self, budget: int) -> None:
        table = lucky_table(5, 6)
        estimate, trials = drive(table, budget)
        utilities = np.array([table[r, mask] for mask, r in trials])
        assert estimate.linear is not None
        assert estimate.linear(utilities) == pytest.approx(estimate.mean, abs=1e-8)

    def test_it_is_linear_and_takes_further_axes(self) -> None:
        estimate, trials = drive(lucky_table(6, 8), 60)
        assert estimate.linear is not None
        rows = np.random.default_rng(0).random((len(trials), 3, 2))
        values = estimate.linear(rows)
        assert values.shape == (6, 3, 2)
        assert values[:, 1, 0] == pytest.approx(estimate.linear(rows[:, 1, 0]))
        assert values.sum(1) == pytest.approx(estimate.linear(rows.sum(1)))
        assert estimate.linear(np.ones(len(trials))) == pytest.approx(np.zeros(6), abs=1e-9)

    def test_a_game_without_differences_has_them_too(self) -> None:
        estimate, trials = drive(np.full((8, 16), 0.5), 40)
        assert estimate.linear is not None
        only_empty = np.zeros(len(trials))
        only_empty[0] = 1.0
        assert estimate.linear(only_empty) == pytest.approx(np.full(4, -1 / 4))


class TestValues:
    def test_other_units_and_another_zero_change_nothing_else(self) -> None:
        table = lucky_table(6, 8)
        plain, _ = drive(table, 60)
        scaled, _ = drive(1000 * table - 77, 60)
        assert plain.stderr is not None
        assert scaled.mean == pytest.approx(1000 * plain.mean, rel=1e-4)
        assert scaled.stderr == pytest.approx(1000 * plain.stderr, rel=1e-3)

    def test_an_interval_has_two_parts(self) -> None:
        estimate, trials = drive(lucky_table(6, 8), 40)
        assert sum(mask > 0 for mask, _ in trials) == 40
        assert estimate.stderr is not None
        parts = np.diag(estimate.parts["coalitions"] + estimate.parts["training"])
        assert parts == pytest.approx(estimate.stderr**2)
        assert (np.diag(estimate.parts["training"]) > 0).all()
        assert len(estimate.forecast) > 0

    @pytest.mark.slow
    def test_more_luck_more_of_it_in_the_interval(self) -> None:
        calm, wild = (
            np.mean(
                [
                    np.sqrt(np.diag(drive(lucky_table(7, 8, seed, noise), 64)[0].parts["training"])).mean()
                    for seed in range(3)
                ]
            )
            for noise in (0.002, 0.05)
        )
        assert wild > 5 * calm

    @pytest.mark.slow
    def test_is_closer_to_the_expected_values_than_all_coalitions_of_one_seed(self) -> None:
        errors = []
        for seed in range(4):
            table = lucky_table(8, 40, seed, noise=0.03)
            table[:, 0] = 0.0
            values = np.array([shapley_values(8, row) for row in table])
            truth = values.mean(0)
            one = np.linalg.norm(values - truth, axis=1).mean()
            errors.append(np.linalg.norm(drive(table, 64)[0].mean - truth) / one)
        assert np.mean(errors) < 0.9

    @pytest.mark.slow
    def test_intervals_hold_the_expected_values(self) -> None:
        held = []
        for seed in range(8):
            table = lucky_table(8, 60, seed, noise=0.03)
            table[:, 0] = 0.0
            truth = np.mean([shapley_values(8, row) for row in table], axis=0)
            estimate, _ = drive(table, 64, seed)
            assert estimate.stderr is not None
            held.append(np.abs(estimate.mean - truth) <= 1.96 * estimate.stderr)
        assert 0.88 <= np.mean(held) <= 1.0

    @pytest.mark.parametrize("table", [np.zeros((8, 16)), np.full((8, 16), 0.5)])
    def test_a_game_without_differences_has_equal_values(self, table: Array) -> None:
        estimate, _ = drive(table, 40)
        assert estimate.mean == pytest.approx(np.zeros(4), abs=1e-12)


@pytest.mark.slow
def test_complete_tables_of_a_few_seeds_know_their_luck_as_well_as_that() -> None:
    """Three seeds of all coalitions: Student's t with two degrees of freedom, or intervals hold far too rarely."""
    rng = np.random.default_rng(5)
    truth = np.array([0.0, 0.3, 0.4, 0.6])
    expected, held = fv.value(truth, "exact").mean, []
    for _ in range(200):
        rows = truth + rng.normal(0, 0.05, (3, 1)) * (truth > 0) + rng.normal(0, 0.05, (3, 4)) * (truth > 0)
        values = fv.value(fv.TableGame(rows), "surrogate", budget=9, seeds=3)
        assert values.dof.tolist() == [2.0, 2.0]
        low, high = values.interval().T
        held.append((low <= expected) & (expected <= high))
    assert 0.91 <= np.mean(held) <= 0.99


@pytest.mark.parametrize("how", [{"budget": 20}, {"budget": 10, "seeds": 1}])
def test_a_constant_on_all_utilities_changes_nothing_or_is_named(how: dict[str, int]) -> None:
    inside = np.arange(16)[:, None] >> np.arange(4) & 1
    rng = np.random.default_rng(0)
    table = 1 - np.exp(-inside @ [0.1, 0.3, 0.5, 0.9]) + 0.005 * rng.standard_normal((6, 16))
    plain = fv.value(fv.TableGame(table), **how)
    for far in (1e11, -1e12):
        found = fv.value(fv.TableGame(table + far), **how)
        assert np.abs(found.mean - plain.mean).max() < 0.01
        assert found.notes == plain.notes
    lost = fv.value(fv.TableGame(table + 1e15), **how)
    assert "Subtract a constant" in " ".join(lost.notes)
    same = fv.value(fv.TableGame(np.full((6, 16), 1 / 3)), **how)
    assert same.notes == ()


@pytest.mark.parametrize("method", ["surrogate", "surrogate-adaptive"])
@pytest.mark.parametrize("asked", [{"budget": 10**9}, {"budget": 64, "seeds": 10**9}])
def test_a_plan_that_would_never_be_finished_is_refused(method: str, asked: dict[str, int]) -> None:
    game = fv.FunctionGame(4, lambda clients, seed: len(clients) + seed % 3, batch=False)
    with pytest.raises(fv.InputError, match=r"a whole number from 1 to 1,000,000. Got 1000000000"):
        fv.value(game, method, **asked)
