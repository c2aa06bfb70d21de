"""Metrics of one's own in a federation: where the test rows are on the server, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import BRIEF, digits
from flower_fakes import DIGITS, SIZES, FakeGrid, N, federation, held_out_parts, parties, remote
from numpy.typing import NDArray

import fedvalue as fv
from fedvalue.errors import InputError, UnavailableError, UtilityError
from fedvalue.flower._foreign import ForeignApp
from fedvalue.flower._reports import remote_scenario
from fedvalue.flower._roster import Roster
from fedvalue.flower._trainer import FlowerTrainer
from fedvalue.flower._valuation import value_of_those_who_answer
from fedvalue.games import FederatedGame

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

Array = NDArray[Any]


def top_two(logits: Array, labels: Array) -> float:
    return float((np.argsort(logits, axis=1)[:, -2:] == labels[:, None]).any(1).mean())


def test_the_server_computes_it_on_its_test_set() -> None:
    scenario, grid, _ = federation()
    seen, roster = remote(scenario, grid)
    there = FederatedGame(seen, "mlp", BRIEF, metric=top_two, trainer=FlowerTrainer(grid, roster))
    local = FederatedGame(scenario, "mlp", BRIEF, metric=top_two)
    assert (there.id, there.stored_as) == (local.id, local.stored_as)
    found, expected = (fv.value(game, "exact") for game in (there, local))
    assert found.mean == pytest.approx(expected.mean, abs=1e-6)
    assert found.metric == "top_two"


def test_it_goes_unnoticed_by_the_nodes() -> None:
    """They check that the model is the one that they have agreed to."""
    scenario, grid, trainer = federation()
    outcomes = dict(FederatedGame(scenario, "mlp", BRIEF, metric=top_two, trainer=trainer).evaluate([7]))
    assert set(outcomes) == {7}
    assert not any("top_two" in str(message.content) for message in grid.sent)


def test_where_the_nodes_hold_the_test_rows_it_is_refused_before_anything_is_trained() -> None:
    scenario = digits(SIZES)
    grid = FakeGrid(parties(scenario, held_out_parts(scenario, (10, 40, 70))))
    roster = Roster.gather(grid, N, 5.0, DIGITS)
    seen = remote_scenario(roster.reports, None, "classification", 10)
    shown = str(seen).splitlines()
    assert shown[0].startswith(f"federation: {seen.n} clients")
    assert all(line.split()[-2:] == ["–", "–"] for line in shown[5:])  # what is elsewhere is not known
    game = FederatedGame(seen, "mlp", BRIEF, metric=top_two, trainer=FlowerTrainer(grid, roster))
    with pytest.raises(InputError, match=r"'top_two' needs the test rows on the server.*built-in metric"):
        fv.value(game, "exact")
    assert {message.metadata.message_type for message in grid.sent} == {"query.fedvalue"}


def test_an_app_of_ones_own_measures_itself() -> None:
    app = ForeignApp({"w": np.zeros(3)}, "key")
    with pytest.raises(InputError, match="'top_two' cannot be computed here: a ForeignApp measures"):
        FederatedGame(digits(SIZES), app, BRIEF, metric=top_two)


def test_a_model_on_which_it_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    scenario, _, trainer = federation()
    local = FederatedGame(scenario, "mlp", BRIEF, metric="correct")
    worst = {mask: outcome.metrics["correct"] for mask, outcome in local.evaluate(range(8))}

    def fails(logits: Array, labels: Array) -> float:
        correct = float((logits.argmax(1) == labels).sum())
        if correct == worst[3]:
            raise RuntimeError("too few")
        return correct

    metric = fv.Metric("fails", fails, key="test")
    game = FederatedGame(scenario, "mlp", BRIEF, metric=metric, trainer=trainer)
    with pytest.raises(
        UtilityError, match=r"'fails' raised RuntimeError: too few.*client 0, client 1"
    ) as caught:
        fv.value(game, "exact", store=tmp_path / "s.db")
    assert not isinstance(caught.value, UnavailableError)
    with fv.UtilityStore(tmp_path / "s.db") as store:
        assert sorted(store.read(game.id)) == [mask for mask in range(8) if worst[mask] != worst[3]]


def test_those_who_answer_are_valued_by_it_and_an_old_store_says_what_it_lacks(tmp_path: Path) -> None:
    scenario = digits(SIZES)
    gone = UnavailableError("client 2 is away", (2,), {2: "is away"})
    with fv.UtilityStore(tmp_path / "s.db") as store:
        fv.value(FederatedGame(scenario, "mlp", BRIEF), "exact", store=store)
        late, again = (
            FederatedGame(scenario, "mlp", BRIEF, metric=top_two, retrain=retrain)
            for retrain in (False, True)
        )
        with pytest.raises(InputError, match="3 trainings in the store lack the metric 'top_two'"):
            value_of_those_who_answer(late, gone, "exact", None, 0, store)
        values = value_of_those_who_answer(again, gone, "exact", None, 0, store)
        assert (values.clients, values.stored_as) == ((0, 1), late.stored_as)
        assert store.read(late.id)[3].metrics[late.stored_as] == values.utility_of_all
        assert (
            value_of_those_who_answer(late, gone, "exact", None, 0, store).mean.tolist()
            == values.mean.tolist()
        )
        assert fv.audit(values, store=store).coalitions == 4
