"""A real federation: SuperLink, SuperNodes, ServerApp and ClientApps as processes on the loopback interface."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import digits
from flower_processes import IMPATIENT, Authority, alive, flwr, kill, make_key, node_number, run_number, until
from foreign_app import EXAMPLE, example_modules, plain_accuracy

import fedvalue as fv
from fedvalue.coalitions import members
from fedvalue.flower._demo import lay_out, node_config, run_app, start
from fedvalue.flower._processes import Federation
from fedvalue.games import FederatedGame
from fedvalue.run import read_values
from fedvalue.store import UtilityStore
from fedvalue.training import Training

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread", "all_untrained_models")]

SIZES = (40, 30, 50)
RULES = {"rounds": 2, "epochs": 2, "batch": 16, "rate": 0.01, "seed": 3}
# Not `exact`, which trains some coalitions with other seeds as well.
SETTINGS: dict[str, Any] = {"method": "exact-cc", **RULES}
LONG = 400.0  # for one valuation on a busy machine


def local_game(sizes: tuple[int, ...] = SIZES) -> FederatedGame:
    return FederatedGame(digits(sizes), "mlp", Training(**RULES))  # type: ignore[arg-type]


def stored(path: Path, game: FederatedGame) -> set[int]:
    if not path.exists():
        return set()
    with UtilityStore(path, create=False) as store:
        return set(store.read(game.id))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(IMPATIENT, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=os.pathsep)
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
    federation.start_run(app, {"memory-mb": 64.0}, "run-with-a-death")
    run = run_number(federation, "run-with-a-death")
    until(lambda: f"[RUN {run}, ROUND 2]" in federation.log(name, 10**6), f"round 2 at {name}", LONG)
    kill(federation, name)
    until(lambda: stored(out / "store.db", game) == others, "coalitions of the others", LONG)
    again()
    federation.wait("run-with-a-death", LONG)
    assert not (out / "error.json").exists(), (out / "error.json").read_text(encoding="utf-8")
    return read_values(out)


def test_values_are_the_local_ones_and_survive_the_deaths_of_superlink_and_node(home: Path) -> None:
    """The SuperLink dies between two coalitions, then a node in a round: the valuation goes on from the store.

    Without authentication the node comes back under a new id, and is recognised.
    """
    game = local_game(SIZES[:2])
    # So little memory that two local trainings are a wave of their own. What checkpoints add is in test_flower_kills.py.
    app = lay_out(home, game.scenario, {**SETTINGS, "memory-mb": 0.4, "checkpoints": False})
    store = home / "out" / "store.db"
    with Federation(home) as federation:
        federation.link_options = ("--insecure", "--database", str(home / "link.db"))
        start(federation, game.scenario)
        federation.start_run(app, {})
        run = run_number(federation, "run")
        until(lambda: len(stored(store, game)) >= 2, "two coalitions in the store", LONG)
        kill(federation, "superlink", "superexec")
        before = stored(store, game)
        assert 2 <= len(before) < 4
        federation.start_link()
        # Else nodes may wait a minute for what the old run still owes them.
        flwr(federation, "stop", run, "demo")

        def again() -> None:
            federation.start_node("node-1-again", node_config(home, game.scenario, 1))

        values = valued_despite_a_death(federation, app, game, "node-1", before, again)
        assert node_number(federation, "node-1-again") != node_number(federation, "node-1")
    expected = fv.value(game, "exact-cc")
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
    app = lay_out(home, scenario, {**SETTINGS, "evaluate": "nodes", "share-all-models": True})
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
    expected = fv.value(local_game(SIZES[:2]), "exact-cc")
    assert ours.details["evaluated_at"] == "nodes"
    assert ours.mean == pytest.approx(expected.mean, abs=1e-6)
    assert ours.game_id != expected.game_id  # who evaluates is part of the game
    assert ours.test_rows == 120  # 30 and 90, of which the nodes told in blocks
    assert ours.errors["test"] is not None
    with example_modules() as modules:
        table = [plain_accuracy(modules, 2, mask, 1) for mask in range(4)]
    # Their nodes do not say which partition they have: they come in the order of Flower's ids, which are random.
    assert sorted(theirs.mean) == pytest.approx(
        sorted(fv.value(fv.TableGame(table), "exact").mean), abs=0.003
    )


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_strangers_are_refused_and_a_known_node_returns_under_its_key(home: Path) -> None:
    """TLS and authentication: a node without a registered key and one that trusts a wrong CA do not come in.

    A registered one is killed while it trains and started again: it has its id and its place among the clients.
    """
    authority, other = Authority(home / "tls"), Authority(home / "other")
    game = local_game()
    with UtilityStore(home / "local.db") as local:
        expected = fv.value(game, "ipss", 5, RULES["seed"], local)
        (pair,) = (mask for mask in local.read(game.id) if mask.bit_count() == 2)
    (left, dies), (alone,) = members(pair), members(0b111 ^ pair)
    for name in ("key-0", "key-1", "key-2", "stranger"):
        make_key(home / name)
    app = lay_out(home, game.scenario, {**SETTINGS, "method": "ipss", "budget": 5, "checkpoints": False})
    with Federation(home) as federation:
        authority.secure(federation)
        federation.start_link()

        def node(name: str, place: int, key: str, trusted: Authority = authority) -> None:
            keys = ["--root-certificates", str(trusted.root), "--auth-supernode-private-key", str(home / key)]
            federation.start_node(name, node_config(home, game.scenario, place), *keys, "--max-retries", "1")

        for place in range(3):
            flwr(federation, "supernode", "register", str(home / f"key-{place}.pub"), "demo")
            node(f"node-{place}", place, f"key-{place}")
        node("unregistered", 0, "stranger")
        node("deceived", 0, "key-0", other)
        others = {0, 1 << left, 1 << alone}
        values = valued_despite_a_death(
            federation, app, game, f"node-{dies}", others, lambda: node("again", dies, f"key-{dies}")
        )
        for refused in ("unregistered", "deceived"):
            assert federation.processes[refused].poll() is not None
            assert "SuperNode ID" not in federation.log(refused, 10**6)
        assert node_number(federation, "again") == node_number(federation, f"node-{dies}")
        # Where nothing is kept between rounds, one message is all that the client outside of the pair is asked to train.
        received = federation.log(f"node-{alone}", 10**6).count("Receiving: train.fedvalue")
        assert received == 1
    assert values.names == expected.names
    assert values.mean == pytest.approx(expected.mean, abs=1e-6)
    assert values.details["incidents"][-1] == f"client {dies} answers again"


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
