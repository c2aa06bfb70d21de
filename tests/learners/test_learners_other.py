"""Learners without gradient steps: least squares in closed form and boosted trees by federated bagging."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from marks import first_fast
from numpy.typing import NDArray

import fedvalue as fv
from fedvalue.coalitions import members
from fedvalue.errors import InputError, MissingExtraError, UtilityError
from fedvalue.games import FederatedGame
from fedvalue.learners import make_learner
from fedvalue.learners.least_squares import LeastSquares
from fedvalue.scenarios import Dataset, Scale, Scenario
from fedvalue.trainers import LocalTrainer
from fedvalue.training import Training

Array = NDArray[np.float64]
Draw = Callable[[int], Dataset]


def linear_source(seed: int, features: int, noise: float) -> Draw:
    """y = x·w + noise, standard normal x, |w| = 1: the setting of the paper's theory."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(features)
    weights /= np.linalg.norm(weights)

    def draw(count: int) -> Dataset:
        x = rng.standard_normal((count, features))
        return Dataset(x, x @ weights + noise * rng.standard_normal(count))

    return draw


def class_source(seed: int, classes: int) -> Draw:
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((5, classes))

    def draw(count: int) -> Dataset:
        x = rng.standard_normal((count, 5))
        return Dataset(x, (x @ weights + 0.5 * rng.standard_normal((count, classes))).argmax(1))

    return draw


def federation(draw: Draw, sizes: Sequence[int], test: int = 200, classes: int = 0, **more: Any) -> Scenario:
    clients = tuple(draw(size) for size in sizes)
    names = tuple(f"c{i}" for i in range(len(sizes)))
    task = "classification" if classes else "regression"
    more = {"target_scale": Scale(), **more}  # references are computed on the targets as they are
    return Scenario("drawn", clients, names, draw(test), task, classes, **more)


def with_copy(scenario: Scenario, original: int) -> Scenario:
    clients = (*scenario.clients, scenario.clients[original])
    names = (*scenario.names, "copy")
    return Scenario("copied", clients, names, scenario.test, scenario.task, scenario.classes)


def outcomes(game: FederatedGame, masks: Sequence[int]) -> dict[int, dict[str, float]]:
    return {mask: dict(outcome.metrics) for mask, outcome in game.evaluate(masks)}


def utilities(game: FederatedGame) -> Array:
    table = np.empty(1 << game.n)
    for mask, outcome in game.evaluate(range(1 << game.n)):
        table[mask] = game.utility(outcome)
    return table


REGRESSION = federation(linear_source(1, 5, 0.5), [60, 250, 30, 0], test_parts={"half": np.arange(100)})
TWO = federation(class_source(2, 2), [150, 420, 90, 0], classes=2, test_parts={"half": np.arange(100)})
FOUR = federation(class_source(3, 4), [150, 420, 90, 0], classes=4)
CASES = [("least-squares", REGRESSION), ("xgboost", TWO), ("xgboost", FOUR), ("xgboost", REGRESSION)]


@pytest.fixture(
    params=first_fast(map(pytest.param, CASES), keep=2),
    ids=["least-squares", "xgboost-2", "xgboost-4", "xgboost-regression"],
)
def game(request: pytest.FixtureRequest) -> FederatedGame:
    model, scenario = request.param
    if model == "xgboost":
        pytest.importorskip("xgboost", reason="needs the extra xgboost")
    return FederatedGame(scenario, model, Training(rounds=2))


