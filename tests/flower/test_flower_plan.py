"""The dry run of a federation: who is there and what a valuation would take, with nothing trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import digits
from flower_fakes import SIZES, FakeGrid, N, parties
from flwr.app import Context, RecordDict

from fedvalue.errors import InputError
from fedvalue.flower import Settings, Task, plan_federation, server_app, value_federation
from fedvalue.flower._plan import FederationPlan

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

RULES = {"rounds": 4, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3, "patience": 0.3}


def task() -> Task:
    return Task("classification", 10, digits(SIZES).test)


def settings(out: Path, **more: Any) -> Settings:
    return Settings.from_config({"clients": N, "method": "exact-cc", "out": str(out), **RULES, **more})


@pytest.mark.slow
def test_the_plan_is_what_the_run_takes(tmp_path: Path) -> None:
    planned, valued = FakeGrid(parties(digits(SIZES))), FakeGrid(parties(digits(SIZES)))
    plan = plan_federation(planned, settings(tmp_path), task())
    assert {message.metadata.message_type for message in planned.sent} == {"query.fedvalue"}
    assert not (tmp_path / "store.db").exists()
    values = value_federation(valued, settings(tmp_path), task())
    assert (plan.asked, plan.stored, plan.trainings) == (7, 0, 7)
    assert plan.message_rounds == values.details["message_rounds"]
    assert plan.messages == values.details["messages"] + N  # asked once more, for the time that takes
    rows = [m.content["config"]["rows"] for m in valued.sent if m.metadata.message_type == "train.fedvalue"]
    assert plan.local_trainings == sum(rows)
    assert plan.rows == dict(zip(values.names, SIZES, strict=True))
    assert 0 < plan.seconds < 60
    again = plan_federation(planned, settings(tmp_path), task())
    assert (again.stored, again.trainings, again.local_trainings) == (7, 0, 0)


@pytest.mark.slow
def test_waves_and_what_is_kept(tmp_path: Path) -> None:
    few = {"memory-mb": 0.4}
    plan = plan_federation(FakeGrid(parties(digits(SIZES))), settings(tmp_path, **few), task())
    grid = FakeGrid(parties(digits(SIZES)))
    values = value_federation(grid, settings(tmp_path, **few), task())
    assert plan.waves > 1
    assert abs(plan.message_rounds - values.details["message_rounds"]) <= 3  # one wave more or less
    one = plan_federation(FakeGrid(parties(digits(SIZES))), settings(tmp_path / "one"), task())
    assert 0 < plan.checkpoint < one.checkpoint
    none = plan_federation(
        FakeGrid([*parties(digits(SIZES))]), settings(tmp_path / "n", checkpoints=False), task()
    )
    assert none.checkpoint == 0
    assert "a run that is killed begins again" in str(none)


def test_the_app_leaves_it_for_whoever_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    grid = FakeGrid(parties(digits(SIZES)))
    del grid.parties[101]
    config = {
        "clients": N,
        "method": "surrogate",
        "budget": 6,
        "out": str(tmp_path),
        "dry-run": True,
        **RULES,
    }
    server_app(lambda context: task())(grid, Context(1, 1, {}, RecordDict(), config))
    plan = FederationPlan.from_dict(json.loads((tmp_path / "plan.json").read_text(encoding="utf-8")))
    assert list(plan.absent) == ["client-1"]
    assert "Absent: client-1 (did not answer within 0 s). The others would be valued without them." in str(
        plan
    )
    assert "Nothing was trained." in caplog.text
    assert not (tmp_path / "values.json").exists()
    with pytest.raises(InputError, match=r"Expected a plan in the format"):
        FederationPlan.from_dict({"format": "another"})
    for members in ("Bern", ["Bern"], {"Bern": "key"}):
        with pytest.raises(InputError, match="members of a plan must be a list of clients"):
            FederationPlan.from_dict({**plan.to_dict(), "members": members})


@pytest.mark.parametrize("method", ["surrogate", "exact", "or", "dig-fl"])
def test_every_kind_of_method(tmp_path: Path, method: str) -> None:
    plan = plan_federation(FakeGrid(parties(digits(SIZES))), settings(tmp_path, method=method), task())
    assert plan.trainings >= 1
    assert plan.asked >= plan.trainings
