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
from fedvalue.coalition import members
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


# Flower's nodes look for messages every 3 s, and a killed one counts as there for a minute, in which nobody else
# may come under its key: tests need not wait so long.
IMPATIENT = """
import time
import flwr.common.constant as constant
constant.HEARTBEAT_DEFAULT_INTERVAL = 10
sleep = time.sleep
time.sleep = lambda seconds: sleep(min(seconds, 0.3))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(IMPATIENT, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    yield tmp_path
    if sys.platform == "linux":
        # What a killed node had started notices by itself that it is alone, in its own time.
        until(lambda: not alive(tmp_path), f"the end of {alive(tmp_path)}", 40)


def valued_despite_a_death(
    federation: Federation,
    app: Path,
    game: FederatedGame,
    name: str,
    others: set[int],
    again: Callable[[], None],
) -> fv.Values:
    """The node is killed in round 2; when the coalitions of the others are stored, it is started again."""
    out = federation.home / "out"
    run = federation.submit(app, {"memory-mb": 64.0})
    until(lambda: f"[RUN {run}, ROUND 2]" in federation.log(name, 10**6), f"round 2 at {name}", LONG)
    federation.kill(name)
    until(lambda: stored(out / "store.db", game) == others, "coalitions of the others", LONG)
    again()
    result = federation.wait_for(run, [out / "values.json", out / "error.json"], LONG)
    assert result.name == "values.json", result.read_text(encoding="utf-8")
    return fv.Values.from_dict(json.loads(result.read_text(encoding="utf-8")))


def test_values_are_the_local_ones_and_survive_the_deaths_of_superlink_and_node(home: Path) -> None:
    """The SuperLink dies between two coalitions, then a node in a round: the valuation goes on from the store.

    Without authentication the node comes back under a new id, and is recognised.
    """
    game = local_game(SIZES[:2])
    # So little memory that two local trainings are a wave of their own.
    app = lay_out(home, game.scenario, {**SETTINGS, "memory-mb": 0.4})
    store = home / "out" / "store.db"
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

        def again() -> None:
            federation.start_node("node-1-again", node_config(home, game.scenario, 1))

        values = valued_despite_a_death(federation, app, game, "node-1", before, again)
        assert _identifier(federation, "node-1-again") != _identifier(federation, "node-1")
    expected = fv.value(game, "exact")
    assert values.game_id == expected.game_id
    assert values.mean == pytest.approx(expected.mean, abs=1e-6)
    assert before < stored(store, game) == {0, 1, 2, 3}
    # Nothing that was stored or remembered is trained again: a query and two rounds, and a query and the round again.
    assert values.details["message_rounds"] == 5
    incidents = values.details["incidents"]
    assert any("client 1 is not there" in text for text in incidents)
    assert incidents[-1] == "client 1 answers again"


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
def test_strangers_are_refused_and_a_known_node_returns_under_its_key(home: Path) -> None:
    """TLS and authentication: a node without a registered key and one that trusts a wrong CA do not come in.

    A registered one is killed while it trains and started again: it has its id and its place among the clients.
    """
    tls, ca = certificates(home / "tls")
    _, wrong_ca = certificates(home / "other")
    game = local_game()
    with UtilityStore(home / "local.db") as local:
        expected = fv.value(game, "ipss", 5, RULES["seed"], local)
        (pair,) = (mask for mask in local.read(game.id) if mask.bit_count() == 2)
    (left, dies), (alone,) = members(pair), members(0b111 ^ pair)
    for name in ("key-0", "key-1", "key-2", "stranger"):
        key = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(home / name)]
        subprocess.run(key, check=True, capture_output=True)
    app = lay_out(home, game.scenario, {**SETTINGS, "method": "ipss", "budget": 5})
    link = [*tls, "--enable-supernode-auth"]
    with Federation(home, link_options=link, connection={"root-certificates": str(ca)}) as federation:
        federation.start_link()

        def node(name: str, place: int, key: str, trusted: Path = ca) -> None:
            options = ["--root-certificates", str(trusted), "--auth-supernode-private-key", str(home / key)]
            config = node_config(home, game.scenario, place)
            federation.start_node(name, config, [*options, "--max-retries", "1"])

        for place in range(3):
            public = str(home / f"key-{place}.pub")
            federation.flwr("supernode", "register", public, "demo", "--format", "json")
            node(f"node-{place}", place, f"key-{place}")
        node("unregistered", 0, "stranger")
        node("deceived", 0, "key-0", wrong_ca)
        others = {0, 1 << left, 1 << alone}
        values = valued_despite_a_death(
            federation, app, game, f"node-{dies}", others, lambda: node("again", dies, f"key-{dies}")
        )
        for refused in ("unregistered", "deceived"):
            assert _ended(federation, refused)
            assert "SuperNode ID" not in federation.log(refused, 10**6)
        assert _identifier(federation, "again") == _identifier(federation, f"node-{dies}")
        # One message is all that the client outside of the pair is asked to train.
        received = federation.log(f"node-{alone}", 10**6).count("Receiving: train.fedvalue")
        assert received == 1
    assert values.names == expected.names
    assert values.mean == pytest.approx(expected.mean, abs=1e-6)
    assert values.details["incidents"][-1] == f"client {dies} answers again"


def _identifier(federation: Federation, name: str) -> str:
    return federation.log(name, 10**6).split("SuperNode ID: ")[1].split()[0]


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
