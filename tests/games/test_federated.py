"""The federated game: what identifies it, what it costs, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from federations import QUICK, CountingTrainer, digits, line, utilities
from sources import run_cell
from torch import nn

import fedvalue as fv
from fedvalue.errors import InputError, UtilityError
from fedvalue.games import FederatedGame
from fedvalue.learners.torch import TorchLearner
from fedvalue.scenarios import Dataset, Scenario
from fedvalue.training import Training

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = (30, 20, 10)


def game(scenario: Scenario | None = None, **options: Any) -> FederatedGame:
    given = {"model": "linear", "training": QUICK, "trainer": CountingTrainer(), **options}
    return FederatedGame(scenario or digits(SMALL), **given)


def changed(scenario: Scenario, **changes: Any) -> Scenario:
    fields = ["name", "clients", "names", "test", "task", "classes", "vocabulary", "test_parts", "details"]
    return Scenario(**{**{field: getattr(scenario, field) for field in fields}, **changes})


class TestAdditivity:
    """With the number of correct predictions as utility, values on disjoint test sets add up."""

    def test_values_on_parts_add_up_and_one_store_serves_all(self, tmp_path: Path) -> None:
        scenario, store = digits(SMALL, parts=True), tmp_path / "store.db"
        trainer = CountingTrainer()
        phi = {}
        for metric in ("correct", "a/correct", "b/correct"):
            one = game(scenario, metric=metric, trainer=trainer)
            phi[metric] = fv.value(one, "exact", store=store, noise=False).mean
        assert phi["a/correct"] + phi["b/correct"] == pytest.approx(phi["correct"], abs=1e-12)
        assert np.abs(phi["correct"]).sum() > 10
        assert np.abs(phi["a/correct"] / 45 - phi["b/correct"] / 75).max() > 1e-3  # the parts do differ
        assert sorted(trainer.trained) == list(range(8))
        with fv.UtilityStore(store) as kept:
            (stored,) = kept.games()
        assert (stored.coalitions, stored.outcomes) == (8, 8)

    def test_every_part_has_every_metric(self) -> None:
        metrics = dict(game(digits(SMALL, parts=True)).evaluate([5]))[5].metrics
        names = {name for name in metrics if "/" not in name}
        assert set(metrics) == names | {f"{part}/{name}" for part in "ab" for name in names}


class TestMetrics:
    def test_the_usual_utilities(self) -> None:
        assert game().metric == "accuracy"
        assert game(line(SMALL)).metric == "r2"

    @pytest.mark.parametrize(
        ("metric", "sign"), [("accuracy", 1), ("loss", -1), ("auc", 1), ("a/loss", -1), ("b/f1", 1)]
    )
    def test_where_lower_is_better_the_negative_counts(self, metric: str, sign: int) -> None:
        one = game(digits(SMALL, parts=True), metric=metric)
        outcome = dict(one.evaluate([3]))[3]
        assert one.utility(outcome) == sign * outcome.metrics[metric]

    @pytest.mark.parametrize("metric", ["mse", "mae"])
    def test_errors_of_a_regression_count_negatively(self, metric: str) -> None:
        assert utilities(game(line(SMALL), metric=metric)).max() < 0

    @pytest.mark.parametrize("metric", ["acuracy", "mse", "c/accuracy", "", "a/"])
    def test_an_unknown_metric_is_refused_before_anything_is_trained(self, metric: str) -> None:
        with pytest.raises(InputError, match=r"Unknown metric .*accuracy, .*auc, a/accuracy"):
            game(digits(SMALL, parts=True), metric=metric)

    def test_another_metric_trains_nothing_again(self, tmp_path: Path) -> None:
        first, trainer = game(), CountingTrainer()
        fv.value(first, "exact", store=tmp_path / "store.db")
        by_loss = fv.value(game(metric="loss", trainer=trainer), "exact", store=tmp_path / "store.db")
        assert trainer.trained == []
        assert by_loss.mean == pytest.approx(fv.value(game(metric="loss"), "exact").mean, abs=1e-6)


def factory(body: str) -> Callable[[Scenario], nn.Module]:
    """A factory of the user's own, from its source text."""
    made: Callable[[Scenario], nn.Module] = run_cell(f"def make(scenario):\n    return {body}\n", nn=nn)[
        "make"
    ]
    return made


OWN = """
class Part(nn.Module):
    kind = nn.ReLU
    def __init__(self):
        super().__init__()
        self.first, self.act = nn.Linear(64, 8), self.kind()
    def forward(self, x):
        return self.act(self.first(x)) * 1.0

class Own(nn.Module):
    def __init__(self, scenario):
        super().__init__()
        self.part, self.last = Part(), nn.Linear(8, 10)
    def forward(self, x):
        return self.last(self.part(x.flatten(1)))
"""


