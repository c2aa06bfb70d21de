"""Gradient methods: one recorded training, checked against models put together by hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch.func import functional_call

import fedvalue as fv
from fedvalue.coalitions import full_mask, members
from fedvalue.estimators import ESTIMATORS
from fedvalue.estimators import gradients as views_module
from fedvalue.games import FederatedGame
from fedvalue.scenarios import Dataset, Scenario
from fedvalue.testing import check_estimator
from fedvalue.testing.games import brute_force
from fedvalue.trainers import LocalTrainer
from fedvalue.training import Trace, Training

VIEWS = [name for name, method in ESTIMATORS.items() if method.view]
# What each promises besides the contract: without data, no value; copies are worth the same, unless orders are drawn.
FAIR = ("null", "symmetric", "deterministic")
PROMISED = {"or": FAIR, "lambda-mr": FAIR, "gtg": ("null",), "dig-fl": FAIR}
ROUNDS = 2
Model = dict[str, torch.Tensor]


def scenario(*clients: slice) -> Scenario:
    """Clients with the given rows of the digits; 300 other rows are the test set."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    return Scenario(
        "few digits",
        tuple(Dataset(x[rows], y[rows]) for rows in clients),
        tuple(f"client {i}" for i in range(len(clients))),
        Dataset(x[1200:1500], y[1200:1500]),
        "classification",
        classes=10,
    )


# Three clients of different sizes, the fourth a copy of the third, the fifth without data.
SCENARIO = scenario(slice(0, 40), slice(40, 100), slice(100, 180), slice(100, 180), slice(0, 0))
EMPTY = 4


class CountingTrainer(LocalTrainer):
    """Counts the runs it records and the coalitions it trains."""

    def __init__(self) -> None:
        super().__init__(device="cpu")
        self.traces = 0
        self.trained: list[int] = []

    def trace(self, *arguments: Any) -> Trace:
        self.traces += 1
        return super().trace(*arguments)

    def train(self, scenario: Any, learner: Any, training: Any, masks: Any) -> Any:
        for mask, outcome in super().train(scenario, learner, training, masks):
            self.trained.append(mask)
            yield mask, outcome


def federation(metric: str = "loss", who: Scenario = SCENARIO, rounds: int = ROUNDS, **rules: Any) -> Any:
    training = Training(rounds=rounds, epochs=1, batch=16, rate=0.01, seed=3)
    return FederatedGame(who, "mlp", training, metric=metric, trainer=CountingTrainer(), **rules)


def from_its_start(make: Callable[..., Any]) -> Any:
    """The game in which v(∅) is that of the very model that training starts from, as in a recorded run."""
    ((_, outcome),) = make().evaluate([0])
    return make(empty=outcome.metrics[make().stored_as])


class ByHand:
    """The same games the slow way: one coalition, one client, one tensor at a time."""

    def __init__(self, game: Any) -> None:
        self.game = game
        self.trace = game.trace()
        self.sizes = [len(data) for data in game.scenario.clients]
        session = self.trace.session
        self.module = session.module.eval()
        self.starts = [{k: v[0].double() for k, v in start.items()} for start in self.trace.starts]
        self.updates = [
            {
                client: {k: v[row].double() - start[k] for k, v in local.items()}
                for row, client in enumerate(self.trace.clients)
            }
            for start, local in zip(self.starts, self.trace.locals, strict=True)
        ]

    def model(self, mask: int, first: int, last: int) -> Model:
        model = {k: v.clone() for k, v in self.starts[first - 1].items()}
        held = sum(self.sizes[i] for i in members(mask))
        for t in range(first, last + 1):
            for i in members(mask):
                if self.sizes[i]:
                    for name, update in self.updates[t - 1][i].items():
                        model[name] += self.sizes[i] / held * update
        return model

    def loss(self, model: Model) -> float:
        test = self.game.scenario.test
        with torch.no_grad():
            logits = functional_call(self.module.double(), model, (torch.from_numpy(test.x).double(),))
        self.module.float()
        return float(torch.nn.functional.cross_entropy(logits, torch.from_numpy(test.y)))

    def table(self, first: int, last: int) -> NDArray[np.float64]:
        masks = range(1 << self.game.n)
        return np.array([-self.loss(self.model(mask, first, last)) for mask in masks])


@pytest.fixture(scope="module")
def by_hand() -> ByHand:
    return ByHand(federation())


