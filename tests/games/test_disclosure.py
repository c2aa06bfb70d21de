"""What left each client: by the rules of a training, in a run's folder and in its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from federations import QUICK, digits

import fedvalue as fv
from fedvalue.evidence import verify
from fedvalue.games import FederatedGame
from fedvalue.values import Disclosed, Disclosure

SMALL: dict[str, Any] = {"clients": 3, "samples": 20, "rounds": 2, "epochs": 1, "model": "linear"}


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """Trainings here are tiny."""


def left(result: fv.Result) -> Disclosure:
    assert result.values.disclosure is not None
    return result.values.disclosure


def test_every_local_training_is_a_model() -> None:
    found = left(fv.run("digits", **SMALL, method="exact", options={"noise": False}))
    # Round 1 once, then round 2 of the four coalitions with each client, of which one is the client alone.
    for one in found.clients:
        assert (one.models, one.solo, one.counts) == (5, 2, 1)
        assert (one.averages, one.pairs) == (3, 2)
        assert (one.gradients, one.metrics, one.solo_shown) == (0, 0, 0)
    assert not found.apart
    assert "nothing left anybody" in found.statements()[0]


def test_nobody_is_alone_with_larger_coalitions() -> None:
    found = left(fv.run("digits", **SMALL, budget=5, seeds=1, min_coalition=2))
    assert [one.solo for one in found.clients] == [1, 1, 1]  # round 1 is of every client by itself
    assert [one.pairs for one in found.clients] == [2, 2, 2]
    assert (
        left(fv.run("digits", **(SMALL | {"clients": 4}), budget=6, seeds=1, min_coalition=3))
        .clients[0]
        .pairs
        == 0
    )


def test_a_seed_for_every_training_has_a_round_1_for_each() -> None:
    found = left(fv.run("digits", **SMALL, budget=7, own_seeds=True))
    for one in found.clients:
        assert one.models == 2 * (one.averages + 1)  # two rounds of each coalition with it, one of them alone


def test_a_step_of_fedsgd_is_a_gradient() -> None:
    found = left(
        fv.run(
            "digits", clients=3, samples=20, model="linear", rounds=2, algorithm="fedsgd", budget=4, seeds=1
        )
    )
    assert all(one.gradients == one.models > 0 for one in found.clients)


def test_clients_without_data_or_with_the_same_send_what_is_trained() -> None:
    scenario = digits((20, 0, 20))
    found = FederatedGame(scenario, "linear", QUICK).disclosure([(0b111, 0), (0b011, 0), (0b010, 0)])
    assert [one.models for one in found.clients] == [3, 0, 2]
    assert found.clients[0].solo == 2  # with a client without data it is by itself


@pytest.mark.slow
def test_a_folder_keeps_one_entry_for_every_run_that_trained(tmp_path: Path) -> None:
    for budget in (4, 4, 6):
        fv.run("digits", **SMALL, budget=budget, seeds=1, out=tmp_path, overwrite=True)
    runs = json.loads((tmp_path / "disclosure.json").read_text())["runs"]
    assert len(runs) == 2  # the second found everything in the store
    assert runs[0]["clients"][0]["models"] > 0
    (tmp_path / "disclosure.json").write_text("{}")
    with pytest.raises(fv.InputError, match=r"would be lost\. Move it elsewhere"):
        fv.run("digits", **SMALL, budget=8, seeds=1, out=tmp_path, overwrite=True)


def test_an_altered_digit_is_found(tmp_path: Path) -> None:
    fv.run("digits", **SMALL, method="exact", options={"noise": False}, out=tmp_path)
    file = tmp_path / "disclosure.json"
    file.write_text(file.read_text().replace('"solo": 2', '"solo": 1', 1))
    wrong = [check for check in verify(tmp_path).checks if check.state == "wrong"]
    assert [check.what for check in wrong] == ["What left the clients"]


def test_values_and_reports_say_it(tmp_path: Path) -> None:
    result = fv.run("digits", **SMALL, budget=6, seeds=1, out=tmp_path)
    again = fv.Values.from_dict(json.loads((tmp_path / "values.json").read_text()))
    assert again.disclosure == left(result)
    for name in ("report.html", "report.md"):
        assert "What left each client" in result.report(tmp_path / name).read_text()
    assert fv.value(fv.TableGame([0.0, 1.0]), "exact").disclosure is None


@pytest.mark.parametrize(
    "harm",
    [
        {"clients": "all"},
        {"clients": [{"client": "a", "models": -1}]},
        {"clients": [{"models": 1}]},
        {"apart": "yes"},
    ],
)
def test_records_that_were_changed_are_refused(harm: dict[str, Any]) -> None:
    plain = fv.Values([1.0], ["a"], "exact", 2, disclosure=Disclosure((Disclosed("a", 1),), True)).to_dict()
    plain["disclosure"] |= harm
    with pytest.raises(fv.InputError):
        fv.Values.from_dict(plain)
