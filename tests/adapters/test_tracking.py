"""Runs followed by MLflow, TensorBoard and Weights & Biases: by the packages themselves, and what a tracker tells any tool."""

from __future__ import annotations

import json
import os
import re
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedvalue as fv
from fedvalue.adapters.tracking import MLflow, Row, TensorBoard, Tool, Tracker, WandB
from fedvalue.errors import FedvalueWarning, InputError

ALWAYS = 1e-9
HOSTILE = ("../../etc", "a/b", "a.b", "A.b", "ü <b>{{ 7 }}", "N" * 300)


def job(**options: Any) -> fv.Job:
    usual = {"clients": 4, "samples": 20, "model": "least-squares", "budget": 12}
    return fv.Job("synthetic", **{**usual, **options})


class Recorder:
    """A tool that keeps what it is told, until a method that is to fail."""

    def __init__(self, fails_in: str = "") -> None:
        self.fails_in = fails_in
        self.known: dict[str, Any] = {}
        self.rows: list[Row] = []
        self.files: dict[str, str] = {}
        self.ended: list[bool] = []
        self.calls: list[str] = []

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call == self.fails_in:
            raise ConnectionError("nobody\nthere")

    def begin(self) -> None:
        self._note("begin")

    def parameters(self, known: Any) -> None:
        self._note("parameters")
        assert not self.known.keys() & known.keys()
        self.known |= known

    def numbers(self, rows: Any) -> None:
        self._note("numbers")
        self.rows += rows

    def file(self, path: Path) -> None:
        self._note("file")
        self.files[path.name] = path.read_text(encoding="utf-8")

    def end(self, failed: bool) -> None:
        self._note("end")
        self.ended.append(failed)

    def series(self, name: str) -> list[tuple[int, float]]:
        return [(row.step, row.numbers[name]) for row in self.rows if name in row.numbers]


def last(tool: Recorder, prefix: str, names: Any) -> list[float]:
    return [tool.series(f"{prefix}/{name}")[-1][1] for name in names]


def half_widths(values: fv.Values) -> np.ndarray:
    interval = values.interval()
    assert interval is not None
    return (interval[:, 1] - interval[:, 0]) / 2


