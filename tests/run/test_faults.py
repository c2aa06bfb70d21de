"""Faults: whatever ends a run, what was finished is kept and is not computed again."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import fedvalue as fv
from fedvalue.coalitions import members

# Values five clients with a slow function that logs what it starts and what it finishes.
SCRIPT = """
import json, os, sys, time
import fedvalue as fv

FOLDER, PAUSE, HANG_AT = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
STARTED = os.path.join(FOLDER, "started")

def log(what, coalition):
    with open(os.path.join(FOLDER, what), "a") as file:  # opened anew: it survives a kill
        file.write(json.dumps(coalition) + "\\n")

def utility(coalition):
    log("started", coalition)
    with open(STARTED) as file:
        hang = len(file.readlines()) == HANG_AT
    time.sleep(60 if hang else PAUSE)
    log("finished", coalition)
    return len(coalition) ** 0.5 + 0.1 * sum(coalition)

def main():
    game = fv.FunctionGame(5, utility, batch=False, key="slow")
    values = fv.value(game, method="exact", store=os.path.join(FOLDER, "store.db"))
    print(json.dumps(values.mean.tolist()))

if __name__ == "__main__":
    main()
"""
EXPECTED = fv.value(
    fv.FunctionGame(5, lambda c: len(c) ** 0.5 + 0.1 * sum(c), batch=False), method="exact"
).mean


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def start(script: Path, pause: float = 0.05, hang_at: int = 0) -> subprocess.Popen[str]:
    """Runs the script; the evaluation with number `hang_at` takes too long to be awaited."""
    command = [sys.executable, "-W", "error", str(script), str(script.parent), str(pause), str(hang_at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def logged(script: Path, what: str) -> list[str]:
    path = script.parent / what
    return path.read_text().splitlines() if path.exists() else []


def wait_until_started(script: Path, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(logged(script, "started")) < count:
        assert time.monotonic() < deadline, "the script did not get on"
        time.sleep(0.005)


def result(process: subprocess.Popen[str]) -> list[float]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    values: list[float] = json.loads(out)
    return values


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [signal.SIGKILL, *(pytest.param(how, marks=pytest.mark.slow) for how in (signal.SIGINT, signal.SIGTERM))],
)
def test_a_run_that_was_ended_goes_on_where_it_was(script: Path, how: signal.Signals) -> None:
    """Ended in the middle of an evaluation, twice; then the same again."""
    ended = [5, 13]
    for count in ended:
        process = start(script, hang_at=count)
        wait_until_started(script, count)
        process.send_signal(how)
        process.communicate(timeout=30)
        assert process.returncode != 0
    assert result(start(script)) == pytest.approx(EXPECTED)
    finished = Counter(logged(script, "finished"))
    assert len(finished) == 32
    assert set(finished.values()) == {1}, "a finished evaluation was repeated"
    assert len(logged(script, "started")) == 32 + len(ended)  # only what was interrupted began again
    with fv.UtilityStore(script.parent / "store.db") as store:
        assert store.verify() == []


@pytest.mark.slow
def test_the_same_again_evaluates_nothing(script: Path) -> None:
    first = result(start(script, pause=0))
    assert result(start(script, pause=0)) == first
    assert len(logged(script, "started")) == 32


@pytest.mark.slow
def test_two_runs_on_one_store_at_the_same_time(script: Path) -> None:
    runs = [start(script, pause=0.01) for _ in range(2)]
    first, second = (result(run) for run in runs)
    assert first == second == pytest.approx(EXPECTED)
    with fv.UtilityStore(script.parent / "store.db") as store:
        (game,) = store.games()
        assert game.outcomes == 32
        assert store.verify() == []


class Broken:
    """A utility function that fails for some coalitions, and counts its calls."""

    def __init__(self, failing: dict[tuple[int, ...], object]) -> None:
        self.failing = failing
        self.calls: Counter[tuple[int, ...]] = Counter()

    def __call__(self, coalition: tuple[int, ...]) -> object:
        self.calls[coalition] += 1
        found = self.failing.get(coalition, len(coalition) ** 0.5)
        if isinstance(found, Exception):
            raise found
        return found

    def many(self, coalitions: list[tuple[int, ...]]) -> list[object]:
        return [self(coalition) for coalition in coalitions]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    "failure", [RuntimeError("out of memory"), math.nan, math.inf, -math.inf, None, "much"], ids=repr
)
def test_one_coalition_fails(tmp_path: Path, failure: object, batch: bool) -> None:
    store, bad = tmp_path / "store.db", (0, 2, 3)
    broken = Broken({bad: failure})
    fn = broken.many if batch else broken
    game = fv.FunctionGame(4, fn, names=["north", "east", "south", "west"], batch=batch, key="k")
    with pytest.raises(fv.UtilityError) as caught:
        fv.value(game, method="exact", store=store)
    assert caught.value.coalition == bad
    assert "(0, 2, 3)" in str(caught.value)
    assert "north, south, west" in str(caught.value)

    finished = {c for c in broken.calls if c != bad}
    with fv.UtilityStore(store) as opened:
        kept = {members(mask) for mask in opened.read(game.id)}
        assert kept == finished
        assert opened.verify() == []

    broken.failing.clear()  # mended: the rest goes on
    broken.calls.clear()
    values = fv.value(game, method="exact", store=store)
    assert values.mean == pytest.approx(np.full(4, 0.5))
    assert bad in broken.calls
    assert not finished & broken.calls.keys(), "a finished evaluation was repeated"


def test_a_function_that_is_interrupted_by_hand(tmp_path: Path) -> None:
    """Ctrl-C inside the user's function: an exception like any other for the store."""
    store = tmp_path / "store.db"
    seen: list[tuple[int, ...]] = []

    def utility(coalition: tuple[int, ...]) -> float:
        seen.append(coalition)
        if len(seen) == 6:
            raise KeyboardInterrupt
        return float(len(coalition))

    game = fv.FunctionGame(3, utility, batch=False, key="k")
    with pytest.raises(KeyboardInterrupt):
        fv.value(game, method="exact", store=store)
    with fv.UtilityStore(store) as opened:
        assert len(opened.read(game.id)) == 5


