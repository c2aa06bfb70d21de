"""Several processes on one store: each coalition is evaluated by one of them, whoever is killed."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fedvalue as fv
from fedvalue.store import Claiming, new_owner

SCRIPT = """
import json, os, sys, time
import fedvalue as fv

folder, pause, jobs = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])

def utility(coalition):
    with open(os.path.join(folder, "log"), "a") as log:
        log.write(f"{os.getpid()} {json.dumps(coalition)}\\n")
    time.sleep(pause)
    return len(coalition) ** 0.5 + 0.1 * sum(coalition)

game = fv.FunctionGame(6, utility, batch=False, key="slow", jobs=jobs)
print(fv.value(game, "exact", store=os.path.join(folder, "store.db")).mean.tolist())
"""
EXPECTED = fv.value(
    fv.FunctionGame(6, lambda c: len(c) ** 0.5 + 0.1 * sum(c), batch=False), "exact"
).mean.tolist()


def start(folder: Path, pause: float, jobs: int = 1) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", SCRIPT, str(folder), str(pause), str(jobs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def logged(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


def result(process: subprocess.Popen[str]) -> list[float]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    values: list[float] = json.loads(out)
    return values


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_four_processes_share_the_work(tmp_path: Path, jobs: int) -> None:
    writers = [start(tmp_path, 0.05, jobs) for _ in range(4)]
    assert [result(writer) for writer in writers] == [pytest.approx(EXPECTED)] * 4
    lines = [line.partition(" ") for line in logged(tmp_path)]
    assert len(lines) <= 1.2 * 64
    assert {coalition for _, _, coalition in lines} == {
        json.dumps([i for i in range(6) if mask >> i & 1]) for mask in range(64)
    }
    assert len({pid for pid, _, _ in lines}) > jobs  # more than one had a part in it
    with fv.UtilityStore(tmp_path / "store.db") as store:
        assert store.verify() == []
        assert store._db.execute("SELECT count(*) FROM claims").fetchone() == (0,)


@pytest.mark.slow
def test_what_a_killed_process_had_begun_is_taken_over_at_once(tmp_path: Path) -> None:
    killed = start(tmp_path, 0.5)
    while len(logged(tmp_path)) < 2:
        assert killed.poll() is None
        time.sleep(0.01)
    others = [start(tmp_path, 0.0) for _ in range(2)]
    time.sleep(1.0)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=30)
    ended = time.monotonic()
    assert [result(other) for other in others] == [pytest.approx(EXPECTED)] * 2
    assert time.monotonic() - ended < 25  # not when its claims run out
    assert len(logged(tmp_path)) <= 1.2 * 64
    assert max(Counter(line.partition(" ")[2] for line in logged(tmp_path)).values()) <= 2


def slow_root(coalition: tuple[int, ...]) -> float:
    return float(len(coalition)) ** 0.5


@pytest.mark.slow
def test_a_claim_that_runs_out_is_overtaken_and_waiting_is_said(tmp_path: Path) -> None:
    """Of another machine's process nobody knows whether it is there: time tells."""
    path, stages = tmp_path / "store.db", []
    game = fv.FunctionGame(3, slow_root, batch=False, key="root")
    owner = f"elsewhere|1|1|{new_owner()}"
    with fv.UtilityStore(path) as store:
        assert isinstance(store, Claiming)
        store.register(game.id, 3)
        assert store.claim(game.id, [1, 2], 0, owner, 0.7) == [1, 2]
        began = time.monotonic()
        values = fv.value(game, "exact", store=store, on_stage=stages.append)
        assert 0.3 < time.monotonic() - began < 30
        assert values.cost is not None
        assert values.cost.trained == 8
    assert "waiting for 2 coalitions that another process is at" in stages


