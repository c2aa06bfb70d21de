"""Flower's simulation: nodes that exist for the length of a run, in which clients keep their names."""

from __future__ import annotations

import shutil
from pathlib import Path

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