class TestBothLearners:
    def test_batched_equals_one_by_one(self, game: FederatedGame) -> None:
        together = outcomes(game, range(1 << game.n))
        for mask, metrics in together.items():
            alone = FederatedGame(game.scenario, game.learner, game.training, memory=1)
            assert outcomes(alone, [mask])[mask] == pytest.approx(metrics, rel=1e-9, abs=1e-12)

    def test_the_empty_coalition_is_the_initial_model(self, game: FederatedGame) -> None:
        scenario, empty = game.scenario, outcomes(game, [0])[0]
        if scenario.classes:
            assert empty["loss"] == pytest.approx(np.log(scenario.classes))
            assert empty["auc"] == 0.5
        else:
            y = scenario.test.y.astype(float)
            assert empty["mse"] == pytest.approx((y**2).mean())
            assert empty["mae"] == pytest.approx(np.abs(y).mean())

    def test_a_client_without_data_is_worth_exactly_nothing(self, game: FederatedGame) -> None:
        phi = fv.value(game, "exact").mean
        assert phi[3] == 0.0
        assert np.all(phi[:3] != 0)

    def test_copies_have_equal_values(self, game: FederatedGame) -> None:
        copied = FederatedGame(with_copy(game.scenario, 2), game.learner, game.training)
        phi = fv.value(copied, "exact").mean
        assert phi[2] == pytest.approx(phi[4], abs=1e-14)

    def test_the_same_seed_gives_the_same_numbers(self, game: FederatedGame) -> None:
        again = FederatedGame(game.scenario, game.learner, game.training)
        assert outcomes(game, range(16)) == outcomes(again, range(16))

    def test_more_data_from_the_same_source_helps(self, game: FederatedGame) -> None:
        found = outcomes(game, [0b0000, 0b0111])
        loss = "loss" if game.scenario.classes else "mse"
        assert found[0b0111][loss] < found[0][loss]

    def test_marginal_and_complementary_values_agree(self, game: FederatedGame) -> None:
        results = fv.compare(game, ["exact", "exact-cc", "exact-perm"])
        for other in ("exact-cc", "exact-perm"):
            assert results[other].mean == pytest.approx(results["exact"].mean, abs=1e-12)

    def test_gradient_methods_do_not_apply(self, game: FederatedGame) -> None:
        with pytest.raises(InputError, match="Gradient methods do not apply"):
            game.trace()

    def test_rules_that_cannot_apply_are_refused(self, game: FederatedGame) -> None:
        other = FederatedGame(game.scenario, game.learner, Training(algorithm="fedsgd"))
        with pytest.raises(InputError, match="fedsgd does not apply"):
            outcomes(other, [1])

    def test_text_is_refused(self, game: FederatedGame) -> None:
        words = Dataset(np.array([[1, 2], [3, 0]]), np.array([0, 1]))
        text = Scenario("text", (words,), ("a",), words, game.scenario.task, game.scenario.classes, 5)
        with pytest.raises(InputError, match="needs numbers"):
            outcomes(FederatedGame(text, game.learner), [1])


def pooled(scenario: Scenario, mask: int) -> tuple[Array, Array]:
    data = [scenario.clients[i] for i in members(mask)]
    return (
        np.concatenate([c.x for c in data]).astype(float),
        np.concatenate([c.y for c in data]).astype(float),
    )


def reference(scenario: Scenario, mask: int) -> dict[str, float]:
    """NumPy's least squares of least norm, on the pooled rows, features standardised."""
    x, y = pooled(scenario, mask)
    spread = np.where(x.std(0) > 1e-6, x.std(0), np.inf)
    slope = np.linalg.lstsq((x - x.mean(0)) / spread, y - y.mean(), rcond=1e-8)[0] / spread
    error = (scenario.test.x - x.mean(0)) @ slope + y.mean() - scenario.test.y
    return {"mse": float((error**2).mean()), "mae": float(np.abs(error).mean())}


