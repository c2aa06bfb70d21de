"""A Flower federation on this machine: SuperLink and SuperNodes as processes on the loopback interface.

Processes do not hear the terminal's Ctrl-C. What was started is ended, by its id, and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from fedvalue.errors import FedvalueError
from fedvalue.flower.app_files import Value, toml_value

__all__ = ["LOOPBACK", "STOPPING", "Federation", "free_port"]

LOOPBACK = "127.0.0.1"
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last: the terminal was closed
_CONNECTION = "demo"  # the name of our SuperLink in Flower's configuration
_READY_SECONDS = 60.0
_STOP_SECONDS = 10.0
_LIST_SECONDS = 60.0  # between two questions whether the run still lives
_QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
# Flower looks for new work once a second by default; small trainings would mostly wait for that.
_FAST = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


def free_port() -> int:
    """A port on the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


class Federation:
    """Processes that live as long as the `with` block; their logs are in the folder `logs` under `home`."""

    def __init__(
        self,
        home: Path,
        *,
        link_options: Sequence[str] = ("--insecure",),
        node_options: Sequence[str] = ("--insecure",),
        connection: Mapping[str, Value] | None = None,
    ) -> None:
        self.home = home
        self.port = free_port()
        self.link_options = tuple(link_options)
        self.node_options = tuple(node_options)
        self.connection = {"insecure": True} if connection is None else dict(connection)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Federation:
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _undisturbed():
            self.stop(*self.processes)

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def start_link(self) -> None:
        """Starts the SuperLink and waits until it listens."""
        options = ["--host", LOOPBACK, "--port", str(self.port), "--disable-runtime-dependency-installation"]
        self._start("superlink", ["flower-superlink", *self.link_options, *options])
        ends = time.monotonic() + _READY_SECONDS
        while not _listens(self.port):
            self.check("superlink")
            if time.monotonic() > ends:
                raise FedvalueError(
                    f"The SuperLink did not start within {_READY_SECONDS:.0f} s: {self.log('superlink')}"
                )
            time.sleep(0.1)

    def start_node(
        self, name: str, config: Mapping[str, Value], options: Sequence[str] | None = None
    ) -> None:
        """Starts a SuperNode under the given name; it may take some seconds until it is connected."""
        pairs = " ".join(f"{key}={toml_value(value)}" for key, value in config.items())
        chosen = self.node_options if options is None else options
        where = ["--superlink", self.address, "--host", LOOPBACK, "--port", str(free_port())]
        self._start(name, ["flower-supernode", *chosen, *where, "--node-config", pairs])

    def submit(self, app: Path, config: Mapping[str, Value]) -> int:
        """Starts a run of the app and returns its number."""
        overrides = " ".join(f"{key}={toml_value(value)}" for key, value in config.items())
        options = ["--run-config", overrides] if overrides else []
        found = self.flwr("run", str(app), _CONNECTION, *options, "--format", "json")
        return int(found["run-id"])

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """The answer of a `flwr` command that prints JSON."""
        self._write_connection()
        done = subprocess.run(
            [_command("flwr"), *arguments],
            env=self._environment("operator"),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=120,
        )
        start = done.stdout.find("{")
        try:
            found: dict[str, Any] = json.loads(done.stdout[start:]) if start >= 0 else {}
        except ValueError:
            found = {}
        if done.returncode or not found.get("success", True):
            said = found.get("error-message") or done.stdout[-500:] + done.stderr[-500:]
            raise FedvalueError(f"`flwr {' '.join(arguments[:2])}` failed: {said}")
        return found

    def wait_for(self, run: int, files: Sequence[Path], seconds: float) -> Path:
        """The first of the files to appear; an error if the run or the SuperLink ends before, or time is up."""
        ends = time.monotonic() + seconds
        ask = time.monotonic() + _LIST_SECONDS
        while time.monotonic() < ends:
            for file in files:
                if file.exists():
                    return file
            self.check("superlink")
            if time.monotonic() > ask:
                if self.finished(run) and not any(file.exists() for file in files):
                    raise FedvalueError(f"The run ended without a result: {self.log('superlink')}")
                ask = time.monotonic() + _LIST_SECONDS
            time.sleep(0.2)
        raise FedvalueError(f"The valuation did not finish within {seconds:.0f} s: {self.log('superlink')}")

    def cancel(self, run: int) -> None:
        """Ends a run, also one whose ServerApp is gone."""
        self.flwr("stop", str(run), _CONNECTION, "--format", "json")

    def finished(self, run: int) -> bool:
        """Whether Flower says that the run is over."""
        found = self.flwr("ls", _CONNECTION, "--run-id", str(run), "--format", "json")
        return any(str(entry.get("status", "")).startswith("finished") for entry in found.get("runs", []))

    def check(self, *names: str) -> None:
        """Raises if one of the processes has ended by itself."""
        for name in names:
            if (code := self.processes[name].poll()) is not None:
                raise FedvalueError(f"The process {name} ended with code {code}: {self.log(name)}")

    def log(self, name: str, characters: int = 1200) -> str:
        """The end of what a process has written."""
        path = self.home / "logs" / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace")[-characters:] if path.exists() else ""

    def kill(self, name: str) -> None:
        """Ends a process and its children at once, as a power failure would."""
        process = self.processes.pop(name)
        _end([process], _descendants([process.pid]), 0.0)

    def stop(self, *names: str) -> None:
        """Asks processes to end, and ends those that do not within seconds."""
        stopping = [self.processes.pop(name) for name in names]
        started = _descendants([process.pid for process in stopping])  # before they are orphans
        for process in stopping:
            _signal(process.pid, signal.SIGTERM)
        _end(stopping, started, _STOP_SECONDS)

    def _start(self, name: str, command: list[str]) -> None:
        with (self.home / "logs" / f"{name}.log").open("ab") as log, _undisturbed():
            self.processes[name] = subprocess.Popen(
                [_command(command[0]), *command[1:]],
                env=self._environment(name),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _environment(self, name: str) -> dict[str, str]:
        """Each process has a Flower home of its own, as on machines of their own."""
        home = self.home / "flwr" / name
        home.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        return {**os.environ, **_FAST, **_QUIET, "FLWR_HOME": str(home), "PATH": path}

    def _write_connection(self) -> None:
        lines = [f"[superlink.{_CONNECTION}]", f"address = {toml_value(self.address)}"]
        lines += [f"{key} = {toml_value(value)}" for key, value in self.connection.items()]
        folder = self.home / "flwr" / "operator"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C and requests to terminate wait until this is done: nobody else knows what must be ended."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears them
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in STOPPING}
    for number in STOPPING:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _command(name: str) -> str:
    """The program of this Python environment."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise FedvalueError(f"Flower's program {name} is missing beside {sys.executable}. Reinstall flwr.")
    return str(path)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _end(stopping: Sequence[subprocess.Popen[bytes]], started: Sequence[int], seconds: float) -> None:
    """Waits for processes and for what they have started; what is left then is killed, by its id."""
    ends = time.monotonic() + seconds
    for process in stopping:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, ends - time.monotonic()))
        process.kill()
        process.wait()
    for pid in started:  # else they look for who started them for some seconds
        _signal(pid, signal.SIGTERM)
    while any(_signal(pid, 0) for pid in started) and time.monotonic() < ends:
        time.sleep(0.1)
    for pid in started:
        _signal(pid, signal.SIGKILL)


def _descendants(roots: Sequence[int]) -> list[int]:
    """The processes that these have started, and those that they have, also in sessions of their own."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    parent = {int(pid): int(of) for pid, of in (line.split() for line in listed.stdout.splitlines())}
    found: list[int] = []
    newest = set(roots)
    while newest:
        newest = {pid for pid, of in parent.items() if of in newest}
        found += newest
    return found


def _signal(pid: int, number: int) -> bool:
    """Whether the process was there."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # gone; its number may be somebody else's by now
        return False
    return True
