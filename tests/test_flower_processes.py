"""A real federation: SuperLink, SuperNodes, ServerApp and ClientApps as processes on the loopback interface."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

import fedvalue as fv
from federations import digits
from fedvalue.federation import FederatedGame
from fedvalue.flower.demo import lay_out, node_config, run_app, start
from fedvalue.flower.processes import LOOPBACK, Federation
from fedvalue.store import UtilityStore
from fedvalue.training import Training
from foreign_app import EXAMPLE, example_modules, plain_accuracy

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

SIZES = (40, 30, 50)
RULES = {"rounds": 2, "epochs": 2, "batch": 16, "rate": 0.01, "seed": 3}
SETTINGS: dict[str, Any] = {"method": "exact", **RULES}
LONG = 150.0  # for one valuation on a busy machine


def local_game(sizes: tuple[int, ...] = SIZES) -> FederatedGame:
    return FederatedGame(digits(sizes), "mlp", Training(**RULES))  # type: ignore[arg-type]


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"waited {seconds} s for {what}"
        time.sleep(0.1)


def stored(path: Path, game: FederatedGame) -> set[int]:
    if not path.exists():
        return set()
    with UtilityStore(path, create=False) as store:
        return set(store.read(game.id))


def alive(home: Path) -> list[str]:
    """Processes that were started with this folder as Flower's home, zombies left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(home).encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120])
        except OSError:
            continue
    return [command for command in found if command]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    if sys.platform == "linux":
        until(lambda: not alive(tmp_path), f"the end of {alive(tmp_path)}", 10)


def test_values_are_the_local_ones_and_survive_a_restart_of_the_superlink(home: Path) -> None:
    """The SuperLink dies between two coalitions; the valuation goes on from the store."""
    game = local_game(SIZES[:2])
    # So little memory that two local trainings are a wave of their own.
    app = lay_out(home, game.scenario, {**SETTINGS, "memory-mb": 0.4})
    store, out = home / "out" / "store.db", home / "out"
    link = ("--insecure", "--database", str(home / "link.db"))
    with Federation(home, link_options=link) as federation:
        start(federation, game.scenario)
        run = federation.submit(app, {})
        until(lambda: len(stored(store, game)) >= 2, "two coalitions in the store", LONG)
        federation.kill("superlink")
        before = stored(store, game)
        assert 2 <= len(before) < 4
        federation.start_link()
        federation.cancel(run)  # else nodes may wait a minute for what the old run still owes them
        values = run_app(federation, app, out, {"memory-mb": 64.0}, LONG)
    expected = fv.value(game, "exact")
    assert values.game_id == expected.game_id
    assert values.mean == pytest.approx(expected.mean, abs=1e-6)
    assert before < stored(store, game) == {0, 1, 2, 3}
    # Nothing that was stored is trained again: what is left takes one query and two rounds.
    assert values.details["message_rounds"] == 3


def test_a_node_killed_in_a_round_and_started_again(home: Path) -> None:
    """Coalitions without it are stored while it is away; the others follow when it is back under a new id."""
    scenario = digits(SIZES)
    app = lay_out(home, scenario, {**SETTINGS, "deadline": 20.0, "patience": 90.0})
    store = home / "out" / "store.db"
    with Federation(home) as federation:
        start(federation, scenario)
        run = federation.submit(app, {})
        until(lambda: "ROUND 2]" in federation.log("node-2", 10**6), "round 2 at node 2", LONG)
        federation.kill("node-2")
        until(lambda: stored(store, local_game()) == {0, 1, 2, 3}, "coalitions of the others", LONG)
        federation.start_node("node-2-again", node_config(home, scenario, 2))
        result = federation.wait_for(run, [home / "out" / "values.json", home / "out" / "error.json"], LONG)
        assert result.name == "values.json", result.read_text(encoding="utf-8")
        values = fv.Values.from_dict(json.loads(result.read_text(encoding="utf-8")))
    assert values.mean == pytest.approx(fv.value(local_game(), "exact").mean, abs=1e-6)
    incidents = values.details["incidents"]
    assert any("client 2 did not answer" in text or "client 2 is not there" in text for text in incidents)
    assert incidents[-1] == "client 2 answers again"