class TestLeastSquares:
    def check(self, scenario: Scenario, tolerance: float) -> None:
        game = FederatedGame(scenario, "least-squares")
        masks = [m for m in range(1, 1 << scenario.n) if any(len(scenario.clients[i]) for i in members(m))]
        for mask, metrics in outcomes(game, masks).items():
            want = reference(scenario, mask)
            assert {k: metrics[k] for k in want} == pytest.approx(want, rel=tolerance)

    def test_equals_least_squares_on_the_pooled_rows(self) -> None:
        self.check(REGRESSION, 1e-7)

    def test_with_fewer_samples_than_features_the_solution_is_the_one_of_least_norm(self) -> None:
        self.check(federation(linear_source(4, 8, 0.3), [1, 2, 3, 5]), 1e-4)

    def test_collinear_and_constant_features_are_no_problem(self) -> None:
        def widened(data: Dataset) -> Dataset:
            return Dataset(np.column_stack([data.x, data.x[:, 0], np.full(len(data), 0.1)]), data.y)

        source = linear_source(5, 3, 0.3)
        self.check(federation(lambda count: widened(source(count)), [10, 20, 30]), 1e-6)

    def test_units_and_offsets_of_features_do_not_matter(self) -> None:
        def moved(data: Dataset) -> Dataset:
            return Dataset(data.x * [1e-4, 1, 1e4, 8, 1] + [0, 2000, 0, 0, 1], data.y)

        parties = tuple(map(moved, REGRESSION.clients))
        other = Scenario("moved", parties, REGRESSION.names, moved(REGRESSION.test), "regression", 0)
        found = [fv.value(FederatedGame(s, "least-squares"), "exact").mean for s in (REGRESSION, other)]
        assert found[0] == pytest.approx(
            found[1], abs=1e-4
        )  # float32 features, moved, are not quite the same

    def test_one_sample_gives_the_constant_model(self) -> None:
        scenario = federation(linear_source(6, 3, 0.3), [1, 20])
        error = scenario.clients[0].y[0].astype(float) - scenario.test.y
        found = outcomes(FederatedGame(scenario, "least-squares"), [1])[1]
        assert found["mae"] == pytest.approx(np.abs(error).mean())

    def test_images_are_flattened(self) -> None:
        def square(data: Dataset) -> Dataset:
            return Dataset(data.x.reshape(len(data), 1, 2, 2), data.y)

        source = linear_source(7, 4, 0.3)
        images = federation(lambda count: square(source(count)), [20, 0])
        assert outcomes(FederatedGame(images, "least-squares"), [3])[3]["r2"] > 0.5

    def test_parts_of_the_test_set_are_measured(self) -> None:
        found = outcomes(FederatedGame(REGRESSION, "least-squares"), [7])[7]
        rest = Scenario(
            "part",
            REGRESSION.clients,
            REGRESSION.names,
            Dataset(REGRESSION.test.x[:100], REGRESSION.test.y[:100]),
            "regression",
            0,
        )
        part = outcomes(FederatedGame(rest, "least-squares"), [7])[7]
        assert {key: found[f"half/{key}"] for key in part} == pytest.approx(part)

    def test_rounds_change_nothing(self) -> None:
        one, many = (FederatedGame(REGRESSION, "least-squares", Training(rounds=r)) for r in (1, 9))
        assert outcomes(one, range(16)) == outcomes(many, range(16))

    @pytest.mark.parametrize(
        ("rules", "named"),
        [
            ({"rate": 0.5}, "rate does not apply to the model 'least-squares'"),
            ({"epochs": 9, "batch": 8}, "epochs and batch do not apply"),
            ({"optimizer": "sgd", "momentum": 0.9}, "optimizer and momentum do not apply"),
        ],
    )
    def test_rules_of_training_in_steps_are_refused(self, rules: dict[str, Any], named: str) -> None:
        with pytest.raises(InputError, match=named):
            make_learner("least-squares").session(REGRESSION, Training(**rules), "cpu", None)

    def test_a_large_ridge_leaves_the_mean(self) -> None:
        found = outcomes(FederatedGame(REGRESSION, LeastSquares(ridge=1e12)), [7])[7]
        constant = pooled(REGRESSION, 7)[1].mean() - REGRESSION.test.y
        assert found["mse"] == pytest.approx((constant**2).mean())

    def test_the_ridge_is_part_of_the_identity(self) -> None:
        assert FederatedGame(REGRESSION, "least-squares").id == FederatedGame(REGRESSION, LeastSquares()).id
        assert (
            FederatedGame(REGRESSION, LeastSquares(ridge=0.1)).id
            != FederatedGame(REGRESSION, LeastSquares()).id
        )

    @pytest.mark.parametrize("ridge", [0, -1.0, float("nan"), float("inf")])
    def test_an_impossible_ridge_is_refused(self, ridge: float) -> None:
        with pytest.raises(InputError, match="ridge must be a positive number"):
            LeastSquares(ridge=ridge)

    def test_classification_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"for regression.*use 'linear'"):
            outcomes(FederatedGame(TWO, "least-squares"), [1])

    @pytest.mark.slow
    def test_sixteen_clients_are_valued_exactly(self) -> None:
        scenario = federation(linear_source(8, 4, 0.5), [20] * 16, test=100)
        phi = fv.value(FederatedGame(scenario, "least-squares", metric="mse"), "exact").mean
        m0, end = ((scenario.test.y.astype(float) ** 2).mean(), reference(scenario, 0xFFFF)["mse"])
        assert phi.sum() == pytest.approx(m0 - end)


def _weighted(piece: Any, weight: float) -> Any:
    plain = json.loads(piece.booster.save_raw(raw_format="json").decode())
    for tree in plain["learner"]["gradient_booster"]["model"]["trees"]:
        leaves = [left == -1 for left in tree["left_children"]]
        conditions = zip(tree["split_conditions"], leaves, strict=True)
        tree["split_conditions"] = [weight * of if leaf else of for of, leaf in conditions]
    return plain