@pytest.fixture(scope="module")
def rounds(by_hand: ByHand) -> list[NDArray[np.float64]]:
    """The tables of the games of every round."""
    return [by_hand.table(t, t) for t in range(1, ROUNDS + 1)]


class TestAgainstReconstructionByHand:
    def test_or(self, by_hand: ByHand) -> None:
        values = fv.value(by_hand.game, "or")
        assert values.mean == pytest.approx(brute_force(by_hand.table(1, ROUNDS)), abs=1e-6)
        assert values.details["sampled"] is False

    def test_or_of_three_clients(self) -> None:
        game = federation(who=scenario(slice(0, 40), slice(40, 100), slice(100, 180)), rounds=3)
        table = ByHand(game).table(1, 3)
        assert fv.value(game, "or").mean == pytest.approx(brute_force(table), abs=1e-6)

    @pytest.mark.parametrize("lam", [0.98, 1.0, 0.5])
    def test_lambda_mr(self, by_hand: ByHand, rounds: list[Any], lam: float) -> None:
        expected = sum(lam**t * brute_force(table) for t, table in enumerate(rounds, start=1))
        assert fv.value(by_hand.game, "lambda-mr", lam=lam).mean == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("first_power", [0, 1])
    def test_the_first_power_of_lambda(self, by_hand: ByHand, rounds: list[Any], first_power: int) -> None:
        """Published: 1, the first round counts λ. With 0 it counts in full."""
        expected = sum(0.9**t * brute_force(table) for t, table in enumerate(rounds, start=first_power))
        values = fv.value(by_hand.game, "lambda-mr", lam=0.9, first_power=first_power)
        assert values.mean == pytest.approx(expected, abs=1e-6)
        if first_power == 1:
            assert values.mean.tolist() == fv.value(by_hand.game, "lambda-mr", lam=0.9).mean.tolist()

    @pytest.mark.slow
    def test_lambda_mr_of_one_round_is_exact_on_that_round(self) -> None:
        game = from_its_start(partial(federation, rounds=1))
        exact = fv.value(game.trace_games().round(1, range(1 << game.n)), "exact")
        assert fv.value(game, "lambda-mr", lam=1.0).mean == pytest.approx(exact.mean, abs=1e-12)
        assert fv.value(game, "lambda-mr").mean == pytest.approx(0.98 * exact.mean, abs=1e-12)
        # After one round the coalitions' real models are the ones put together: everything agrees.
        for values in (exact, fv.value(game, "or")):
            assert values.mean == pytest.approx(fv.value(game, "exact").mean, abs=1e-6)

    def test_the_games_of_the_trace(self, by_hand: ByHand, rounds: list[Any]) -> None:
        games = by_hand.game.trace_games()
        masks = [31, 0, 5, 16, 5]  # in any order, repeated, with a coalition that has no data
        for t, table in enumerate(rounds, start=1):
            assert games.round(t, masks) == pytest.approx(table[masks], abs=1e-6)
            assert games.round(t, [0, 16])[0] == games.round(t, [0, 16])[1]
        assert games.round(2, [0]) == pytest.approx(games.round(1, [31]), abs=1e-6)
        assert games.whole_run([31]) == pytest.approx(games.round(2, [31]), abs=1e-6)

    def test_values_add_up_to_the_gain_of_the_rounds(self, by_hand: ByHand, rounds: list[Any]) -> None:
        gains = [table[-1] - table[0] for table in rounds]
        for lam in (1.0, 0.9):
            values = fv.value(by_hand.game, "lambda-mr", lam=lam)
            expected = sum(lam**t * gain for t, gain in enumerate(gains, start=1))
            assert values.mean.sum() == pytest.approx(expected, abs=1e-5)

    def test_a_small_memory_changes_nothing(self) -> None:
        whole, bounded = federation(), federation()
        bounded.trainer.memory = 1
        games = bounded.trace_games()
        assert games.trace.session.rows == 1
        masks = range(1 << games.n)
        assert games.whole_run(masks) == pytest.approx(whole.trace_games().whole_run(masks), abs=1e-6)


