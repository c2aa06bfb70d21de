"""Flower's simulation: nodes that exist for the length of a run, in which clients keep their names."""

from __future__ import annotations

import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")
pytest.importorskip("ray", reason="Flower simulates with Ray: the extra ray")

from federations import digits
from flower_processes import alive, until
from foreign_app import EXAMPLE, example_modules, plain_accuracy

import fedvalue as fv
from fedvalue.flower._demo import lay_out, run_app
from fedvalue.flower._processes import Federation
from fedvalue.games import FederatedGame
from fedvalue.training import Training

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread", "all_untrained_models")]

RULES = {"rounds": 2, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3}
LONG = 400.0  # for one valuation on a busy machine

OWN = """
import torch
from torch import nn


def network():
    return nn.Linear(4, 2)


def soft_margin(outputs, labels):
    return torch.log1p(torch.exp(-outputs * (2 * labels - 1))).mean(1)


def both_right(outputs, labels):
    return float(((outputs > 0) == labels).all(1).mean())
"""


def test_our_app_and_one_of_others_keep_names_and_values_from_run_to_run(tmp_path: Path) -> None:
    """What `fedvalue flower init` writes, with the setting `data`; then an app that does not know us, twice."""
    game = FederatedGame(digits((40, 30, 50)), "mlp", Training(**RULES))  # type: ignore[arg-type]
    app = lay_out(
        tmp_path, game.scenario, {"method": "exact-cc", "data": str(tmp_path / "client-{}.npz"), **RULES}
    )
    foreign = Path(shutil.copytree(EXAMPLE, tmp_path / "foreign"))
    with Federation(tmp_path) as federation:
        federation.link_options = ("--insecure", "--simulation")
        federation.run_options = ("--federation-config", "num-supernodes=3")
        federation.start_link()
        ours = run_app(federation, app, tmp_path / "out", {}, LONG)
        settings = {"clients": 3, "num-server-rounds": 1}
        theirs = [run_app(federation, foreign, tmp_path / f"foreign-{i}", settings, LONG) for i in range(2)]
    until(lambda: not alive(tmp_path), f"the end of {alive(tmp_path)}", 40)
    expected = fv.value(game, "exact-cc")
    assert ours.game_id == expected.game_id
    assert ours.names == ("client-0", "client-1", "client-2")
    assert ours.mean == pytest.approx(expected.mean, abs=1e-6)
    with example_modules() as modules:
        table = [plain_accuracy(modules, 3, mask, 1) for mask in range(8)]
    mean = fv.value(fv.TableGame(table), "exact").mean
    for values in theirs:
        assert values.names == ours.names
        assert values.mean == pytest.approx(mean, abs=0.003)  # by partition, not by Flower's random numbers
    assert theirs[0].game_id == theirs[1].game_id


def test_a_task_of_ones_own_has_its_model_loss_and_metric_in_the_app(tmp_path: Path) -> None:
    """Rows have two labels each; the files of the app go to the nodes, and settings name what is in them."""
    rng = np.random.default_rng(2)

    def rows(count: int) -> fv.Dataset:
        x = rng.normal(size=(count, 4))
        return fv.Dataset(x, (x[:, :2] > 0).astype(int))

    scenario = fv.Scenario("findings", (rows(20), rows(30)), ("a", "b"), rows(40), task="own", classes=0)
    rules = {**RULES, "rate": 0.3}
    named = {kind: f"valuation.own:{name}" for kind, name in (("model", "network"), ("loss", "soft_margin"))}
    settings = {"method": "exact", "noise": False, **named, "metric": "valuation.own:both_right", **rules}
    app = lay_out(tmp_path, scenario, {**settings, "data": str(tmp_path / "client-{}.npz")})
    (app / "valuation" / "own.py").write_text(OWN, encoding="utf-8")
    with Federation(tmp_path) as federation:
        federation.link_options = ("--insecure", "--simulation")
        federation.run_options = ("--federation-config", "num-supernodes=2")
        federation.start_link()
        found = run_app(federation, app, tmp_path / "out", {}, LONG)
    until(lambda: not alive(tmp_path), f"the end of {alive(tmp_path)}", 40)
    own = _module(app / "valuation" / "own.py")
    here = FederatedGame(
        scenario,
        own.network,
        Training(**rules),  # type: ignore[arg-type]
        loss=own.soft_margin,
        metric=own.both_right,
    )
    expected = fv.value(here, "exact", noise=False)
    assert found.metric == "both_right"
    assert found.mean == pytest.approx(expected.mean, abs=1e-6)
    assert expected.utility_of_all > expected.utility_of_none


def _module(path: Path) -> ModuleType:
    spec = spec_from_file_location("valuation.own", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