def hand_merged(xgboost: Any, pieces: Sequence[Any]) -> Any:
    """One booster with the trees of all pieces, each leaf times the weight of its piece, put together in XGBoost's own
    JSON.
    """
    first, *others = (_weighted(piece, weight) for piece, weight in pieces)
    model = first["learner"]["gradient_booster"]["model"]
    for other in others:
        more = other["learner"]["gradient_booster"]["model"]
        model["trees"] += [{**tree, "id": len(model["trees"]) + k} for k, tree in enumerate(more["trees"])]
        model["tree_info"] += more["tree_info"]
        last = model["iteration_indptr"][-1]
        model["iteration_indptr"] += [last + step for step in more["iteration_indptr"][1:]]
    model["gbtree_model_param"]["num_trees"] = str(len(model["trees"]))
    merged = xgboost.Booster()
    merged.load_model(bytearray(json.dumps(first).encode()))
    return merged


class TestXGBoost:
    @pytest.fixture(params=[TWO, FOUR, REGRESSION], ids=["two classes", "four classes", "regression"])
    def scenario(self, request: pytest.FixtureRequest) -> Scenario:
        pytest.importorskip("xgboost", reason="needs the extra xgboost")
        found: Scenario = request.param
        return found

    @staticmethod
    def grown(scenario: Scenario, rounds: int, seed: int = 0, **options: Any) -> tuple[Any, Any]:
        """The session and the ensemble of the three clients with data."""
        from fedvalue.learners.xgboost_bagging import XGBoostBagging

        session = XGBoostBagging(**options).session(scenario, Training(seed=seed), "cpu", None)
        stack = session.initial()
        for t in range(1, rounds + 1):
            stack = session.local(session.take(stack, [0, 0, 0]), [0, 1, 2], t)
            stack = session.average(stack, [0, 0, 0], [0.3, 0.3, 0.4])
        return session, stack[0]

    def test_the_ensemble_equals_the_hand_merged_one(self, scenario: Scenario) -> None:
        import xgboost

        session, ensemble = self.grown(scenario, rounds=3, eta=0.3)
        test = scenario.test.x
        merged = hand_merged(xgboost, ensemble).predict(xgboost.DMatrix(test), output_margin=True)
        assert merged.reshape(len(test), -1) == pytest.approx(session.margins(ensemble, -1), abs=1e-5)

    def test_a_client_goes_on_from_the_merged_ensemble(self, scenario: Scenario) -> None:
        import xgboost

        session, ensemble = self.grown(scenario, rounds=1, eta=0.3)
        client = scenario.clients[1]
        rules = {**session.parameters, "seed": session._seed(1, 2)}
        merged = hand_merged(xgboost, ensemble)
        matrix = xgboost.DMatrix(client.x, label=client.y)
        by_hand = xgboost.train(rules, matrix, session.trees, xgb_model=merged)
        (grown,) = session.local([ensemble], [1], 2)
        margins = by_hand.predict(xgboost.DMatrix(scenario.test.x), output_margin=True)
        assert margins.reshape(200, -1) == pytest.approx(session.margins(grown, -1), abs=1e-5)

    def test_the_trees_of_a_round_are_averaged(self, scenario: Scenario) -> None:
        _, ensemble = self.grown(scenario, rounds=2, trees=3)
        assert [piece.booster.num_boosted_rounds() for piece, _ in ensemble] == [3] * 6
        assert [weight for _, weight in ensemble] == pytest.approx([0.3, 0.3, 0.4] * 2)

    def test_a_coalition_of_many_learns_no_faster_than_one_client(self, scenario: Scenario) -> None:
        """Three clients with nearly the same data end where one of them does: only who takes part counts."""
        data = scenario.clients[1]
        copies = tuple(Dataset(np.r_[data.x, data.x[[i]]], np.r_[data.y, data.y[[i]]]) for i in range(3))
        alike = replace(scenario, clients=copies, names=("a", "b", "c"))
        found = outcomes(FederatedGame(alike, "xgboost"), [0, 1, 7])
        metric = "loss" if scenario.classes else "mse"
        start, one, all_ = (found[mask][metric] for mask in (0, 1, 7))
        assert one < 0.7 * start
        assert all_ == pytest.approx(one, abs=0.15 * (start - one))

    @pytest.mark.slow
    def test_settings_that_diverge_are_noticed(self) -> None:
        pytest.importorskip("xgboost", reason="needs the extra xgboost")
        from fedvalue.learners.xgboost_bagging import XGBoostBagging

        wild = XGBoostBagging(eta=1.0, l2=0.0, min_child_weight=0.0, depth=12, trees=50)
        with pytest.raises(UtilityError, match=r"diverged.*of xgboost: eta, or raise l2"):
            list(FederatedGame(FOUR, wild).evaluate([7]))

    @pytest.mark.parametrize(
        ("rules", "named"),
        [
            ({"rate": 0.5}, "rate does not apply to the model 'xgboost'"),
            ({"epochs": 9, "batch": 8}, "epochs and batch do not apply"),
            ({"optimizer": "sgd", "momentum": 0.9}, "optimizer and momentum do not apply"),
            ({"algorithm": "fedsgd"}, "fedsgd does not apply"),
        ],
    )
    def test_rules_that_it_does_not_know_are_refused(
        self, rules: dict[str, Any], named: str, scenario: Scenario
    ) -> None:
        with pytest.raises(InputError, match=named):
            make_learner("xgboost").session(scenario, Training(**rules), "cpu", None)

    def test_the_same_seed_gives_the_same_bytes_and_another_does_not(self, scenario: Scenario) -> None:
        first, again, other = (
            [piece.raw() for piece, _ in self.grown(scenario, 2, seed)[1]] for seed in (0, 0, 1)
        )
        assert first == again
        assert first != other

    def test_trees_do_not_depend_on_what_else_is_grown(self, scenario: Scenario) -> None:
        """One client alone, or many at once on several threads."""
        session, ensemble = self.grown(scenario, 1)
        owners = [0, 1, 2] * 8
        many = session.local([ensemble] * 24, owners, 2)
        alone = [session.local([ensemble], [owner], 2)[0][-1][0].raw() for owner in (0, 1, 2)]
        assert [ensemble_of[-1][0].raw() for ensemble_of in many] == alone * 8

    def test_the_metrics_are_those_of_the_probabilities(self, scenario: Scenario) -> None:
        import xgboost
        from sklearn.metrics import log_loss, mean_squared_error

        session, ensemble = self.grown(scenario, 2, eta=0.3)
        (found,) = session.evaluate([ensemble])
        predicted = hand_merged(xgboost, ensemble).predict(xgboost.DMatrix(scenario.test.x)).astype(float)
        if scenario.classes:
            chances = predicted / predicted.sum(1, keepdims=True) if predicted.ndim == 2 else predicted
            assert found["loss"] == pytest.approx(log_loss(scenario.test.y, chances), rel=1e-5)
        else:
            assert found["mse"] == pytest.approx(mean_squared_error(scenario.test.y, predicted), rel=1e-5)

    @pytest.mark.parametrize(
        "options",
        [{"depth": 0}, {"eta": 0.0}, {"subsample": 1.5}, {"l2": -1.0}, {"trees": 2.5}, {"eta": "fast"}],
    )
    def test_impossible_options_are_refused(self, options: dict[str, Any], scenario: Scenario) -> None:
        with pytest.raises(InputError, match="must"):
            self.grown(scenario, 1, **options)

    def test_options_are_part_of_the_identity(self, scenario: Scenario) -> None:
        from fedvalue.learners.xgboost_bagging import XGBoostBagging

        assert make_learner("xgboost").identity() == XGBoostBagging().identity()
        assert XGBoostBagging(eta=0.1).identity() != XGBoostBagging().identity()
        assert (
            make_learner("xgboost", trees=2, depth=3).identity()
            == XGBoostBagging(trees=2, depth=3).identity()
        )
        assert (
            "joined" in XGBoostBagging().identity()
        )  # stores of trees that were added up in full are of another game

    def test_an_unknown_option_of_a_model_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"no option 'dept'\. Did you mean 'depth'"):
            make_learner("xgboost", dept=3)
        with pytest.raises(InputError, match="only models by name have options"):
            make_learner(lambda scenario: None, depth=3)

    def test_without_the_package_the_error_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "xgboost", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'fedvalue\[xgboost\]'"):
            FederatedGame(TWO, "xgboost")


