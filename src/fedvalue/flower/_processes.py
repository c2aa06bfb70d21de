"""A Flower federation on this machine: its programs as processes, on the loopback interface.

Each program leads a process group of its own, in which everything that it starts stays. Groups do not hear the
terminal's Ctrl-C; they are ended when the federation is left, and nothing else is.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from fedvalue.errors import FedvalueError
from fedvalue.flower._app_files import Value, toml_value

__all__ = ["LOOPBACK", "Federation"]

LOOPBACK = "127.0.0.1"
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last: the terminal was closed
_CONNECTION = "demo"  # the name of our SuperLink in Flower's configuration
_READY_SECONDS = 60.0
_STOP_SECONDS = 10.0
_QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
# Flower looks for new work once a second by default; small trainings would mostly wait for that.
_FAST = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


class Federation:
    """Programs that run as long as the `with` block; what they write is in the folder `logs` under `home`.

    Connections are not encrypted: they do not leave this machine. `trust` are the options of a program that
    connects to the SuperLink, `connection` says the same in Flower's configuration.
    """

    link_options: Sequence[str] = ("--insecure",)
    trust: Sequence[str] = ("--insecure",)
    connection = "insecure = true"
    run_options: Sequence[str] = ()

    def __init__(self, home: Path) -> None:
        self.home = home
        self.address = f"{LOOPBACK}:{_free_port()}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Federation:
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _undisturbed():
            self.stop()

    def start_link(self) -> None:
        """Starts the SuperLink, and what runs ServerApps for it; waits until it listens."""
        host, port = self.address.split(":")
        # By itself a SuperLink runs them in another process group.
        options = ["--isolation", "process", "--disable-runtime-dependency-installation"]
        self.start(
            "superlink", "flower-superlink", *self.link_options, *options, "--host", host, "--port", port
        )
        ends = time.monotonic() + _READY_SECONDS
        while not _listens(int(port)):
            self.check("superlink")
            if time.monotonic() > ends:
                raise FedvalueError(
                    f"The SuperLink did not start within {_READY_SECONDS:.0f} s: {self.log('superlink')}"
                )
            time.sleep(0.1)
        self.start_executor()

    def start_executor(self) -> None:
        """Starts what runs ServerApps for the SuperLink."""
        self.start("superexec", "flower-superexec", *self.trust, "--runtime-api-address", self.address)

    def start_node(self, name: str, config: Mapping[str, Value], *options: str) -> None:
        """Starts a SuperNode under the given name; it may take some seconds until it is connected.

        `options` replace those that say whom it trusts.
        """
        where = ["--superlink", self.address, "--host", LOOPBACK, "--port", str(_free_port())]
        self.start(
            name, "flower-supernode", *(options or self.trust), *where, "--node-config", _pairs(config)
        )

    def start_run(self, app: Path, config: Mapping[str, Value], name: str = "run") -> None:
        """Starts a run of the app under the given name; the process ends with the run, its log is the run's."""
        changed = ["--run-config", _pairs(config)] if config else []
        self.start(name, "flwr", "run", str(app), _CONNECTION, *changed, *self.run_options, "--stream")

    def wait(self, name: str, seconds: float) -> None:
        """Waits for a process to end by itself; an error if it does not, or cannot any more."""
        ends = time.monotonic() + seconds
        while self.processes[name].poll() is None:
            self.check("superlink", "superexec")
            if time.monotonic() > ends:
                raise FedvalueError(f"This did not finish within {seconds:.0f} s: {self.log(name)}")
            time.sleep(0.1)

    def check(self, *names: str) -> None:
        """Raises if one of the processes has ended by itself."""
        for name in names:
            if (code := self.processes[name].poll()) is not None:
                raise FedvalueError(f"The process {name} ended with code {code}: {self.log(name)}")

    def log(self, name: str, characters: int = 1200) -> str:
        """The end of what a process has written."""
        path = self.home / "logs" / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace")[-characters:] if path.exists() else ""

    def start(self, name: str, program: str, *arguments: str) -> None:
        """Starts a program of this Python environment, as the leader of a process group."""
        if name in self.processes and self.processes[name].poll() is None:
            raise FedvalueError(
                f"A process is called {name!r} already: it would be forgotten, and never be ended."
            )
        path = Path(sys.executable).parent / program
        if not path.exists():
            raise FedvalueError(
                f"Flower's program {program} is missing beside {sys.executable}. Reinstall flwr."
            )
        # Each has a Flower home of its own, as on machines of their own.
        flower_home = self.home / "flwr" / name
        flower_home.mkdir(parents=True, exist_ok=True)
        superlink = f"[superlink.{_CONNECTION}]\naddress = {toml_value(self.address)}\n{self.connection}\n"
        (flower_home / "config.toml").write_text(superlink, encoding="utf-8")
        programs = os.pathsep.join([str(path.parent), os.environ.get("PATH", "")])
        with (self.home / "logs" / f"{name}.log").open("ab") as log, _undisturbed():
            self.processes[name] = subprocess.Popen(
                [str(path), *arguments],
                env={**os.environ, **_FAST, **_QUIET, "FLWR_HOME": str(flower_home), "PATH": programs},
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Asks all groups to end, and ends those whose leader does not within seconds."""
        # A group keeps its number as long as its leader has not been waited for: nobody else is hit.
        running = [process for process in self.processes.values() if process.poll() is None]
        for process in running:
            os.killpg(process.pid, signal.SIGTERM)
        ends = time.monotonic() + _STOP_SECONDS
        for process in running:
            try:
                process.wait(max(0.0, ends - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        while any(_is_left(process.pid) for process in running) and time.monotonic() < ends:
            time.sleep(0.05)
        self.processes.clear()


def _pairs(config: Mapping[str, Value]) -> str:
    return " ".join(f"{key}={toml_value(value)}" for key, value in config.items())


def _free_port() -> int:
    """A port on the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _is_left(group: int) -> bool:
    """Whether a process group has members; asks, and ends nothing."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C and requests to terminate wait until this is done: nobody else knows what must be ended."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears them
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in _STOPPING}
    for number in _STOPPING:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