def own_class(old: str = "", new: str = "") -> type[nn.Module]:
    made: type[nn.Module] = run_cell(OWN.replace(old, new), nn=nn)["Own"]
    return made


class TestIdentity:
    @pytest.mark.parametrize(
        "change",
        [
            {"rounds": 3},
            {"epochs": 3},
            {"batch": 17},
            {"rate": 0.011},
            {"seed": 4},
            {"optimizer": "sgd"},
            {"optimizer": "sgd", "momentum": 0.5},
            {"algorithm": "fedprox", "mu": 0.1},
            {"algorithm": "fedsgd"},
        ],
        ids=str,
    )
    def test_rules_that_change_the_models_change_the_game(self, change: dict[str, Any]) -> None:
        other = Training(**{**QUICK.__dict__, **change})
        assert game(training=other).id != game().id
        assert dict(game(training=other).evaluate([7]))[7].metrics != dict(game().evaluate([7]))[7].metrics

    def test_all_of_these_are_different_games(self) -> None:
        rules = [
            QUICK,
            Training(optimizer="sgd"),
            Training(optimizer="sgd", momentum=0.5),
            Training(algorithm="fedprox", mu=0.1),
            Training(algorithm="fedprox", mu=0.2),
            Training(algorithm="fedsgd"),
            Training(algorithm="fedsgd", rate=0.1),
        ]
        assert len({game(training=training).id for training in rules}) == len(rules)

    def test_rules_without_effect_do_not(self) -> None:
        sgd = [Training(algorithm="fedsgd", epochs=e, batch=b) for e, b in ((1, 2), (3, 4))]
        assert game(training=sgd[0]).id == game(training=sgd[1]).id

    def test_data_and_model_change_the_game(self) -> None:
        scenario = digits(SMALL)
        x = scenario.clients[1].x.copy()
        x[3, 0, 2, 2] += 0.01
        relabelled = scenario.clients[1].y.copy()
        relabelled[0] = (relabelled[0] + 1) % 10
        parties = scenario.clients
        others = [
            changed(scenario, clients=(parties[0], Dataset(x, parties[1].y), parties[2])),
            changed(scenario, clients=(parties[0], Dataset(parties[1].x, relabelled), parties[2])),
            changed(scenario, clients=(parties[1], parties[0], parties[2])),
            changed(scenario, test=Dataset(scenario.test.x[:-1], scenario.test.y[:-1])),
            changed(scenario, test_parts={"a": np.arange(5)}),
            changed(scenario, classes=11),
        ]
        ids = [game(scenario).id, game(scenario, model="mlp").id, *(game(other).id for other in others)]
        assert len(set(ids)) == len(ids)

    def test_names_metric_backend_and_memory_do_not(self) -> None:
        scenario = digits(SMALL)
        renamed = changed(scenario, name="other", names=("x", "y", "z"), details={"source": "elsewhere"})
        same = [
            game(renamed),
            game(metric="loss"),
            game(replicates=3),
            game(trainer="local"),
            game(trainer="local", device="cpu", memory=1000),
            game(model=TorchLearner("linear", together=False)),
        ]
        assert {one.id for one in same} == {game().id}

    def test_it_is_the_same_in_every_process(self) -> None:
        """Stores outlive the process. Should this fail, raise _SEMANTICS and write down the new one."""
        scenario = Scenario(
            "fixed", (Dataset([[0.0], [1.0]], [0, 1]),), ("a",), Dataset([[0.5]], [1]), "classification", 2
        )
        first = FederatedGame(scenario, "mlp", Training())
        assert first.id.startswith("federation-")
        assert first.id == FederatedGame(scenario, "mlp").id
        assert len(first.id) == len("federation-") + 24

    def test_own_models_are_known_by_their_code(self) -> None:
        one = game(model=factory("nn.Sequential(nn.Flatten(), nn.Linear(64, 10))"))
        again = game(model=factory("nn.Sequential(nn.Flatten(), nn.Linear(64, 10))"))
        other = game(model=factory("nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))"))
        assert one.id == again.id
        assert one.id != other.id
        assert one.id != game().id

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("8", "9"),
            ("nn.ReLU", "nn.Sigmoid"),
            ("* 1.0", "* 0.5"),
            ("self.act(self.first(x))", "self.first(x)"),
        ],
    )
    def test_own_classes_are_known_by_their_code_and_that_of_their_parts(self, old: str, new: str) -> None:
        one, again, other = game(model=own_class()), game(model=own_class()), game(model=own_class(old, new))
        assert one.id == again.id
        assert one.id != other.id
        assert one.doubts == ()
        assert len(utilities(one)) == 8

    def test_own_models_are_known_by_the_weights_they_begin_with(self, tmp_path: Path) -> None:
        def make(scenario: Scenario) -> nn.Module:
            module = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
            module.load_state_dict(torch.load(tmp_path / "weights.pt"))
            return module

        ids = []
        for weight in (0.0, 0.0, 0.1):
            torch.save(
                {"1.weight": torch.full((10, 64), weight), "1.bias": torch.zeros(10)}, tmp_path / "weights.pt"
            )
            ids.append(game(model=make).id)
        assert ids[0] == ids[1] != ids[2]
        assert game(model=make).doubts == ()

    def test_a_key_names_an_own_model(self, tmp_path: Path) -> None:
        names: dict[str, Any] = {"nn": nn}
        exec("def make(scenario): return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))", names)
        with pytest.raises(fv.GameError, match=r"make, whose source text cannot be found.*key="):
            fv.value(game(model=names["make"]), "equal", store=tmp_path / "store.db")
        named = game(model=TorchLearner(names["make"], key="linear"))
        fv.value(named, "equal", store=tmp_path / "store.db")
        assert named.doubts == ()
        assert named.id == game(model=TorchLearner(own_class(), key="linear")).id
        assert named.id != game(model=TorchLearner(names["make"], key="other")).id

    def test_own_models_are_known_by_what_they_refer_to(self) -> None:
        def make(width: int) -> Callable[[Scenario], nn.Module]:
            def model(scenario: Scenario) -> nn.Module:
                return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))

            return model

        assert game(model=make(8)).id == game(model=make(8)).id
        assert game(model=make(8)).id != game(model=make(9)).id