def test_a_full_disk_in_the_middle_of_a_run(tmp_path: Path) -> None:
    game = fv.FunctionGame(12, lambda cs: [float(len(c)) for c in cs], key="k")
    with fv.UtilityStore(tmp_path / "store.db") as store:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 4}")
        with pytest.raises(fv.StoreError, match="disk is full"):
            fv.value(game, method="exact", store=store)
        store._db.execute("PRAGMA max_page_count = 100000")
        assert store.verify() == []
        assert fv.value(game, method="exact", store=store).mean == pytest.approx(np.ones(12))


def test_a_store_that_cannot_be_opened_fails_before_anything_is_evaluated(tmp_path: Path) -> None:
    calls: list[object] = []
    game = fv.FunctionGame(3, lambda cs: calls.append(cs) or [0.0] * len(cs), key="k")
    text = tmp_path / "notes.txt"
    text.write_text("my notes")
    for path in (text, tmp_path, tmp_path / "missing" / "store.db"):
        with pytest.raises(fv.StoreError):
            fv.value(game, method="exact", store=path)
    assert calls == []
    assert text.read_text() == "my notes"


# The command line, in a process of its own


def cli(*args: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "fedvalue.cli", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "game.npz"
    np.savez(path, utility=np.random.default_rng(0).random(16))
    return path


def refused(found: subprocess.CompletedProcess[str], code: int) -> str:
    """The error: one message on stderr, nothing on stdout, no traceback."""
    assert found.returncode == code, found.stderr
    assert found.stdout == ""
    assert "Traceback" not in found.stderr
    assert found.stderr.startswith("Error: ")
    assert found.stderr.count("\n") == 1
    return found.stderr


@pytest.mark.slow
def test_cli_corrupt_table(table: Path) -> None:
    table.write_bytes(table.read_bytes()[:-40])
    assert "damaged" in refused(cli("value", "--table", table), 2)


@pytest.mark.slow
def test_cli_unknown_method_suggests_the_nearest(table: Path) -> None:
    assert "Did you mean 'ipss'" in refused(cli("value", "--table", table, "--method", "ipps"), 2)


@pytest.mark.slow
def test_cli_store_that_is_no_store(table: Path, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("my notes")
    assert "not a fedvalue store" in refused(cli("value", "--table", table, "--store", text), 1)
    assert text.read_text() == "my notes"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_cli_json_to_a_full_disk(table: Path) -> None:
    assert "No space left" in refused(cli("value", "--table", table, "--json", "/dev/full", "-q"), 2)
    assert Path("/dev/full").is_char_device()


@pytest.mark.slow
def test_cli_ctrl_c_ends_with_130_and_a_message(tmp_path: Path) -> None:
    table, store = tmp_path / "game.npz", tmp_path / "store.db"
    np.savez(table, utility=np.random.default_rng(0).random(1 << 18))
    command = [sys.executable, "-m", "fedvalue.cli", "value", "--table", str(table), "--method", "exact"]
    process = subprocess.Popen(
        [*command, "--store", str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 30
    log = tmp_path / "store.db-wal"
    while not (log.exists() and log.stat().st_size > 100_000):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert out == ""
    assert err.startswith("Error: Interrupted")
    assert "Traceback" not in err
    with fv.UtilityStore(store) as opened:
        (game,) = opened.games()
        assert 0 < game.outcomes < 1 << 18
        assert opened.verify() == []