def test_claims(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    one, two, gone = new_owner(), new_owner(), new_owner().replace(f"|{os.getpid()}|", "|999999999|")
    with fv.UtilityStore(path) as store, fv.UtilityStore(path) as other:
        store.register("g", 3)
        assert store.claim("g", [1, 2, 3], 0, one, 30.0) == [1, 2, 3]
        assert other.claim("g", [2, 3, 4], 0, two, 30.0) == [4]
        assert other.claim("g", [2, 3, 4], 1, two, 30.0) == [2, 3, 4]  # another replicate
        assert store.claim("g", [1, 2], 0, one, 30.0) == [1, 2]  # its own again
        store.append("g", [(2, fv.Outcome({"utility": 1.0}))])
        assert other.claim("g", [1, 2, 3], 0, two, 30.0) == [2]  # what is stored is nobody's
        store.release(one)
        assert other.claim("g", [1, 3], 0, two, 0.05) == [1, 3]
        other.renew(two, 30.0)
        time.sleep(0.1)
        assert store.claim("g", [1, 3, 4], 0, one, 30.0) == []
        assert store.claim("g", [5, 6], 0, gone, 30.0) == [5, 6]
        assert store.claim("g", [5, 6], 0, one, 30.0) == [5, 6]  # that process is not there
        assert store.verify() == []


def test_a_function_that_fails_gives_up_its_claims(tmp_path: Path) -> None:
    def failing(coalition: tuple[int, ...]) -> float:
        raise RuntimeError("no")

    with fv.UtilityStore(tmp_path / "store.db") as store:
        game = fv.FunctionGame(3, failing, batch=False, key="k")
        with pytest.raises(fv.UtilityError, match="RuntimeError"):
            fv.value(game, "exact", store=store)
        assert store._db.execute("SELECT count(*) FROM claims").fetchone() == (0,)


KILLED = """
import sys, torch
import fedvalue as fv

torch.set_num_threads(1)
scenario = fv.load_scenario("digits", clients=6, samples=150)
game = fv.FederatedGame(scenario, "mlp", fv.Training(rounds=4, epochs=8, batch=32, rate=0.01), device="cpu")
print("ready", flush=True)
values = fv.value(game, "exact", store=sys.argv[1])
print(values.mean.tolist())
"""


def federated(store: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(store)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_a_federated_run_killed_again_and_again_gets_on_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    kept = [0]
    for _ in range(3):
        process = federated(tmp_path / "store.db")
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            with fv.UtilityStore(tmp_path / "store.db") as store:
                grown = sum(game.coalitions for game in store.games()) > kept[-1] + 1
            if grown:
                break
            time.sleep(0.05)
        process.kill()
        process.communicate(timeout=30)
        with fv.UtilityStore(tmp_path / "store.db") as store:
            assert store.verify() == []
            kept.append(sum(game.coalitions for game in store.games()))
    # Every one of them left something behind, until nothing was left to do.
    assert all(before < after or before == 64 for before, after in itertools.pairwise(kept))
    assert kept[1] < 64, "the first one was over before it could be killed"
    last, whole = (
        federated(tmp_path / name).communicate(timeout=120)[0] for name in ("store.db", "whole.db")
    )
    assert last == whole


def test_an_observer_that_values_the_same_game_does_not_wait_for_its_own_run(tmp_path: Path) -> None:
    def quick() -> fv.FunctionGame:
        return fv.FunctionGame(4, lambda c: float(sum(c)), batch=False, key="quick")

    def nested(evaluation: Any) -> None:
        fv.value(quick(), "exact", store=tmp_path / "s.db")

    with pytest.raises(fv.StoreError, match=r"observer of a run .* when that run has ended"):
        fv.value(quick(), "exact", store=tmp_path / "s.db", on_outcome=nested)
    other = tmp_path / "other.db"  # a store of its own is no matter
    fv.value(quick(), "exact", store=other, on_outcome=lambda _: fv.value(quick(), "exact"))
    assert fv.value(quick(), "exact", store=tmp_path / "s.db").mean.tolist() == [0.0, 1.0, 2.0, 3.0]
