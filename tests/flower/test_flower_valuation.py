"""Whole valuations in a Flower federation: from settings to values, evaluation at the nodes, commands."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import BRIEF, digits
from flower_fakes import SIZES, FakeGrid, N, held_out_parts, parties
from flwr.app import Context, Error, MetricRecord, RecordDict
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.errors import FedvalueError, InputError, UnavailableError
from fedvalue.flower._app_files import write_app
from fedvalue.flower._demo import lay_out
from fedvalue.flower._server import Task, server_app, value_federation
from fedvalue.flower._settings import Settings
from fedvalue.flower._wire import (
    CONFIG,
    METRICS,
    PROTOCOL,
)
from fedvalue.games import FederatedGame
from fedvalue.store import UtilityStore
from fedvalue.training import Training

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

RUNNER = CliRunner()


class TestEvaluationAtTheNodes:
    def settings(self, tmp_path: Path, **more: Any) -> Settings:
        rules = {"rounds": 2, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3}
        shared = {"share-all-models": more.get("evaluate") == "nodes"}
        return Settings.from_config(
            {"clients": N, "method": "exact", "out": str(tmp_path), **shared, **rules, **more}
        )

    def test_weighted_metrics_are_those_of_all_held_out_rows(self, tmp_path: Path) -> None:
        scenario = digits(SIZES)
        grid = FakeGrid(parties(scenario, held_out_parts(scenario, (10, 40, 70))))
        settings = self.settings(tmp_path, evaluate="nodes", metric="loss")
        values = value_federation(grid, settings, Task("classification", 10))
        expected = fv.value(FederatedGame(scenario, "mlp", BRIEF, metric="loss"), "exact")
        assert values.mean == pytest.approx(expected.mean, abs=1e-6)
        assert values.game_id != expected.game_id  # who evaluates is part of the game
        assert values.details["evaluated_at"] == "nodes"
        assert values.details["message_rounds"] == BRIEF.rounds + 3  # query, empty coalition, all others
        assert values.errors["test"] is not None  # by blocks of rows; what single rows say stays at the nodes

    def test_nodes_train_by_the_rules_of_the_server(self, tmp_path: Path) -> None:
        scenario = digits(SIZES)
        further = {
            "optimizer": "rmsprop", "optimizer_options": "alpha=0.9", "schedule": "cosine", "clip": 0.5,
            "class_weights": "balanced",
        }  # fmt: skip
        said = {name.replace("_", "-"): rule for name, rule in further.items()} | {"loss": "focal"}
        task = Task("classification", 10, scenario.test)
        values = value_federation(FakeGrid(parties(scenario)), self.settings(tmp_path, **said), task)
        game = FederatedGame(scenario, "mlp", replace(BRIEF, **further), loss="focal")
        assert values.mean == pytest.approx(fv.value(game, "exact").mean, abs=1e-6)

    def test_who_benefits_is_what_it_is_in_one_process(self, tmp_path: Path) -> None:
        scenario = digits(SIZES)
        grid = FakeGrid(parties(scenario, held_out_parts(scenario, (10, 40, 70))))
        values = value_federation(grid, self.settings(tmp_path, evaluate="nodes"), Task("classification", 10))
        parts = np.split(np.arange(120), [10, 50])
        here = replace(scenario, test_parts=dict(zip(scenario.names, parts, strict=True)))
        expected = fv.value(FederatedGame(here, "mlp", BRIEF), "exact").benefits
        assert values.benefits is not None
        assert expected is not None
        assert values.benefits.matrix == pytest.approx(expected.matrix, abs=1e-6)
        assert values.benefits.owners == scenario.names
        assert values.benefits.weights @ values.benefits.matrix == pytest.approx(values.mean, abs=1e-9)
        assert values.benefits.stderr is not None

    @pytest.mark.slow
    def test_other_held_out_rows_are_another_game(self, tmp_path: Path) -> None:
        scenario = digits(SIZES)
        ids = set()
        for sizes in ((10, 40, 70), (40, 10, 70)):
            grid = FakeGrid(parties(scenario, held_out_parts(scenario, sizes)))
            settings = self.settings(tmp_path / str(sizes[0]), evaluate="nodes")
            ids.add(value_federation(grid, settings, Task("classification", 10)).game_id)
        assert len(ids) == 2

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("change", "says"),
        first_fast(
            [
                (lambda r: RecordDict({CONFIG: r[CONFIG]}), "sent no record 'metrics'"),
                (lambda r: _measured(r, loss=[0.0]), "sent no loss for each of"),
                (
                    lambda r: _measured(r, accuracy=[float("nan")] * len(r[METRICS]["accuracy"])),
                    "not finite as accuracy",
                ),
                (lambda r: _measured(r, **{"num-examples": 9999}), "measured on 9999 rows"),
            ],
        ),
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
    def test_the_whole_way_from_settings_to_values(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        scenario = digits(SIZES)
        grid = FakeGrid(parties(scenario))
        config = {"clients": N, "method": "ipss", "budget": 6, "out": str(tmp_path), "rounds": 2, "epochs": 1}
        settings = Settings.from_config({**config, "batch": 16, "rate": 0.01, "seed": 3})
        values = value_federation(grid, settings, Task("classification", 10, scenario.test))
        expected = fv.value(FederatedGame(scenario, "mlp", BRIEF), "ipss", 6, 3)
        assert values.mean == pytest.approx(expected.mean, abs=1e-6)
        assert values.game_id == expected.game_id
        assert values.names == scenario.names
        assert settings.store_path.exists()
        assert "round 2/2" in caplog.text  # whoever waits sees how far it is

    @pytest.mark.slow
    def test_replicates_are_those_of_a_local_run(self, tmp_path: Path) -> None:
        scenario = digits(SIZES)
        config = {"clients": N, "method": "exact", "replicates": 2, "out": str(tmp_path), "metric": "loss"}
        rules = {"rounds": 2, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3}
        settings = Settings.from_config({**config, **rules})
        values = value_federation(
            FakeGrid(parties(scenario)), settings, Task("classification", 10, scenario.test)
        )
        local = FederatedGame(scenario, "mlp", BRIEF, metric="loss", replicates=2)
        expected = fv.value(local, "exact")
        assert values.mean == pytest.approx(expected.mean, abs=1e-6)
        assert values.noise == pytest.approx(expected.noise, abs=1e-6)
        assert (values.replicates, values.metric, values.higher_is_better) == (2, "loss", False)
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
                with pytest.raises(UnavailableError, match="client 1 crashed"):
                    value_federation(grid, settings, Task("classification", 10, scenario.test))
                continue
            values = value_federation(grid, settings, Task("classification", 10, scenario.test))
            assert values.names == ("client 0", "client 2")
            assert values.absent == {"client 1": "crashed while it trained"}
            assert "absent" not in values.details

    @pytest.mark.parametrize(
        ("config", "says"),
        [
            ({}, "must say how many clients"),
            (
                {"clients": 0},
                "clients, the number of nodes that take part, must be a whole number of at least 1",
            ),
            ({"clients": 2, "evalute": "nodes"}, "Unknown setting 'evalute'.*Did you mean 'evaluate'"),
            ({"clients": 2, "evaluate": "moon"}, "evaluate must be one of"),
            ({"clients": 2, "evaluate": "nodes"}, "those that another has trained alone.*share-all-models"),
            ({"clients": 2, "share-all-models": 1}, "share-all-models must be true or false"),
            ({"clients": 2, "missing": "guess"}, "missing must be one of"),
            ({"clients": 2, "rounds": 0}, "rounds must be a whole number"),
            ({"clients": 2, "seeds": -1}, "seeds must be a whole number of at least 1"),
            ({"clients": 2, "seeds": 2, "replicates": 2}, "two ways to train again"),
            ({"clients": 2, "method": "ipss", "seeds": 2}, "ipss trains with one seed"),
            ({"clients": 2, "method": "exact", "noise": "no"}, "noise must be true or false"),
            ({"clients": 2, "noise": False}, "for exact values only"),
            ({"clients": 2, "replicates": 0}, "replicates must be a whole number of at least 1"),
            ({"clients": 2, "replicates": 1.5}, "replicates must be a whole number of at least 1"),
        ],
    )
    def test_wrong_settings_are_refused(self, config: dict[str, Any], says: str) -> None:
        with pytest.raises(InputError, match=says):
            Settings.from_config(config)


RULES = {"rounds": 2, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3}


def valued(out: Path, absent: int | None = None, **more: Any) -> fv.Values:
    """A federation of three, one of whom may answer queries and then no more."""
    scenario = digits(SIZES)
    grid = FakeGrid(parties(scenario))
    if absent is not None:
        grid.twists[absent] = lambda message, reply: (
            reply if message.metadata.message_type == "query.fedvalue" else Error(code=8, reason="")
        )
    config = {"clients": N, "method": "exact", "out": str(out), "patience": 1.0, **RULES, **more}
    return value_federation(grid, Settings.from_config(config), Task("classification", 10, scenario.test))


class TestResults:
    @pytest.mark.slow
    @pytest.mark.parametrize("metric", ["accuracy", "loss"])
    def test_audit_and_report_of_a_federation(self, tmp_path: Path, metric: str) -> None:
        values = valued(tmp_path, metric=metric)
        found = fv.audit(values, store=tmp_path / "store.db")
        assert (found.coalitions, found.clients, found.absent) == (8, 3, {})
        page = fv.report(values, tmp_path / "page.md", store=tmp_path / "store.db").read_text(
            encoding="utf-8"
        )
        assert all(name in page for name in values.names)
        assert values.utility_of_all is not None
        assert values.mean.sum() == pytest.approx(values.utility_of_all - (values.utility_of_none or 0))

    def test_audit_and_report_with_a_missing_client(self, tmp_path: Path) -> None:
        values = valued(tmp_path, absent=1, missing="use-known")
        assert (values.names, values.clients) == (("client 0", "client 2"), (0, 2))
        found = fv.audit(values, store=tmp_path / "store.db")
        assert (found.coalitions, found.clients) == (4, 2)  # those without the missing client
        assert found.absent == {"client 1": "crashed while it trained"}
        assert "Not valued: client 1 (crashed while it trained)" in found.to_markdown()
        page = fv.report(values, tmp_path / "page.html", store=tmp_path / "store.db")
        assert "Not valued: client 1" in page.read_text(encoding="utf-8")
        # The whole game, among whose trainings those of the others are.
        assert values.game_id == fv.value(FederatedGame(digits(SIZES), "mlp", BRIEF), "loo").game_id

    def test_commands_find_everything_in_the_folder(self, tmp_path: Path) -> None:
        values = valued(tmp_path / "out", absent=0, missing="use-known", store=str(tmp_path / "kept.db"))
        assert {path.name for path in (tmp_path / "out").iterdir()} == {
            "values.json",
            "run.json",
            "report.html",
            "disclosure.json",
        }
        record = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
        assert record["store"] == "../kept.db"
        assert record["scenario"]["rows"] == list(SIZES)
        assert record["training"]["rounds"] == 2
        assert set(record["versions"]) == {"fedvalue", "python", "flwr"}
        for command in ("audit", "report"):
            done = RUNNER.invoke(app, [command, str(tmp_path / "out"), "--quiet"])
            assert done.exit_code == 0, done.output
        again = fv.Values.from_dict(
            json.loads((tmp_path / "out" / "values.json").read_text(encoding="utf-8"))
        )
        assert again.to_dict() == values.to_dict()
        assert set(values.details) >= {"message_rounds", "messages", "evaluated_at", "incidents"}
        verdict = fv.verify(tmp_path / "out")  # from the store alone, the absent client being absent
        assert verdict.sound, str(verdict)
        assert "they are the same to the last bit" in str(verdict)

    def test_a_failed_run_keeps_earlier_results(self, tmp_path: Path) -> None:
        """Also one that fails at its very start, as the app of a server runs it."""
        scenario = digits(SIZES)

        def run(grid: FakeGrid) -> None:
            config = {"clients": N, "method": "exact", "out": str(tmp_path), "patience": 0.3, **RULES}
            context = Context(1, 1, {}, RecordDict(), config)
            server_app(lambda context: Task("classification", 10, scenario.test))(grid, context)

        run(FakeGrid(parties(scenario)))
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".db"}
        assert set(before) == {"values.json", "run.json", "report.html", "disclosure.json"}
        with pytest.raises(FedvalueError, match="Expected 3 clients; 0 answered"):
            run(FakeGrid([]))
        after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".db"}
        assert "Expected 3 clients" in json.loads(after.pop("error.json"))["error"]
        assert after == before
        run(FakeGrid(parties(scenario)))
        # That found everything in the store, and what left the clients before stays on record.
        assert (tmp_path / "disclosure.json").read_bytes() == before["disclosure.json"]
        assert not (tmp_path / "error.json").exists()
        folders = list((tmp_path / "earlier").iterdir())  # what a new result takes the place of
        assert sorted(path.name for of in folders for path in of.iterdir()) == [
            "error.json",
            *sorted(set(before) - {"disclosure.json"}),
        ]
        (kept,) = (of for of in folders if (of / "values.json").exists())
        for name in ("values.json", "report.html"):
            assert (kept / name).read_bytes() == before[name]
        done = RUNNER.invoke(app, ["audit", str(kept), "--quiet"])  # it knows where the store is
        assert done.exit_code == 0, done.output

    def test_the_record_and_the_report_say_how_it_went(self, tmp_path: Path) -> None:
        values = valued(tmp_path, absent=1, missing="use-known")
        record = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
        assert record["settings"]["patience"] == 1.0
        assert (record["settings"]["rate"], record["settings"]["missing"]) == (RULES["rate"], "use-known")
        assert record["incidents"] == values.details["incidents"]
        assert record["absent"] == values.absent
        assert record["began"] <= record["ended"]
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "client 0 37, client 1 20, client 2 64" in page
        assert "crashed while it trained; its part is left out" in page  # an incident
        assert "There is no record of the run" not in page
        done = RUNNER.invoke(app, ["report", str(tmp_path), "--out", "-", "--format", "md"])
        assert "patience 1.0" in done.output

    def test_a_failed_run_says_what_had_happened(self, tmp_path: Path) -> None:
        grid = FakeGrid(parties(digits(SIZES)))
        grid.twists[1] = lambda message, reply: (
            reply if message.metadata.message_type == "query.fedvalue" else Error(code=8, reason="")
        )
        config = {"clients": N, "method": "exact", "out": str(tmp_path), "patience": 0.3, **RULES}
        context = Context(1, 1, {}, RecordDict(), config)
        with pytest.raises(UnavailableError):
            server_app(lambda context: Task("classification", 10, digits(SIZES).test))(grid, context)
        left = json.loads((tmp_path / "error.json").read_text(encoding="utf-8"))
        assert "client 1 crashed while it trained" in left["error"]
        assert any("client 1 crashed" in incident for incident in left["incidents"])
        assert left["settings"]["method"] == "exact"

    def test_whoever_waits_sees_how_far_a_round_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("fedvalue.flower._messages.TELL_SECONDS", 0.0)
        grid = FakeGrid(parties(digits(SIZES)))
        pull = grid.pull_messages
        grid.pull_messages = lambda identifiers: pull(list(identifiers)[:1])  # type: ignore[method-assign]
        settings = Settings.from_config(
            {"clients": N, "method": "loo", "out": str(tmp_path), "patience": 5.0, **RULES}
        )
        value_federation(grid, settings, Task("classification", 10, digits(SIZES).test))
        assert "round 1: 1 of 3 messages answered" in caplog.text

    def test_a_report_that_cannot_be_made_does_not_cost_the_values(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*args: Any, **options: Any) -> None:
            raise RuntimeError("no page")

        monkeypatch.setattr("fedvalue.flower._valuation.render", broken)
        values = valued(tmp_path)
        assert fv.Values.from_dict(
            json.loads((tmp_path / "values.json").read_text(encoding="utf-8"))
        ).mean.tolist() == list(values.mean)
        assert not (tmp_path / "report.html").exists()


class TestCommands:
    def test_init_writes_a_ready_app_and_overwrites_nothing(self, tmp_path: Path) -> None:
        folder = tmp_path / "My valuation"
        done = RUNNER.invoke(app, ["flower", "init", str(folder), "--clients", "7"])
        assert done.exit_code == 0, done.output
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        flower = project["tool"]["flwr"]["app"]
        assert project["project"]["name"] == "my-valuation"
        assert flower["components"]["serverapp"] == "valuation.server_app:app"
        own = ("task", "classes", "test", "data")
        settings = Settings.from_config(flower["config"], own)
        assert settings.clients == 7
        assert settings.training == Training(batch=32, rate=0.01)
        assert (settings.budget, settings.metric, settings.store) == (None, None, None)
        again = RUNNER.invoke(app, ["flower", "init", str(folder)])
        assert again.exit_code == 2
        assert "pyproject.toml already" in again.output

    @pytest.mark.slow
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
            "content = RecordDict({'config': ConfigRecord({'protocol': int(sys.argv[3]), 'task': 'classification', 'classes': 10, 'vocabulary': 0})})\n"
            "report = c.app(Message(content, 1, 'query.fedvalue'), context).content['config']\n"
            "print(report['size'], report['position'], report['name'], type(s.app).__name__, 'torch' in sys.modules)"
        )
        command = [sys.executable, "-c", code, str(folder), str(tmp_path / "client-1.npz"), str(PROTOCOL)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        # Torch takes a second to import, and every message starts the app: a query does without.
        assert done.stdout.split() == ["20", "1", "b", "ServerApp", "False"]

    def test_a_missing_extra_names_its_install_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "flwr", None)
        done = RUNNER.invoke(app, ["flower", "demo"])
        assert done.exit_code == 1
        assert "pip install 'fedvalue[flower]'" in done.output

    def test_an_unknown_method_is_refused_before_anything_is_started(self) -> None:
        done = RUNNER.invoke(app, ["flower", "demo", "--method", "bogus"])
        assert done.exit_code == 2
        assert "bogus" in done.output
        assert "SuperLink" not in done.output

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
