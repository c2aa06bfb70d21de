"""The part of an error that comes from the sample of test rows: closed form, bootstrap, coverage."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federations import digits, line
from numpy.typing import NDArray

import fedvalue as fv
from fedvalue.estimators import Plan
from fedvalue.estimators.exact import shapley_values
from fedvalue.learners._scores import scores
from fedvalue.per_row import PerRow
from fedvalue.precision import unknown
from fedvalue.run._test_rows import with_test_rows
from fedvalue.values import Estimate

Array = NDArray[np.float64]
QUICK = fv.Training(rounds=1, epochs=1, batch=32)


def of_bits(bits: Array, n: int = 3) -> fv.FunctionGame:
    """The utility of a coalition is the share of ones in its row of bits."""

    def told(coalition: tuple[int, ...]) -> Array:
        row: Array = bits[sum(1 << i for i in coalition)]
        return row

    return fv.FunctionGame(n, told, batch=False, key="bits")


def drawn_bits(chances: Array, rows: int, seed: int) -> Array:
    """Models that are right on the same easy rows: the bits of a row go together."""
    hard = np.random.default_rng(seed).random(rows)
    return (hard < chances[:, None]).astype(np.float64)


CHANCES = np.array([0.1, 0.5, 0.55, 0.8, 0.6, 0.7, 0.75, 0.9])


def by_hand(bits: Array) -> Array:
    of_rows = np.array([shapley_values(3, row) for row in bits.T])
    covariance: Array = np.cov(of_rows, rowvar=False) / bits.shape[1]
    return covariance


class TestFunctions:
    def test_the_part_is_the_covariance_of_what_rows_say_by_themselves(self) -> None:
        bits = drawn_bits(CHANCES, 150, 1)
        values = fv.value(of_bits(bits), "exact")
        assert values.mean == pytest.approx(shapley_values(3, bits.mean(1)))
        assert values.parts["test"] == pytest.approx(by_hand(bits))
        assert values.covariance == pytest.approx(by_hand(bits))
        assert values.stderr == pytest.approx(np.sqrt(np.diag(by_hand(bits))))
        assert values.errors["test"] == pytest.approx(values.stderr)
        assert values.errors["training"] is None
        assert values.test_rows == 150
        assert fv.Values.from_dict(values.to_dict()).test_rows == 150

    def test_what_all_rows_say_alike_leaves_no_error(self) -> None:
        """Of 0/1 utilities of a game where every row is the game itself."""
        table = np.array([0.0, 1, 0, 1, 0, 1, 0, 1])
        values = fv.value(of_bits(np.tile(table[:, None], 20)), "exact")
        assert values.errors["test"] == pytest.approx(0)

    @pytest.mark.slow
    def test_intervals_hold_the_true_value_in_95_of_100_cases(self) -> None:
        truth = shapley_values(3, CHANCES)
        held = []
        for seed in range(300):
            interval = fv.value(of_bits(drawn_bits(CHANCES, 150, seed)), "exact").interval()
            assert interval is not None
            held.append((interval[:, 0] <= truth) & (truth <= interval[:, 1]))
        assert np.mean(held) == pytest.approx(0.95, abs=0.03)

    def test_standard_errors_are_independent_of_each_other(self) -> None:
        errors = np.arange(8) / 100

        def pair(coalition: tuple[int, ...]) -> tuple[float, float]:
            mask = sum(1 << i for i in coalition)
            return float(CHANCES[mask]), float(errors[mask])

        values = fv.value(fv.FunctionGame(3, pair, batch=False, key="pairs"), "exact")
        weights = shapley_values(3, np.eye(8))
        assert values.mean == pytest.approx(shapley_values(3, CHANCES))
        assert values.parts["test"] == pytest.approx((weights * errors**2) @ weights.T)
        assert values.test_rows is None

    @pytest.mark.slow
    def test_intervals_from_standard_errors_hold_the_true_value(self) -> None:
        truth, errors, held = shapley_values(3, CHANCES), np.full(8, 0.02), []
        for seed in range(300):
            seen = np.random.default_rng(seed).normal(CHANCES, errors)
            game = fv.FunctionGame(
                3, lambda c, seen=seen: (seen[sum(1 << i for i in c)], 0.02), batch=False, key="k"
            )
            interval = fv.value(game, "exact").interval()
            assert interval is not None
            held.append((interval[:, 0] <= truth) & (truth <= interval[:, 1]))
        assert np.mean(held) == pytest.approx(0.95, abs=0.03)

    def test_a_plain_number_for_nobody_does_not_depend_on_rows(self) -> None:
        bits = drawn_bits(CHANCES, 60, 2)
        fixed = bits.copy()
        fixed[0] = 0.0

        def told(coalition: tuple[int, ...]) -> Any:
            return bits[sum(1 << i for i in coalition)] if coalition else 0.0

        values = fv.value(fv.FunctionGame(3, told, batch=False, key="k"), "exact")
        assert values.parts["test"] == pytest.approx(by_hand(fixed))

    def test_plain_numbers_leave_it_unknown(self) -> None:
        values = fv.value(fv.FunctionGame(3, len, batch=False), "exact")
        assert values.errors["test"] is None
        assert values.stderr is None
        assert values.test_rows is None
        assert not values.notes

    def test_some_plain_numbers_leave_it_unknown_in_words(self) -> None:
        bits = drawn_bits(CHANCES, 60, 2)

        def told(coalition: tuple[int, ...]) -> Any:
            row = bits[sum(1 << i for i in coalition)]
            return row.mean() if len(coalition) == 1 else row

        values = fv.value(fv.FunctionGame(3, told, batch=False, key="k"), "exact")
        assert values.errors["test"] is None
        assert "3 of 8 trainings came without" in values.notes[-1]

    def test_few_rows_say_nothing(self) -> None:
        assert fv.value(of_bits(drawn_bits(CHANCES, 7, 1)), "exact").errors["test"] is None

    def test_replicates_are_averaged_row_by_row(self) -> None:
        draws = [drawn_bits(CHANCES, 80, seed) for seed in range(2)]
        calls: dict[tuple[int, ...], int] = {}

        def told(coalition: tuple[int, ...]) -> Array:
            turn = calls.get(coalition, 0)
            calls[coalition] = turn + 1
            row: Array = draws[turn][sum(1 << i for i in coalition)]
            return row

        values = fv.value(fv.FunctionGame(3, told, batch=False, key="k", replicates=2), "exact")
        assert values.parts["test"] == pytest.approx(by_hand(np.mean(draws, axis=0)))

    @pytest.mark.parametrize("jobs", [1, 2])
    def test_in_workers_and_from_a_store_it_is_the_same(self, tmp_path: Path, jobs: int) -> None:
        bits = drawn_bits(CHANCES, 60, 3)
        game = of_bits(bits)
        game.jobs = jobs
        first = fv.value(game, "exact", store=tmp_path / "store.db")
        again = fv.value(of_bits(bits), "exact", store=tmp_path / "store.db")
        assert again.cost is not None
        assert again.cost.trained == 0
        assert first.parts["test"] == pytest.approx(by_hand(bits))
        assert (again.parts["test"] == first.parts["test"]).all()


class TestReturns:
    @staticmethod
    def failed(returned: Any) -> str:
        with pytest.raises(fv.UtilityError) as caught:
            fv.value(fv.FunctionGame(2, lambda c: returned, batch=False, key="k"), "exact")
        return str(caught.value)

    def test_a_list_of_two_is_refused(self) -> None:
        assert "Return an array of NumPy for rows, a tuple" in self.failed([0.5, 0.1])

    @pytest.mark.parametrize("returned", [(0.5, -0.1), (0.5, float("nan")), ("a", 0.1)])
    def test_a_pair_must_be_a_number_and_an_error(self, returned: Any) -> None:
        assert "a pair must be a finite number and a standard error" in self.failed(returned)

    @pytest.mark.parametrize(
        "returned", [np.array([]), np.array([1.0, np.nan, 0.0]), np.ones((2, 3)), [[1], [2, 3], [4]]]
    )
    def test_rows_must_be_a_vector_of_finite_numbers(self, returned: Any) -> None:
        assert "must return a finite number" in self.failed(returned)

    def test_there_must_always_be_as_many_rows(self) -> None:
        game = fv.FunctionGame(2, lambda c: np.ones(10 + len(c)), batch=False, key="k")
        with pytest.raises(fv.UtilityError, match="as many numbers for every coalition"):
            fv.value(game, "exact")

    def test_a_matrix_for_many_coalitions(self) -> None:
        bits = drawn_bits(CHANCES, 60, 2)

        def batch(coalitions: list[tuple[int, ...]]) -> Array:
            rows: Array = bits[[sum(1 << i for i in c) for c in coalitions]]
            return rows

        assert fv.value(fv.FunctionGame(3, batch, key="k"), "exact").parts["test"] == pytest.approx(
            by_hand(bits)
        )

    def test_such_games_keep_to_the_contract(self) -> None:
        from fedvalue.testing import check_game

        check_game(of_bits(drawn_bits(CHANCES, 60, 2)))


def twice(n: int, budget: int, rng: np.random.Generator) -> Plan:
    """Asks for some coalitions twice, in several lists: what each adds to nobody, alone."""
    first = yield [0, *(1 << i for i in range(n))]
    again = yield [0, 1]
    alone = np.concatenate([first, again])

    def linear(utilities: Array) -> Array:
        values: Array = utilities[1 : n + 1] - (utilities[0] + utilities[n + 1]) / 2
        values[0] = (values[0] + utilities[n + 2] - utilities[0]) / 2
        return values

    return Estimate(linear(alone), stderr=np.full(n, 0.5), linear=linear)


class TestOwnPlans:
    def test_asks_are_handed_on_in_their_order(self) -> None:
        bits = drawn_bits(CHANCES, 90, 4)
        values = fv.value(of_bits(bits), twice, budget=8)
        expected = np.cov(np.array([bits[1] - bits[0], bits[2] - bits[0], bits[4] - bits[0]])) / 90
        assert values.parts["test"] == pytest.approx(expected)
        assert values.stderr == pytest.approx(np.sqrt(0.25 + np.diag(expected)))

    def test_one_without_weights_has_no_such_part(self) -> None:
        values = fv.value(of_bits(drawn_bits(CHANCES, 90, 4)), "loo")
        assert values.errors["test"] is None

    def test_a_method_that_does_not_weigh_rows_does_not_blame_the_function(self) -> None:
        values = fv.value(of_bits(drawn_bits(CHANCES, 150, 1)), "cc-paired", budget=7)
        assert (values.errors["test"], values.test_rows) == (None, 150)
        assert unknown(values)["test"] == "cc-paired does not tell how its values follow from them"

    def test_one_without_an_error_of_its_own_gets_no_total(self) -> None:
        told = {(mask, 0): PerRow.of(row) for mask, row in enumerate(drawn_bits(CHANCES, 30, 1))}
        estimate = Estimate(np.zeros(3), linear=lambda u: shapley_values(3, u))
        found, rows = with_test_rows(estimate, [range(8)], 1, told)
        assert rows == 30
        assert found.stderr is None
        assert "test" in found.parts

    def test_trials_of_several_seeds_share_the_rows(self) -> None:
        draws = [drawn_bits(CHANCES, 40, seed) for seed in range(3)]
        told = {
            (mask, seed): PerRow.of(row) for seed, bits in enumerate(draws) for mask, row in enumerate(bits)
        }
        asks = [[(mask, seed) for mask in range(8)] for seed in range(3)]
        estimate = Estimate(
            np.zeros(3),
            parts={"coalitions": np.zeros((3, 3))},
            linear=lambda u: shapley_values(3, u.reshape(3, 8, *u.shape[1:]).mean(0)),
        )
        found, _ = with_test_rows(estimate, asks, 1, told)
        assert found.parts["test"] == pytest.approx(by_hand(np.mean(draws, axis=0)))

    @pytest.mark.slow
    def test_memory_is_bounded(self) -> None:
        """1,024 coalitions on 10,000 rows would be 82 MB at once; so would be their copies."""
        bits = np.random.default_rng(0).random((1_024, 10_000)) < 0.5
        told = {(mask, 0): PerRow.of(row) for mask, row in enumerate(bits)}
        estimate = Estimate(np.zeros(10), parts={"coalitions": np.zeros((10, 10))}, linear=_ten)
        tracemalloc.start()
        found, rows = with_test_rows(estimate, [range(1_024)], 1, told)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert rows == 10_000
        assert most < 150e6
        assert found.parts["test"] == pytest.approx(np.cov(_ten(bits.astype(np.float64))) / 10_000)


def _ten(utilities: Array) -> Array:
    return shapley_values(10, utilities)


class TestFederations:
    def test_against_a_bootstrap_of_the_accuracy(self) -> None:
        game = fv.FederatedGame(digits((60, 50, 40)), "linear", QUICK, device="cpu")
        values = fv.value(game, "exact")
        told = dict(game.evaluate(range(8)))
        bits = np.array(
            [told[mask].rows["accuracy|initial" if mask == 0 else "accuracy"].array() for mask in range(8)]
        )
        assert shapley_values(3, bits.mean(1)) == pytest.approx(values.mean, abs=1e-4)
        rng, rows = np.random.default_rng(0), bits.shape[1]
        again = [shapley_values(3, bits[:, rng.integers(rows, size=rows)].mean(1)) for _ in range(2_000)]
        assert values.parts["test"] == pytest.approx(np.cov(again, rowvar=False), rel=0.15, abs=2e-6)
        assert values.test_rows == rows == len(game.scenario.test)

    @pytest.mark.slow
    @pytest.mark.parametrize("metric", ["loss", "f1", "auc", "balanced_accuracy"])
    def test_against_a_bootstrap_of_the_models_themselves(self, metric: str) -> None:
        scenario, kept = digits((60, 50, 40)), {}

        def keeping(outputs: Array, labels: Array) -> float:
            if len(labels) == len(scenario.test):
                kept["outputs"] = outputs
            return 0.0

        own = fv.FederatedGame(
            scenario, "linear", QUICK, metric=fv.Metric("k", keeping, key="k"), device="cpu"
        )
        outputs = []
        for mask in range(1, 8):
            list(own.evaluate([mask]))
            outputs.append(kept["outputs"])
        values = fv.value(
            fv.FederatedGame(scenario, "linear", QUICK, metric=metric, device="cpu", empty="chance"), "exact"
        )
        expected = _bootstrap(np.array(outputs), np.asarray(scenario.test.y), metric)
        assert np.sqrt(np.diag(values.parts["test"])) == pytest.approx(np.sqrt(np.diag(expected)), rel=0.3)

    @pytest.mark.parametrize("empty", ["initial", "majority", "chance", 0.25])
    def test_every_rule_for_nobody_is_known_row_by_row(self, empty: Any) -> None:
        game = fv.FederatedGame(digits((30, 20)), "linear", QUICK, device="cpu", empty=empty)
        ((_, outcome),) = game.evaluate([0])
        rows = outcome.rows[game.empty_as]
        assert rows.varies == (empty in ("initial", "majority"))
        assert rows.mean == pytest.approx(game.utility(outcome), abs=1e-3)
        assert fv.value(game, "exact").errors["test"] is not None

    @pytest.mark.parametrize("model", ["least-squares", "linear", "xgboost"])
    def test_every_learner_tells(self, model: str) -> None:
        if model == "xgboost":
            pytest.importorskip("xgboost")
        training = QUICK if model == "linear" else fv.Training(rounds=1)
        values = fv.value(fv.FederatedGame(line((30, 20)), model, training, device="cpu"), "exact")
        assert (values.errors["test"] > 0).all()  # type: ignore[operator]

    def test_gradient_methods_keep_what_rows_say_of_the_grand_coalition(self, tmp_path: Path) -> None:
        game = fv.FederatedGame(digits((30, 20)), "linear", QUICK, device="cpu")
        store = tmp_path / "store.db"
        fv.value(game, "or", store=store)
        assert fv.value(game, "exact", store=store).errors["test"] is not None

    def test_a_store_of_before_leaves_it_unknown_in_words(self, tmp_path: Path) -> None:
        game = fv.FederatedGame(digits((30, 20)), "linear", QUICK, device="cpu")
        with fv.UtilityStore(tmp_path / "store.db") as store:
            outcomes = [(mask, outcome._replace(rows={})) for mask, outcome in game.evaluate([1, 3])]
            store.register(game.id, 2)
            store.append(game.id, outcomes)
            values = fv.value(game, "exact", store=store, noise=False)
            assert values.errors["test"] is None
            assert "2 of 4 trainings came without" in values.notes[-1]
            store.append(game.id, game.evaluate([1, 3]))  # trained again: now it is known
            assert fv.value(game, "exact", store=store, noise=False).errors["test"] is not None


def _bootstrap(outputs: Array, labels: NDArray[np.int64], metric: str, draws: int = 400) -> Array:
    import torch

    rng, chance = np.random.default_rng(0), {"loss": np.log(10), "auc": 0.5}
    sign = -1 if metric == "loss" else 1
    found = []
    for _ in range(draws):
        rows = rng.integers(len(labels), size=len(labels))
        measured = scores(
            torch.from_numpy(outputs[:, rows]), torch.from_numpy(labels[rows]), "classification", {}
        )
        # What guessing reaches is a constant, whatever it is.
        utilities = [chance.get(metric, 0.1), *(model[metric] for model in measured)]
        found.append(shapley_values(3, sign * np.array(utilities)))
    covariance: Array = np.cov(found, rowvar=False)
    return covariance