class TestTracker:
    def test_a_job_from_its_parameters_to_its_report(self, tmp_path: Path) -> None:
        tool = Recorder()
        assert isinstance(tool, Tool)
        with Tracker(tool, every=ALWAYS) as tracker:
            result = tracker.run(job(out=tmp_path / "run"))
        values = result.values
        assert tool.known["training.rounds"] == result.job.record()["training"]["rounds"]
        assert (tool.known["budget"], tool.known["values.guarantee"]) == (12, "biased")
        outcomes = list(result.outcomes.items())
        steps = range(1, len(outcomes) + 1)
        utility = result.job.prepared.game.utility
        assert tool.series("outcome/utility") == list(
            zip(steps, [utility(o) for _, o in outcomes], strict=True)
        )
        assert [size for _, size in tool.series("outcome/size")] == [m.bit_count() for (m, _), _ in outcomes]
        assert [seed for _, seed in tool.series("outcome/seed")] == [seed for (_, seed), _ in outcomes]
        assert [r2 for _, r2 in tool.series("metric/r2")] == [o.metrics["r2"] for _, o in outcomes]
        assert last(tool, "value", values.names) == values.mean.tolist()
        assert last(tool, "half_width", values.names) == pytest.approx(half_widths(values))
        assert tool.series("cost/trained") == [(12, 12.0)]
        assert set(tool.files) == {"report.html", "values.json", "run.json"}
        assert tool.files["report.html"] == (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
        assert tool.ended == [False]
        assert tracker.failures == []

    def test_values_so_far_become_those_of_the_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fedvalue.adapters.tracking._numbers._RESTS", 0)
        game = fv.FunctionGame(5, lambda coalition: (1.0 + sum(coalition)) ** 0.5, batch=False)
        tool = Recorder()
        with Tracker(tool, every=ALWAYS) as tracker:
            values = fv.value(game, "surrogate", budget=20, **tracker.observers(game))
        begun = next(row.step for row in tool.rows if row.numbers.get("outcome/size") == 5)
        assert [step for step, _ in tool.series("so_far/client-2")] == list(range(begun, 21))
        assert begun < 10
        assert last(tool, "so_far", values.names) == pytest.approx(values.mean, abs=1e-6)
        assert last(tool, "so_far_half_width", values.names) == pytest.approx(half_widths(values), rel=1e-3)

    def test_values_so_far_come_now_and_then(self) -> None:
        tool = Recorder()
        game = fv.TableGame(np.arange(64.0))
        with Tracker(tool, every=3600) as tracker:
            fv.value(game, "exact", **tracker.observers(game))
        assert len(tool.series("so_far/client-0")) == 1

    def test_numbers_are_told_many_at_a_time(self) -> None:
        tool = Recorder()
        game = fv.FunctionGame(8, lambda coalition: float(len(coalition)), batch=False)
        with Tracker(tool, every=3600) as tracker:
            began = time.monotonic()
            fv.value(game, "exact", **tracker.observers(game))
            took = time.monotonic() - began
        assert len(tool.series("outcome/utility")) == 256
        assert tool.calls.count("numbers") <= 3 + took

    def test_groups_are_parties_in_values_so_far(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fedvalue.adapters.tracking._numbers._RESTS", 0)
        table = [0.0, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0, 3.0]
        groups = {"Holding": ["0", "1"]}
        game = fv.TableGame(table, ["0", "1", "2"])
        tool = Recorder()
        with Tracker(tool, every=ALWAYS) as tracker:
            values = fv.value(game, "exact", groups=groups, **tracker.observers(game, groups))
        assert values.mean.tolist() != pytest.approx(fv.value(game, "exact").mean.tolist())
        assert last(tool, "so_far", values.names) == pytest.approx(values.mean, abs=1e-6)

    def test_methods_side_by_side(self) -> None:
        table = [0.0, 1.0, 1.0, 3.0]
        tool = Recorder()
        with Tracker(tool) as tracker:
            found = fv.compare(
                table, ["exact", "equal"], budget=2, **tracker.observers(fv.TableGame(table), by_method=True)
            )
        for method, values in found.items():
            assert last(tool, f"value/{method}", values.names) == values.mean.tolist()
            assert tool.known[f"values.{method}.guarantee"] == values.guarantee

    def test_hostile_names_are_names_that_every_tool_takes(self) -> None:
        game = fv.TableGame(np.arange(64.0), [*HOSTILE])
        tool = Recorder()
        with Tracker(tool) as tracker:
            values = fv.value(game, "exact", **tracker.observers(game))
        told = [name for row in tool.rows for name in row.numbers if name.startswith("value/")]
        assert len(set(map(str.casefold, told))) == len(values.names) == 6
        assert all(re.fullmatch(r"value/[\w \-]{1,70}", name) for name in told)

    @pytest.mark.parametrize(
        ("fails_in", "untold"),
        [
            ("numbers", "12 outcomes, the values, report.html, values.json, run.json"),
            ("file", "report.html, values.json, run.json"),
            ("end", "how the run ended"),
        ],
    )
    def test_a_tool_that_fails_costs_warnings_and_not_the_run(
        self, fails_in: str, untold: str, tmp_path: Path
    ) -> None:
        broken, sound = Recorder(fails_in), Recorder()
        said = "Recorder is told nothing more of this run, which goes on without it: ConnectionError: nobody there"
        with pytest.warns(FedvalueWarning) as warned, Tracker(broken, sound) as tracker:
            result = tracker.run(job(out=tmp_path))
        assert [str(warning.message) for warning in warned] == [
            said,
            f"The run has ended. Not tracked by Recorder: {untold}.",
        ]
        assert [type(error) for error in tracker.failures] == [ConnectionError]
        assert tracker.untold == [f"Recorder: {untold}"]
        record = json.loads((tmp_path / "tracking.json").read_text(encoding="utf-8"))
        assert record["tools"] == [
            {"tool": "Recorder", "error": "ConnectionError: nobody there", "not_tracked": untold}
        ]
        assert broken.calls.count(fails_in) == (2 if fails_in == "end" else 1)
        assert broken.calls[-1] == "end"
        assert last(sound, "value", result.values.names) == result.values.mean.tolist()
        assert sound.ended == [False]
        with Tracker(Recorder()) as tracker:  # the same job, tracked
            tracker.run(job(out=tmp_path))
        assert not (tmp_path / "tracking.json").exists()

    @pytest.mark.slow
    def test_a_tool_that_hangs_holds_the_run_up_once_and_not_for_long(self) -> None:
        class Hanging(Recorder):
            def __init__(self) -> None:
                super().__init__()
                self.answers = threading.Event()

            def numbers(self, rows: Any) -> None:
                self.answers.wait(30)

        hanging, sound = Hanging(), Recorder()
        began = time.monotonic()
        with pytest.warns(FedvalueWarning) as warned, Tracker(hanging, sound, patience=0.2) as tracker:
            result = tracker.run(job())
        hanging.answers.set()
        assert time.monotonic() - began < 15
        first, end = (str(warning.message) for warning in warned)
        assert first.endswith("TimeoutError: no answer within 0.2 s")
        assert end == (
            "The run has ended. Not tracked by Hanging: 12 outcomes, the values, report.html, values.json, run.json."
        )
        assert last(sound, "value", result.values.names) == result.values.mean.tolist()
        assert set(sound.files) == {"report.html", "values.json", "run.json"}

    def test_a_tool_that_does_not_answer_at_the_beginning_is_an_error(self) -> None:
        class Silent(Recorder):
            def begin(self) -> None:
                time.sleep(2)

        with pytest.raises(InputError, match=r"^Silent cannot follow the run: .*no answer within 0\.05 s"):
            Tracker(Silent(), patience=0.05).__enter__()

    @pytest.mark.parametrize("fails_in", ["begin", "parameters"])
    def test_a_tool_that_cannot_begin_is_an_error_before_anything_is_trained(self, fails_in: str) -> None:
        first = Recorder()
        with (
            pytest.raises(
                InputError, match=r"^Recorder cannot follow the run: ConnectionError: nobody there$"
            ),
            Tracker(first, Recorder(fails_in)) as tracker,
        ):
            tracker.run(job())
        assert first.ended == [True]
        assert first.rows == []

    def test_a_run_that_fails_has_failed_and_its_outcomes_are_told(self) -> None:
        def utility(coalition: tuple[int, ...]) -> float:
            if len(coalition) == 2:
                raise ValueError("no")
            return 1.0

        game = fv.FunctionGame(2, utility, batch=False)
        tool = Recorder()
        with pytest.raises(fv.UtilityError), Tracker(tool) as tracker:
            fv.value(game, "exact", **tracker.observers(game))
        assert tool.ended == [True]
        assert tool.series("outcome/size")

    @pytest.mark.filterwarnings("error::fedvalue.errors.FedvalueWarning")
    def test_warnings_that_are_errors_end_the_run_and_hide_no_other_error(self) -> None:
        def utility(coalition: tuple[int, ...]) -> float:
            if len(coalition) == 2:
                broken.told.wait(10)
                raise ValueError("no")
            return 1.0

        class Broken(Recorder):
            def __init__(self) -> None:
                super().__init__("numbers")
                self.told = threading.Event()

            def numbers(self, rows: Any) -> None:
                self.told.set()
                super().numbers(rows)

        broken = Broken()
        game = fv.FunctionGame(2, utility, batch=False)
        with pytest.raises(fv.UtilityError), Tracker(broken) as tracker:
            fv.value(game, "exact", **tracker.observers(game))
        assert tracker.untold[0].startswith("Broken: ")
        assert broken.ended == [True]
        with (
            pytest.raises(FedvalueWarning, match="told nothing more"),
            Tracker(Recorder("numbers")) as tracker,
        ):
            fv.value(fv.TableGame(np.arange(8.0)), "exact", **tracker.observers(fv.TableGame(np.arange(8.0))))

    def test_what_is_not_one_run_in_a_block_is_refused(self) -> None:
        game = fv.TableGame([0.0, 1.0])
        with pytest.raises(InputError, match="at least one tool"):
            Tracker()
        with pytest.raises(InputError, match=r"^A tool of a tracker must be MLflow"):
            Tracker("mlflow")  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"^every must be a positive number of seconds"):
            Tracker(Recorder(), every=0)
        tracker = Tracker(Recorder())
        with pytest.raises(InputError, match="follows one run, in a with block"):
            tracker.observers(game)
        with tracker:
            tracker.observers(game)
            with pytest.raises(InputError, match="follows one run, in a with block"):
                tracker.observers(game)
            with pytest.raises(InputError, match="There is no file"):
                tracker.keep("not-there.txt")


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with Tracker(TensorBoard(tmp_path)) as tracker:
        result = tracker.run(job())
    read = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in read.Scalars("outcome/utility")] == list(range(1, 13))
    for name, value in zip(result.values.names, result.values.mean, strict=True):
        assert read.Scalars(f"value/{name}")[-1].value == pytest.approx(value, rel=1e-6)
    (text,) = read.Tensors("parameters/method")
    assert text.tensor_proto.string_val[0] == b"surrogate"
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MLflow's own, of SQLAlchemy
class TestMLflow:
    @pytest.fixture
    def uri(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        for package in ("mlflow", "sqlalchemy", "alembic"):
            pytest.importorskip(package, reason=f"{package} is not installed")
        monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        monkeypatch.chdir(tmp_path)  # artifacts of a local database are kept in the current folder
        return f"sqlite:///{tmp_path}/mlflow.db"

    def test_nobody_is_told_that_it_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Unless the user wants it: telemetry of MLflow is decided when it is imported."""
        monkeypatch.setattr("fedvalue.adapters.tracking._tools.need", lambda *package: None)
        monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "false")
        MLflow("consortium")
        assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "false"
        monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY")
        MLflow("consortium")
        assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"

    @pytest.mark.slow
    def test_a_run_in_a_local_store(self, uri: str, tmp_path: Path) -> None:
        import mlflow

        tool = MLflow("consortium", "third quarter", uri=uri, tags={"period": "Q3"})
        with Tracker(tool, every=ALWAYS) as tracker:
            result = tracker.run(job(out=tmp_path / "run"))
        client = mlflow.MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name("consortium")
        (run,) = client.search_runs([experiment.experiment_id])
        assert (run.info.status, run.info.run_name, run.data.tags["period"]) == (
            "FINISHED",
            "third quarter",
            "Q3",
        )
        assert (run.data.params["method"], run.data.params["budget"]) == ("surrogate", "12")
        values = result.values
        metrics = run.data.metrics
        assert [metrics[f"value/{name}"] for name in values.names] == values.mean.tolist()
        assert [metrics[f"half_width/{name}"] for name in values.names] == pytest.approx(half_widths(values))
        assert metrics["cost/trained"] == 12
        utilities = client.get_metric_history(tool.run_id, "outcome/utility")
        assert [m.step for m in utilities] == list(range(1, 13))
        assert utilities[-1].timestamp == pytest.approx(1000 * time.time(), abs=600_000)
        report = client.download_artifacts(tool.run_id, "report.html")
        assert Path(report).read_bytes() == (tmp_path / "run" / "report.html").read_bytes()

        mine = client.create_run(
            experiment.experiment_id
        ).info.run_id  # a run of one's own is joined and left open
        game = fv.TableGame(np.arange(64.0), [*HOSTILE])
        with Tracker(MLflow(uri=uri, run_id=mine)) as tracker:
            fv.value(game, "exact", **tracker.observers(game))
        joined = client.get_run(mine)
        assert joined.info.status == "RUNNING"
        assert sum(name.startswith("value/") for name in joined.data.metrics) == 6
        with pytest.raises(InputError, match=r"^MLflow cannot follow the run: .*not found"):
            Tracker(MLflow(uri=uri, run_id="not-there")).__enter__()


@pytest.mark.slow
def test_weights_and_biases_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    settings = wandb.Settings(console="off", silent=True, x_disable_stats=True)
    with Tracker(WandB("consortium", mode="offline", dir=str(tmp_path), settings=settings)) as tracker:
        result = tracker.run(job())
    assert tracker.failures == []
    (log,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    known, history, artifacts = {}, [], []
    settle(log)
    for record in records_of(log):
        known |= {item.key: item.value_json for item in record.config.update}
        if record.history.item:
            history.append(
                {"/".join(i.nested_key) or i.key: float(i.value_json) for i in record.history.item}
            )
        if record.request.log_artifact.artifact.type:
            artifacts.append(record.request.log_artifact.artifact.type)
        if record.artifact.type:
            artifacts.append(record.artifact.type)
    assert known["method"] == '"surrogate"'
    assert sum("outcome/utility" in row for row in history) == 12
    values = result.values
    assert [history[-1][f"value/{name}"] for name in values.names] == pytest.approx(values.mean.tolist())
    assert {"report", "values", "run"} <= set(artifacts)


def settle(log: Path) -> None:
    """Waits until Weights & Biases has written everything: it says that it has finished a moment before."""
    ends, before = time.monotonic() + 30, -1
    while time.monotonic() < ends and not 100 < log.stat().st_size == before:
        before = log.stat().st_size
        time.sleep(0.3)


def records_of(log: Path) -> Iterator[Any]:
    """What Weights & Biases wrote offline: blocks of 32 KiB of records, each with a checksum, a length and a kind."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, parts = log.read_bytes(), 7, b""
    while at + 7 <= len(content):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, at)
        parts += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in {1, 4}:  # whole, or its last part
            yield Record.FromString(parts)
            parts = b""