class TestDigFl:
    def test_it_is_the_slope_of_the_loss_along_the_updates(self, by_hand: ByHand) -> None:
        """A small step along client i's update, there and back: central differences."""
        total, small = sum(by_hand.sizes), 1e-6
        expected = np.zeros(by_hand.game.n)
        for start, updates in zip(by_hand.starts, by_hand.updates, strict=True):
            for i, update in updates.items():
                there, back = (
                    by_hand.loss({k: v + step * update[k] for k, v in start.items()})
                    for step in (small, -small)
                )
                expected[i] -= by_hand.sizes[i] / total * (there - back) / (2 * small)
        assert np.abs(expected).max() > 0.01
        for metric in ("loss", "accuracy"):  # the metric of the game does not matter
            assert fv.value(federation(metric), "dig-fl").mean == pytest.approx(expected, rel=1e-5, abs=1e-7)

    def test_clipped_rounds_are_shares(self) -> None:
        game = federation(rounds=3)
        drops = game.trace_games().loss_drops()
        sizes = np.array([len(data) for data in SCENARIO.clients])
        positive = np.maximum(drops * sizes, 0)
        expected = (positive / positive.sum(1, keepdims=True)).sum(0)
        values = fv.value(game, "dig-fl", clip=True)
        assert values.mean == pytest.approx(expected)
        assert values.mean.sum() == pytest.approx(3)
        assert values.unit == "share"

    def test_clipping(self) -> None:
        games = FakeTrace(drops=[[2.0, -1.0, 6.0], [-1.0, -2.0, 0.0], [0.0, 5.0, 0.0]])
        rng = np.random.default_rng(0)
        assert views_module.dig_fl(games, rng, clip=True).mean.tolist() == [0.25, 1.0, 0.75]
        assert views_module.dig_fl(games, rng).mean == pytest.approx([1 / 3, 2 / 3, 2.0])

    def test_rescaled_it_is_in_the_unit_of_the_utility(self) -> None:
        game = federation("accuracy", rounds=3)
        published, rescaled = fv.value(game, "dig-fl"), fv.value(game, "dig-fl", rescale=True)
        start, end = game.trace_games().whole_run([0, full_mask(game.n)])
        assert (published.unit, rescaled.unit) == ("loss", "accuracy")
        assert published.other_unit
        assert not rescaled.other_unit
        assert rescaled.mean.sum() == pytest.approx(end - start)
        assert rescaled.mean / rescaled.mean.sum() == pytest.approx(published.mean / published.mean.sum())
        clipped = fv.value(game, "dig-fl", rescale=True, clip=True)
        assert clipped.mean.sum() == pytest.approx(end - start)

    @pytest.mark.parametrize(
        ("drops", "gain"), [([1.0, 2.0], -0.5), ([-1.0, 0.5], 0.5), ([1.0, -1.0], 0.5), ([1.0, 1.0], 0.0)]
    )
    def test_a_rescaling_that_has_no_meaning_is_refused(self, drops: list[float], gain: float) -> None:
        fake = FakeTrace(tables=[[0.5, 0.6, 0.7, 0.5 + gain]], drops=[drops])
        rng = np.random.default_rng(0)
        with pytest.raises(fv.MethodError, match=r"leave the option 'rescale' out") as refused:
            views_module.dig_fl(fake, rng, rescale=True)
        assert f"v(N) − v(∅) is {gain:.4g}" in str(refused.value)
        assert views_module.dig_fl(fake, rng).unit == "loss"

    def test_regression(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(120, 3)).astype(np.float32)
        y = x @ np.array([1.0, -2.0, 0.5], np.float32)
        parts = tuple(Dataset(x[a : a + 30], y[a : a + 30]) for a in (0, 30, 60))
        line = Scenario("line", parts, tuple("abc"), Dataset(x[90:], y[90:]), "regression", classes=0)
        rules = Training(rounds=1, epochs=1, rate=1e-4)
        game, by_error = (
            from_its_start(partial(FederatedGame, line, "linear", rules, metric=metric, device="cpu"))
            for metric in ("r2", "mse")
        )
        before, after = (-fv.value(game, "equal").mean.sum(), fv.value(game, "dig-fl").mean.sum())
        drop = fv.value(by_error, "equal").mean.sum()
        assert before < 0 < after
        assert after == pytest.approx(drop, rel=0.01)  # small steps: the first order is all there is


