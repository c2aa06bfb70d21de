"""What left each client of a Flower federation: counted as it comes in, and the same as the rules say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from marks import first_fast

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import BRIEF, digits
from flower_fakes import SIZES, FakeGrid, N, held_out_parts, parties
from flwr.app import Message, RecordDict

import fedvalue as fv
from fedvalue.errors import UnavailableError
from fedvalue.flower._server import Task, value_federation
from fedvalue.flower._settings import Settings
from fedvalue.games import FederatedGame
from fedvalue.values import Disclosure

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")


def settings(tmp_path: Path, **more: Any) -> Settings:
    rules = {"rounds": 2, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3}
    return Settings.from_config(
        {"clients": N, "method": "exact", "noise": False, "out": str(tmp_path), **rules, **more}
    )


def valued(tmp_path: Path, grid: FakeGrid, **more: Any) -> Disclosure:
    task = (
        Task("classification", 10)
        if more.get("evaluate") == "nodes"
        else Task("classification", 10, digits(SIZES).test)
    )
    values = value_federation(grid, settings(tmp_path, **more), task)
    assert values.disclosure is not None
    return values.disclosure


@pytest.mark.parametrize(
    "more", first_fast([{}, {"method": "surrogate", "noise": True, "budget": 8, "own-seeds": True}])
)
def test_what_was_counted_is_what_the_rules_say(tmp_path: Path, more: dict[str, Any]) -> None:
    found = valued(tmp_path, FakeGrid(parties(digits(SIZES))), **more)
    options: dict[str, Any] = {"noise": False} if not more else {"budget": 8, "own_seeds": True}
    here = fv.value(
        FederatedGame(digits(SIZES), "mlp", BRIEF), more.get("method", "exact"), seed=3, **options
    )
    assert found.apart
    assert here.disclosure is not None
    assert found.clients == here.disclosure.clients


def test_nodes_that_measure_tell_metrics_and_are_shown_models(tmp_path: Path) -> None:
    grid = FakeGrid(parties(digits(SIZES), held_out_parts(digits(SIZES), (10, 40, 70))))
    found = valued(tmp_path, grid, **{"evaluate": "nodes", "share-all-models": True})
    for one in found.clients:
        assert one.metrics >= 2**N  # every coalition, and untrained models
        assert one.solo_shown == 1
    assert "Models of single clients were shown to others" in " ".join(found.statements())


@pytest.mark.slow
def test_a_run_that_failed_says_what_left_all_the_same(tmp_path: Path) -> None:
    def silent_in_round_2(message: Message, content: RecordDict) -> RecordDict | None:
        return None if message.metadata.group_id == "2" else content

    grid = FakeGrid(parties(digits(SIZES)))
    grid.twists[2] = silent_in_round_2
    with pytest.raises(UnavailableError):
        valued(tmp_path, grid, patience=0.1, deadline=0.5)
    (run,) = json.loads((tmp_path / "disclosure.json").read_text())["runs"]
    assert not run["is_complete"]
    assert run["clients"][0]["models"] > 0