CLIENTS, FEATURES, NOISE, REPEATS = 6, 4, 0.4, 250


def random_federations(t: int) -> Array:
    """Utilities −MSE of many random federations with t samples a client: repeats × 2**n."""
    trainer = LocalTrainer(device="cpu")
    drawn = (
        federation(linear_source(seed, FEATURES, NOISE), [t] * CLIENTS, test=400) for seed in range(REPEATS)
    )
    rules = Training(rounds=1)
    return np.array(
        [utilities(FederatedGame(s, "least-squares", rules, metric="mse", trainer=trainer)) for s in drawn]
    )


@pytest.fixture(scope="module")
def short() -> Array:
    return random_federations(30)


@pytest.fixture(scope="module")
def long() -> Array:
    return random_federations(60)


class TestTheoryOfLinearRegression:
    """The paper's Theorem 2, Lemma 1 and Theorem 3, where it says they hold: i.i.d. clients, least squares.

    The model has an intercept, which the paper's has not: the expected test error of D samples is
    σ²(1 + 1/D)(D − 2)/(D − d − 2), the paper's σ²·d/(D − d − 1) and the noise σ² of the test targets,
    but for terms of order 1/D.
    """

    @staticmethod
    def mse(samples: int) -> float:
        return NOISE**2 * (1 + 1 / samples) * (samples - 2) / (samples - FEATURES - 2)

    @pytest.mark.parametrize("metric", ["mse", "mae"])
    def test_theorem_2_marginals_vary_less_than_complements(self, metric: str) -> None:
        """The same coalitions S are drawn for both, one for each client and size, as the theorem has it.

        Both are unbiased (Theorem 1). This says nothing about equal budgets, where a pair of complements
        serves all clients and a pair of neighbours only one.
        """
        n, draws = 8, 3000
        rng = np.random.default_rng(0)
        for seed in range(4):
            scenario = federation(linear_source(seed, 4, 0.5), [50] * n, test=1000)
            table = utilities(FederatedGame(scenario, "least-squares", Training(rounds=1), metric=metric))
            exact = fv.value(table, "exact").mean
            variance = np.zeros(2)
            for i in range(n):
                place = np.delete(np.arange(n), i)
                order = 1 << rng.permuted(np.tile(place, (draws, 1)), axis=1)
                without = np.column_stack([np.zeros(draws, dtype=np.intp), order.cumsum(1)])  # sizes 0..n−1
                joined = without | 1 << i
                marginal = (table[joined] - table[without]).mean(1)
                opposed = (table[joined] - table[joined ^ ((1 << n) - 1)]).mean(1)
                variance += marginal.var(), opposed.var()
                for estimate in (marginal, opposed):
                    assert abs(estimate.mean() - exact[i]) < 5 * estimate.std() / np.sqrt(draws)
            assert variance[0] < variance[1]

    @pytest.mark.slow
    def test_lemma_1_the_expected_value_of_a_client(self, short: Array) -> None:
        phi = np.array([fv.value(table, "exact").mean for table in short])
        m0 = 1 + NOISE**2
        want = (m0 - self.mse(CLIENTS * 30)) / CLIENTS
        stderr = phi.std(0) / np.sqrt(len(phi))
        assert np.all(stderr < 0.02 * want)
        assert np.all(np.abs(phi.mean(0) - want) < 4 * stderr)
        paper = (m0 - NOISE**2 - NOISE**2 * FEATURES / (CLIENTS * 30 - FEATURES - 1)) / CLIENTS
        assert want == pytest.approx(paper, rel=0.01)

    @staticmethod
    def truncation(tables: Array) -> Array:
        """Relative error of the mean K-Greedy value for k* = 1..n−1."""
        exact = np.mean([fv.value(table, "exact").mean.mean() for table in tables])
        greedy = [
            np.mean([fv.value(table, "k-greedy", k=k, budget=64).mean.mean() for table in tables])
            for k in range(1, CLIENTS)
        ]
        return np.abs(np.array(greedy) - exact) / exact

    @pytest.mark.slow
    def test_theorem_3_the_error_of_small_coalitions_only(self, short: Array, long: Array) -> None:
        k = np.arange(1, CLIENTS)
        errors = {t: self.truncation(tables) for t, tables in ((30, short), (60, long))}
        x = FEATURES + 1  # |x|: the intercept is estimated like a feature
        assert NOISE**2 * x < 1  # what the proof assumes: |x| + 2 samples beat the initial model
        for t, error in errors.items():
            assert np.all(np.diff(error) < 0)
            assert np.all(error <= (CLIENTS - k) * t / ((k * t - x - 1) * (CLIENTS * t - x - 2)))
        rates = {t: (CLIENTS - k) / (k * CLIENTS * t) for t in errors}
        constant = sum(errors[t] @ rates[t] for t in errors) / sum(rates[t] @ rates[t] for t in errors)
        assert constant == pytest.approx(NOISE**2 * x, rel=0.3)
        for t, error in errors.items():
            assert error == pytest.approx(constant * rates[t], rel=0.25)
