"""What test rows said, in a store: kept with the outcome, in the same transaction, and as safe as its metrics."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from fedvalue import Outcome, StoreError, UtilityStore
from fedvalue.per_row import PerRow
from fedvalue.store import export

BITS = np.array([1.0, 0, 0, 1, 1, 0, 1, 0, 1, 1])


def outcome(mask: int, *names: str, told: bool = True) -> Outcome:
    bits = np.roll(BITS, mask)
    numbers = np.linspace(0, 1, 20) * (1 + mask)
    metrics = {"accuracy": float(bits.mean()), "loss": float(numbers.mean()) + 1e-7 * mask}
    rows = {"accuracy": PerRow.of(bits), "loss": PerRow.of(numbers)} if told else {}
    return Outcome({**metrics, **dict.fromkeys(names, 2.0)}, 0.5, "test", "cpu", rows)


def edit(path: Path, *statements: str) -> None:
    with sqlite3.connect(path, isolation_level=None) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    with UtilityStore(path) as store:
        store.register("g", 3)
        store.append("g", [(mask, outcome(mask)) for mask in range(1, 5)])
    return path


def test_rows_come_back_as_they_were(path: Path) -> None:
    with UtilityStore(path) as store:
        assert store.read("g") == {mask: outcome(mask) for mask in range(1, 5)}
        assert store.read("g", [2]) == {2: outcome(2)}
        assert store.read("g", [2], replicate=1) == {}
        assert store.verify() == []


def test_the_kinds_without_rows_come_back_too(path: Path) -> None:
    given = Outcome(
        {"utility": 0.5, "utility|=0.5": 0.5},
        rows={"utility": PerRow.error(0.1), "utility|=0.5": PerRow.fixed(0.5)},
    )
    with UtilityStore(path) as store:
        store.append("g", [(0, given)], replicate=3)
        assert store.read("g", None, 3) == {0: given}
        assert store.verify() == []


def test_a_store_without_rows_has_no_table_of_them(tmp_path: Path) -> None:
    with UtilityStore(tmp_path / "plain.db") as store:
        store.register("g", 3)
        store.append("g", [(1, outcome(1, told=False))])
        assert store.read("g")[1].rows == {}
        assert store.row_errors("g") == {}
    with sqlite3.connect(tmp_path / "plain.db") as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    database.close()
    assert "per_row" not in tables


def test_an_outcome_that_is_there_without_them_gets_them(path: Path) -> None:
    with UtilityStore(path) as store:
        store.append("g", [(6, outcome(6, told=False))])
        store.append("g", [(6, outcome(6)), (7, outcome(7))])
        assert store.read("g", [6, 7]) == {6: outcome(6), 7: outcome(7)}


def test_rows_of_another_model_are_not_taken(path: Path) -> None:
    with UtilityStore(path) as store:
        store.append("g", [(6, outcome(6, told=False))])
        other = outcome(6)._replace(metrics={"accuracy": 0.1, "loss": 3.0})
        store.append("g", [(6, other)])
        assert store.read("g", [6]) == {6: outcome(6, told=False)}


def test_what_is_there_is_never_changed(path: Path) -> None:
    with UtilityStore(path) as store:
        other = outcome(2)._replace(rows={"accuracy": PerRow.of(BITS)})
        store.append("g", [(2, other)])
        assert store.read("g", [2]) == {2: outcome(2)}


@pytest.mark.parametrize(
    "rows",
    [{"f1": PerRow.of(BITS)}, {"accuracy": PerRow("bits", 10, b"x")}, {"accuracy": PerRow("?", 1, b"x")}],
)
def test_what_cannot_be_is_refused_with_all_that_came_beside_it(path: Path, rows: dict[str, PerRow]) -> None:
    with UtilityStore(path) as store:
        with pytest.raises(StoreError, match="cannot be stored"):
            store.append("g", [(5, outcome(5)), (6, outcome(6)._replace(rows=rows))])
        assert set(store.read("g")) == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        ("UPDATE per_row SET data=zeroblob(2) WHERE mask='2' AND name='accuracy'", "checksum does not fit"),
        ("UPDATE per_row SET data=zeroblob(3) WHERE mask='2' AND name='accuracy'", "is not 10 numbers"),
        ("UPDATE per_row SET kind='half' WHERE mask='2' AND name='accuracy'", "is not 10 numbers"),
        ("UPDATE per_row SET length=9 WHERE mask='2' AND name='accuracy'", "checksum does not fit"),
        ("UPDATE per_row SET rows=1000 WHERE mask='2' AND name='accuracy'", "checksum does not fit"),
        ("UPDATE per_row SET data='ab' WHERE mask='2' AND name='accuracy'", "cannot be read"),
        ("UPDATE per_row SET checksum='none' WHERE mask='2' AND name='loss'", "checksum does not fit"),
        ("UPDATE per_row SET name='late' WHERE mask='2' AND name='loss'", "checksum does not fit"),
    ],
)
def test_damage_is_noticed_and_not_handed_out(path: Path, damage: str, finding: str) -> None:
    edit(path, damage)
    with UtilityStore(path) as store:
        found = store.verify()
        assert len(found) == 1
        assert finding in found[0]
        assert "g / 2 / 0" in found[0]
        with pytest.raises(StoreError, match="damaged or was altered"):
            store.read("g")
        assert set(store.read("g", [1, 3])) == {1, 3}


def test_rows_without_their_training_are_noticed(path: Path) -> None:
    edit(path, "DELETE FROM outcomes WHERE mask='2'")
    with UtilityStore(path) as store:
        assert any("a training that is not there" in line for line in store.verify())


def test_rows_that_say_another_metric_are_noticed(tmp_path: Path) -> None:
    with UtilityStore(tmp_path / "wrong.db") as store:
        store.register("g", 3)
        store.append("g", [(1, outcome(1)._replace(rows={"accuracy": PerRow.of(1 - BITS)}))])
        (finding,) = store.verify()
        assert "the metric accuracy is 0.6, but test rows said 0.4" in finding


def test_a_table_with_other_columns_is_refused(path: Path) -> None:
    edit(path, "ALTER TABLE per_row ADD COLUMN more TEXT")
    with pytest.raises(StoreError, match="other columns"):
        UtilityStore(path)


class TestMerging:
    def test_rows_come_with_what_is_new_and_to_what_lacks_them(self, path: Path, tmp_path: Path) -> None:
        with UtilityStore(tmp_path / "mine.db") as store:
            store.register("g", 3)
            store.append("g", [(1, outcome(1, told=False)), (7, outcome(7))])
            report = store.merge(path)
            assert (report.added, report.present, report.conflicts) == (3, 1, ())
            assert store.read("g") == {mask: outcome(mask) for mask in (1, 2, 3, 4, 7)}
            assert store.verify() == []

    def test_not_to_what_contradicts_them(self, path: Path, tmp_path: Path) -> None:
        mine = Outcome({"accuracy": 0.123, "loss": 9.0}, 0.5, "test", "cpu")
        with UtilityStore(tmp_path / "mine.db") as store:
            store.register("g", 3)
            store.append("g", [(1, mine)])
            assert store.merge(path).conflicts == ("g / 1",)
            assert store.read("g", [1, 2]) == {1: mine._replace(rows={}), 2: outcome(2)}
            assert store.verify() == []

    def test_into_a_store_of_format_2(self, path: Path, tmp_path: Path) -> None:
        old = tmp_path / "old.db"
        with UtilityStore(old) as store:
            store.register("g", 3)
            store.append("g", [(1, outcome(1, told=False))])
        edit(old, "DROP TABLE chain", "PRAGMA user_version = 2")
        with UtilityStore(old) as store:
            assert store.read("g") == {1: outcome(1, told=False)._replace(rows={})}
            assert store.verify() == []
            store.merge(path)
            assert store.read("g", [1]) == {1: outcome(1)}
        with sqlite3.connect(old) as database:
            assert database.execute("PRAGMA user_version").fetchone() == (4,)
        database.close()


def test_an_export_says_how_far_test_rows_would_move_a_metric(path: Path, tmp_path: Path) -> None:
    with UtilityStore(path) as store:
        export(store, "g", tmp_path / "all.jsonl")
        export(store, "g", tmp_path / "all.csv")
    first = json.loads((tmp_path / "all.jsonl").read_text().splitlines()[0])
    assert first["row_errors"]["accuracy"] == pytest.approx(np.roll(BITS, 1).std(ddof=1) / np.sqrt(10))
    assert "row" not in (tmp_path / "all.csv").read_text().splitlines()[0]


def test_what_an_outcome_takes_is_bounded(tmp_path: Path) -> None:
    """Of a classification: two kilobytes for the accuracy of many rows, and 144 bytes for each of five metrics."""
    bits = np.arange(16_384) % 2
    block = PerRow.of(np.linspace(0, 1, 64), 16_384)
    names = ("correct", "loss", "balanced_accuracy", "f1", "auc")
    metrics = {"accuracy": 0.5, "correct": 8192.0, **dict.fromkeys(names[1:], 0.5)}
    rows = {"accuracy": PerRow.of(bits), **dict.fromkeys(names, block)}
    sizes = []
    for told in ({}, rows):
        path = tmp_path / f"{len(told)}.db"
        with UtilityStore(path) as store:
            store.register("federation-0123456789abcdef01234567", 10)
            store.append(
                "federation-0123456789abcdef01234567",
                [(mask, Outcome(metrics, 0.5, "local", "cpu", told)) for mask in range(1_000)],
            )
        sizes.append(path.stat().st_size)
    per_outcome = (sizes[1] - sizes[0]) / 1_000
    assert sum(len(row.data) for row in rows.values()) == 2_048 + 5 * 144
    assert per_outcome < 6_500  # with names, checksums and what pages leave empty
