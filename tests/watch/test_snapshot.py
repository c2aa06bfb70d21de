"""What a store and its folders say at one moment."""

from __future__ import annotations

import json
import shutil
import threading
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from watched import HeldRun, table_run

import fedvalue as fv
from fedvalue._files import write_json
from fedvalue.errors import InputError
from fedvalue.outcome import Outcome
from fedvalue.run import PROGRESS_FILE, Node, read_progress
from fedvalue.store import StoreLook, UtilityStore
from fedvalue.watch import RunNow, Watcher, snapshot, so_far


def only(target: Path) -> RunNow:
    (run,) = snapshot(target).runs
    return run


def test_a_run_from_its_middle_to_its_end(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with HeldRun(out, hold_after=10) as held:
        now = only(out)
        assert (now.state, now.method, now.title) == ("running", "surrogate", "run")
        assert now.planned == 16
        assert 0 <= now.done <= 10
        assert now.names == ("client-0", "client-1", "client-2", "client-3")
        assert now.values is None
        values = held.finish()
    now = only(out)
    assert (now.state, now.done, now.planned, now.outcomes, now.failures) == ("ended", 16, 16, 16, ())
    assert now.values is not None
    assert now.values.mean.tolist() == values.mean.tolist()
    assert only(out / "store.db").values is not None  # the store leads to its folder


def test_values_so_far_become_those_of_the_run(tmp_path: Path) -> None:
    result = fv.run("synthetic", clients=6, samples=20, model="least-squares", budget=30, out=tmp_path)
    found = so_far(only(tmp_path))
    assert found.values is not None
    assert found.outcomes == 30
    np.testing.assert_allclose(found.values.mean, result.values.mean, atol=1e-6)
    assert found.values.parts.keys() <= {"coalitions", "training"}


@pytest.mark.slow
def test_values_of_an_exact_run_and_of_several_seeds(tmp_path: Path) -> None:
    for name, job in {
        "exact": {"method": "exact"},
        "seeds": {"model": "linear", "seeds": 3, "rounds": 1, "epochs": 1},
    }.items():
        result = fv.run("digits", **{"clients": 3, "samples": 8, "budget": 21, "out": tmp_path / name, **job})
        found = so_far(only(tmp_path / name))
        assert found.values is not None, found.why_not
        np.testing.assert_allclose(found.values.mean, result.values.mean, atol=5e-3)


def test_of_many_trainings_a_choice_is_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedvalue.watch._so_far._MOST_FITTED", 20)
    table_run(tmp_path / "my.db", list("abcde"), [float(mask.bit_count()) for mask in range(32)])
    found = so_far(only(tmp_path / "my.db"))
    assert found.values is not None
    assert (found.values.evaluations, found.outcomes) == (20, 32)
    np.testing.assert_allclose(found.values.mean, np.ones(5), atol=0.05)


def test_values_wait_for_the_ends(tmp_path: Path) -> None:
    with UtilityStore(tmp_path / "store.db") as store:
        store.register("g", 3)
        store.append("g", [(1, Outcome({"utility": 1.0}))])
    found = so_far(only(tmp_path / "store.db"))
    assert found.values is None
    assert (
        found.why_not
        == "Values begin when the untrained model and the coalition of all clients are measured."
    )


def test_a_store_alone(tmp_path: Path) -> None:
    values = table_run(tmp_path / "my.db", ["a", "b"], [0.0, 1.0, 2.0, 4.0])
    now = only(tmp_path / "my.db")
    assert (now.state, now.planned, now.outcomes, now.names) == ("at rest", None, 4, ("a", "b"))
    assert now.rules is not None
    assert now.rules.is_known
    found = so_far(now)
    assert found.values is not None
    np.testing.assert_allclose(found.values.mean, values.mean, atol=1e-9)
    assert {stored.clients for stored in now.latest} == {(), ("a",), ("b",), ("a", "b")}


def test_a_store_by_a_relative_path_leads_to_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fv.run("synthetic", clients=2, samples=10, model="least-squares", out=tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    assert only(Path("store.db")).state == "ended"
    assert only(Path()).title == "run"


def test_several_games_in_one_store_and_several_folders(tmp_path: Path) -> None:
    for name, utilities in (("one", [0.0, 1.0]), ("two", [0.0, 2.0])):
        table_run(tmp_path / "all.db", [name], utilities)
    assert [run.names for run in snapshot(tmp_path / "all.db").runs] == [("one",), ("two",)]
    for name in ("x", "y"):
        fv.run(
            "synthetic",
            clients=2,
            samples=10,
            model="least-squares",
            out=tmp_path / "runs" / name,
            seed=ord(name),
        )
    (tmp_path / "runs" / "notes").mkdir()
    found = snapshot(tmp_path / "runs")
    assert [(run.title, run.state) for run in found.runs] == [("x", "ended"), ("y", "ended")]


def test_two_runs_that_share_a_store(tmp_path: Path) -> None:
    shared = tmp_path / "store.db"
    for name in ("x", "y"):
        fv.run(
            "synthetic",
            clients=2,
            samples=10,
            model="least-squares",
            store=shared,
            out=tmp_path / name,
            seed=ord(name),
        )
    assert [run.title for run in snapshot(tmp_path).runs] == ["x", "y"]


def left(folder: Path, **changes: object) -> None:
    """What a run of the folder would have said of itself."""
    out = folder / "other"
    with HeldRun(out, hold_after=3):
        said = read_progress(out)
    assert said is not None
    facts = {"format": "fedvalue.progress/1", **asdict(said), **changes}
    shutil.copy(out / "store.db", folder / "store.db")
    shutil.rmtree(out)
    write_json(folder / PROGRESS_FILE, facts)


@pytest.mark.slow
def test_a_run_that_was_killed_and_one_that_failed(tmp_path: Path) -> None:
    left(tmp_path, owner=f"{_here()}|1|0|x")
    assert only(tmp_path).state == "killed"
    left(tmp_path, state="failed", error="client-1 diverged", incidents=["round 2: client-1 is gone"])
    now = only(tmp_path)
    assert (now.state, now.failures) == ("failed", ("client-1 diverged", "round 2: client-1 is gone"))


def test_what_another_version_or_a_stranger_says_of_a_run(tmp_path: Path) -> None:
    left(tmp_path)
    said = json.loads((tmp_path / PROGRESS_FILE).read_text())
    assert read_progress(tmp_path) is not None
    odd: list[dict[str, object]] = [
        {"began": "yesterday"},
        {"updated": "2026-11-19T22:00:00"},
        {"asked": "many"},
        {"owner": None},
        {"stored_as": []},
        {"method": 5},
        {"groups": {"H": 1}},
        {"nodes": [{"client": "a", "state": 1}]},
        {"incidents": [3]},
    ]
    for changes in odd:
        (tmp_path / PROGRESS_FILE).write_text(json.dumps({**said, **changes}))
        assert read_progress(tmp_path) is None, changes
    of_folder, of_store = snapshot(tmp_path).runs  # nothing says that they belong together
    assert (of_folder.outcomes, of_store.outcomes, of_store.state) == (0, 16, "at rest")


def test_a_store_under_a_name_that_cannot_be(tmp_path: Path) -> None:
    left(tmp_path, store="x" * 5000)
    assert only(tmp_path).store is None


def test_other_values_than_shapleys_are_named(tmp_path: Path) -> None:
    values = fv.value([0.0, 0.5, 0.2, 0.9], "exact", index="banzhaf", store=tmp_path / "store.db")
    values.save(tmp_path / "values.json")
    with Watcher(tmp_path) as watcher:
        assert "The Banzhaf values of the clients, by exact." in watcher.parts()[1]["r0-values"]


@pytest.mark.slow
def test_a_run_that_begins_again_by_another_metric(tmp_path: Path) -> None:
    """No training is new, and yet the values are others."""

    def values_of(changes: dict[str, object]) -> str:
        said = json.loads((tmp_path / PROGRESS_FILE).read_text()) | changes
        write_json(tmp_path / PROGRESS_FILE, said)
        return values_once_known()

    def values_once_known() -> str:
        for _ in range(100):
            found = watcher.parts()[1]["r0-values"]
            if 'class="value"' in found:
                return found
            time.sleep(0.05)
        raise AssertionError("no values came")

    left(tmp_path, known=16, asked=16)
    with Watcher(tmp_path) as watcher:
        first = values_once_known()
        by_loss = values_of({"metric": "mse", "stored_as": "mse", "higher_is_better": False})
        assert by_loss != first
        grouped = values_of({"groups": {"Holding": ["client-0", "client-1"]}})
        assert len({first, by_loss, grouped}) == 3


def test_what_nobody_expected_is_said_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise TypeError("neither fish nor fowl")

    fv.run("synthetic", clients=2, samples=10, model="least-squares", out=tmp_path)
    with Watcher(tmp_path) as watcher:
        before = watcher.parts()[1]
        monkeypatch.setattr("fedvalue.watch._watcher.signature", broken)
        after = watcher.parts()[1]
    assert "neither fish nor fowl" in after["troubles"]
    assert after["r0-values"] == before["r0-values"]


def _here() -> str:
    from fedvalue.store import new_owner

    return new_owner().split("|")[0]


def test_the_nodes_of_a_federation(tmp_path: Path) -> None:
    nodes = [asdict(Node("Aachen", "there")), asdict(Node("Bern", "absent", "did not answer"))]
    left(tmp_path, nodes=nodes, owner="elsewhere|1|0|x")
    now = only(tmp_path)
    assert now.state == "running"  # as far as anybody knows here
    assert now.nodes == (Node("Aachen", "there"), Node("Bern", "absent", "did not answer"))


def test_a_federation_that_failed_before_it_began(tmp_path: Path) -> None:
    (tmp_path / "error.json").write_text(
        json.dumps({"error": "too few", "incidents": ["Bern was late"], "settings": {}})
    )
    now = only(tmp_path)
    assert (now.state, now.failures) == ("failed", ("too few", "Bern was late"))


def test_the_time_left_is_by_the_pace_so_far(tmp_path: Path) -> None:
    left(tmp_path, known=8, asked=16)
    began = json.loads((tmp_path / PROGRESS_FILE).read_text())["began"]
    with StoreLook(tmp_path / "store.db") as store:
        assert store.stored_after(store.games()[0].id, began) == 16
    now = only(tmp_path)
    assert now.done == 16 or now.seconds_left is not None


def test_what_cannot_be_read_is_said_and_the_others_are_shown(tmp_path: Path) -> None:
    fv.run("synthetic", clients=2, samples=10, model="least-squares", out=tmp_path / "good")
    fv.run("synthetic", clients=2, samples=10, model="least-squares", out=tmp_path / "torn")
    store = tmp_path / "torn" / "store.db"
    store.write_bytes(b"half a copy" * 1000)
    found = snapshot(tmp_path)
    assert [run.title for run in found.runs] == ["good", "torn"]
    assert len(found.troubles) == 1
    assert "torn" in found.troubles[0]


def test_a_target_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no store and no folder"):
        Watcher(tmp_path / "nothing")
    assert snapshot(tmp_path).runs == ()


@pytest.mark.slow
def test_a_run_that_is_watched_stores_the_same_rows(tmp_path: Path) -> None:
    def rows(out: Path) -> list[tuple[object, ...]]:
        with UtilityStore(out / "store.db") as store:
            assert store.verify() == []
            game = store.games()[0].id
            return [(row["mask"], row["replicate"], digits(row["metrics"])) for row in store.rows(game)]

    def digits(
        metrics: dict[str, float],
    ) -> dict[str, float]:  # the last one depends on where arrays lie in memory
        return {name: round(number, 9) for name, number in metrics.items()}

    job = {"clients": 6, "samples": 20, "model": "least-squares", "budget": 40}
    alone = fv.run("synthetic", **job, out=tmp_path / "alone")
    ended = threading.Event()
    looks = []

    def look() -> None:
        while not ended.is_set():
            found = snapshot(tmp_path / "watched") if (tmp_path / "watched").is_dir() else None
            looks.append(found and found.runs and so_far(found.runs[0]).outcomes)

    watchers = [threading.Thread(target=look, daemon=True) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    watched = fv.run("synthetic", **job, out=tmp_path / "watched")
    ended.set()
    for watcher in watchers:
        watcher.join(30)
    assert len(looks) > 2
    assert rows(tmp_path / "watched") == rows(tmp_path / "alone")
    np.testing.assert_allclose(watched.values.mean, alone.values.mean, atol=1e-9)
