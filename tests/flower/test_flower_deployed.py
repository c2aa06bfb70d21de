"""A deployment as `fedvalue flower deploy` writes it, started as its checklist says: who comes in, and who does not."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import digits
from flower_processes import IMPATIENT, alive, make_key, until
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.agreement import make_key as make_signing_key
from fedvalue.cli import app
from fedvalue.errors import FedvalueError
from fedvalue.flower import deploy, register, run_deployment
from fedvalue.flower._processes import LOOPBACK, Federation, _free_port, _listens
from fedvalue.flower._registered import read_roster
from fedvalue.games import FederatedGame
from fedvalue.run import read_values
from fedvalue.training import Training

NGINX = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
NAMES = ["Hospital A", "Charité Berlin"]
RULES = {"rounds": 2, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("one_thread", "all_untrained_models"),
    # Of Flower's own, where it packs an app and opens its database.
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern", "ignore:No path_separator found"),
    pytest.mark.skipif(NGINX is None, reason="needs nginx: apt-get install nginx-light, or make nginx"),
    pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen"),
]


class Deployed:
    """A deployment for this machine, its programs, and what strangers and clients do with it."""

    def __init__(self, home: Path, federation: Federation, game: FederatedGame) -> None:
        self.folder = home / "consortium"
        self.federation = federation
        self.port, self.link_port = _free_port(), _free_port()
        deploy(
            self.folder,
            "localhost",
            NAMES,
            listen=LOOPBACK,
            port=self.port,
            link_port=self.link_port,
            nginx=str(NGINX),
            settings={"method": "exact", "task": "classification", "classes": 10, "patience": 60.0, **RULES},
        )
        np.savez(self.folder / "test.npz", x=game.scenario.test.x, y=game.scenario.test.y)
        for place, data in enumerate(game.scenario.clients):
            np.savez(self.client(place) / "rows.npz", x=data.x, y=data.y)

    def client(self, place: int) -> Path:
        return next((self.folder / "clients").glob(f"{place}-*"))

    def start(self) -> None:
        assert NGINX is not None
        self.federation.start("superlink", str(self.folder / "superlink.sh"))
        self.federation.start("proxy", NGINX, "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"))
        for port, name in ((self.link_port, "superlink"), (self.port, "proxy")):
            until(lambda port=port, name=name: self._up(port, name), name, 60)

    def _up(self, port: int, name: str) -> bool:
        self.federation.check(name)
        return _listens(port)

    def start_node(self, name: str, folder: Path) -> None:
        self.federation.start(
            name, str(folder / "node.sh"), "--port", str(_free_port()), "--max-retries", "1"
        )

    def connected(self, name: str) -> bool:
        return "SuperNode ID" in self.federation.log(name, 10**6)

    def stop_node(self, name: str) -> None:
        process = self.federation.processes.pop(name)
        process.terminate()  # it signs off
        process.wait(30)

    def status(self, path: str, port: int | None = None) -> int:
        """What somebody gets who has the address and the consortium's public certificate."""
        trust = ssl.create_default_context(cafile=str(self.folder / "tls/ca.crt"))
        kind = {"Content-Type": "application/protobuf"}
        address = f"https://localhost:{port or self.port}{path}"
        request = urllib.request.Request(address, b"", kind, method="POST")
        try:
            with urllib.request.urlopen(request, context=trust, timeout=20) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            return error.code

    def flwr(self, address: str, *arguments: str) -> tuple[int, str]:
        """Exit code and output of `flwr` for somebody who uses this address."""
        home = self.folder.parent / "stranger"
        home.mkdir(exist_ok=True)
        connection = f'[superlink.x]\naddress = "{address}"\nroot-certificates = "{self.folder}/tls/ca.crt"\n'
        (home / "config.toml").write_text(connection, encoding="utf-8")
        environment = {**os.environ, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"}
        program = str(Path(sys.executable).parent / "flwr")
        done = subprocess.run(
            [program, *arguments],
            env={**environment, "FLWR_DISABLE_UPDATE_CHECK": "1"},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def game() -> FederatedGame:
    return FederatedGame(digits((40, 30)), "mlp", Training(**RULES))  # type: ignore[arg-type]


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, game: FederatedGame) -> Iterator[Deployed]:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(IMPATIENT, encoding="utf-8")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    with Federation(tmp_path) as federation:
        found = Deployed(tmp_path, federation, game)
        found.start()
        yield found
    if sys.platform == "linux":
        until(lambda: not alive(tmp_path), f"the end of {alive(tmp_path)}", 40)


def test_strangers_get_nothing_and_clients_are_who_their_keys_say(
    deployed: Deployed, game: FederatedGame
) -> None:
    strangers_are_refused(deployed)
    what_the_checklist_says_is_so(deployed)

    runner = CliRunner()
    for place, name in enumerate(NAMES):
        key = make_key(deployed.client(place) / "node.key").with_suffix(".key.pub")
        signs = make_signing_key(deployed.client(place) / "signing")
        told = ["flower", "register", str(deployed.folder), name, str(key), "--signs", str(signs)]
        done = runner.invoke(app, told)
        assert done.exit_code == 0, done.output
        shown = subprocess.run(["ssh-keygen", "-lf", str(key)], check=True, capture_output=True, text=True)
        assert shown.stdout.split()[1] in done.output

    # A node without a registered key, with everything else that a client has.
    stranger = Path(shutil.copytree(deployed.client(0), deployed.folder.parent / "no-client"))
    (stranger / "node.key").unlink()
    (stranger / "node.key.pub").unlink()
    make_key(stranger / "node.key")
    deployed.start_node("unregistered", stranger)

    # A client that poses as another one: its key is registered, name and place are not its own.
    told = deployed.client(1) / "node.toml"
    honest = told.read_text(encoding="utf-8")
    told.write_text(
        honest.replace("partition-id = 1", "partition-id = 0").replace(NAMES[1], NAMES[0]), encoding="utf-8"
    )
    for place in range(2):
        deployed.start_node(f"node-{place}", deployed.client(place))
    until(lambda: all(deployed.connected(f"node-{place}") for place in range(2)), "both nodes", 60)
    claims = r"The node with the key of 'Charité Berlin' calls itself 'Hospital A' and claims partition-id 0 \('Hospital A'\)"
    with pytest.raises(FedvalueError, match=claims) as caught:
        run_deployment(deployed.folder)
    assert not re.search(r"\d{10}", str(caught.value))  # names, not the numbers of nodes

    # Somebody who reaches the SuperLink can start an app there, but the nodes run signed ones only.
    code, output = deployed.flwr(
        f"127.0.0.1:{deployed.link_port}", "run", str(deployed.folder / "valuation"), "x", "--stream",
        "--run-config", "patience=8.0",
    )  # fmt: skip
    assert code == 0, output  # Flower's code says nothing about the app
    assert "Hospital A refused the app" in (deployed.folder / "out/error.json").read_text(encoding="utf-8")

    deployed.stop_node("node-1")
    told.write_text(honest, encoding="utf-8")
    deployed.start_node("again", deployed.client(1))
    until(lambda: deployed.connected("again"), "the node again", 60)
    planned = runner.invoke(app, ["flower", "run", str(deployed.folder), "--dry-run"])
    assert planned.exit_code == 0, planned.output
    assert "There: Hospital A (" in planned.output
    assert "Nothing was trained." in planned.output
    done = runner.invoke(app, ["flower", "run", str(deployed.folder), "--quiet"])
    assert done.exit_code == 0, done.output
    values = read_values(deployed.folder / "out")
    assert values.names == tuple(NAMES)
    assert values.mean == pytest.approx(fv.value(game, "exact").mean, abs=1e-6)
    assert not deployed.connected("unregistered")
    (signed,) = (check for check in fv.verify(deployed.folder / "out").checks if "nodes signed" in check.what)
    assert signed.state == "sound", signed.text
    a_new_key_takes_the_place_of_the_old_one(deployed)


def a_new_key_takes_the_place_of_the_old_one(deployed: Deployed) -> None:
    mine = deployed.client(0)
    old = Path(shutil.copytree(mine, deployed.folder.parent / "old-key"))
    deployed.stop_node("node-0")
    for again in ("first", "second"):  # the first of the two new keys is never used
        for half in ("node.key", "node.key.pub"):
            (mine / half).unlink()
        key = make_key(mine / "node.key").with_suffix(".key.pub")
        with pytest.raises(FedvalueError, match="has another key already"):
            register(deployed.folder, NAMES[0], key)
        register(deployed.folder, NAMES[0], key, replace=True)
        assert read_roster(deployed.folder / "roster.json")[0].key in key.read_text(encoding="utf-8"), again
    deployed.start_node("old", old)
    deployed.start_node("new", mine)
    until(lambda: deployed.connected("new"), "the node with the new key", 60)
    until(lambda: deployed.federation.processes["old"].poll() is not None, "the end of the other", 60)
    assert not deployed.connected("old")


def strangers_are_refused(deployed: Deployed) -> None:
    """Whatever path they try; only the SuperLink itself, on its own interface, would answer."""
    assert deployed.status("/v1/control/list-runs", deployed.link_port) == 200  # why nobody may reach it
    with socket.socket() as probe, suppress(OSError):
        probe.settimeout(2)
        assert (
            probe.connect_ex(("127.0.0.2", deployed.link_port)) != 0
        )  # nor on another address of this machine
    for path in (
        "/v1/control/list-runs",
        "/v1/control/register-node",
        "/v1/control/start-run",
        "/v1/runtime/acquire-task",
        "/v1/fleet/../control/list-runs",
        "/v1/fleet/%2e%2e/control/list-runs",
        "/v1/fleet/..%2fcontrol/list-runs",
        "//v1/control/list-runs",
        "/health",
        "/",
    ):
        assert deployed.status(path) == 403, path
    # Through the Fleet API nothing else is reached either, however the path is written.
    for path in (
        "/v1/control/../fleet/list-runs",
        "/v1/fleet/%252e%252e/control/list-runs",
        "/v1/fleet/x",
        "/v1/fleet/register-node",
        "/v1/fleet/pull-messages",
    ):
        assert 400 <= deployed.status(path) < 500, path
    key = make_key(deployed.folder.parent / "stranger.key").with_suffix(".key.pub")
    for command in (
        ("supernode", "register", str(key), "x"),
        ("list", "x"),
        ("run", str(deployed.folder / "valuation"), "x"),
    ):
        code, output = deployed.flwr(f"localhost:{deployed.port}", *command)
        assert code != 0
        assert "403" in output


def what_the_checklist_says_is_so(deployed: Deployed) -> None:
    """Its own commands, as far as one machine can tell."""
    if shutil.which("curl") is None:
        return
    text = (deployed.folder / "CHECKLIST.md").read_text(encoding="utf-8")
    commands = re.findall(r"^ +(curl .*)$", text, re.MULTILINE)
    printed = [
        subprocess.run(
            shlex.split(command), cwd=deployed.folder, capture_output=True, text=True, check=False
        ).stdout
        for command in commands
    ]
    # The last one is for another machine: on this one the SuperLink answers.
    assert printed == ["403\n"] * 4 + ["401\n", "200\n"]