class TestReplicates:
    def test_the_utility_is_the_mean_and_the_spread_is_told(self, tmp_path: Path) -> None:
        trainer = CountingTrainer()
        result = fv.value(
            game(replicates=3, trainer=trainer, metric="loss"), "exact", store=tmp_path / "store.db"
        )
        singles = [utilities(game(training=QUICK.replicate(r), metric="loss")) for r in range(3)]
        table = np.array(singles)
        assert len(trainer.trained) == 3 * 8
        assert result.mean == pytest.approx(fv.value(table.mean(0), "exact").mean, abs=1e-6)
        assert np.ptp(table[:, 0]) == 0  # v(∅) is no training and has no noise
        noise = np.sqrt(table[:, 1:].var(axis=0, ddof=1).mean())
        assert result.noise == pytest.approx(noise, rel=1e-4)
        assert noise > 0

    def test_the_first_replicate_is_the_game_without_any(self) -> None:
        one, three = game(), game(replicates=3)
        found = dict(three.evaluate([5, 7], replicate=0))
        assert {m: o.metrics for m, o in found.items()} == {m: o.metrics for m, o in one.evaluate([5, 7])}
        other = dict(three.evaluate([5, 7], replicate=1))
        assert all(other[mask].metrics != found[mask].metrics for mask in (5, 7))

    def test_the_store_keeps_replicates_apart_and_trains_none_twice(self, tmp_path: Path) -> None:
        store = tmp_path / "store.db"
        plain = fv.value(game(), "exact", store=store, noise=False)
        assert plain.noise is None
        trainer = CountingTrainer()
        two = fv.value(game(replicates=2, trainer=trainer), "exact", store=store)
        assert sorted(trainer.trained) == list(range(8))  # only those of the second replicate
        trainer.trained.clear()
        assert fv.value(game(replicates=2, trainer=trainer), "exact", store=store).mean.tolist() == (
            two.mean.tolist()
        )
        again = fv.value(game(trainer=trainer), "exact", store=store, noise=False)
        assert again.mean.tolist() == plain.mean.tolist()
        assert trainer.trained == []
        with fv.UtilityStore(store) as kept:
            (stored,) = kept.games()
            by_replicate = [kept.read(game().id, replicate=r) for r in (0, 1, 2)]
        assert (stored.coalitions, stored.outcomes) == (8, 16)
        assert [len(found) for found in by_replicate] == [8, 8, 0]
        assert by_replicate[0][7].metrics != by_replicate[1][7].metrics

    @pytest.mark.parametrize("replicates", [0, -1, 1.5, "2"])
    def test_less_than_one_and_parts_are_refused(self, replicates: Any) -> None:
        with pytest.raises(InputError, match="replicates must be a whole number from 1 to 10,000"):
            game(replicates=replicates)


