"""MLflow over HTTP: a real server on the loopback interface that answers, pauses, hangs, dies and is not there."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fedvalue as fv
from fedvalue.adapters.tracking import MLflow, Tracker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # MLflow's own
    pytest.mark.skipif(
        importlib.util.find_spec("flask") is None or importlib.util.find_spec("mlflow") is None,
        reason="needs all of MLflow: pip install mlflow",
    ),
    pytest.mark.skipif(sys.platform == "win32", reason="pauses processes by signals"),
]

TABLE = tuple(float(mask.bit_count() ** 0.5) for mask in range(16))
PATIENCE = 3.0


@dataclass(frozen=True)
class Server:
    """`mlflow server` with all processes that it starts, in a group of their own."""

    process: subprocess.Popen[bytes]
    uri: str

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.process.wait(30)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "host": "127.0.0.1",
        "port": port,
        "workers": 1,
        "backend-store-uri": f"sqlite:///{tmp_path}/mlflow.db",
        "artifacts-destination": tmp_path / "artifacts",
    }
    command = [sys.executable, "-m", "mlflow", "server"]
    command += [text for name, option in options.items() for text in (f"--{name}", str(option))]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    started = Server(process, f"http://127.0.0.1:{port}")
    try:
        _wait_for(started, tmp_path / "server.log")
        yield started
    finally:
        started.end()


def _wait_for(server: Server, log: Path) -> None:
    ends = time.monotonic() + 120
    while time.monotonic() < ends and server.process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{server.uri}/health", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')[-2000:]}")


def tracked(uri: str, at: dict[int, Callable[[], Any]], **options: Any) -> tuple[fv.Values, Tracker, str]:
    """Sixteen evaluations, with something done before some of them; the number of the run."""
    asked = 0

    def utility(coalition: tuple[int, ...]) -> float:
        nonlocal asked
        asked += 1
        at.get(asked, lambda: None)()
        return TABLE[sum(1 << i for i in coalition)]

    game = fv.FunctionGame(4, utility, batch=False, key=f"sixteen {time.monotonic_ns()}")
    tool = MLflow("consortium", uri=uri)
    with Tracker(tool, **options) as tracker:
        values = fv.value(game, "exact", **tracker.observers(game))
    assert values.mean == pytest.approx(fv.value(fv.TableGame(TABLE), "exact").mean)
    assert tool.run_id is not None
    return values, tracker, tool.run_id


def test_a_server_that_answers_pauses_hangs_dies_and_is_gone(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=server.uri)
    with Tracker(MLflow("consortium", "third quarter", uri=server.uri)) as tracker:
        job = fv.Job(
            "synthetic", clients=4, samples=20, model="least-squares", budget=12, out=tmp_path / "out"
        )
        result = tracker.run(job)
    assert (tracker.failures, tracker.untold) == ([], [])
    (run,) = client.search_runs([client.get_experiment_by_name("consortium").experiment_id])
    assert run.info.status == "FINISHED"
    assert [run.data.metrics[f"value/{name}"] for name in result.values.names] == result.values.mean.tolist()
    report = client.download_artifacts(run.info.run_id, "report.html", str(tmp_path))
    assert Path(report).read_bytes() == (tmp_path / "out" / "report.html").read_bytes()

    # It pauses in the middle: the run goes on, and nothing is lost.
    pause = {4: lambda: server.signal(signal.SIGSTOP), 14: lambda: server.signal(signal.SIGCONT)}
    _, tracker, number = tracked(server.uri, pause)
    assert (tracker.failures, tracker.untold) == ([], [])
    assert len(client.get_metric_history(number, "outcome/utility")) == 16
    assert client.get_run(number).info.status == "FINISHED"

    # It hangs, and does not come back while anybody waits.
    began = time.monotonic()
    hang = {4: lambda: server.signal(signal.SIGSTOP)}
    with pytest.warns(fv.FedvalueWarning) as warned:
        _, tracker, _ = tracked(server.uri, hang, patience=PATIENCE)
    assert time.monotonic() - began < 20
    assert [str(warning.message) for warning in warned] == [
        f"MLflow is told nothing more of this run, which goes on without it: TimeoutError: no answer within {PATIENCE:g} s",
        f"The run has ended. Not tracked by {tracker.untold[0]}.",
    ]
    assert tracker.untold[0].endswith("outcomes, the values, how the run ended")
    server.signal(signal.SIGCONT)

    # It dies. MLflow tries again and again, which takes it minutes.
    began = time.monotonic()
    with pytest.warns(fv.FedvalueWarning) as warned:
        tracked(server.uri, {4: server.end}, patience=PATIENCE)
    assert re.match("The run has ended. Not tracked by MLflow: .*, the values", str(warned[-1].message))
    assert time.monotonic() - began < 20

    # It is gone: that is an error at the beginning, and another address that cannot be right is one at once.
    asked = list[tuple[int, ...]]()

    def utility(coalition: tuple[int, ...]) -> float:
        asked.append(coalition)
        return 1.0

    game = fv.FunctionGame(2, utility, batch=False)
    began = time.monotonic()
    for uri in (server.uri, "nothing://127.0.0.1"):
        tool = MLflow("consortium", uri=uri)
        with (
            pytest.raises(fv.InputError, match=r"^MLflow cannot follow the run: "),
            Tracker(tool, patience=PATIENCE) as tracker,
        ):
            fv.value(game, "exact", **tracker.observers(game))
    assert time.monotonic() - began < 20
    assert asked == []
