"""The main job from Python: everything that `fedvalue run` does, a notebook can do."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.run import find_store

SMALL: dict[str, Any] = {"clients": 4, "samples": 20, "rounds": 2, "epochs": 1}


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """Trainings here are tiny."""


def printed(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_python_and_the_command_line_give_the_same_values(tmp_path: Path) -> None:
    result = fv.run("digits", **SMALL, method="ipss", budget=8, seed=3)
    text = printed(
        "run", "--no-config", "--clients", 4, "--samples", 20, "--rounds", 2, "--epochs", 1,
        "--method", "ipss", "--budget", 8, "--seed", 3, "--json", "-",
    )  # fmt: skip
    told = fv.Values.from_dict(json.loads(text))
    assert told.mean.tolist() == result.values.mean.tolist()
    for name in (
        "game_id",
        "metric",
        "utility_of_all",
        "utility_of_none",
        "evaluations",
        "budget",
        "guarantee",
    ):
        assert getattr(told, name) == getattr(result.values, name), name
    assert told.cost is not None
    assert (told.cost.trained, told.cost.reused) == (result.cost.trained, result.cost.reused) == (9, 0)


def test_every_option_of_the_command_is_one_of_the_job() -> None:
    import inspect
    from dataclasses import fields

    from fedvalue.cli._jobs import _OWN
    from fedvalue.cli.run import run as command

    of_command = {name for name in inspect.signature(command).parameters if name != "ctx"} - set(_OWN)
    assert of_command | {"options", "groups", "scenario_options", "model_options"} == {
        of.name for of in fields(fv.Job)
    }


@pytest.fixture(scope="module")
def result(one_thread: None) -> fv.Result:
    return fv.run("digits", partition="free-riders", **SMALL, method="exact")


class TestResult:
    def test_values_are_complete(self, result: fv.Result) -> None:
        values = result.values
        assert (values.metric, values.unit, values.higher_is_better) == ("accuracy", "accuracy", True)
        assert (values.replicates, values.absent, values.clients) == (1, {}, None)
        assert values.utility_of_all is not None
        assert values.utility_of_none is not None
        assert values.mean.sum() == pytest.approx(values.utility_of_all - values.utility_of_none)
        assert values.equal_split == pytest.approx(values.mean.mean())
        assert values.luck_trainings == 27  # besides all coalitions but ∅
        assert (
            result.cost
            == values.cost
            == fv.Cost(15 + 27, 0, result.cost.exact_trainings, result.cost.exact_seconds)
        )
        assert fv.Values.from_dict(json.loads(json.dumps(values.to_dict()))).cost == values.cost

    def test_audit_payout_and_report_need_no_store(self, result: fv.Result, tmp_path: Path) -> None:
        findings = result.audit().findings
        assert any(finding.kind == "no contribution" for finding in findings)
        assert sum(line.amount for line in result.payout(100, currency="EUR").lines) == 100
        page = result.report(tmp_path / "page.html", pot=100, currency="EUR").read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")
        assert "--partition" in page  # the command that repeats the run
        assert (
            result.report(tmp_path / "page.md")
            .read_text(encoding="utf-8")
            .startswith("# What the data of 4 clients")
        )

    def test_it_prints_what_the_command_prints(self, result: fv.Result) -> None:
        assert "All clients together: accuracy" in str(result)
        assert "Exact for this seed: these are the Shapley values" in str(result)

    def test_a_saved_run_is_one_for_the_commands(self, result: fv.Result, tmp_path: Path) -> None:
        folder = result.save(tmp_path / "run")
        assert sorted(path.name for path in folder.iterdir() if "-" not in path.name) == [
            "disclosure.json", "report.html", "run.json", "store.db", "values.json",
        ]  # fmt: skip
        assert "NO CONTRIBUTION" in printed("audit", folder)
        assert "100.00" in printed("payout", folder, "--pot", 100)
        again = fv.run("digits", partition="free-riders", **SMALL, method="exact", store=folder / "store.db")
        assert again.cost.trained == 0
        assert again.cost.reused >= 16
        assert again.values.mean.tolist() == result.values.mean.tolist()

    @pytest.mark.slow
    def test_another_run_in_the_folder_is_left_alone(self, result: fv.Result, tmp_path: Path) -> None:
        folder = result.save(tmp_path / "run")
        other = fv.run("digits", **SMALL, method="loo")
        with pytest.raises(fv.InputError, match="holds another run"):
            other.save(folder)
        assert fv.Values.from_dict(json.loads((folder / "values.json").read_text())).method == "exact"
        other.save(folder, overwrite=True)
        assert fv.Values.from_dict(json.loads((folder / "values.json").read_text())).method == "loo"

    @pytest.mark.parametrize("fails", ["at its start", "on the way"])
    def test_a_run_that_fails_leaves_earlier_results_as_they_are(
        self, result: fv.Result, tmp_path: Path, fails: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = result.save(tmp_path / "run")
        store, files = tmp_path / "other.db", ("values.json", "run.json", "report.html")
        before = {name: (folder / name).read_bytes() for name in files}
        if fails == "at its start":
            store.write_text("not a store")
        else:
            monkeypatch.setattr(fv.FederatedGame, "evaluate_trials", lambda *given, **more: 1 / 0)
        job = fv.Job("digits", **SMALL, method="loo", out=folder, store=store, overwrite=True)
        with pytest.raises((fv.StoreError, ZeroDivisionError)):
            job.run()
        assert {name: (folder / name).read_bytes() for name in files} == before
        monkeypatch.undo()
        store.unlink()
        job.run(report=False)
        assert json.loads((folder / "values.json").read_text())["method"] == "loo"
        assert json.loads((folder / "run.json").read_text())["method"] == "loo"
        assert not (folder / "report.html").exists()  # that of the earlier run
        (earlier,) = (folder / "earlier").iterdir()
        assert (earlier / "values.json").read_bytes() == before["values.json"]
        assert (earlier / "report.html").read_bytes() == before["report.html"]
        assert find_store(earlier, None).samefile(folder / "store.db")


class TestPlan:
    def test_a_dry_run_trains_nothing_and_leaves_nothing(self, tmp_path: Path) -> None:
        job = fv.Job("digits", **SMALL, method="ipss", budget=8, out=tmp_path / "run")
        plan = job.plan()
        assert (plan.coalitions, plan.stored) == (8, 0)
        assert plan.seconds > 0
        assert plan.to_dict()["plan"]["trainings"] == 8  # with that of all clients, for comparison
        assert plan.lines()[0] == "Plan: ipss, 8 of 16 coalitions."
        assert str(plan).splitlines() == plan.lines()
        assert not (tmp_path / "run").exists()

    def test_it_knows_what_the_store_has(self, tmp_path: Path) -> None:
        job = fv.Job("digits", **SMALL, method="ipss", budget=8, store=tmp_path / "s.db")
        job.run()
        assert job.plan().stored == 8

    @pytest.mark.parametrize(
        ("rounds", "later"),
        first_fast([(3, ", then 80 in each of 2 rounds"), (2, ", then 80 in round 2"), (1, "")]),
    )
    def test_rounds_are_said_as_many_as_there_are(self, rounds: int, later: str) -> None:
        plan = fv.Job("digits", clients=4, samples=24, model="linear", rounds=rounds, method="exact").plan()
        assert f"(16 in round 1, shared by all of a seed{later})." in str(plan)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"method": "ipps"}, "Did you mean 'ipss'"),
            ({"method": "k-greedy", "options": {"k": 99}}, "k"),
            ({"method": "ipss", "options": {"z": 1}}, "no option 'z'"),
            ({"method": "exact", "budget": 3}, "needs all 16 coalitions"),
            ({"budget": 0}, "at least 1"),
            ({"seed": -1}, "seed"),
            ({"metric": "applause"}, "Unknown metric"),
            ({"model": "mpl"}, "Did you mean 'mlp'"),
            ({"memory": "much"}, "4GB"),
            ({"backend": "rai"}, "backend"),
            ({"workers": 2}, "workers applies to Ray only"),
            ({"devic": "cpu"}, "Did you mean 'device'"),
            ({"on_outcom": print}, "Did you mean 'on_outcome'"),
            ({"model": "xgboost", "method": "gtg"}, "Gradient methods do not apply"),
        ],
    )
    def test_nothing_is_written_for_what_cannot_be(
        self, options: dict[str, Any], message: str, tmp_path: Path, trainings: list[int]
    ) -> None:
        rules = {} if options.get("model") == "xgboost" else SMALL
        with pytest.raises(fv.InputError, match=message):
            fv.run("digits", **{"samples": 24, **rules, **options}, out=tmp_path / "run")
        assert trainings == []
        assert not (tmp_path / "run").exists()


class TestOwnThings:
    def test_a_scenario_a_model_and_a_plan_of_ones_own(self) -> None:
        rng = np.random.default_rng(0)

        def rows(count: int) -> fv.Dataset:
            x = rng.normal(size=(count, 3)).astype(np.float32)
            return fv.Dataset(x, (x[:, 0] > 0).astype(np.int64))

        own = fv.Scenario("own", (rows(30), rows(30)), ("a", "b"), rows(40), "classification", 2)

        def halves(n: int, budget: int, rng: np.random.Generator) -> fv.Plan:
            """Half of v(N) each."""
            utilities = yield [0, (1 << n) - 1]
            return fv.Estimate(np.full(n, (utilities[1] - utilities[0]) / n))

        result = fv.run(own, model="linear", rounds=1, epochs=2, method=halves, budget=2)
        assert "own: 2 clients, 60 rows to train on, 40 to test on." in str(result)
        assert result.values.names == ("a", "b")
        assert result.values.method == "halves"
        assert result.values.guarantee == "unstated"
        assert "The method states no guarantee." in result.lines()
        with pytest.raises(
            fv.InputError, match=r"clients cannot be combined with a Scenario object, .* Leave it out"
        ):
            fv.run(own, clients=3)

    def test_observers_append_to_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "trainings.csv"
        stages: list[str] = []
        told: list[fv.Values] = []
        with path.open("a", newline="") as file:
            rows = csv.writer(file)
            result = fv.run(
                "digits", **SMALL, method="loo", store=tmp_path / "s.db",
                on_outcome=lambda e: rows.writerow([e.coalition, e.utility, e.reused]),
                on_stage=stages.append, on_values=told.append,
            )  # fmt: skip
        lines = list(csv.reader(path.read_text().splitlines()))
        assert len(lines) == 6  # ∅, N, and N without each client
        assert {line[2] for line in lines} == {"False"}
        assert "round 2/2" in stages
        assert told == [result.values]
        reused: list[bool] = []
        fv.run(
            "digits",
            **SMALL,
            method="loo",
            store=tmp_path / "s.db",
            on_outcome=lambda e: reused.append(e.reused),
        )
        assert reused == [True] * 6

    def test_an_observer_that_fails_loses_no_training(self, tmp_path: Path) -> None:
        def stumble(evaluation: fv.Evaluation) -> None:
            if evaluation.done == 3:
                raise RuntimeError("the disk of the log is full")

        with pytest.raises(RuntimeError, match="log is full"):
            fv.run("digits", **SMALL, method="exact", store=tmp_path / "s.db", on_outcome=stumble)
        with fv.UtilityStore(tmp_path / "s.db") as store:
            assert store.games()[0].outcomes >= 3


@pytest.mark.parametrize("moment", ["on_outcome", "on_values"])
def test_a_run_that_was_stopped_leaves_what_was_sent_until_then(moment: str, tmp_path: Path) -> None:
    def stop(seen: Any) -> None:
        if getattr(seen, "mask", 1):  # of ∅ nothing is sent
            raise KeyboardInterrupt

    options: dict[str, Any] = {**SMALL, "model": "linear", "method": "exact", "out": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        fv.run("digits", **options, **{moment: stop})
    whole = fv.run("digits", **options)
    runs = json.loads((tmp_path / "run" / "disclosure.json").read_text())["runs"]
    assert runs[0]["is_complete"] is False
    if moment == "on_values":  # everything had been trained
        assert whole.cost.trained == 0
        assert all(one["models"] > 0 for one in runs[0]["clients"])
