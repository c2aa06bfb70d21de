"""Values say everything about themselves, so that an audit and a report need nothing but the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from marks import first_fast

import fedvalue as fv
from fedvalue.games import RestrictedGame
from fedvalue.store import read_history
from fedvalue.testing.games import Recorder, random_table


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """Trainings here are tiny."""


def federated(metric: str = "accuracy", replicates: int = 1) -> fv.FederatedGame:
    scenario = fv.load_scenario("digits", clients=4, partition="free-riders", samples=20)
    rules = fv.Training(rounds=2, epochs=4, batch=16, rate=0.01)
    return fv.FederatedGame(scenario, "linear", rules, metric=metric, replicates=replicates)


@pytest.mark.parametrize("metric", first_fast(["accuracy", "loss"]))
def test_a_federated_game_then_audit_and_report(metric: str, tmp_path: Path) -> None:
    game, store = federated(metric, replicates=2), tmp_path / "trainings.db"
    values = fv.value(game, "exact", store=store)
    assert (values.metric, values.unit, values.replicates) == (metric, metric, 2)
    assert values.higher_is_better is (metric == "accuracy")
    assert values.noise is not None
    assert values.utility_of_all is not None
    assert values.utility_of_none is not None
    assert (values.utility_of_all < 0) is (metric == "loss")  # a utility: the loss negated
    found = fv.audit(values, store=store)
    assert any(finding.kind == "no contribution" for finding in found.findings)
    page = fv.report(values, tmp_path / "page.html", store=store, pot=1000, currency="EUR")
    text = page.read_text(encoding="utf-8")
    assert f"the {metric} goes from " in text
    with fv.UtilityStore(store) as opened:
        assert fv.audit(values, store=opened).to_dict() == found.to_dict()
        history = read_history(opened, values)
    assert history.utilities[15] == pytest.approx(
        [game.utility(outcome) for r in (0, 1) for _, outcome in game.evaluate([15], r)], rel=1e-5
    )


def test_a_function_and_a_table_then_audit_and_report(tmp_path: Path) -> None:
    table = np.array([0.0, 1.0, 1.0, 1.5, 0.0, 1.0, 1.0, 1.5])  # the third client adds nothing

    def worth(coalition: tuple[int, ...]) -> float:
        return float(table[sum(1 << i for i in coalition)])

    for game in (fv.FunctionGame(3, worth, batch=False, key="worth"), fv.TableGame(table)):
        store = tmp_path / f"{game.id}.db"
        values = fv.value(game, "exact", store=store)
        assert (values.metric, values.utility_of_none, values.utility_of_all) == ("utility", 0.0, 1.5)
        assert values.cost == fv.Cost(trained=8)
        assert fv.value(game, "exact", store=store).cost == fv.Cost(trained=0, reused=8)
        assert [f.clients for f in fv.audit(values, store=store).findings if f.kind == "no contribution"] == [
            ("client-2",)
        ]
        assert (
            fv.report(values, tmp_path / "page.md", store=store)
            .read_text()
            .startswith("# What the data of 3")
        )
        assert fv.report(values, tmp_path / "alone.html").read_text().startswith("<!doctype html>")
        # There is no model, so nothing may speak of an untrained one.
        assert str(fv.audit(values, store=store)).count("v(∅) = 0.0000, no clients.") == 1
        assert "v(∅), no clients: utility 0.0000." in str(fv.payout(values, 100))


def test_ends_are_known_only_where_a_method_or_the_store_knows_them(tmp_path: Path) -> None:
    game = random_table(5, 1)
    recorder = Recorder(5, game.table)
    few = fv.value(recorder, "ipss", budget=6)
    assert (few.utility_of_none, few.utility_of_all) == (game.table[0], None)
    assert few.equal_split is None
    assert len(recorder.evaluated) == 6  # a budget is a promise
    store = tmp_path / "s.db"
    fv.value(fv.TableGame(game.table), "equal", store=store)
    assert fv.value(fv.TableGame(game.table), "ipss", budget=6, store=store).utility_of_all == game.table[31]


def test_values_of_some_clients_have_the_history_of_those(tmp_path: Path) -> None:
    table = random_table(4, 5).table
    game = fv.TableGame(table, names=list("abcd"))
    with fv.UtilityStore(tmp_path / "s.db") as store:
        rest = RestrictedGame(game, [0, 2, 3], store)
        values = replace(fv.value(rest, "exact"), absent={"b": "did not answer"})
        assert (values.game_id, values.clients) == (game.id, (0, 2, 3))
        again = fv.value(rest, "exact", store=store)  # its coalitions are numbered otherwise: kept apart
        assert again.mean.tolist() == values.mean.tolist()
        fv.value(game, "loo", store=store)  # coalitions with b are in the store, too
        history = read_history(store, values)
        assert history.utilities == {
            place: [table[sum(1 << i for k, i in enumerate((0, 2, 3)) if place >> k & 1)]]
            for place in range(8)
        }
        found = fv.audit(values, store=store)
        assert found.absent == {"b": "did not answer"}
        assert "Not valued: b (did not answer)" in found.to_markdown()
        text = fv.report(values, tmp_path / "page.md", store=store).read_text(encoding="utf-8")
        assert "did not answer" in text
        again = fv.Values.from_dict(values.to_dict())
        assert (again.clients, again.absent) == ((0, 2, 3), {"b": "did not answer"})


def test_what_an_observer_does_to_an_outcome_stays_with_it(tmp_path: Path) -> None:
    def spoil(evaluation: fv.Evaluation) -> None:
        dict.__setitem__(evaluation.outcome.metrics, "utility", 99.0)  # type: ignore[arg-type]

    game = fv.TableGame(random_table(3, 1).table)
    first = fv.value(game, "exact", store=tmp_path / "s.db", on_outcome=spoil)
    assert fv.value(game, "exact", store=tmp_path / "s.db").mean.tolist() == first.mean.tolist()


def test_the_metrics_that_trainings_have_are_named_as_people_know_them(tmp_path: Path) -> None:
    store = tmp_path / "trainings.db"
    values = replace(fv.value(federated(), "loo", store=store), metric="hits", stored_as="hits")
    with pytest.raises(fv.InputError, match="They have: ") as caught:
        fv.audit(values, store=store)
    named = str(caught.value).partition("They have: ")[2].rstrip(".").split(", ")
    assert sorted(named) == ["accuracy", "auc", "balanced_accuracy", "correct", "f1", "loss"]


@pytest.mark.parametrize("method", ["loo", "k-greedy", "cc-neyman"])
def test_a_table_says_its_ends_whether_anybody_watches_or_not(method: str) -> None:
    table = random_table(5, 3).table
    alone = fv.value(table, method, budget=8)
    watched = fv.value(table, method, budget=8, on_outcome=lambda evaluation: None)
    ends = pytest.approx((table[0], table[-1]))
    assert (alone.utility_of_none, alone.utility_of_all) == ends
    assert (watched.utility_of_none, watched.utility_of_all) == ends