class FakeTrace:
    """Views of a run that never was: tables for its rounds, or loss drops."""

    def __init__(self, tables: list[Any] | None = None, drops: list[list[float]] | None = None) -> None:
        self.tables = [np.asarray(table, dtype=float) for table in tables or []]
        self.drops = drops
        self.rounds = len(tables or drops or [])
        self.n = len(drops[0]) if drops else len(self.tables[0]).bit_length() - 1
        self.weights = np.full(self.n, 1 / self.n)
        self.asked: list[list[int]] = [[] for _ in self.tables]

    def whole_run(self, masks: Any) -> NDArray[np.float64]:
        return self.tables[0][list(masks)]

    def round(self, t: int, masks: Any) -> NDArray[np.float64]:
        self.asked[t - 1] += masks
        return self.tables[t - 1][list(masks)]

    def loss_drops(self) -> NDArray[np.float64]:
        return np.array(self.drops)


class TestGtg:
    @pytest.mark.slow
    def test_without_thresholds_it_comes_close_to_the_exact_sum_of_the_rounds(
        self, rounds: list[Any]
    ) -> None:
        exact = sum(brute_force(table) for table in rounds)
        strict = {"skip": 0.0, "truncation": 0.0, "convergence": 0.0, "permutations": 2000}
        values = fv.value(federation(), "gtg", **strict)
        assert values.details["permutations"] == [2000, 2000]
        assert values.mean == pytest.approx(exact, abs=0.02 * np.abs(exact).max())
        assert values.mean.sum() == pytest.approx(exact.sum(), abs=1e-5)

    def test_with_the_published_thresholds_it_is_in_the_neighbourhood(self, rounds: list[Any]) -> None:
        exact = sum(brute_force(table) for table in rounds)
        values = fv.value(federation(), "gtg")
        assert all(count > 30 for count in values.details["permutations"])
        assert values.mean == pytest.approx(exact, abs=0.15 * np.abs(exact).max())

    def test_a_round_without_gain_is_skipped(self) -> None:
        rng = np.random.default_rng(0)
        flat = [0.5, 0.9, 0.1, 0.505]
        steep = [0.0, 1.0, 2.0, 3.0]
        fake = FakeTrace([flat, steep])
        estimate = views_module.gtg(fake, rng)
        assert fake.asked[0] == [0, 3]
        assert estimate.mean == pytest.approx([1.0, 2.0])
        assert estimate.details["permutations"] == [0, 32]
        assert views_module.gtg(FakeTrace([flat]), rng, skip=0.004).mean.sum() == pytest.approx(0.005)

    def test_a_truncated_order_credits_nothing_and_is_not_remembered(self) -> None:
        """{0} alone is as good as all: the orders that begin with it end there. {1} grows to {0, 1}, whose real
        utility, not that of a truncated order, must come out."""
        table = np.zeros(8)
        table[[0b001, 0b111]] = 1.0
        table[0b011], table[0b101] = 0.3, 0.2  # never asked by the truncated orders
        fake = FakeTrace([table])
        estimate = views_module.gtg(fake, np.random.default_rng(0), permutations=300, convergence=0.0)
        # Orders 0..: 1 to client 0. 1,0,2: .3, .7. 1,2,0: 1 to client 0. 2,0,1: .2, .8. 2,1,0: 1 to client 0.
        expected = [(1 + 0.65 + 0.6) / 3, 0.4 / 3, 0.35 / 3]
        assert estimate.mean == pytest.approx(expected, abs=0.02)
        assert len(fake.asked[0]) == len(set(fake.asked[0]))  # and nothing was asked twice

    def test_truncation_is_strict(self) -> None:
        table = [0.0, 1.0, 1.0, 1.0]
        kept = views_module.gtg(FakeTrace([table]), np.random.default_rng(0), truncation=0.0)
        assert kept.mean == pytest.approx([0.5, 0.5])
        assert kept.details["models"] == 4

    def test_every_client_is_first_equally_often(self) -> None:
        """With utility 1 for any coalition only the first of an order is credited."""
        table = np.ones(32)
        table[0] = 0.0
        estimate = views_module.gtg(FakeTrace([table]), np.random.default_rng(0))
        assert estimate.mean == pytest.approx(np.full(5, 0.2), abs=1e-12)
        (orders,) = estimate.details["permutations"]
        assert orders > 30
        assert orders % 5 == 0

    def test_it_ends_where_the_published_rule_would_not(self) -> None:
        rng = np.random.default_rng(5)
        noise = rng.normal(size=64)
        estimate = views_module.gtg(FakeTrace([noise]), rng, convergence=0.0, permutations=50)
        assert estimate.details["permutations"] == [54]

    def test_a_single_client_gets_everything(self) -> None:
        estimate = views_module.gtg(FakeTrace([[0.25, 1.0]]), np.random.default_rng(0))
        assert estimate.mean.tolist() == [0.75]


