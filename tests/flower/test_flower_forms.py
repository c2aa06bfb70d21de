"""Rows of any form over Flower: several inputs, labels of any shape, losses and metrics of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from marks import first_fast

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import utilities
from flower_fakes import FakeGrid, held_out_parts, parties, remote
from torch import Tensor, nn

from fedvalue.errors import InputError
from fedvalue.flower._forms import Form
from fedvalue.flower._plan import FederationPlan, _alike, plan_of
from fedvalue.flower._reports import kind_of, remote_scenario
from fedvalue.flower._roster import Roster
from fedvalue.flower._trainer import FlowerTrainer
from fedvalue.flower._wire import WireError
from fedvalue.games import FederatedGame
from fedvalue.learners.torch import TorchLearner
from fedvalue.learners.xgboost_bagging import XGBoostBagging
from fedvalue.scenarios import Dataset, Scenario
from fedvalue.training import Training

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

RULES = Training(rounds=2, epochs=1, batch=8, rate=0.05, seed=3)
SIZES = (12, 9, 16)


class Tagger(nn.Module):
    """A class for every token of a text: ids and a mask by name, or in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(7, 4), nn.Linear(4, 3)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        said: Tensor = self.head(self.words(ids) * mask.unsqueeze(-1))
        return said


def scenario_of(
    x: Callable[[np.random.Generator, int], Any], y: Callable[[Any], Any], **kind: Any
) -> Scenario:
    """Small clients and a test set of 20 rows."""
    rng = np.random.default_rng(4)

    def rows(count: int) -> Dataset:
        features = x(rng, count)
        return Dataset(features, y(features))

    names = tuple(f"client {i}" for i in range(len(SIZES)))
    return Scenario("forms", tuple(rows(size) for size in SIZES), names, test=rows(20), **kind)


def tokens(named: bool, padded: bool) -> Scenario:
    def x(rng: np.random.Generator, count: int) -> Any:
        ids, mask = rng.integers(0, 7, (count, 5)), rng.random((count, 5)) < 0.8
        return {"ids": ids, "mask": mask} if named else (ids, mask)

    def y(features: Any) -> Any:
        ids, mask = features.values() if named else features
        return np.where(mask, ids % 3, -100) if padded else ids % 3

    return scenario_of(x, y, task="classification", classes=3, vocabulary=7)


def findings() -> Scenario:
    """Two labels a row, of a task of one's own."""
    return scenario_of(
        lambda rng, count: rng.normal(size=(count, 4)),
        lambda x: (x[:, :2] > 0).astype(int),
        task="own",
        classes=0,
    )


def soft_margin(outputs: Tensor, labels: Tensor) -> Tensor:
    return torch.log1p(torch.exp(-outputs * (2 * labels - 1))).mean(1)


def both_right(outputs: np.ndarray, labels: np.ndarray) -> float:
    return float(((outputs > 0) == labels).all(1).mean())


