"""Games that can be trained with several seeds: what a run asks for, counts, keeps and reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from marks import first_fast

import fedvalue as fv
from fedvalue.estimators.exact import shapley_values
from fedvalue.values import Estimate


def lucky_table(n: int = 6, seeds: int = 8) -> np.ndarray:
    rng = np.random.default_rng(0)
    inside = (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(float)
    expected = 1 - np.exp(-(inside @ rng.uniform(0.2, 1.0, n)))
    return expected + 0.02 * rng.standard_normal((seeds, 1)) + 0.02 * rng.standard_normal((seeds, 1 << n))


class TestTables:
    def test_a_matrix_is_a_game_that_can_be_trained_again(self) -> None:
        table = lucky_table()
        asked: list[tuple[int, int]] = []
        values = fv.value(
            fv.TableGame(table),
            budget=40,
            seed=0,
            on_outcome=lambda e: asked.append((e.coalition, e.replicate)),
        )
        trained = [trial for trial in asked if trial[0]]
        assert values.method == "surrogate"
        assert values.evaluations == len(trained) == len(set(trained)) == 40
        assert values.seeds == len({seed for _, seed in trained}) == 5
        assert values.utility_of_none == pytest.approx(table[:, 0].mean())
        assert values.stderr is not None
        assert values.errors["test"] is None
        total = values.errors["coalitions"] ** 2 + values.errors["training"] ** 2
        assert total == pytest.approx(values.stderr**2)

    def test_exact_values_are_the_mean_over_all_seeds(self) -> None:
        table = lucky_table(4, 5)
        values = fv.value(fv.TableGame(table), "exact")
        grounded = table.copy()
        grounded[:, 0] = table[:, 0].mean()
        of_seeds = np.array([shapley_values(4, row) for row in grounded])
        assert values.mean == pytest.approx(of_seeds.mean(0))
        assert values.errors["training"] == pytest.approx(of_seeds.std(0, ddof=1) / np.sqrt(5))
        assert values.evaluations == 5 * 15
        assert values.utility_of_all == pytest.approx(table[:, -1].mean())

    def test_one_row_is_the_vector(self) -> None:
        table = lucky_table(5, 1)
        one, plain = (fv.value(fv.TableGame(t), "surrogate", budget=20, seed=3) for t in (table, table[0]))
        assert one.game_id == plain.game_id
        assert (one.mean == plain.mean).all()
        assert one.errors["training"] is None

    def test_one_seed_of_several_has_the_values_of_that_seed(self) -> None:
        table = lucky_table()
        one = fv.value(fv.TableGame(table), "surrogate", budget=20, seed=3, seeds=1)
        assert one.mean == pytest.approx(fv.value(table[0], "surrogate", budget=20, seed=3).mean)

    @pytest.mark.parametrize("how", [{"seeds": 1}, {"noise": False}])
    def test_exact_values_of_one_seed_are_those_of_its_row(self, how: dict[str, object]) -> None:
        table = lucky_table(4, 5)
        table[:, 0] += np.arange(5)
        one = fv.value(fv.TableGame(table), "exact", **how)
        alone = fv.value(table[0], "exact")
        assert one.mean.tolist() == alone.mean.tolist()
        assert (one.seeds, one.utility_of_none) == (1, table[0, 0])

    def test_rows_that_are_constant_have_values_of_zero(self) -> None:
        game = fv.TableGame(np.ones((5, 16)) * np.arange(5)[:, None])
        for asked in ({"seeds": 1}, {"seeds": 1, "budget": 12}, {"method": "ipss", "budget": 12}):
            assert np.abs(fv.value(game, **asked).mean).max() < 1e-12
        side_by_side = fv.compare(game, ["surrogate", "ipss"], budget=40)
        assert (side_by_side["surrogate"].utility_of_none, side_by_side["ipss"].utility_of_none) == (2.0, 0.0)

    def test_without_a_method_one_seed_is_the_first_row(self) -> None:
        table = lucky_table(3, 8)
        one = fv.value(fv.TableGame(table), seeds=1)
        assert (one.method, one.seeds, one.evaluations) == ("exact", 1, 8)
        assert one.mean == pytest.approx(shapley_values(3, table[0]))

    @pytest.mark.parametrize("seeds", [True, 0, 1.5, "2"])
    def test_a_number_of_seeds_is_a_whole_number(self, seeds: object) -> None:
        with pytest.raises(fv.MethodError, match="seeds"):
            fv.value(fv.TableGame(lucky_table(3, 8)), budget=8, seeds=seeds)

    def test_other_methods_look_at_the_first_seed(self) -> None:
        table = lucky_table()
        for method in ("ipss", "permutation"):
            mean = fv.value(fv.TableGame(table), method, budget=20).mean
            assert mean == pytest.approx(fv.value(table[0], method, budget=20).mean)

    def test_the_default_is_exact_only_if_the_budget_covers_all_seeds(self) -> None:
        game = fv.TableGame(lucky_table(3, 4))
        assert fv.value(game, budget=16).method == "surrogate"
        assert fv.value(game, budget=32).method == "exact"

    @pytest.mark.parametrize("shape", [(0, 8), (2, 6), (2, 2, 4), ()])
    def test_other_shapes_are_refused(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(fv.GameError, match="one for each seed"):
            fv.TableGame(np.zeros(shape))

    def test_values_come_back_from_json(self) -> None:
        values = fv.value(fv.TableGame(lucky_table()), budget=40)
        again = fv.Values.from_dict(values.to_dict())
        assert again.seeds == values.seeds
        assert again.errors["training"] == pytest.approx(values.errors["training"])

    def test_a_store_keeps_every_training(self, tmp_path: Path) -> None:
        game = fv.TableGame(lucky_table())
        first = fv.value(game, budget=40, store=tmp_path / "s.db")
        second = fv.value(game, budget=40, store=tmp_path / "s.db")
        assert first.cost is not None
        assert second.cost is not None
        assert (first.cost.trained, first.cost.reused) == (40, 0)
        assert (second.cost.trained, second.cost.reused) == (0, 40)
        assert second.mean.tolist() == first.mean.tolist()

    def test_exact_values_are_the_reference_whatever_the_budget_of_the_others(self) -> None:
        game = fv.TableGame(lucky_table(4, 6))
        found = fv.compare(game, ["surrogate", "ipss", "exact"], budget=20)
        assert (found["exact"].evaluations, found["ipss"].evaluations) == (6 * 15, 16)
        with pytest.raises(fv.BudgetError, match="needs all"):
            fv.value(game, "exact", budget=20)

    def test_methods_are_compared_side_by_side(self) -> None:
        found = fv.compare(fv.TableGame(lucky_table()), ["surrogate", "ipss", "equal"], budget=40)
        assert found["surrogate"].seeds == 5
        assert found["ipss"].seeds == 1


class TestFederations:
    def test_seeds_are_replicates_of_the_training(self, tmp_path: Path, one_thread: None) -> None:
        scenario = fv.load_scenario("synthetic", clients=4, samples=30)
        game = fv.FederatedGame(scenario, "linear", fv.Training(rounds=1, epochs=1), device="cpu")
        path = tmp_path / "s.db"
        values = fv.value(game, "surrogate", budget=12, seeds=3, store=path)
        assert (values.seeds, values.evaluations) == (3, 12)
        with fv.UtilityStore(path) as store:
            stored = [store.read(game.id, None, seed) for seed in range(3)]
        assert sum(len([mask for mask in outcomes if mask]) for outcomes in stored) == 12
        assert stored[0][15].metrics != stored[1][15].metrics
        assert fv.value(game, "surrogate", budget=12, store=path, seeds=1).seeds == 1

    def test_without_a_word_trainings_are_spread_over_several_seeds(self, one_thread: None) -> None:
        scenario = fv.load_scenario("synthetic", clients=6, samples=20)
        game = fv.FederatedGame(scenario, "linear", fv.Training(rounds=1, epochs=1), device="cpu")
        values = fv.value(game)
        assert (values.method, values.seeds, values.evaluations) == ("surrogate", 8, 64)
        assert values.random
        assert values.test_rows == len(scenario.test)
        assert values.noise is not None
        assert values.errors["training"] is not None
        assert values.errors["training"].min() > 0

    def test_compared_methods_look_at_one_seed(self, one_thread: None) -> None:
        scenario = fv.load_scenario("synthetic", clients=4, samples=20)
        game = fv.FederatedGame(scenario, "linear", fv.Training(rounds=1, epochs=1), device="cpu")
        found = fv.compare(game, ["surrogate", "exact", "ipss"], budget=10)
        assert {values.seeds for values in found.values()} == {1}
        assert found["exact"].promise == "exact for this seed"

    def test_what_draws_nothing_has_one_seed(self) -> None:
        scenario = fv.load_scenario("synthetic", clients=4, samples=20)
        values = fv.value(fv.FederatedGame(scenario, "least-squares", device="cpu"))
        assert (values.method, values.promise, values.random) == ("exact", "exact", False)


class TestPlansOfOnesOwn:
    def test_a_method_may_ask_for_trials(self) -> None:
        def means(n, budget, rng, *, most_seeds=1):
            everyone = (1 << n) - 1
            u = yield [(0, 0), *((everyone, seed) for seed in range(most_seeds))]
            return Estimate(np.full(n, (u[1:].mean() - u[0]) / n))

        table = lucky_table()
        values = fv.value(
            fv.TableGame(table), fv.Method("means", means, fixed=True, uses_seeds=True), budget=8
        )
        assert values.mean.sum() == pytest.approx(table[:, -1].mean() - table[:, 0].mean())
        assert values.evaluations == 8

    def test_trials_without_a_word_are_refused(self) -> None:
        def pairs(n, budget, rng):
            u = yield [(1, 0)]
            return Estimate(np.full(n, u[0]))

        with pytest.raises(fv.MethodError, match="uses_seeds"):
            fv.value(fv.TableGame(lucky_table()), pairs, budget=8)

    def test_seeds_that_the_game_does_not_have_are_refused(self) -> None:
        def beyond(n, budget, rng, *, most_seeds=1):
            u = yield [(1, 8)]
            return Estimate(np.full(n, u[0]))

        with pytest.raises(fv.MethodError, match="beyond the 8"):
            fv.value(
                fv.TableGame(lucky_table()), fv.Method("b", beyond, fixed=True, uses_seeds=True), budget=8
            )


class TestFewClients:
    @pytest.mark.parametrize("method", ["surrogate", "surrogate-adaptive"])
    @pytest.mark.parametrize(
        ("n", "budget", "trained"),
        [
            (1, 64, 50),
            (2, 64, 63),
            (3, 64, 63),
            (3, 15, 14),
            pytest.param(4, 500, 495, marks=pytest.mark.slow),
        ],
    )
    def test_the_budget_is_used_as_far_as_there_are_trainings(
        self, n: int, budget: int, trained: int, method: str
    ) -> None:
        table = np.random.default_rng(n).random((50, 1 << n))
        values = fv.value(fv.TableGame(table), method, budget=budget)
        assert values.evaluations == trained

    def test_a_budget_for_everything_gives_the_exact_values_of_the_mean(self) -> None:
        table = np.random.default_rng(0).random((20, 32))
        values = fv.value(fv.TableGame(table), "surrogate", budget=620)
        assert values.evaluations == 620
        assert values.mean == pytest.approx(fv.value(fv.TableGame(table), "exact").mean, abs=1e-12)

    def test_one_seed_of_several_says_nothing_about_the_others(self) -> None:
        """Exact for this seed: no interval of no width, and no certain order."""
        table = np.random.default_rng(0).random((50, 8))
        values = fv.value(fv.TableGame(table), "surrogate", budget=8, seeds=1)
        assert values.random
        assert values.interval() is None
        assert values.probability_order(0, 1) is None
        assert values.errors["training"] is None


class TestBudgetsOfExact:
    def test_of_a_matrix_it_is_refused(self) -> None:
        table = np.random.default_rng(0).random((50, 8))
        with pytest.raises(fv.BudgetError, match="350 trainings"):
            fv.value(fv.TableGame(table), "exact", budget=8)
        assert fv.value(fv.TableGame(table), "exact", budget=350).evaluations == 350

    @pytest.mark.parametrize(("budget", "luck"), [(None, True), (8, False), (1_000, True)])
    def test_trainings_that_show_luck_are_left_out_where_the_budget_ends(
        self, budget: int | None, luck: bool
    ) -> None:
        calls = []
        game = fv.FunctionGame(
            3, lambda c, seed: calls.append(c) or len(c) + 0.01 * seed, batch=False, key="e"
        )
        values = fv.value(game, "exact", budget)
        assert (values.errors["training"] is not None) == luck
        if budget is not None:
            assert values.evaluations <= budget


@pytest.mark.parametrize("unit", first_fast([1e-15, 1e-12, 1e-9, 1e9, 1e15], keep=3))
@pytest.mark.parametrize("rows", first_fast([1, 12], keep=3))
def test_values_scale_with_the_utilities(unit: float, rows: int) -> None:
    rng = np.random.default_rng(4)
    size = np.array([m.bit_count() for m in range(32)])
    table = 1 - np.exp(-0.5 * size) + rng.normal(0, 0.02, (rows, 32)) * (size > 0)
    one = fv.value(fv.TableGame(table), "surrogate", budget=28)
    other = fv.value(fv.TableGame(table * unit), "surrogate", budget=28)
    assert other.mean / unit == pytest.approx(one.mean, rel=1e-6)
    assert other.stderr / unit == pytest.approx(one.stderr, rel=1e-6)
