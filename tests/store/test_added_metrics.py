"""Metrics that are added to stored trainings: beside the rows, which stay what they were."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from fedvalue import Outcome, StoreError, UtilityStore
from fedvalue.store import agree, export, summary


def outcome(mask: int, **more: float) -> Outcome:
    return Outcome({"accuracy": mask / 10, "loss": 2.0 - mask, **more}, 0.5, "test", "cpu")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with all coalitions of two clients, of which two have a metric that came later."""
    path = tmp_path / "store.db"
    with UtilityStore(path) as store:
        store.register("g", 2, {"names": ["a", "b"]})
        store.append("g", [(mask, outcome(mask)) for mask in range(4)])
    with UtilityStore(path) as store:
        store.append("g", [(mask, outcome(mask, profit=100.0 + mask)) for mask in (1, 3)])
    return path


def rows(path: Path, table: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as database:
        found = database.execute(f"SELECT * FROM {table}").fetchall()
    database.close()
    return found


class TestAppending:
    def test_a_row_gets_what_it_lacks_and_keeps_the_rest(self, path: Path) -> None:
        with UtilityStore(path) as store:
            stored = store.read("g")
            assert stored[3] == outcome(3, profit=103.0)
            assert stored[2] == outcome(2)
            assert store.read("g", [1, 2]) == {1: stored[1], 2: stored[2]}
            assert [row["metrics"].get("profit") for row in store.rows("g")] == [None, 101.0, None, 103.0]
            assert store.verify() == []

    def test_the_rows_themselves_are_those_of_before(self, path: Path) -> None:
        texts = [json.loads(str(row[3])) for row in rows(path, "outcomes")]
        assert texts == [dict(outcome(mask).metrics) for mask in range(4)]

    def test_a_number_that_is_there_is_never_changed(self, path: Path) -> None:
        with UtilityStore(path) as store:
            store.append("g", [(3, outcome(3, profit=0.0)), (1, outcome(1, profit=0.0, cost=7.0))])
            assert store.read("g")[3].metrics["profit"] == 103.0
            assert (
                store.read("g")[1].metrics == outcome(1, profit=101.0).metrics
            )  # of another model: not added

    @pytest.mark.parametrize(
        "other", [{"accuracy": 0.5, "profit": 1.0}, {"profit": 1.0}], ids=["contradicts", "nothing in common"]
    )
    def test_of_another_model_nothing_is_added(self, path: Path, other: dict[str, float]) -> None:
        with UtilityStore(path) as store:
            store.append("g", [(2, Outcome(other))])
            assert store.read("g")[2] == outcome(2)

    def test_rounding_is_no_contradiction(self, path: Path) -> None:
        with UtilityStore(path) as store:
            store.append("g", [(2, Outcome({"accuracy": 0.2 * (1 + 1e-9), "profit": 1.0}))])
            assert store.read("g")[2].metrics == {"accuracy": 0.2, "loss": 0.0, "profit": 1.0}

    def test_replicates_are_apart(self, path: Path) -> None:
        with UtilityStore(path) as store:
            store.append("g", [(1, outcome(5))], replicate=1)
            assert "profit" not in store.read("g", replicate=1)[1].metrics
            store.append("g", [(1, outcome(5, profit=5.0))], replicate=1)
            assert store.read("g", replicate=1)[1].metrics["profit"] == 5.0
            assert store.read("g")[1].metrics["profit"] == 101.0

    def test_all_or_none(self, path: Path) -> None:
        with UtilityStore(path) as store:
            with pytest.raises(StoreError, match="finite"):
                store.append("g", [(2, outcome(2, profit=1.0)), (0, outcome(0, profit=float("nan")))])
            assert store.read("g")[2] == outcome(2)

    def test_a_store_without_added_metrics_has_no_table_of_them(self, tmp_path: Path) -> None:
        with UtilityStore(tmp_path / "s.db") as store:
            store.register("g", 2)
            for _ in range(2):  # the second time nothing is new
                store.append("g", [(mask, outcome(mask)) for mask in range(4)])
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            rows(tmp_path / "s.db", "added_metrics")


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        ("DELETE FROM outcomes WHERE mask='3'", "training that is not there"),
        ("UPDATE added_metrics SET value='many' WHERE mask='3'", "not a finite number"),
        ("UPDATE added_metrics SET value=9e999 WHERE mask='3'", "not a finite number"),
    ],
)
def test_verify_looks_at_added_metrics(path: Path, damage: str, finding: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute(damage)
    database.close()
    with UtilityStore(path) as store:
        assert [finding in problem for problem in store.verify()] == [True]


def test_a_damaged_number_is_not_handed_out(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("UPDATE added_metrics SET value='many' WHERE mask='3'")
    database.close()
    with UtilityStore(path) as store:
        for read in (store.read, lambda game: list(store.rows(game))):
            with pytest.raises(StoreError, match="damaged"):
                read("g")


class TestMerging:
    def test_they_come_with_rows_that_are_new(self, path: Path, tmp_path: Path) -> None:
        with UtilityStore(tmp_path / "new.db") as target:
            assert target.merge(path).added == 4
            with UtilityStore(path) as source:
                assert target.read("g") == source.read("g")
            assert target.verify() == []

    @pytest.mark.parametrize("at_once", [True, False], ids=["trained with it", "added later"])
    def test_rows_that_are_there_get_them(self, path: Path, tmp_path: Path, at_once: bool) -> None:
        other = tmp_path / "other.db"
        with UtilityStore(other) as store:
            store.register("g", 2)
            if not at_once:
                store.append("g", [(2, outcome(2))])
            store.append("g", [(2, outcome(2, profit=102.0)), (3, outcome(3))])
        before = other.read_bytes()
        with UtilityStore(path) as target:
            report = target.merge(other)
            assert (report.added, report.present, report.conflicts, report.extended) == (0, 2, (), 1)
            assert target.read("g")[2] == outcome(2, profit=102.0)
            assert target.read("g")[3] == outcome(3, profit=103.0)
            assert target.verify() == []
            assert target.merge(other).extended == 0
        assert other.read_bytes() == before

    def test_not_across_a_contradiction(self, path: Path, tmp_path: Path) -> None:
        with UtilityStore(tmp_path / "other.db") as store:
            store.register("g", 2)
            store.append("g", [(2, Outcome({"accuracy": 0.9, "loss": 0.0, "profit": 1.0}))])
            store.append("g", [(3, outcome(3, profit=99.0))])
        with UtilityStore(path) as target:
            report = target.merge(tmp_path / "other.db")
            assert (report.conflicts, report.extended) == (("g / 2", "g / 3"), 0)
            assert target.read("g")[2] == outcome(2)
            assert target.read("g")[3].metrics["profit"] == 103.0


class TestExport:
    def test_a_column_with_gaps(self, path: Path, tmp_path: Path) -> None:
        with UtilityStore(path) as store:
            assert export(store, "g", tmp_path / "o.csv") == 4
            assert export(store, "g", tmp_path / "o.jsonl") == 4
            assert summary(store, "g")["metrics"] == ["accuracy", "loss", "profit"]
        with (tmp_path / "o.csv").open(newline="") as file:
            assert [row["profit"] for row in csv.DictReader(file)] == ["", "101.0", "", "103.0"]
        lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
        assert lines[3]["metrics"] == dict(outcome(3, profit=103.0).metrics)

    def test_a_table_by_the_plain_name_of_a_metric_of_ones_own(self, path: Path, tmp_path: Path) -> None:
        with UtilityStore(path) as store:
            own = [(mask, outcome(mask, **{"profit#0123abcd": float(mask)})) for mask in range(4)]
            store.append("g", own)
            export(store, "g", tmp_path / "o.npz", metric="profit")  # of the other one two are missing
        with np.load(tmp_path / "o.npz") as arrays:
            assert arrays["utilities"].tolist() == [0, 1, 2, 3]
            assert "profit" not in arrays.files


def test_models_that_agree() -> None:
    assert agree({"a": 1.0, "b": 0.0}, {"b": 1e-12, "c": 5.0})
    assert not agree({"a": 1.0}, {"a": 1.0 + 1e-5})
    assert not agree({"a": 1.0}, {"b": 1.0})
