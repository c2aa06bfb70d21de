"""The chain of a game's rows: whatever is altered, removed, moved or slipped in breaks it."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alterations import COLUMNS, alter_field, cut_off, insert_row, remove_row, reseal_store, swap_rows

import fedvalue as fv
from fedvalue import Outcome, UtilityStore
from fedvalue.per_row import PerRow
from fedvalue.store import Head, StoreUntil


def outcome(number: float, told: bool = True) -> Outcome:
    rows = {"loss": PerRow.fixed(number)} if told else {}
    return Outcome({"loss": number, "utility": number / 2}, 0.25, "test", "cpu", rows)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a row of every kind: told later, a metric added later, an entry renamed."""
    path = tmp_path / "store.db"
    with UtilityStore(path) as store:
        store.register("g", 3, {"names": ["a", "b", "c"]})
        store.append("g", [(mask, outcome(mask)) for mask in (1, 2)])
        store.append("g", [(3, outcome(3, told=False)), (4, outcome(4))])
        store.append("g", [(3, outcome(3))])
        store.append("g", [(2, Outcome({**outcome(2).metrics, "profit": 7.0}))])
        store.rename("g", ["A", "b", "c"])
    return path


def problems(path: Path) -> list[str]:
    try:
        with UtilityStore(path, create=False) as store:
            return store.verify()
    except fv.StoreError as error:  # what is no store at all is refused at once
        return [str(error)]


def test_every_addition_is_an_entry_in_its_order(path: Path) -> None:
    with UtilityStore(path) as store:
        found = store.entries("g")
        assert [entry.kind for entry in found] == ["game", *["outcome"] * 4, "rows", "metrics", "game"]
        assert store.head("g") == Head(8, found[-1].link)
        assert store.entries("g", 6) == found[6:]
        assert store.head("unknown").rows == 0
        assert store.verify() == []


def test_appending_nothing_new_changes_nothing(path: Path) -> None:
    with UtilityStore(path) as store:
        before = store.head("g")
        store.append("g", [(1, outcome(1)), (1, outcome(1))])
        store.register("g", 3, {"names": ["A", "b", "c"]})
        assert store.head("g") == before


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_every_field_of_every_kind_of_row(path: Path, table: str, column: str) -> None:
    what = alter_field(path, table, column, random.Random(f"{table}.{column}"))
    assert problems(path), what


@pytest.mark.parametrize("alteration", [remove_row, insert_row, swap_rows])
@pytest.mark.parametrize("seed", range(4))
def test_rows_removed_slipped_in_and_moved(path: Path, alteration: object, seed: int) -> None:
    assert callable(alteration)
    assert problems(path) == []
    alteration(path, random.Random(seed))
    assert problems(path)


def test_who_makes_everything_anew_gets_another_head(path: Path) -> None:
    """And so does who cuts off the end: both are sound stores, which is why the head has to be signed."""
    with UtilityStore(path) as store:
        head = store.head("g")
    reseal_store(path, ("UPDATE outcomes SET seconds=0.5 WHERE mask='1'", ()))
    assert problems(path) == []
    with UtilityStore(path) as store:
        assert store.head("g") != head


def test_the_end_cut_off_is_another_head(path: Path) -> None:
    with UtilityStore(path) as store:
        store.append("g", [(5, outcome(5)), (6, outcome(6)), (7, outcome(7))])
        head = store.head("g")
    cut_off(path, random.Random(0))
    with UtilityStore(path) as store:
        assert store.verify() == []
        assert store.head("g").rows < head.rows


def test_no_checksum_passes_as_that_of_an_older_store(path: Path) -> None:
    for table in ("outcomes", "added_metrics"):
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"UPDATE {table} SET checksum='none' WHERE mask='2'")
    with UtilityStore(path) as store, pytest.raises(fv.StoreError, match="altered"):
        store.read("g", [2])
    # Nor in a store that says it is of the format before, which had checksums already.
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE chain")
        db.execute("PRAGMA user_version = 3")
    assert any("has no checksum" in problem for problem in problems(path))


def test_a_chain_and_an_earlier_format_contradict_each_other(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA user_version = 3")
    assert "which came later" in problems(path)[0]


def test_reading_an_earlier_format_leaves_its_number(path: Path) -> None:
    """Whoever marks a file as in use must not say that it is newer than it is."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE chain")
        db.execute(f"PRAGMA user_version = {3 | 1 << 16}")
        db.execute("PRAGMA journal_mode = WAL")
    with UtilityStore(path) as store:
        assert len(store.read("g")) == 4
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] & 0xFFFF == 3


def test_an_earlier_format_is_taken_over_when_it_is_written(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE chain")
        db.execute("PRAGMA user_version = 3")
    with UtilityStore(path) as store:
        assert store.head("g").rows == 0
        store.append("g", [(7, outcome(7))])
        kinds = [entry.kind for entry in store.entries("g")]
        assert kinds == ["game", *["outcome"] * 4, "metrics", "taken over", "outcome"]
        assert store.entries("g")[6].names == ("format 3",)
        assert store.verify() == []


def test_merging_chains_what_is_new(path: Path, tmp_path: Path) -> None:
    with UtilityStore(tmp_path / "other.db") as store:
        store.register("h", 1)
        store.append("h", [(1, outcome(1))])
        store.register("g", 3, {"names": ["A", "b", "c"]})
        store.append("g", [(5, outcome(5))])
        store.merge(path)
        assert store.verify() == []
        assert store.head("g").rows == 7
        assert set(store.read("g")) == {1, 2, 3, 4, 5}


def test_a_store_as_it_was(path: Path) -> None:
    with UtilityStore(path) as store:
        early = StoreUntil(store, "g", 4)
        assert set(early.read("g")) == {1, 2, 3}
        assert early.read("g")[3].rows == {}
        assert "profit" not in early.read("g")[2].metrics
        assert [row["mask"] for row in early.rows("g")] == ["1", "2", "3"]
        assert all("profit" not in row["metrics"] for row in early.rows("g"))
        now = StoreUntil(store, "g", store.head("g").rows)
        assert now.read("g") == store.read("g")
        assert early.read("h") == {}


@pytest.mark.slow
def test_several_processes_write_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    code = (
        "import sys, fedvalue as fv\n"
        "with fv.UtilityStore(sys.argv[1]) as store:\n"
        "    store.register('g', 12, {})\n"
        "    for mask in range(int(sys.argv[2]), 400, 4):\n"
        "        store.append('g', [(mask, fv.Outcome({'utility': mask / 7})), (1000 + mask // 8, fv.Outcome({'utility': 1.0}))])\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), str(part)]) for part in range(4)]
    assert [process.wait(timeout=120) for process in running] == [0] * 4
    with UtilityStore(path) as store:
        assert store.verify() == []
        assert store.head("g").rows == 1 + len(store.read("g"))
