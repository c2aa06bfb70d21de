"""Exact values of games that can be trained again: of one seed with the luck of training, and of all seeds."""

from __future__ import annotations

import numpy as np
import pytest
from cases import REAL_GAMES
from marks import first_fast

import fedvalue as fv
from fedvalue.coalitions import Trial, full_mask
from fedvalue.estimators import extra_trainings
from fedvalue.estimators.exact import exact_mc, shapley_values
from fedvalue.estimators.surrogate import _luck_of_a_seed
from fedvalue.estimators.surrogate._kernel import MEAN, SD, Coalitions
from fedvalue.estimators.surrogate._prior import UnfitError
from fedvalue.estimators.surrogate._terms import luck
from fedvalue.testing.games import Array
from fedvalue.values import Estimate


def drive(table: Array, **options: object) -> tuple[Estimate, list[Trial]]:
    """Exact values where row r of the table is what seed r trains."""
    n = table.shape[1].bit_length() - 1
    plan = exact_mc(n, 0, np.random.default_rng(0), **options)
    trials = list(next(plan))
    trials = [trial if isinstance(trial, tuple) else (trial, 0) for trial in trials]
    with pytest.raises(StopIteration) as done:
        plan.send(np.array([table[seed, mask] for mask, seed in trials]))
    return done.value.value, trials