def planned(game: FederatedGame, roster: Roster) -> FederationPlan:
    """The dry run."""
    limits = {"memory": 1 << 30, "message_bytes": 1 << 26, "checkpoints": False, "patience": 1.0}
    return plan_of(
        game,
        roster,
        method="exact",
        options={},
        budget=None,
        store=Path("none"),
        job={},
        members=(),
        **limits,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("named", first_fast([True, False]))
def test_several_inputs_and_a_label_for_every_token(named: bool) -> None:
    """The same game with the same utilities as in one process."""
    scenario = tokens(named, padded=True)
    grid = FakeGrid(parties(scenario), Tagger)
    seen, roster = remote(scenario, grid)
    there = FederatedGame(seen, Tagger, RULES, trainer=FlowerTrainer(grid, roster))
    here = FederatedGame(scenario, Tagger, RULES)
    assert there.id == here.id
    assert utilities(there) == pytest.approx(utilities(here), abs=1e-6)


def test_a_task_of_ones_own_with_a_loss_and_a_metric() -> None:
    scenario, learner = findings(), TorchLearner(lambda: nn.Linear(4, 2), loss=soft_margin)
    grid = FakeGrid(parties(scenario), learner)
    seen, roster = remote(scenario, grid)
    rules = replace(RULES, rate=0.3)
    there = FederatedGame(seen, learner, rules, metric=both_right, trainer=FlowerTrainer(grid, roster))
    here = FederatedGame(scenario, learner, rules, metric=both_right)
    assert there.id == here.id
    assert utilities(there) == pytest.approx(utilities(here), abs=1e-6)
    assert np.ptp(utilities(here)) > 0.2  # something is learnt


def test_nodes_measure_labels_of_tokens_as_one_test_set() -> None:
    """And a loss by name is tried on rows that stand for theirs."""
    scenario = tokens(named=True, padded=False)
    grid = FakeGrid(parties(scenario, held_out_parts(scenario, (4, 6, 10))), Tagger)
    roster = Roster.gather(grid, len(SIZES), 1.0, kind_of(scenario))
    seen = remote_scenario(roster.reports, None, *kind_of(scenario))
    there = FederatedGame(seen, Tagger, RULES, loss="focal", trainer=FlowerTrainer(grid, roster))
    here = FederatedGame(scenario, Tagger, RULES, loss="focal")
    found, expected = (dict(game.evaluate([3, 7])) for game in (there, here))
    for mask, outcome in found.items():
        for name in ("accuracy", "loss", "correct"):
            assert outcome.metrics[name] == pytest.approx(expected[mask].metrics[name], abs=1e-6)


def test_a_task_of_ones_own_is_measured_on_the_server_only() -> None:
    scenario, learner = findings(), TorchLearner(lambda: nn.Linear(4, 2), loss="bce")
    grid = FakeGrid(parties(scenario, held_out_parts(scenario, (4, 6, 10))), learner)
    roster = Roster.gather(grid, len(SIZES), 1.0, kind_of(scenario))
    seen = remote_scenario(roster.reports, None, *kind_of(scenario))
    game = FederatedGame(seen, learner, RULES, metric=both_right, trainer=FlowerTrainer(grid, roster))
    with pytest.raises(InputError, match="'both_right' needs the test rows on the server"):
        dict(game.evaluate([1]))
    with pytest.raises(InputError, match="'both_right' needs the test rows on the server"):
        planned(game, roster)


def test_labels_of_another_shape_are_refused() -> None:
    scenario = findings()
    _, roster = remote(scenario, FakeGrid(parties(scenario)))
    odd = replace(roster.reports[1], form=Form("float32 4", "int64 3"))
    expected = (
        r"Expected features float32 4; labels int64 2; client 1 reports features float32 4; labels int64 3\."
    )
    with pytest.raises(InputError, match=expected):
        remote_scenario([roster.reports[0], odd], scenario.test, "own", 0)


def test_trees_are_not_exchanged() -> None:
    scenario = scenario_of(
        lambda rng, count: rng.normal(size=(count, 4)),
        lambda x: x[:, 0] > 0,
        task="classification",
        classes=2,
    )
    grid = FakeGrid(parties(scenario), XGBoostBagging())
    seen, roster = remote(scenario, grid)
    game = FederatedGame(seen, "xgboost", Training(rounds=2), trainer=FlowerTrainer(grid, roster))
    with pytest.raises(InputError, match="Only models that are sets of named arrays"):
        dict(game.evaluate([1]))
    with pytest.raises(InputError, match="Only models that are sets of named arrays"):
        planned(game, roster)


def test_the_dry_run_has_rows_of_the_same_form() -> None:
    scenario = tokens(named=True, padded=True)
    seen, _ = remote(scenario, FakeGrid(parties(scenario)))
    drawn = _alike(seen)
    assert [len(client) for client in drawn.clients] == list(SIZES)
    assert Form.of(drawn.clients[0]) == Form.of(scenario.test)


@pytest.mark.parametrize("x", [["float32 60000000"] * 2, {f"{i}": "float32" for i in range(2000)}])
def test_rows_that_nobody_has_are_refused_also_in_several_inputs(x: Any) -> None:
    with pytest.raises(WireError, match="more than anybody has"):
        Form.from_text(json.dumps({"x": x, "y": "int64"}))
