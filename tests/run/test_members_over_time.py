"""Clients come, go and change their data: which trainings a run then makes, and that its values are those from scratch."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federations import QUICK, CountingTrainer, digits, line

import fedvalue as fv
from fedvalue.games import FederatedGame
from fedvalue.run import sparing
from fedvalue.scenarios import Scenario
from fedvalue.training import Training

pytestmark = pytest.mark.usefixtures("one_thread")

RULES = Training(rounds=1)
TEN = tuple(f"hospital {i}" for i in range(10))


@cache
def pool() -> Scenario:
    """Eleven clients, the last of whom comes later, and the third with more rows."""
    whole = line((20, 12, 30, 9, 25, 14, 18, 22, 16, 28, 19, 40))
    return replace(whole, names=(*TEN, "newcomer", "hospital 2 with more rows"))


def members_of(*names: str, rename: bool = False) -> Scenario:
    whole = pool()
    clients = tuple(whole.clients[whole.names.index(name)] for name in names)
    return replace(whole, clients=clients, names=tuple(name.partition(" with")[0] for name in names))


def after() -> Scenario:
    """Hospital 4 leaves, hospital 2 has more rows, the newcomer joins."""
    stay = [name for name in TEN if name != "hospital 4"]
    stay[stay.index("hospital 2")] = "hospital 2 with more rows"
    return members_of(*stay, "newcomer")


def game(scenario: Scenario, trainer: Any = None, **options: Any) -> FederatedGame:
    return FederatedGame(scenario, "least-squares", RULES, trainer=trainer or CountingTrainer(), **options)


def exact(of: FederatedGame, store: Any = None) -> fv.Values:
    return fv.value(of, "exact", store=store, noise=False)


class TestTenClients:
    @pytest.mark.slow
    def test_one_joins_one_leaves_one_adds_rows(self, tmp_path: Path) -> None:
        store, trainer = tmp_path / "store.db", CountingTrainer()
        exact(game(members_of(*TEN)), store)
        second = game(after(), trainer)
        values = exact(second, store)
        changed, joined = second.names.index("hospital 2"), second.names.index("newcomer")
        new = [mask for mask in range(1024) if mask >> changed & 1 or mask >> joined & 1]
        assert sorted(trainer.trained) == new
        assert len(new) == 768
        assert values.cost is not None
        assert (values.cost.trained, values.cost.reused) == (768, 256)
        with fv.UtilityStore(store) as kept:
            assert kept.verify() == []
            stored = kept.read(second.id)
        scratch = game(after())
        fresh = dict(scratch.evaluate(range(1024)))
        table = [scratch.utility(fresh[mask]) for mask in range(1024)]
        assert np.array_equal(values.mean, fv.value(table, "exact").mean)
        assert all(dict(stored[mask].metrics) == dict(fresh[mask].metrics) for mask in range(1024))

    def test_one_joiner_of_ten_costs_the_coalitions_with_it(self, tmp_path: Path) -> None:
        store, trainer = tmp_path / "store.db", CountingTrainer()
        exact(game(members_of(*TEN[:9])), store)
        exact(game(members_of(*TEN), trainer), store)
        assert sorted(trainer.trained) == list(range(512, 1024))

    def test_who_leaves_costs_nothing_and_who_returns_neither(self, tmp_path: Path) -> None:
        store, trainer = tmp_path / "store.db", CountingTrainer()
        exact(game(members_of(*TEN[:6])), store)
        for names in (TEN[1:6], TEN[:5], (*TEN[:3], *TEN[4:6]), TEN[:6]):
            values = exact(game(members_of(*names), trainer), store)
            assert np.array_equal(values.mean, exact(game(members_of(*names))).mean)
        assert trainer.trained == []

    def test_three_periods_hand_on_what_two_of_them_know(self, tmp_path: Path) -> None:
        store, trainer = tmp_path / "store.db", CountingTrainer()
        exact(game(members_of(*TEN[:3])), store)
        exact(game(members_of(*TEN[2:5])), store)
        exact(game(members_of(*TEN[:5]), trainer), store)
        apart = [mask for mask in range(32) if mask & 0b00011 and mask & 0b11000]
        assert sorted(trainer.trained) == apart


class TestOnlyWhatIsTheSame:
    def test_other_rules_take_nothing(self, tmp_path: Path) -> None:
        store, trainer = tmp_path / "store.db", CountingTrainer()
        scenario = digits((30, 20, 10))
        few = replace(scenario, clients=scenario.clients[:2], names=scenario.names[:2])
        exact(FederatedGame(few, "linear", QUICK), store)
        other = FederatedGame(scenario, "linear", replace(QUICK, seed=9), trainer=trainer)
        exact(other, store)
        assert sorted(trainer.trained) == list(range(8))

    def test_replicates_and_seeds_are_taken_one_by_one(self, tmp_path: Path) -> None:
        store, trainer = tmp_path / "store.db", CountingTrainer()
        scenario = digits((30, 20, 10))
        few = replace(scenario, clients=scenario.clients[:2], names=scenario.names[:2])
        fv.value(FederatedGame(few, "linear", QUICK, replicates=2), "exact", store=store)
        values = fv.value(
            FederatedGame(scenario, "linear", QUICK, replicates=2, trainer=trainer), "exact", store=store
        )
        assert sorted(trainer.trained) == sorted([4, 5, 6, 7] * 2)
        scratch = fv.value(FederatedGame(scenario, "linear", QUICK, replicates=2), "exact")
        assert np.array_equal(values.mean, scratch.mean)

    def test_what_lacks_a_metric_of_ones_own_is_trained(self, tmp_path: Path) -> None:
        """It is not in the way either: nobody has to say that it is to be trained again."""

        def worst(outputs: Any, labels: Any) -> float:
            return float(abs(outputs - labels).max())

        store, trainer = tmp_path / "store.db", CountingTrainer()
        exact(game(members_of(*TEN[:3])), store)
        own = fv.Metric("worst", worst, higher_is_better=False)
        values = exact(game(members_of(*TEN[:4]), trainer, metric=own), store)
        assert sorted(set(trainer.trained)) == list(range(16))
        trainer.trained.clear()
        after = exact(game(members_of(*TEN[1:4]), trainer, metric=own), store)
        assert set(trainer.trained) <= {0}
        assert values.metric == after.metric == "worst"

    def test_a_store_of_before_is_told_who_the_clients_are(self, tmp_path: Path) -> None:
        """Entries of earlier releases do not say; the same run again does, and trains nothing."""
        store, trainer = tmp_path / "store.db", CountingTrainer()
        first = game(members_of(*TEN[:3]))
        exact(first, store)
        with fv.UtilityStore(store) as kept:
            kept._describe(first.id, 3, {"names": list(TEN[:3])})
        exact(game(members_of(*TEN[:4]), trainer), tmp_path / "copy.db")
        trainer.trained.clear()
        exact(game(members_of(*TEN[:3]), trainer), store)
        assert trainer.trained == []
        exact(game(members_of(*TEN[:4]), trainer), store)
        assert sorted(trainer.trained) == list(range(8, 16))

    def test_a_forged_entry_is_not_believed(self, tmp_path: Path) -> None:
        """Somebody writes that other rows are those of a client that stays."""
        store, trainer = tmp_path / "store.db", CountingTrainer()
        first, second = game(members_of(*TEN[:3])), game(members_of(*TEN[2:5]), trainer)
        exact(first, store)
        theirs = second.members()
        assert theirs is not None
        with fv.UtilityStore(store) as kept:
            kept._describe(first.id, 3, {"names": list(TEN[:3]), "members": theirs.to_plain()})
        exact(second, store)
        assert sorted(trainer.trained) == list(range(8))

    def test_a_damaged_row_of_another_game_is_not_taken_over(self, tmp_path: Path) -> None:
        store = tmp_path / "store.db"
        first = game(members_of(*TEN[:3]))
        exact(first, store)
        with sqlite3.connect(store) as db:
            db.execute("UPDATE outcomes SET metrics = replace(metrics, '0.', '0.1') WHERE mask = '3'")
        with pytest.raises(fv.StoreError, match="altered after it was stored"):
            exact(game(members_of(*TEN[:4])), store)

    def test_the_best_constant_answer_follows_the_clients(self, tmp_path: Path) -> None:
        store = tmp_path / "store.db"
        fv.value(game(members_of(*TEN[:3]), empty="majority"), "exact", store=store, noise=False)
        values = fv.value(game(members_of(*TEN[:4]), empty="majority"), "exact", store=store, noise=False)
        scratch = fv.value(game(members_of(*TEN[:4]), empty="majority"), "exact", noise=False)
        assert values.utility_of_none == scratch.utility_of_none
        assert np.array_equal(values.mean, scratch.mean)


class TestDryRuns:
    def test_they_count_what_would_be_taken_over_and_write_nothing(self, tmp_path: Path) -> None:
        given: dict[str, Any] = {"model": "least-squares", "rounds": 1, "store": tmp_path / "store.db"}
        exactly: dict[str, Any] = {**given, "method": "exact", "options": {"noise": False}}
        fv.Job(members_of(*TEN[:5]), **exactly).run()
        before = (tmp_path / "store.db").read_bytes()
        job = fv.Job(members_of(*TEN[:6]), **exactly)
        assert job.plan().stored == 32
        assert (tmp_path / "store.db").read_bytes() == before
        assert job.run().cost.trained == 32


class TestTheSurrogate:
    BUDGET = 40

    def job(self, scenario: Scenario, store: Path | None, **more: Any) -> fv.Job:
        given: dict[str, Any] = {
            "model": "least-squares",
            "rounds": 1,
            "budget": self.BUDGET,
            "seeds": 1,
            **more,
        }
        return fv.Job(scenario, store=store, **given)

    def test_only_coalitions_with_the_joiner_are_trained(self, tmp_path: Path) -> None:
        store = tmp_path / "store.db"
        self.job(members_of(*TEN[:9]), store).run()
        job = sparing(self.job(members_of(*TEN), store), ["hospital 9"])
        assert job.options == {"new": [9]}
        result = job.run()
        trained = {mask for mask, _ in result.trained}
        assert trained == {mask for mask, _ in result.trained if mask >> 9 & 1}
        assert 0 < len(trained) < self.BUDGET
        assert result.values.known_before > 0
        assert np.allclose(
            result.values.mean.sum(), result.values.utility_of_all - result.values.utility_of_none
        )

    @pytest.mark.slow
    def test_a_run_that_was_stopped_comes_to_the_same(self, tmp_path: Path) -> None:
        whole, stopped = tmp_path / "a.db", tmp_path / "b.db"
        for store in (whole, stopped):
            self.job(members_of(*TEN[:9]), store).run()
        expected = sparing(self.job(members_of(*TEN), whole), ["hospital 9"]).run()
        job = sparing(self.job(members_of(*TEN), stopped), ["hospital 9"])
        some = sorted(expected.trained)[::2]
        with fv.UtilityStore(stopped) as kept:
            kept.register(job.prepared.game.id, 10)
            kept.append(job.prepared.game.id, job.prepared.game.evaluate([mask for mask, _ in some]))
        assert np.array_equal(job.run().values.mean, expected.values.mean)

    def test_without_enough_knowledge_of_the_others_the_plan_stays_whole(self, tmp_path: Path) -> None:
        store = tmp_path / "store.db"
        self.job(members_of(*TEN[:9]), store, budget=12).run()
        job = self.job(members_of(*TEN), store)
        assert sparing(job, ["hospital 9"]) is job
        several = fv.Job(digits((30, 20, 10, 20)), model="linear", store=store, budget=20)
        assert sparing(several, ["client 3"]) is several
        assert sparing(job, list(TEN)) is job

    @pytest.mark.parametrize("new", [[], [10], [-1], list(range(10)), "9", [0.5]])
    def test_clients_that_are_none_are_refused(self, new: Any) -> None:
        with pytest.raises(fv.MethodError, match="new"):
            self.job(members_of(*TEN), None, options={"new": new}).run()

    def test_it_goes_with_one_seed(self) -> None:
        with pytest.raises(fv.MethodError, match="one seed"):
            fv.value(digits_game(), "surrogate", budget=60, seeds=4, new=[1])


def digits_game() -> FederatedGame:
    return FederatedGame(digits((30, 20, 10, 20)), "linear", QUICK)