class TestProperties:
    @pytest.mark.parametrize("method", VIEWS)
    def test_every_registered_view_keeps_to_the_contract(self, method: str) -> None:
        check_estimator(method, promises=PROMISED.get(method, ()))

    @pytest.mark.parametrize("method", VIEWS)
    def test_clients_with_data_are_worth_something(self, method: str) -> None:
        values = fv.value(federation("accuracy"), method)
        assert (values.mean != 0).tolist() == [True, True, True, True, False]

    @pytest.mark.parametrize("method", ["or", "lambda-mr"])
    def test_many_clients_are_sampled_and_the_result_says_so(self, method: str) -> None:
        game = federation("accuracy")
        exact, sampled = fv.value(game, method), fv.value(game, method, models=20, seed=1)
        assert exact.details["sampled"] is False
        assert sampled.details["sampled"] is True
        assert sampled.details["permutations"] > 1
        assert sampled.stderr is None
        assert sampled.mean[EMPTY] == 0.0
        assert sampled.mean.sum() == pytest.approx(exact.mean.sum())

    def test_more_than_a_dozen_clients(self) -> None:
        n = 14
        game = federation(who=scenario(*(slice(20 * i, 20 * i + 20) for i in range(n))), rounds=1)
        small = {"models": 60}
        assert fv.value(game, "or", **small).mean == pytest.approx(
            fv.value(game, "lambda-mr", lam=1.0, **small).mean, abs=1e-9
        )
        assert 1 << n > views_module._MODELS


class Trees:
    """A learner whose models are no sums of updates."""

    averages = False

    def identity(self) -> Mapping[str, Any]:
        return {"model": "trees"}

    def session(self, *arguments: Any) -> Any:
        raise AssertionError("nothing may be trained")


