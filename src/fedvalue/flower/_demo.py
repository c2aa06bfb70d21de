"""A valuation in a federation of local processes, with every client's rows in a file of its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedvalue.errors import InputError
from fedvalue.flower._app_files import Value, write_app
from fedvalue.flower._processes import Federation
from fedvalue.flower._results import Awaited
from fedvalue.run import as_method
from fedvalue.scenarios import Scenario
from fedvalue.values import Values

__all__ = ["demo", "lay_out", "node_config", "run_app", "start", "terminable"]

_LONGEST_SECONDS = 1800.0


def demo(
    scenario: Scenario,
    settings: Mapping[str, Value],
    keep: Path | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Values:
    """Starts a SuperLink and a SuperNode for every client on this machine, values the clients, and stops all.

    `settings` are those of a run, as `fedvalue flower init` writes them. `keep` is a new folder for app, rows, logs
    and results; without one they are removed. `tell` is called with what happens.
    """
    if os.name != "posix":
        raise InputError("The demo starts process groups, which needs Linux or macOS.")
    if keep is not None and keep.exists():
        raise InputError(f"{keep} is there already. What is kept goes into a new folder.")
    as_method(str(settings.get("method", "exact")))  # a wrong name is noticed before anything is started
    began = time.perf_counter()
    # What a program that has been told to end still writes does not matter any more.
    temporary = TemporaryDirectory(prefix="fedvalue-", ignore_cleanup_errors=True)
    with terminable(), temporary as folder, Federation((keep or Path(folder)).resolve()) as federation:
        home = federation.home
        app = lay_out(home, scenario, settings)
        start(federation, scenario)
        tell(f"SuperLink on {federation.address}; {scenario.n} SuperNodes, each with the rows of one client.")
        tell("Training coalitions at the nodes …")
        values = run_app(federation, app, home / "out", {}, _LONGEST_SECONDS)
    tell(f"Done after {time.perf_counter() - began:.0f} s; all processes are stopped.")
    return values


def lay_out(home: Path, scenario: Scenario, settings: Mapping[str, Value]) -> Path:
    """Writes the app, a file of rows for every node and the server's test set; returns the app's folder."""
    scenario.need_one_input("The demonstration")
    home.mkdir(parents=True, exist_ok=True)
    for place, data in enumerate(scenario.clients):
        np.savez(home / f"client-{place}.npz", x=data.x, y=data.y)
    np.savez(home / "test.npz", x=scenario.test.x, y=scenario.test.y)
    of_scenario: dict[str, Value] = {
        "clients": scenario.n,
        "task": scenario.task,
        "classes": scenario.classes,
    }
    paths = {"out": str(home / "out"), "test": str(home / "test.npz")}
    write_app(home / "app", {**of_scenario, **paths, **settings})
    return home / "app"


def node_config(home: Path, scenario: Scenario, place: int) -> dict[str, Value]:
    """What a SuperNode is told: which client it is, and where its rows are."""
    return {"partition-id": place, "name": scenario.names[place], "data": str(home / f"client-{place}.npz")}


def start(federation: Federation, scenario: Scenario) -> None:
    """Starts the SuperLink and a SuperNode for every client."""
    federation.start_link()
    for place in range(scenario.n):
        federation.start_node(f"node-{place}", node_config(federation.home, scenario, place))


def run_app(
    federation: Federation, app: Path, out: Path, settings: Mapping[str, Value], seconds: float
) -> Values:
    """Runs the app to its end and returns the values that it left; an error of the ServerApp is raised here."""
    awaited = Awaited(out)
    federation.start_run(app, {**settings, "out": str(out)})
    federation.wait("run", seconds)
    return awaited.values(federation.log("run"))


@contextmanager
def terminable() -> Iterator[None]:
    """A request to terminate, or a terminal that is closed, is handled like Ctrl-C: what was started is stopped."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]  # nohup
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
