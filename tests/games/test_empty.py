"""v(∅) by each rule, the same wherever it is shown, and never stale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federations import digits, line
from marks import first_fast

import fedvalue as fv
from fedvalue.coalitions import Trial
from fedvalue.errors import InputError
from fedvalue.games import RestrictedGame
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Dataset, Scenario
from fedvalue.store import export, read_history
from fedvalue.trainers import LocalTrainer

RULES = fv.Training(rounds=2, epochs=2, batch=16, rate=0.01)
ALL = ("initial", "chance", "majority", 0.25)


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """Trainings here are tiny."""


class Watched(LocalTrainer):
    def __init__(self) -> None:
        super().__init__("cpu")
        self.asked: list[int] = []

    def train_trials(
        self, scenario: Any, learner: Any, training: Any, trials: Sequence[Trial], *claim: Any
    ) -> Any:
        self.asked += [mask for mask, _ in trials]
        return super().train_trials(scenario, learner, training, trials, *claim)


def with_free_rider() -> Scenario:
    scenario = digits((30, 20))
    nothing = Dataset(scenario.clients[0].x[:0], scenario.clients[0].y[:0])
    return Scenario(
        "free", (*scenario.clients, nothing), ("a", "b", "free"), scenario.test, "classification", 10
    )


def game(empty: Any = "initial", scenario: Scenario | None = None, **options: Any) -> fv.FederatedGame:
    return fv.FederatedGame(scenario or with_free_rider(), "linear", RULES, empty=empty, **options)


class TestRules:
    @pytest.mark.slow
    @pytest.mark.usefixtures("all_untrained_models")
    def test_initial_is_the_mean_of_64_models_whatever_the_seed(self) -> None:
        single = []
        for seed in range(64):
            learner = fv.FederatedGame(with_free_rider(), "linear").learner
            session = learner.session(with_free_rider(), fv.Training(seed=seed), "cpu", None)
            single.append(session.evaluate(session.initial())[0]["accuracy"])
        assert np.ptp(single) > 0.05
        for seed in (0, 5):
            values = fv.value(fv.FederatedGame(with_free_rider(), "linear", fv.Training(seed=seed)), "equal")
            assert values.utility_of_none == pytest.approx(np.mean(single))
            assert values.empty is not None
            assert (values.empty.rule, values.empty.models) == ("initial", 64)
            assert values.empty_label == "untrained model (mean of 64)"

    def test_a_model_that_is_not_random_needs_one(self) -> None:
        values = fv.value(fv.FederatedGame(line(), "least-squares"), "equal")
        assert values.empty is not None
        assert (values.empty.models, values.empty_label) == (1, "untrained model")

    def test_majority_is_the_best_constant_of_the_training_rows(self) -> None:
        scenario = with_free_rider()
        train = np.concatenate([data.y for data in scenario.clients])
        counts = np.bincount(train, minlength=10)
        values = fv.value(game("majority"), "equal")
        assert values.utility_of_none == (scenario.test.y == counts.argmax()).mean()
        assert values.empty_label == "most frequent class"
        chances = (counts + 1) / (counts + 1).sum()
        loss = fv.value(game("majority", metric="loss"), "equal").utility_of_none
        assert loss == pytest.approx(np.log(chances[scenario.test.y]).mean())

    @pytest.mark.parametrize("metric", ["r2", "mse", "mae"])
    def test_majority_of_a_regression(self, metric: str) -> None:
        scenario = line()
        train, test = np.concatenate([data.y for data in scenario.clients]), scenario.test.y.astype(float)
        mean, median = train.mean(dtype=float), np.median(train)
        expected = {
            "mse": -((test - mean) ** 2).mean(),
            "mae": -np.abs(test - median).mean(),
            "r2": 1 - ((test - mean) ** 2).mean() / test.var(),
        }[metric]
        found = fv.value(game("majority", scenario, metric=metric), "equal")
        assert found.utility_of_none == pytest.approx(expected, rel=1e-6)
        assert found.empty_label == "mean of the targets"

    def test_chance(self) -> None:
        assert fv.value(game("chance"), "equal").utility_of_none == 0.1
        assert fv.value(game("chance", metric="loss"), "equal").utility_of_none == pytest.approx(-np.log(10))
        assert fv.value(game("chance", metric="auc"), "equal").utility_of_none == 0.5
        with pytest.raises(InputError, match="Guessing needs classes, and this is a regression"):
            game("chance", line())

    def test_a_number_is_in_the_metric_that_counts(self) -> None:
        assert fv.value(game(0), "equal").utility_of_none == 0
        assert fv.value(game("0.7", metric="loss"), "equal").utility_of_none == -0.7
        assert fv.value(game(0), "equal").empty_label == "no clients, as chosen"

    @pytest.mark.parametrize("wrong", ["mean", float("nan"), "inf", None, True, ""])
    def test_anything_else_is_refused(self, wrong: Any) -> None:
        with pytest.raises(InputError, match="must be initial, chance, majority or a finite number"):
            game(wrong)

    def test_own_metrics(self) -> None:
        def hits(outputs: Any, labels: Any) -> float:
            return float((outputs.argmax(1) == labels).sum())

        for rule in ("initial", "majority"):
            own = fv.value(game(rule, metric=hits), "equal").utility_of_none
            assert own == pytest.approx(fv.value(game(rule, metric="correct"), "equal").utility_of_none)
        with pytest.raises(InputError, match="What guessing reaches in the metric 'hits' is not known"):
            game("chance", metric=hits)

    @pytest.mark.parametrize("rule", ALL)
    def test_it_changes_no_training_and_not_the_game(self, rule: Any) -> None:
        assert game(rule).id == game().id
        assert dict(game(rule).evaluate([3]))[3].metrics == dict(game().evaluate([3]))[3].metrics

    @pytest.mark.parametrize("rule", ALL)
    def test_a_client_without_data_is_worth_exactly_nothing(self, rule: Any) -> None:
        values = fv.value(game(rule), "exact")
        assert values.mean[2] == 0
        assert values.utility_of_all is not None
        assert values.utility_of_none is not None
        assert values.mean.sum() == pytest.approx(values.utility_of_all - values.utility_of_none)


class TestStores:
    @pytest.mark.parametrize("second", first_fast(ALL, keep=2))
    @pytest.mark.parametrize("first", first_fast(ALL, keep=2))
    def test_one_written_under_a_rule_is_read_under_another(
        self, first: Any, second: Any, tmp_path: Path
    ) -> None:
        store = tmp_path / "s.db"
        fv.value(game(first), "exact", store=store, noise=False)
        trainer = Watched()
        found = fv.value(game(second, trainer=trainer), "exact", store=store, noise=False)
        assert found.mean == pytest.approx(fv.value(game(second), "exact").mean, abs=1e-12)
        assert set(trainer.asked) <= {0, 4}  # nothing but coalitions without data
        again = fv.value(game(second, trainer=trainer), "exact", store=store, noise=False)
        assert again.cost == fv.Cost(0, 8, 3, again.cost.exact_seconds if again.cost else None)
        # Everything that reads the store counts from there, too.
        with fv.UtilityStore(store) as opened:
            history = read_history(opened, found)
            export(opened, found.game_id, tmp_path / "g.npz", empty=str(second))
        assert history.utilities[0] == history.utilities[4] == [found.utility_of_none]
        assert np.load(tmp_path / "g.npz")["utilities"][[0, 4]].tolist() == [found.utility_of_none] * 2
        gaps = [finding for finding in fv.audit(found, store=store).findings if "gap" in finding.kind]
        assert gaps == []

    def test_one_from_before_there_were_rules(self, tmp_path: Path) -> None:
        store = tmp_path / "s.db"
        with fv.UtilityStore(store) as opened:
            opened.register(game().id, 3)
            for mask, outcome in game().evaluate(range(8)):
                plain = {name: number for name, number in outcome.metrics.items() if "|" not in name}
                opened.append(game().id, [(mask, Outcome(plain, outcome.seconds))])
        trainer = Watched()
        found = fv.value(game(trainer=trainer), "exact", store=store, noise=False)
        assert set(trainer.asked) == {0, 4}
        assert found.mean == pytest.approx(fv.value(game(), "exact").mean, abs=1e-12)
        with fv.UtilityStore(store) as opened:
            assert read_history(opened, found).utilities[4] == [found.utility_of_none]

    def test_an_export_of_several_rules_asks_which(self, tmp_path: Path) -> None:
        store = tmp_path / "s.db"
        for rule in ("initial", "majority"):
            fv.value(game(rule), "exact", store=store)
        with (
            fv.UtilityStore(store) as opened,
            pytest.raises(InputError, match=r"Choose with --empty .* initial, majority\. Got None"),
        ):
            export(opened, game().id, tmp_path / "g.npz")

    def test_a_game_of_some_clients(self, tmp_path: Path) -> None:
        with fv.UtilityStore(tmp_path / "s.db") as store:
            fv.value(game("initial"), "exact", store=store)
            rest = RestrictedGame(game("majority"), [0, 2], store)
            values = fv.value(rest, "exact")
            assert values.utility_of_none == fv.value(game("majority"), "equal").utility_of_none
            assert values.empty_label == "most frequent class"
            assert values.mean[1] == 0

    def test_values_are_read_back_and_old_ones_too(self) -> None:
        values = fv.value(game("majority"), "exact")
        plain = values.to_dict()
        again = fv.Values.from_dict(plain)
        assert (again.empty, again.baseline, again.learned) == (values.empty, values.baseline, values.learned)
        for new in ("empty", "baseline", "learned"):
            del plain[new]
        old = fv.Values.from_dict(plain)
        assert (old.empty, old.baseline, old.learned, old.warning) == (None, None, None, "")
        assert old.empty_label == "untrained model"