class TestInRuns:
    @pytest.mark.parametrize("method", VIEWS)
    def test_it_costs_one_training(self, method: str) -> None:
        game = federation()
        values = fv.value(game, method, budget=20, seed=2)
        assert (values.evaluations, values.budget, values.guarantee) == (1, 1, "biased")
        assert (values.method, values.seed, values.game_id) == (method, 2, game.id)
        assert (game.trainer.traces, game.trainer.trained) == (1, [])
        assert values.seconds > 0
        assert fv.Values.from_dict(values.to_dict()).details == values.details

    def test_all_share_one_recorded_training_which_is_that_of_the_grand_coalition(self) -> None:
        game = federation()
        results = fv.compare(game, ["loo", *VIEWS, "equal"], budget=6)
        assert list(results) == ["loo", *VIEWS, "equal"]
        assert game.trainer.traces == 1
        assert sorted(game.trainer.trained) == sorted({0, *(31 ^ 1 << i for i in range(5))})
        for method in VIEWS:
            assert results[method].mean == pytest.approx(fv.value(game, method).mean, abs=1e-6)
        assert results["equal"].mean == pytest.approx(fv.value(federation(), "equal").mean, abs=1e-6)

    def test_every_method_is_charged_as_if_alone(self) -> None:
        class Slow(CountingTrainer):
            def trace(self, *arguments: Any) -> Trace:
                trace = super().trace(*arguments)
                return Trace(**{**vars(trace), "seconds": 1000.0})

        game = federation()
        game.trainer = Slow()
        seconds = {name: values.seconds for name, values in fv.compare(game, VIEWS).items()}
        assert [seconds[name] > 1000 for name in VIEWS] == [False, True, True, True]  # the first one waited

    def test_remembered_evaluations_are_charged_again(self) -> None:
        games = federation().trace_games()
        games.round(1, range(32))
        assert games.spared == 0.0
        games.round(1, [1, 2, 3])
        assert games.spared > 0.0

    @pytest.mark.slow
    def test_without_methods_compare_takes_them_where_there_is_something_to_record(self) -> None:
        assert set(VIEWS) <= set(fv.compare(federation(), budget=8))
        assert not set(VIEWS) & set(fv.compare(np.arange(8.0), budget=8))

    def test_the_recorded_training_is_stored(self, tmp_path: Any) -> None:
        game, again = federation(), federation("accuracy")
        fv.value(game, "dig-fl", store=tmp_path / "store.db")
        with fv.UtilityStore(tmp_path / "store.db") as store:
            assert list(store.read(game.id)) == [31]
        fv.value(again, "equal", store=tmp_path / "store.db")
        assert again.trainer.trained == [0]
        with fv.UtilityStore(tmp_path / "store.db") as store:
            before = store.read(game.id)
        fv.value(federation(), "or", store=tmp_path / "store.db")  # what was stored first stays
        with fv.UtilityStore(tmp_path / "store.db") as store:
            assert store.read(game.id) == before

    @pytest.mark.slow
    def test_with_repeated_trainings(self) -> None:
        game = federation(replicates=2)
        assert fv.value(game, "or").noise is None
        both = fv.compare(game, ["or", "k-greedy"], budget=6)
        assert both["k-greedy"].noise > 0
        assert 31 not in game.trainer.trained

    @pytest.mark.parametrize("method", VIEWS)
    def test_a_table_has_nothing_to_record(self, method: str) -> None:
        with pytest.raises(fv.MethodError, match=f"{method} needs a federated game.*Got a TableGame"):
            fv.value([0.0, 1.0], method)

    @pytest.mark.parametrize("method", VIEWS)
    def test_a_learner_without_updates_is_not_applicable(self, method: str) -> None:
        game = FederatedGame(SCENARIO, Trees())
        with pytest.raises(fv.InputError, match="do not apply to this model"):
            fv.value(game, method)
        assert not game.averages

    @pytest.mark.parametrize(
        ("method", "options", "expected"),
        [
            ("or", {"models": 5}, "'models' must be a whole number of at least 6"),
            ("lambda-mr", {"lam": 0}, "'lam' must be a number above 0"),
            ("lambda-mr", {"lam": "x"}, "'lam' must be"),
            ("lambda-mr", {"models": 5.5}, "'models' must be"),
            ("lambda-mr", {"first_power": 2}, "'first_power' must be a whole number from 0 to 1"),
            ("gtg", {"truncation": -1}, "'truncation' must be"),
            ("gtg", {"skip": float("nan")}, "'skip' must be"),
            ("gtg", {"permutations": 0}, "'permutations' must be"),
            ("dig-fl", {"clip": 1}, "'clip' must be true or false"),
            ("dig-fl", {"rescale": "yes"}, "'rescale' must be"),
            ("dig-fl", {"lam": 1}, "no option 'lam'. Its options: clip, rescale"),
        ],
    )
    def test_a_wrong_option_costs_no_training(self, method: str, options: Any, expected: str) -> None:
        game = federation()
        with pytest.raises(fv.MethodError, match=expected):
            fv.value(game, method, **options)
        assert game.trainer.traces == 0

    @pytest.mark.slow
    def test_a_diverged_training_is_refused(self) -> None:
        training = Training(rounds=1, epochs=1, rate=1e30, optimizer="sgd")
        for method in VIEWS:
            with pytest.raises(fv.UtilityError, match="diverged"):
                fv.value(FederatedGame(SCENARIO, "mlp", training, device="cpu"), method)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["cnn", "linear"])
def test_other_models(model: str) -> None:
    """One round: reconstructed models are the trained ones, whatever they are made of."""
    rows = (slice(0, 20), slice(20, 60), slice(60, 80))
    flat = scenario(*rows)

    def images(data: Dataset) -> Dataset:
        return Dataset(data.x.reshape(-1, 1, 8, 8), data.y)

    parts = tuple(map(images, flat.clients))
    pictures = Scenario("images", parts, flat.names, images(flat.test), flat.task, flat.classes)
    rules = Training(rounds=1, epochs=1)
    game = from_its_start(partial(FederatedGame, pictures, model, rules, metric="loss", device="cpu"))
    exact = fv.value(game, "exact").mean
    assert fv.value(game, "or").mean == pytest.approx(exact, abs=1e-5)
    assert np.isfinite(fv.value(game, "dig-fl").mean).all()


def test_views_take_the_trace_randomness_and_then_only_named_options() -> None:
    for name in VIEWS:
        view: Callable[..., Any] | None = ESTIMATORS[name].view
        assert view is not None
        parameters = list(inspect.signature(view).parameters.values())
        assert [p.name for p in parameters[:2]] == ["trace", "rng"]
        assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in parameters[2:])
        assert ESTIMATORS[name].guarantee == "biased"
