"""A valuation in a federation of local processes, with every client's rows in a file of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from fedvalue.errors import FedvalueError
from fedvalue.flower.app_files import Value, write_app
from fedvalue.flower.processes import Federation
from fedvalue.flower.settings import ERROR_FILE, VALUES_FILE
from fedvalue.scenarios.base import Scenario
from fedvalue.values import Values

__all__ = ["lay_out", "node_config", "run_app", "start"]


def lay_out(home: Path, scenario: Scenario, settings: Mapping[str, Value]) -> Path:
    """Writes the app, a file of rows for every node and the server's test set; returns the app's folder."""
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


def start(federation: Federation, scenario: Scenario, say: Callable[[str], None] = lambda text: None) -> None:
    """Starts the SuperLink and a SuperNode for every client."""
    say(f"SuperLink on {federation.address}")
    federation.start_link()
    for place in range(scenario.n):
        federation.start_node(f"node-{place}", node_config(federation.home, scenario, place))
    say(f"{scenario.n} SuperNodes, each with the rows of one client")


def run_app(
    federation: Federation, app: Path, out: Path, settings: Mapping[str, Value], seconds: float
) -> Values:
    """Submits the app and waits for its values; an error of the ServerApp is raised here."""
    files = [out / VALUES_FILE, out / ERROR_FILE]
    for file in files:
        file.unlink(missing_ok=True)
    run = federation.submit(app, {**settings, "out": str(out)})
    found = federation.wait_for(run, files, seconds)
    data = json.loads(found.read_text(encoding="utf-8"))
    if found.name == ERROR_FILE:
        raise FedvalueError(data["error"])
    return Values.from_dict(data)