class TestDivergence:
    """Client 1 has features so large that every training with it ends in numbers that are none."""

    HEALTHY, SICK = (0, 1, 4, 5), (2, 3, 6, 7)

    @pytest.fixture
    def scenario(self) -> Scenario:
        good = line(SMALL)
        wild = Dataset(good.clients[1].x * np.float32(1e20), good.clients[1].y)
        return changed(good, clients=(good.clients[0], wild, good.clients[2]))

    @pytest.mark.parametrize("together", [True, False], ids=["stacked", "one by one"])
    def test_it_is_refused_and_named_and_the_others_are_stored(
        self, scenario: Scenario, together: bool, tmp_path: Path
    ) -> None:
        rules = Training(rounds=2, epochs=2, batch=8, optimizer="sgd", rate=0.01)
        trainer = CountingTrainer()
        sick = game(
            scenario, training=rules, model=TorchLearner("linear", together=together), trainer=trainer
        )
        with pytest.raises(
            UtilityError, match=r"coalition \(1,\) \(client 1\) diverged.*4 of 8 trainings"
        ) as refused:
            fv.value(sick, "exact", store=tmp_path / "store.db", noise=False)
        assert refused.value.coalition == (1,)
        with fv.UtilityStore(tmp_path / "store.db") as store:
            kept = store.read(sick.id)
        assert sorted(kept) == list(self.HEALTHY)
        assert all(np.isfinite(list(outcome.metrics.values())).all() for outcome in kept.values())
        trainer.trained.clear()
        with pytest.raises(UtilityError):
            fv.value(sick, "exact", store=tmp_path / "store.db", noise=False)
        assert sorted(trainer.trained) == list(self.SICK)

    def test_a_rate_out_of_this_world(self) -> None:
        rules = Training(rounds=2, epochs=4, batch=8, optimizer="sgd", rate=1e30)
        wild = game(model="mlp", training=rules)
        found = wild.evaluate([0, 3])
        assert next(found)[0] == 0  # the initial model is as good as ever
        with pytest.raises(UtilityError, match="lower the rate") as refused:
            next(found)
        assert refused.value.coalition == (0, 1)

    def test_the_sick_do_not_infect_the_healthy(self, scenario: Scenario) -> None:
        """Trained in the same stack, on the same padded batches, beside models full of nan."""
        rules = Training(rounds=2, epochs=2, batch=8, optimizer="sgd", rate=0.01)
        found = game(scenario, training=rules).evaluate(range(8))
        beside = {mask: dict(outcome.metrics) for mask, outcome in islice(found, len(self.HEALTHY))}
        with pytest.raises(UtilityError):
            next(found)
        alone = {m: dict(o.metrics) for m, o in game(scenario, training=rules).evaluate(self.HEALTHY)}
        assert beside.keys() == alone.keys()
        for mask, metrics in alone.items():
            assert metrics == pytest.approx(beside[mask], rel=1e-5)


class TestTheWholeWay:
    def test_values_add_up_to_what_was_gained(self) -> None:
        one = game(model="mlp")
        table = utilities(one)
        assert fv.value(one, "exact").mean.sum() == pytest.approx(table[-1] - table[0], abs=1e-9)

    def test_values_do_not_depend_on_where_the_utilities_come_from(self, tmp_path: Path) -> None:
        trained = fv.value(game(), "exact", store=tmp_path / "store.db")
        stored = fv.value(game(), "exact", store=tmp_path / "store.db")
        assert stored.mean.tolist() == trained.mean.tolist()
        assert stored.seconds == pytest.approx(trained.seconds, rel=0.5)

    def test_a_budget_trains_no_more_than_it_says(self) -> None:
        trainer = CountingTrainer()
        result = fv.value(game(digits((20, 20, 20, 20, 20)), trainer=trainer), "ipss", budget=12)
        assert len(set(trainer.trained)) == len(trainer.trained) == result.evaluations <= 12

    def test_one_client(self) -> None:
        alone = game(digits((40,)), metric="loss")
        assert fv.value(alone, "exact").mean.sum() == pytest.approx(np.diff(utilities(alone))[0], abs=1e-6)


def test_observers_are_told_the_rounds_between_finished_coalitions() -> None:
    seen: list[str] = []
    rules = Training(rounds=3, epochs=1, batch=16)
    fv.value(
        FederatedGame(digits(), "mlp", rules),
        "equal",
        on_stage=seen.append,
        on_outcome=lambda evaluation: seen.append(f"{evaluation.done}/{evaluation.total}"),
    )
    assert seen == ["1/2", "round 2/3", "round 3/3", "2/2"]
