"""Whole valuations in a Flower federation: from settings to values, evaluation at the nodes, commands."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from flwr.app import Error, MetricRecord, RecordDict
from typer.testing import CliRunner

import fedvalue as fv
from federations import QUICK, digits
from fedvalue.cli import app
from fedvalue.errors import InputError, UnavailableError
from fedvalue.federation import FederatedGame
from fedvalue.flower.app_files import write_app
from fedvalue.flower.demo import lay_out
from fedvalue.flower.server import Task, value_federation
from fedvalue.flower.settings import Settings
from fedvalue.store import UtilityStore
from fedvalue.trainers.flower_wire import (
    CONFIG,
    METRICS,
    PROTOCOL,
)
from fedvalue.training import Training
from flower_fakes import SIZES, FakeGrid, N, held_out_parts, parties

pytestmark = pytest.mark.usefixtures("one_thread")

RUNNER = CliRunner()


class TestEvaluationAtTheNodes:
    def settings(self, tmp_path: Path, **more: Any) -> Settings:
        rules = {"rounds": 2, "epochs": 2, "batch": 16, "rate": 0.01, "seed": 3}
        return Settings.from_config({"clients": N, "method": "exact", "out": str(tmp_path), **rules, **more})

    def test_weighted_metrics_are_those_of_all_held_out_rows(self, tmp_path: Path) -> None:
        scenario = digits(SIZES)
        grid = FakeGrid(parties(scenario, held_out_parts(scenario, (10, 40, 70))))
        settings = self.settings(tmp_path, evaluate="nodes", metric="loss")
        values = value_federation(grid, settings, Task("classification", 10))
        expected = fv.value(FederatedGame(scenario, "mlp", QUICK, metric="loss"), "exact")
        assert values.mean == pytest.approx(expected.mean, abs=1e-6)
        assert values.game_id != expected.game_id  # who evaluates is part of the game
        assert values.details["evaluated_at"] == "nodes"
        assert values.details["message_rounds"] == QUICK.rounds + 3  # query, empty coalition, all others

    def test_other_held_out_rows_are_another_game(self, tmp_path: Path) -> None:
        scenario = digits(SIZES)
        ids = set()
        for sizes in ((10, 40, 70), (40, 10, 70)):
            grid = FakeGrid(parties(scenario, held_out_parts(scenario, sizes)))
            settings = self.settings(tmp_path / str(sizes[0]), evaluate="nodes")
            ids.add(value_federation(grid, settings, Task("classification", 10)).game_id)
        assert len(ids) == 2

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda r: RecordDict({CONFIG: r[CONFIG]}), "sent no record 'metrics'"),
            (lambda r: _measured(r, loss=[0.0]), "sent no loss for each of"),
            (lambda r: _measured(r, accuracy=[float("nan")] * 7), "not finite as accuracy"),
            (lambda r: _measured(r, **{"num-examples": 9999}), "measured on 9999 rows"),
        ],
    )
    def test_bad_measurements_are_rejected(self, change: Any, says: str, tmp_path: Path) -> None:
        scenario = digits(SIZES)
        grid = FakeGrid(parties(scenario, held_out_parts(scenario, (10, 40, 70))))
        grid.twists[1] = lambda message, reply: (
            change(reply) if message.metadata.message_type == "evaluate.fedvalue" else reply
        )
        settings = self.settings(tmp_path, evaluate="nodes", patience=1.0)
        with pytest.raises(UnavailableError, match=says):
            value_federation(grid, settings, Task("classification", 10))

    def test_somebody_must_hold_rows_out(self, tmp_path: Path) -> None:
        grid = FakeGrid(parties(digits(SIZES)))
        with pytest.raises(InputError, match="none of them holds rows out"):
            value_federation(grid, self.settings(tmp_path, evaluate="nodes"), Task("classification", 10))
        with pytest.raises(InputError, match="The server has no test set"):
            value_federation(grid, self.settings(tmp_path), Task("classification", 10))


def _measured(reply: RecordDict, **changes: Any) -> RecordDict:
    return RecordDict({**reply, METRICS: MetricRecord({**reply[METRICS], **changes})})


class TestValuation:
    def test_the_whole_way_from_settings_to_values(self, tmp_path: Path) -> None:
        scenario = digits(SIZES)
        grid = FakeGrid(parties(scenario))
        config = {"clients": N, "method": "ipss", "budget": 6, "out": str(tmp_path), "rounds": 2, "epochs": 2}
        settings = Settings.from_config({**config, "batch": 16, "rate": 0.01, "seed": 3})
        values = value_federation(grid, settings, Task("classification", 10, scenario.test))
        expected = fv.value(FederatedGame(scenario, "mlp", QUICK), "ipss", 6, 3)
        assert values.mean == pytest.approx(expected.mean, abs=1e-6)
        assert values.game_id == expected.game_id
        assert values.names == scenario.names
        assert settings.store_path.exists()

    def test_replicates_are_those_of_a_local_run(self, tmp_path: Path) -> None:
        scenario = digits(SIZES)
        config = {"clients": N, "method": "exact", "replicates": 2, "out": str(tmp_path), "metric": "loss"}
        rules = {"rounds": 2, "epochs": 2, "batch": 16, "rate": 0.01, "seed": 3}
        settings = Settings.from_config({**config, **rules})
        values = value_federation(
            FakeGrid(parties(scenario)), settings, Task("classification", 10, scenario.test)
        )
        local = FederatedGame(scenario, "mlp", QUICK, metric="loss", replicates=2)
        expected = fv.value(local, "exact")
        assert values.mean == pytest.approx(expected.mean, abs=1e-6)
        assert values.details["training_noise"] == pytest.approx(expected.details["training_noise"], abs=1e-6)
        assert (values.details["replicates"], values.details["metric"]) == (2, "loss")  # what an audit needs
        with UtilityStore(settings.store_path) as store:
            assert [len(store.read(local.id, None, replicate)) for replicate in range(3)] == [8, 8, 0]

    def test_missing_clients_refuse_or_leave_the_rest(self, tmp_path: Path) -> None:
        scenario = digits(SIZES)
        for missing in ("refuse", "use-known"):
            grid = FakeGrid(parties(scenario))
            grid.twists[1] = lambda message, reply: (
                reply if message.metadata.message_type == "query.fedvalue" else Error(code=8, reason="")
            )
            config = {"clients": N, "method": "exact", "rounds": 2, "patience": 1.0, "missing": missing}
            settings = Settings.from_config({**config, "out": str(tmp_path / missing)})
            if missing == "refuse":
                with pytest.raises(UnavailableError, match=r"client 1 .* crashed"):
                    value_federation(grid, settings, Task("classification", 10, scenario.test))
                continue
            values = value_federation(grid, settings, Task("classification", 10, scenario.test))
            assert values.names == ("client 0", "client 2")
            assert values.details["unavailable"] == {"client 1": "crashed while it trained"}

    @pytest.mark.parametrize(
        ("config", "says"),
        [
            ({}, "must say how many clients"),
            ({"clients": 0}, "clients must be the number"),
            ({"clients": 2, "evalute": "nodes"}, "Unknown setting 'evalute'.*Did you mean 'evaluate'"),
            ({"clients": 2, "evaluate": "moon"}, "evaluate must be one of"),
            ({"clients": 2, "missing": "guess"}, "missing must be one of"),
            ({"clients": 2, "rounds": 0}, "rounds must be a whole number"),
            ({"clients": 2, "replicates": 0}, "replicates must be a whole number of at least 1"),
            ({"clients": 2, "replicates": 1.5}, "replicates must be a whole number of at least 1"),
        ],
    )
    def test_wrong_settings_are_refused(self, config: dict[str, Any], says: str) -> None:
        with pytest.raises(InputError, match=says):
            Settings.from_config(config)


class TestCommands:
    def test_init_writes_a_ready_app_and_overwrites_nothing(self, tmp_path: Path) -> None:
        folder = tmp_path / "My valuation"
        done = RUNNER.invoke(app, ["flower", "init", str(folder), "--clients", "7"])
        assert done.exit_code == 0, done.output
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        flower = project["tool"]["flwr"]["app"]
        assert project["project"]["name"] == "my-valuation"
        assert flower["components"]["serverapp"] == "valuation.server_app:app"
        own = ("task", "classes", "test")
        settings = Settings.from_config(flower["config"], own)
        assert settings.clients == 7
        assert settings.training == Training(batch=32, rate=0.01)
        assert (settings.budget, settings.metric, settings.store) == (None, None, None)
        again = RUNNER.invoke(app, ["flower", "init", str(folder)])
        assert again.exit_code == 2
        assert "pyproject.toml already" in again.output

    def test_the_written_app_works(self, tmp_path: Path) -> None:
        """Its client app answers a query, and its server app is there."""
        scenario = digits(SIZES)
        folder = lay_out(tmp_path, scenario, {})
        code = (
            "import sys; sys.path.insert(0, sys.argv[1]); import valuation.client_app as c, valuation.server_app as s\n"
            "from flwr.app import ConfigRecord, Context, Message, RecordDict\n"
            "from flwr.supercore.task_identity import TaskIdentity as i; i.run_id = i.node_id = i.task_id = 1\n"
            "node = {'data': sys.argv[2], 'partition-id': 1, 'name': 'b'}\n"
            "context = Context(1, 1, node, RecordDict(), {'model': 'mlp'})\n"
            "content = RecordDict({'config': ConfigRecord({'protocol': int(sys.argv[3])})})\n"
            "report = c.app(Message(content, 1, 'query.fedvalue'), context).content['config']\n"
            "print(report['size'], report['position'], report['name'], type(s.app).__name__, 'torch' in sys.modules)"
        )
        command = [sys.executable, "-c", code, str(folder), str(tmp_path / "client-1.npz"), str(PROTOCOL)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        # Torch takes a second to import, and every message starts the app: a query does without.
        assert done.stdout.split() == ["20", "1", "b", "ServerApp", "False"]

    def test_a_missing_extra_names_its_install_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fedvalue.cli.flower.find_spec", lambda name: None)
        done = RUNNER.invoke(app, ["flower", "demo"])
        assert done.exit_code == 2
        assert 'pip install "fedvalue[flower]"' in done.output

    def test_a_folder_that_is_there_is_not_taken(self, tmp_path: Path) -> None:
        done = RUNNER.invoke(app, ["flower", "demo", "--keep", str(tmp_path)])
        assert done.exit_code == 2
        assert "is there already" in done.output

    def test_every_setting_can_be_written_and_no_other(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"Unknown settings \['colour'\]"):
            write_app(tmp_path / "a", {"colour": "red"})
        write_app(tmp_path / "b", {"out": 'a "b" \\ c', "rate": 1e-05})
        text = (tmp_path / "b" / "pyproject.toml").read_text(encoding="utf-8")
        config = tomllib.loads(text)["tool"]["flwr"]["app"]["config"]
        assert config["out"] == 'a "b" \\ c'
        assert config["rate"] == 1e-05