def test_evaluation_at_the_nodes_and_apps_of_others(home: Path) -> None:
    """Two apps in one federation: ours, measured on rows that the nodes hold out, and one that does not know us."""
    scenario = digits(SIZES[:2])
    app = lay_out(home, scenario, {**SETTINGS, "evaluate": "nodes"})
    for place, rows in enumerate((slice(0, 30), slice(30, 120))):
        data, held_out = scenario.clients[place], scenario.test
        held = {"x_held_out": held_out.x[rows], "y_held_out": held_out.y[rows]}
        np.savez(home / f"client-{place}.npz", x=data.x, y=data.y, **held)
    foreign = Path(shutil.copytree(EXAMPLE, home / "foreign"))
    with Federation(home) as federation:
        federation.start_link()
        for place in range(2):
            config = {**node_config(home, scenario, place), "num-partitions": 2}
            federation.start_node(f"node-{place}", config)
        ours = run_app(federation, app, home / "out", {}, LONG)
        settings = {"clients": 2, "num-server-rounds": 1}
        theirs = run_app(federation, foreign, home / "foreign-out", settings, LONG)
    expected = fv.value(local_game(SIZES[:2]), "exact")
    assert ours.details["evaluated_at"] == "nodes"
    assert ours.mean == pytest.approx(expected.mean, abs=1e-6)
    assert ours.game_id != expected.game_id  # who evaluates is part of the game
    with example_modules() as modules:
        table = [plain_accuracy(modules, 2, mask, 1) for mask in range(4)]
    # Their nodes do not say which partition they have: they come in the order of Flower's ids, which are random.
    assert sorted(theirs.mean) == pytest.approx(
        sorted(fv.value(fv.TableGame(table), "exact").mean), abs=0.003
    )


def certificates(folder: Path) -> tuple[list[str], Path]:
    """A certificate authority and a server certificate for the loopback address, as docs/flower.md makes them."""
    folder.mkdir()

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=consortium",
            "-keyout", "ca.key", "-out", "ca.crt")  # fmt: skip
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=superlink",
            "-keyout", "server.key", "-out", "server.csr")  # fmt: skip
    (folder / "san.txt").write_text(f"subjectAltName=IP:{LOOPBACK}\n", encoding="utf-8")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", "san.txt", "-out", "server.crt")  # fmt: skip
    options = ["--ssl-ca-certfile", str(folder / "ca.crt"), "--ssl-certfile", str(folder / "server.crt")]
    return [*options, "--ssl-keyfile", str(folder / "server.key")], folder / "ca.crt"


@pytest.mark.skipif(
    shutil.which("openssl") is None or shutil.which("ssh-keygen") is None,
    reason="needs openssl and ssh-keygen",
)
def test_strangers_and_false_servers_are_refused(home: Path) -> None:
    """With TLS and authentication: a registered node comes in, an unregistered one and a wrong CA do not."""
    tls, ca = certificates(home / "tls")
    _, wrong_ca = certificates(home / "other")
    for name in ("known", "stranger"):
        key = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(home / name)]
        subprocess.run(key, check=True, capture_output=True)
    link = [*tls, "--enable-supernode-auth"]
    with Federation(home, link_options=link, connection={"root-certificates": str(ca)}) as federation:
        federation.start_link()
        federation.flwr("supernode", "register", str(home / "known.pub"), "demo", "--format", "json")

        def node(name: str, trusted: Path, key: str) -> None:
            options = ["--root-certificates", str(trusted), "--auth-supernode-private-key", str(home / key)]
            federation.start_node(name, {"partition-id": 0}, [*options, "--max-retries", "1"])

        node("registered", ca, "known")
        node("unregistered", ca, "stranger")
        node("deceived", wrong_ca, "known")
        until(lambda: "SuperNode ID" in federation.log("registered"), "the registered node")
        until(lambda: _ended(federation, "unregistered"), "the end of the unregistered node")
        until(lambda: _ended(federation, "deceived"), "the end of the node with a wrong CA")
        for refused in ("unregistered", "deceived"):
            assert "SuperNode ID" not in federation.log(refused, 10**6)
        federation.check("superlink", "registered")


def _ended(federation: Federation, name: str) -> bool:
    return federation.processes[name].poll() is not None


def test_the_demo_stops_what_it_started_when_interrupted(home: Path) -> None:
    import signal

    command = [sys.executable, "-m", "fedvalue.cli", "flower", "demo", "--clients", "2"]
    command += ["--keep", str(home / "kept")]
    environment = {**os.environ, "FEDVALUE_TEST_HOME": str(home)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        until(lambda: "SuperNode ID" in _log(home / "kept", "node-0"), "the nodes")
        demo.send_signal(signal.SIGINT)
        said = demo.communicate(timeout=60)
    assert demo.returncode == 130, said
    assert b"Interrupted" in said[1]


def _log(home: Path, name: str) -> str:
    path = home / "logs" / f"{name}.log"
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def test_rows_are_only_in_the_files_of_their_node(home: Path) -> None:
    """What the operator's side gets to see: the app and the test rows, never a client's."""
    scenario = digits(SIZES)
    app = lay_out(home, scenario, SETTINGS)
    shown = b"".join(path.read_bytes() for path in app.rglob("*") if path.is_file())
    for place, data in enumerate(scenario.clients):
        with np.load(home / f"client-{place}.npz") as file:
            assert np.array_equal(file["x"], data.x)
        assert data.x[0].tobytes() not in shown