def lucky_table(n: int, seeds: int, seed: int = 0, noise: float = 0.02) -> Array:
    rng = np.random.default_rng(seed)
    inside = (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(float)
    expected = 1 - np.exp(-(inside @ rng.uniform(0.2, 1.0, n)))
    fortune = rng.normal(0, noise, (seeds, n)) @ (inside / np.maximum(inside.sum(1, keepdims=True), 1)).T
    luck = rng.normal(0, noise, (seeds, 1)) + fortune + rng.normal(0, noise, (seeds, 1 << n))
    table: Array = expected + luck * (inside.sum(1) > 0)
    return table


class TestOneSeedAndItsLuck:
    @pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
    def test_the_values_are_those_of_the_first_seed(self, n: int) -> None:
        table = lucky_table(n, 4)
        estimate, trials = drive(table, most_seeds=None)
        assert estimate.mean == pytest.approx(shapley_values(n, table[0]))
        assert len(trials) == len(set(trials)) == (1 << n) + extra_trainings(n)
        assert sum(seed == 0 for _, seed in trials) == 1 << n
        assert {(full_mask(n), seed) for seed in range(4)} <= set(trials)
        assert not estimate.parts["coalitions"].any()
        assert estimate.covariance is estimate.parts["training"]
        assert np.diag(estimate.covariance) == pytest.approx(estimate.stderr**2)
        assert estimate.linear(np.array([table[s, m] for m, s in trials])) == pytest.approx(estimate.mean)

    def test_up_to_three_clients_every_seed_is_complete(self) -> None:
        table = lucky_table(3, 4)
        table[:, 0] = 0.0
        estimate, _ = drive(table, most_seeds=None)
        of_seeds = np.array([shapley_values(3, row) for row in table])
        assert estimate.covariance == pytest.approx(np.cov(of_seeds, rowvar=False))
        assert estimate.dof == pytest.approx(np.full(3, 3.0))

    def test_without_noise_nothing_is_known_of_luck(self) -> None:
        table = lucky_table(5, 4)
        estimate, trials = drive(table, most_seeds=None, noise=False)
        assert trials == [(mask, 0) for mask in range(32)]
        assert estimate.mean == pytest.approx(shapley_values(5, table[0]))
        assert estimate.stderr is None
        assert estimate.covariance is None
        assert list(estimate.parts) == ["coalitions"]
        assert not estimate.parts["coalitions"].any()

    def test_a_game_without_luck_has_hardly_any(self) -> None:
        table = np.repeat(lucky_table(6, 1, noise=0.0), 4, axis=0)
        estimate, _ = drive(table, most_seeds=None)
        assert estimate.stderr.max() < 0.02 * np.ptp(estimate.mean)

    def test_a_game_without_differences_has_none(self) -> None:
        estimate, _ = drive(np.full((4, 32), 0.5), most_seeds=None)
        assert estimate.stderr == pytest.approx(np.zeros(5))

    @pytest.mark.parametrize("noise", first_fast([0.003, 0.03]))
    def test_the_error_is_that_of_one_seed(self, noise: float) -> None:
        ratios = []
        for seed in range(3):
            table = lucky_table(7, 60, seed, noise)
            table[:, 0] = 0.0
            spread = np.std([shapley_values(7, row) for row in table], axis=0, ddof=1)
            ratios.append(drive(table, most_seeds=None)[0].stderr.mean() / spread.mean())
        assert 0.6 < np.exp(np.mean(np.log(ratios))) < 1.6

    @pytest.mark.parametrize("seed", range(3))
    def test_the_luck_of_values_equals_brute_force(self, seed: int) -> None:
        n = 5
        q = MEAN + 0.5 * SD * np.random.default_rng(seed).standard_normal(len(MEAN))
        everyone = Coalitions.of(range(1, 1 << n), n, np.zeros((1 << n) - 1, dtype=np.intp))
        log_size = np.log(everyone.size)
        kernel = sum(
            part.profile(q, log_size, log_size, False)[0] * part.likeness(everyone, everyone)
            for part in luck(n)
        )
        to_values = np.array([shapley_values(n, unit) for unit in np.eye(1 << n)]).T[:, 1:]
        found = _luck_of_a_seed.luck_of_values(q, n)
        assert found == pytest.approx(to_values @ kernel @ to_values.T, abs=1e-12)

    def test_what_cannot_be_fitted_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unfit(*args: object) -> None:
            raise UnfitError

        monkeypatch.setattr(_luck_of_a_seed, "posterior", unfit)
        estimate, _ = drive(lucky_table(5, 4), most_seeds=None)
        assert estimate.stderr is None
        assert "training" not in estimate.parts
        assert "not known" in estimate.notes[0]

    @pytest.mark.slow
    def test_intervals_hold_the_expected_values_of_real_games(self) -> None:
        files = sorted((REAL_GAMES / "seeds").glob("*.npz"))
        if not files:
            pytest.skip(f"no games trained again in {REAL_GAMES.name}/seeds beside the repository")
        held = []
        for file in files:
            rows = np.load(file)["accuracy"].astype(float)
            rows[:, 0] = rows[:, 0].mean()
            n = rows.shape[1].bit_length() - 1
            truth = shapley_values(n, rows.mean(0))
            for first in (0, 4, 8):
                estimate, _ = drive(rows[first : first + 4], most_seeds=None)
                held.append(np.abs(estimate.mean - truth) <= 1.96 * estimate.stderr)
        assert np.mean(np.concatenate(held)) >= 0.88


class TestAllSeeds:
    def test_other_utilities_have_the_mean_over_seeds_too(self) -> None:
        n, table = 4, lucky_table(4, 3)
        table[:, 0] = 0.1
        estimate, trials = drive(table, most_seeds=3)
        assert estimate.mean == pytest.approx(np.mean([shapley_values(n, row) for row in table], axis=0))
        utilities = np.array([table[seed, mask] for mask, seed in trials])
        assert estimate.linear(utilities) == pytest.approx(estimate.mean)
        both = estimate.linear(np.stack([utilities, 2 * utilities], axis=1))
        assert both == pytest.approx(np.stack([estimate.mean, 2 * estimate.mean], axis=1))


class TestInARun:
    def test_a_federation_is_trained_again_unless_noise_is_off(self, one_thread: None) -> None:
        scenario = fv.load_scenario("synthetic", clients=4, samples=30)
        game = fv.FederatedGame(scenario, "linear", fv.Training(rounds=1, epochs=1), device="cpu")
        plain = fv.value(game, "exact", noise=False)
        values = fv.value(game, "exact")
        assert plain.evaluations == plain.budget == 16
        assert values.evaluations == values.budget == 15 + extra_trainings(4)
        assert (values.luck_trainings, plain.luck_trainings) == (extra_trainings(4), 0)
        assert values.seeds == plain.seeds == 1  # the values are those of the first seed all the same
        assert values.mean == pytest.approx(plain.mean)
        assert values.errors["coalitions"] == pytest.approx(np.zeros(4))
        assert values.errors["test"] == pytest.approx(plain.errors["test"])
        assert values.stderr == pytest.approx(np.hypot(values.errors["training"], values.errors["test"]))
        assert plain.errors["training"] is None
        assert plain.stderr == pytest.approx(plain.errors["test"])  # nothing else is known
