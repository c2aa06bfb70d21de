"""The store: nothing lost, nothing changed, nothing foreign touched."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast

import fedvalue as fv
from fedvalue import Outcome, StoreError, UtilityStore
from fedvalue.testing import check_store

SOURCES = Path(fv.__file__).parent


def outcome(utility: float, **more: float) -> Outcome:
    return Outcome({"utility": utility, **more}, seconds=0.25, backend="test", device="cpu")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def filled(path: Path) -> Path:
    """A store with a game of three clients, four of its coalitions known."""
    with UtilityStore(path) as store:
        store.register("game", 3, {"names": ["a", "b", "c"]})
        store.append("game", [(mask, outcome(mask / 10)) for mask in range(4)])
    return path


def python(code: str, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", code, *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def edit(path: Path, *statements: str) -> None:
    """Changes a store behind its back."""
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


# Reading what was written


def test_it_keeps_to_the_contract_of_stores(path: Path) -> None:
    check_store(lambda: UtilityStore(path), persistent=True)
    with UtilityStore(path) as store:
        assert store.verify() == []


@pytest.mark.parametrize("asked", first_fast([3, 499, 501, 12_000]))
def test_reading_some_equals_reading_all(path: Path, asked: int) -> None:
    with UtilityStore(path) as store:
        store.register("g", 20)
        store.register("other", 20)
        store.append("g", [(mask, outcome(mask)) for mask in range(0, 12_000, 2)])
        store.append("other", [(1, outcome(-1))])
        everything = store.read("g")
        assert len(everything) == 6_000
        assert store.read("g", range(asked)) == {m: everything[m] for m in range(0, asked, 2)}
        assert store.read("nobody") == {}


def test_replicates_are_outcomes_of_one_coalition(path: Path) -> None:
    with UtilityStore(path) as store:
        store.register("g", 2)
        for replicate in range(3):
            store.append("g", [(1, outcome(replicate))], replicate=replicate)
        (game,) = store.games()
        assert (game.coalitions, game.outcomes) == (1, 3)


def test_rows_carry_their_provenance(filled: Path) -> None:
    with UtilityStore(filled) as store:
        rows = list(store.rows("game"))
    assert [row["mask"] for row in rows] == ["0", "1", "2", "3"]
    assert rows[3]["metrics"] == {"utility": 0.3}
    assert (rows[3]["backend"], rows[3]["device"], rows[3]["seconds"]) == ("test", "cpu", 0.25)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", rows[3]["created"])


def test_a_game_is_found_by_the_beginning_of_its_id(path: Path) -> None:
    with UtilityStore(path) as store:
        for name in ("table-ab", "table-abc", "function-1"):
            store.register(name, 2)
        assert store.game("func").id == "function-1"
        assert store.game("table-ab").id == "table-ab"  # a whole id is never ambiguous
        for prefix in ("table", "nothing"):
            with pytest.raises(StoreError, match="table-abc"):
                store.game(prefix)


# Appending


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "0.5", None, 10**400])
def test_what_is_not_finite_is_refused_with_all_that_came_beside_it(filled: Path, bad: object) -> None:
    with UtilityStore(filled) as store:
        with pytest.raises(StoreError, match="for coalition 5"):
            store.append("game", [(4, outcome(0.4)), (5, Outcome({"utility": bad}))])
        assert sorted(store.read("game")) == [0, 1, 2, 3]


def test_registering_again_changes_nothing(filled: Path) -> None:
    with UtilityStore(filled) as store:
        before = store.games()
        store.register("game", 7, {"names": []})
        assert store.games() == before


WRITER = """
import sys
from fedvalue import Outcome, UtilityStore
path, writer = sys.argv[1], int(sys.argv[2])
for batch in range(10):
    with UtilityStore(path) as store:
        store.register("g", 40)
        rows = range(batch * 300, batch * 300 + 300)
        store.append("g", [(writer << 20 | j, Outcome({"utility": float(j)})) for j in rows])
        store.append("g", [(j, Outcome({"utility": float(writer)})) for j in rows])
"""


@pytest.mark.slow
def test_processes_create_and_write_one_file_at_the_same_time(path: Path) -> None:
    writers = [python(WRITER, path, writer) for writer in (1, 2, 3)]
    for writer in writers:
        finish(writer)
    with UtilityStore(path) as store:
        known = store.read("g")
        assert len(known) == 3 * 3_000 + 3_000
        assert all(known[w << 20 | j].metrics["utility"] == j for w in (1, 2, 3) for j in range(3_000))
        assert store.verify() == []


@pytest.mark.slow
def test_opening_twice_keeps_the_locks_of_the_first(path: Path) -> None:
    """A second look at the file must not end the locks of a connection in the same process."""
    with UtilityStore(path) as first:
        first.register("g", 4)
        first.append("g", [(1, outcome(1))])
        UtilityStore(path).close()
        reader = "import sys, fedvalue as fv; print(*fv.UtilityStore(sys.argv[1]).read('g'))"
        finish(python(reader, path))  # as the last one to close, it would remove the log of the first
        first.append("g", [(2, outcome(2))])
        assert finish(python(reader, path)).split() == ["1", "2"]


def test_a_process_killed_while_the_log_is_copied_back_loses_nothing(path: Path) -> None:
    """SQLite writes the header with the new size first; the pages may still be in the log."""
    with UtilityStore(path) as store:
        store.register("g", 20)
        store.append("g", [(mask, outcome(mask)) for mask in range(3_000)])
        whole = path.with_name(path.name + "-wal").read_bytes()
        store._db.execute("PRAGMA wal_checkpoint(FULL)")
        copied = path.read_bytes()
    crashed = path.with_name("crashed.db")
    crashed.write_bytes(copied[: 4 * 4096])  # the header promises everything, only the tables have arrived
    crashed.with_name("crashed.db-wal").write_bytes(whole)
    with UtilityStore(crashed) as store:
        assert len(store.read("g")) == 3_000
        assert store.verify() == []


@pytest.mark.slow
def test_a_killed_writer_leaves_whole_batches(path: Path) -> None:
    endless = """
import itertools, sys
from fedvalue import Outcome, UtilityStore
store = UtilityStore(sys.argv[1])
store.register("g", 40)
for batch in itertools.count():
    store.append("g", [(batch * 100 + j, Outcome({"utility": 1.0})) for j in range(100)])
    print(batch, flush=True)
"""
    writer = python(endless, path)
    assert writer.stdout is not None
    reported = [writer.stdout.readline() for _ in range(20)]
    writer.send_signal(signal.SIGKILL)
    rest, _ = writer.communicate(timeout=30)
    last = int((reported + rest.split("\n"))[len(reported) + rest.count("\n") - 1])
    with UtilityStore(path) as store:
        known = len(store.read("g"))
        assert known % 100 == 0
        assert known >= (last + 1) * 100
        assert store.verify() == []


# Identity


def test_the_id_of_a_table_changes_with_its_utilities_and_nothing_else() -> None:
    table = [0.0, 1.0, 2.0, 4.0]
    same = [
        fv.TableGame(table),
        fv.TableGame(tuple(table), names=["x", "y"]),
        fv.TableGame(np.array(table, dtype=">f8")),
        fv.TableGame(np.array([0, 1, 2, 4], dtype=np.int8)),
    ]
    assert len({game.id for game in same}) == 1
    assert fv.TableGame([0.0, 1.0, 2.0, 4.0 + 1e-15]).id != same[0].id
    assert fv.TableGame([0.0, 1.0]).id != same[0].id


@pytest.mark.slow
def test_the_id_of_a_function_is_the_same_in_every_process_and_changes_with_its_data(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("""
import sys, fedvalue as fv
weights = {"a": float(sys.argv[2]), "b": 2.0}
def utility(coalition):
    return sum(sorted(weights.values())[i] for i in coalition)
print(fv.FunctionGame(2, utility, batch=False).id)
""")
    code = "import runpy, sys; runpy.run_path(sys.argv[1])"
    first, again, changed = (finish(python(code, tmp_path / "script.py", w)) for w in (1, 1.0, 3))
    assert first == again != changed
    named = fv.FunctionGame(2, lambda c: 0.0, key="v1").id
    assert named == fv.FunctionGame(2, lambda c: 1.0, key="v1").id != fv.FunctionGame(2, abs, key="v2").id


# Checking


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        ("UPDATE outcomes SET metrics='{\"utility\": NaN}' WHERE mask='2'", "not finite"),
        ("UPDATE outcomes SET metrics='{\"utility\": 1e999}' WHERE mask='2'", "not finite"),
        ("UPDATE outcomes SET metrics='{}' WHERE mask='2'", "missing"),
        ("UPDATE outcomes SET metrics='{\"utility\"' WHERE mask='2'", "cannot be read"),
        ("UPDATE outcomes SET metrics='[1]' WHERE mask='2'", "cannot be read"),
        (f"UPDATE outcomes SET metrics='{{\"utility\": 1{'0' * 400}}}' WHERE mask='2'", "cannot be read"),
        ("UPDATE outcomes SET metrics=CAST(x'ff' AS TEXT) WHERE mask='2'", "UTF-8"),
        ("UPDATE outcomes SET mask='f0' WHERE mask='2'", "beyond the 3"),
        ("UPDATE outcomes SET mask='-2' WHERE mask='2'", "beyond the 3"),
        ("UPDATE outcomes SET mask='02' WHERE mask='2'", "not written as"),
        ("UPDATE outcomes SET mask='zwei' WHERE mask='2'", "cannot be read"),
        ("DELETE FROM games", "not registered"),
        ("UPDATE games SET description='{'", "description cannot be read"),
        ("UPDATE games SET n=4", "altered after it was stored"),
        ("UPDATE games SET description=replace(description, '\"c\"', '\"d\"')", "altered after it was"),
    ],
)
def test_verify_finds_damage(filled: Path, damage: str, finding: str) -> None:
    edit(filled, damage)
    with UtilityStore(filled) as store:
        assert finding in " ".join(store.verify())


def test_rows_that_are_out_of_order_are_found_and_end_in_no_python_error(path: Path) -> None:
    """Every row is whole, and cannot be found by its key."""
    game = fv.FunctionGame(3, lambda coalitions: [float(len(c)) for c in coalitions], key="k")
    fv.value(game, "exact", store=path)
    with closing(sqlite3.connect(path)) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name='outcomes'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    raw, start = bytearray(path.read_bytes()), (page - 1) * size
    end = start + 8 + 2 * int.from_bytes(raw[start + 3 : start + 5])  # places of the cells on a leaf
    places = np.frombuffer(raw[start + 8 : end], ">u2")
    raw[start + 8 : end] = places[::-1].tobytes()
    path.write_bytes(raw)
    with UtilityStore(path) as store:
        assert "not in PRIMARY KEY order" in " ".join(store.verify())
    with suppress(StoreError):
        assert fv.value(game, "exact", store=path).mean == pytest.approx([1.0, 1.0, 1.0])


def test_verify_finds_overwritten_pages(path: Path) -> None:
    with UtilityStore(path) as store:
        store.register("g", 20)
        store.append("g", [(mask, outcome(mask)) for mask in range(2_000)])
    with path.open("r+b") as file:
        file.seek(4096 * 10)
        file.write(b"\xa5" * 4096 * 5)
    with UtilityStore(path) as store:
        assert any(problem.startswith("SQLite") for problem in store.verify())


@pytest.mark.parametrize("damage", ["metrics='{'", "metrics='[]'", "metrics=x'ff'", "mask='zwei'"])
def test_damaged_rows_are_not_handed_out(filled: Path, damage: str) -> None:
    edit(filled, f"UPDATE outcomes SET {damage} WHERE mask='2'")
    with UtilityStore(filled) as store, pytest.raises(StoreError, match="damaged"):
        store.read("game")


def test_a_game_whose_clients_were_exchanged_by_hand_is_not_used(path: Path) -> None:
    """Values of a store whose names were altered would go to the wrong clients."""
    game = fv.TableGame([0.0, 1.0, 2.0, 4.0], names=["a", "b"])
    fv.value(game, "exact", store=path)
    edit(path, """UPDATE games SET description=replace(description, '"a", "b"', '"b", "a"')""")
    renamed = fv.TableGame([0.0, 1.0, 2.0, 4.0], names=["b", "a"])
    with pytest.raises(StoreError, match="altered"):
        fv.value(renamed, "exact", store=path)
    with UtilityStore(path) as store, pytest.raises(StoreError, match="altered"):
        store.games()


def test_entries_of_earlier_formats_may_be_without_a_checksum(path: Path) -> None:
    fv.value(fv.TableGame([0.0, 1.0, 2.0, 4.0], names=["a", "b"]), "exact", store=path)
    edit(path, """UPDATE games SET description='{"names": ["a", "b"]}'""")
    with UtilityStore(path) as store:
        assert "altered" in store.verify()[0]
    edit(path, "DROP TABLE chain", "PRAGMA user_version = 3")
    with UtilityStore(path) as store:
        assert store.verify() == []
        assert store.games()[0].description == {"names": ["a", "b"]}


# Merging


def test_merge_adds_what_is_missing(filled: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with UtilityStore(other) as store:
        store.register("game", 3)
        store.register("new", 2)
        store.append("game", [(3, outcome(0.3)), (7, outcome(0.7))])
        store.append("new", [(1, outcome(1.0))])
    before = other.read_bytes()
    with UtilityStore(filled) as store:
        report = store.merge(other)
        assert (report.added, report.present, report.conflicts) == (2, 1, ())
        assert sorted(store.read("game")) == [0, 1, 2, 3, 7]
        assert [game.id for game in store.games()] == ["game", "new"]
        assert store.merge(other).added == 0
        assert store.verify() == []
    assert other.read_bytes() == before


def test_merge_names_conflicts_and_keeps_its_own(filled: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with UtilityStore(other) as store:
        store.register("game", 3)
        store.append("game", [(2, outcome(0.2)), (3, outcome(99.0)), (4, outcome(0.4))])
    with UtilityStore(filled) as store:
        report = store.merge(other)
        assert (report.added, report.present, report.conflicts) == (1, 2, ("game / 3",))
        assert store.read("game")[3].metrics["utility"] == 0.3


def test_merge_refuses_damaged_missing_and_foreign_sources(filled: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(filled.read_bytes())
    edit(damaged, "UPDATE outcomes SET mask='8' WHERE mask='2'", "DELETE FROM outcomes WHERE mask='1'")
    text = tmp_path / "notes.txt"
    text.write_text("not a store")
    with UtilityStore(filled) as store:
        before = store.read("game")
        for source, reason in [(damaged, "damaged"), (text, "not a"), (tmp_path / "none.db", "no store")]:
            with pytest.raises(StoreError, match=reason):
                store.merge(source)
        with pytest.raises(StoreError, match="itself"):
            store.merge(filled)
        assert store.read("game") == before
    assert not (tmp_path / "none.db").exists()


# Files that are no stores


def foreign_database(path: Path) -> None:
    edit(path, "CREATE TABLE patients (name TEXT)", "INSERT INTO patients VALUES ('x')")


def text_file(path: Path) -> None:
    path.write_text("SQLite format 3, says the text of this file. " * 10)


def short_file(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def single_byte(path: Path) -> None:
    path.write_bytes(b"4")  # to SQLite an empty database


def cut_off_store(path: Path) -> None:
    with UtilityStore(path) as store:
        store.register("g", 20)
        store.append("g", [(mask, outcome(mask)) for mask in range(2_000)])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def store_of_the_future(path: Path) -> None:
    UtilityStore(path).close()
    edit(path, "PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (foreign_database, "another program"),
        (text_file, "not a fedvalue store"),
        (short_file, "not a fedvalue store"),
        (single_byte, "not a fedvalue store"),
        (cut_off_store, "cut off"),
        (store_of_the_future, "store format 99"),
    ],
)
def test_a_file_that_is_no_whole_store_is_refused_unchanged(
    path: Path, make: Callable[[Path], None], message: str
) -> None:
    make(path)
    before, neighbours = path.read_bytes(), sorted(path.parent.iterdir())
    for create in (True, False):
        with pytest.raises(StoreError, match=message):
            UtilityStore(path, create=create)
    with pytest.raises(StoreError, match=message):
        fv.value([0.0, 1.0, 1.0, 3.0], method="exact", store=path)
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == neighbours


def everything_beside(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


LEFT_BEHIND = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA journal_mode = WAL")
database.execute("CREATE TABLE patients (name TEXT)")
database.execute("INSERT INTO patients VALUES ('x')")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_foreign_database_and_its_log_stay_as_they_are(path: Path) -> None:
    """Whoever opens it to write, and closes it, copies the log into the file."""
    python(LEFT_BEHIND, path).communicate(timeout=30)
    before = everything_beside(path)
    assert len(before[f"{path.name}-wal"]) > 4096
    for create in (True, False):
        with pytest.raises(StoreError, match="another program"):
            UtilityStore(path, create=create)
    assert everything_beside(path) == before


@pytest.mark.parametrize("pages", [2, 30, -4])
def test_a_store_that_was_cut_off_beside_its_log_stays_as_it_is(path: Path, pages: int) -> None:
    """SQLite goes by the size that the log names, and would not notice before it comes to a page that is not there."""
    with UtilityStore(path) as store:
        store.register("g", 20)
        store.append("g", [(mask, outcome(mask)) for mask in range(3_000)])
    with UtilityStore(path) as store:
        store.append("g", [(5_000, outcome(1))])
        log = path.with_name(f"{path.name}-wal").read_bytes()
    cut = path.parent / "cut" / "off.db"
    cut.parent.mkdir()
    cut.write_bytes(path.read_bytes()[: pages * 4096])
    cut.with_name("off.db-wal").write_bytes(log)
    before = everything_beside(cut)
    for create in (True, False):
        with pytest.raises(StoreError, match="cut off"):
            UtilityStore(cut, create=create)
    after = everything_beside(cut)
    assert {name: after[name] for name in before} == before


@pytest.mark.slow
def test_a_store_is_opened_while_another_process_has_pages_in_its_log(path: Path) -> None:
    with UtilityStore(path) as first:
        first.register("g", 20)
        first.append("g", [(0, outcome(0))])  # the log is copied back now, and then after a while
        first.append("g", [(mask, outcome(mask)) for mask in range(3_000)])
        assert path.with_name(f"{path.name}-wal").stat().st_size > path.stat().st_size
        reader = "import sys, fedvalue as fv; print(len(fv.UtilityStore(sys.argv[1]).read('g')))"
        assert finish(python(reader, path)) == "3000\n"
        assert len(first.read("g")) == 3_000
        first.append("g", [(3_000, outcome(0))])
    with UtilityStore(path) as store:
        assert store.verify() == []
        assert len(store.read("g")) == 3_001


def test_looking_into_a_store_leaves_nothing_beside_it(filled: Path) -> None:
    before = everything_beside(filled)
    with UtilityStore(filled, create=False) as store:
        assert store.verify() == []
    assert everything_beside(filled) == before


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with UtilityStore(path) as store:
        store.register("g", 2)
        assert [game.id for game in store.games()] == ["g"]


def test_paths_that_cannot_be_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for impossible in (tmp_path, tmp_path / "missing" / "s.db", tmp_path / "file" / "s.db"):
        with pytest.raises(StoreError):
            UtilityStore(impossible)
    with pytest.raises(StoreError, match="no store"):
        UtilityStore(tmp_path / "new.db", create=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="writable"):
            UtilityStore(tmp_path / "s.db")
    finally:
        tmp_path.chmod(0o700)


def test_a_full_disk_leaves_what_was_stored(filled: Path) -> None:
    with UtilityStore(filled) as store:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match="disk is full"):
            store.append("game", [(mask, outcome(mask)) for mask in range(4, 4_000)])
        assert sorted(store.read("game")) == [0, 1, 2, 3]
        store.append("game", [(4, outcome(0.4))])  # what fits is still taken
    with UtilityStore(filled) as store:
        assert sorted(store.read("game")) == [0, 1, 2, 3, 4]
        assert store.verify() == []


def test_a_closed_store_says_so(filled: Path) -> None:
    store = UtilityStore(filled)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="it was closed; open it again"):
        store.read("game")
    with pytest.raises(StoreError, match="it was closed"):
        store.verify()


def test_nothing_is_pickled() -> None:
    using = re.compile(
        r"\b(import|from)\s+(pickle|marshal|shelve|dill|cloudpickle|joblib)\b|allow_pickle=True"
    )
    guilty = [str(p) for p in SOURCES.rglob("*.py") if using.search(p.read_text(encoding="utf-8"))]
    assert guilty == []


def test_a_store_in_memory_would_keep_nothing() -> None:
    with pytest.raises(StoreError, match="A store is a file"):
        UtilityStore(":memory:")


# Altered rows, and files that only look like stores


def test_an_altered_digit_is_noticed_and_named(filled: Path) -> None:
    edit(filled, "UPDATE outcomes SET metrics='{\"utility\": 0.25}' WHERE mask='2'")
    with UtilityStore(filled) as store:
        assert store.read("game", [1])[1].metrics == {"utility": 0.1}
        for read in (
            lambda: store.read("game"),
            lambda: store.read("game", [2]),
            lambda: list(store.rows("game")),
        ):
            with pytest.raises(StoreError, match=r"game / 2 / 0: it was altered .* Restore the file"):
                read()
        (problem,) = store.verify()
    assert problem == "game / 2 / 0: it was altered after it was stored: its checksum does not fit"
    table = fv.FunctionGame(3, lambda cs: [0.0] * len(cs), key="x")
    edit(filled, f"UPDATE outcomes SET game_id='{table.id}'", f"UPDATE games SET game_id='{table.id}'")
    with pytest.raises(StoreError, match="altered"):
        fv.value(table, "exact", store=filled)


@pytest.mark.parametrize(
    "damage",
    [
        "seconds='soon'",
        "seconds=-1.0",
        "seconds=9e999",
        "replicate='first'",
        "backend=x'00'",
        "device=7",
        "created=x'ff'",
        'metrics=\'{"utility": "much"}\'',
        "metrics='{\"utility\": true}'",
        "metrics='{\"utility\": 1e200}'",
        "checksum=''",
    ],
)
def test_text_where_numbers_belong_and_the_like(filled: Path, damage: str) -> None:
    edit(filled, f"UPDATE outcomes SET {damage} WHERE mask='2'")
    with UtilityStore(filled) as store:
        assert store.verify() != []
        with pytest.raises(StoreError, match="damaged or was altered"):
            list(store.rows("game"))


@pytest.mark.parametrize("n", ["'three'", "0", "2.5"])
def test_a_game_whose_number_of_clients_cannot_be(filled: Path, n: str) -> None:
    edit(filled, f"UPDATE games SET n={n}")
    with UtilityStore(filled) as store:
        assert "number of clients" in " ".join(store.verify())
        with pytest.raises(StoreError, match="number of clients"):
            store.games()


@pytest.mark.parametrize(
    ("statements", "finding"),
    [
        (
            ["ALTER TABLE outcomes RENAME TO o", "CREATE VIEW outcomes AS SELECT * FROM o"],
            "a view 'outcomes'",
        ),
        (["CREATE VIEW more AS SELECT 1"], "a view 'more'"),
        (["CREATE TRIGGER t AFTER INSERT ON outcomes BEGIN DELETE FROM games; END"], "a trigger 't'"),
        (["CREATE INDEX i ON outcomes (mask)"], "an index 'i'"),
        (["DROP TABLE games"], "'games' is missing"),
        (["ALTER TABLE outcomes ADD COLUMN more TEXT"], "other columns"),
        (["ALTER TABLE outcomes RENAME COLUMN metrics TO m"], "other columns"),
        (["ALTER TABLE games ADD COLUMN twice AS (n * 2)"], "other columns"),
    ],
)
def test_views_triggers_and_other_tables_are_refused_unchanged(
    filled: Path, statements: list[str], finding: str
) -> None:
    edit(filled, *statements)
    before = everything_beside(filled)
    with pytest.raises(StoreError, match=finding):
        UtilityStore(filled)
    assert everything_beside(filled) == before


@pytest.mark.parametrize(
    ("metrics", "possible"),
    [
        ({"accuracy": 0.75, "correct": 90.0}, True),
        ({"accuracy": 0.0, "correct": 0.0, "f1": 0.0}, True),
        ({"accuracy": 1 / 3, "correct": 120.0, "a/accuracy": 0.5, "a/correct": 7.0}, True),
        ({"accuracy": 93.5}, True),  # of another app, in percent
        ({"accuracy": 1.5, "correct": 90.0}, False),
        ({"accuracy": 0.75, "correct": 90.5}, False),
        ({"accuracy": 0.0, "correct": 3.0}, False),
        ({"accuracy": 0.75, "correct": 91.0}, False),
        ({"accuracy": 0.75, "correct": 90.0, "auc": -0.1}, False),
        ({"accuracy": 0.75, "correct": 90.0, "a/accuracy": 2.0, "a/correct": 7.0}, False),
    ],
)
def test_metrics_that_cannot_be(path: Path, metrics: dict[str, float], possible: bool) -> None:
    with UtilityStore(path) as store:
        store.register("g", 2)
        store.append("g", [(1, Outcome(metrics))])
        assert (store.verify() == []) is possible
        if not possible:
            with pytest.raises(StoreError):
                store.read("g")


def test_utilities_that_would_add_up_to_infinity() -> None:
    for table in ([0.0, 1e308, -1e308, 1e308], [0.0, 0.0, 0.0, -2e100]):
        with pytest.raises(fv.UtilityError, match="1e\\+100"):
            fv.value(table, "exact")
        with pytest.raises(fv.UtilityError, match="1e\\+100"):
            fv.value(fv.FunctionGame(2, lambda cs, t=table: [t[sum(1 << i for i in c)] for c in cs]), "exact")


# Copies, logs and earlier releases


KILLED = """
import os, signal, sys
from fedvalue import Outcome, UtilityStore
store = UtilityStore(sys.argv[1])
store.register("g", 8)
for mask in range(50):
    store.append("g", [(mask, Outcome({"utility": 1.0}))])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_copy_without_its_log_is_recognised(path: Path) -> None:
    python(KILLED, path).communicate(timeout=30)
    alone, both = path.with_name("alone.db"), path.with_name("both.db")
    for copy in (alone, both):
        copy.write_bytes(path.read_bytes())
    both.with_name("both.db-wal").write_bytes(path.with_name("store.db-wal").read_bytes())
    for _ in range(2):  # looking at it changes nothing
        with UtilityStore(alone) as store:
            (problem,) = store.verify()
            assert "alone.db-wal is missing" in problem
            assert len(store.read("g")) < 50
    with UtilityStore(path.with_name("new.db")) as store, pytest.raises(StoreError, match="wal is missing"):
        store.merge(alone)
    for whole in (path, both):
        with UtilityStore(whole) as store:
            assert len(store.read("g")) == 50
            assert store.verify() == []
        assert not whole.with_name(f"{whole.name}-wal").exists()  # closed: one file, complete
    moved = path.with_name("moved.db")
    moved.write_bytes(path.read_bytes())
    with UtilityStore(moved) as store:
        assert len(store.read("g")) == 50
        assert store.verify() == []


def test_a_store_that_a_link_leads_to_has_its_log_beside_it(path: Path) -> None:
    python(KILLED, path).communicate(timeout=30)
    link = path.parent / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    with UtilityStore(link) as store:
        assert store.verify() == []
        assert len(store.read("g")) == 50


@pytest.mark.parametrize("put_in_its_place", [False, True])
def test_what_is_stored_while_the_file_is_removed_is_refused(filled: Path, put_in_its_place: bool) -> None:
    another = filled.with_name("another.db")
    with UtilityStore(another) as store:
        store.register("h", 1)
    with UtilityStore(filled) as store:
        store.append("g", [(0b111, outcome(0.9))])
        filled.unlink()
        if put_in_its_place:
            another.rename(filled)
        with pytest.raises(StoreError, match="removed, moved or replaced"):
            store.append("g", [(0b110, outcome(0.8))])
        with pytest.raises(StoreError, match="removed, moved or replaced"):
            store.renew("somebody", 60.0)
    assert filled.exists() == put_in_its_place


def test_another_current_folder_moves_no_store(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(filled.parent)
    (filled.parent / "other").mkdir()
    with UtilityStore(filled.name) as store:
        monkeypatch.chdir(filled.parent / "other")
        store.append("g", [(0b111, outcome(0.9))])
        store.renew("somebody", 60.0)
    assert not list(Path().iterdir())


def test_the_file_alone_is_nearly_complete_while_a_run_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedvalue.store._sqlite._CHECKPOINT_SECONDS", 0.0)
    copy = path.with_name("copy.db")
    with UtilityStore(path) as store:
        store.register("g", 4)
        store.append("g", [(mask, outcome(mask)) for mask in range(8)])
        copy.write_bytes(path.read_bytes())
    with UtilityStore(copy) as store:
        assert len(store.read("g")) == 8


def test_stores_closed_at_the_same_time_are_whole(path: Path) -> None:
    stores = [UtilityStore(path) for _ in range(4)]
    for mask, store in enumerate(stores):
        store.register("g", 4)
        store.append("g", [(mask, outcome(mask))])
    for store in stores:
        store.close()
    assert [file.name for file in path.parent.iterdir()] == ["store.db"]
    with UtilityStore(path) as store:
        assert store.verify() == []
        assert len(store.read("g")) == 4


def old_store(path: Path) -> None:
    """As releases before checksums wrote it."""
    edit(
        path,
        "PRAGMA application_id = 0x66764C31",
        "PRAGMA user_version = 1",
        "CREATE TABLE games (game_id TEXT PRIMARY KEY, n INTEGER NOT NULL, description TEXT NOT NULL, "
        "created TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE outcomes (game_id TEXT NOT NULL, mask TEXT NOT NULL, replicate INTEGER NOT NULL, "
        "metrics TEXT NOT NULL, backend TEXT NOT NULL, device TEXT NOT NULL, seconds REAL NOT NULL, "
        "created TEXT NOT NULL, PRIMARY KEY (game_id, mask, replicate)) WITHOUT ROWID",
        "CREATE TABLE added_metrics (game_id TEXT NOT NULL, replicate INTEGER NOT NULL, mask TEXT NOT NULL, "
        "name TEXT NOT NULL, value REAL NOT NULL, created TEXT NOT NULL, "
        "PRIMARY KEY (game_id, replicate, mask, name)) WITHOUT ROWID",
        "INSERT INTO games VALUES ('game', 3, '{}', '2026-01-01T00:00:00.000+00:00')",
        "INSERT INTO outcomes VALUES ('game', '1', 0, '{\"utility\": 0.1}', 'test', 'cpu', 0.25, '2026')",
        "INSERT INTO added_metrics VALUES ('game', 0, '1', 'profit', 2.5, '2026')",
        "PRAGMA journal_mode = WAL",
    )


def test_a_store_of_an_earlier_release_is_read_merged_and_gets_checksums(path: Path, tmp_path: Path) -> None:
    old_store(path)
    before = path.read_bytes()
    new = tmp_path / "new.db"
    with UtilityStore(new) as store:
        assert store.merge(path).added == 1
        assert store.read("game")[1] == outcome(0.1, profit=2.5)
        assert store.verify() == []
    with UtilityStore(path) as store:
        assert store.read("game") == {1: outcome(0.1, profit=2.5)}
        assert store.verify() == []
    assert path.read_bytes()[32:] == before[32:]  # reading does not change it
    with UtilityStore(path) as store:
        store.append("game", [(2, outcome(0.2))])
        store.append("game", [(2, outcome(0.2, profit=3.0))])
        assert store.read("game") == {1: outcome(0.1, profit=2.5), 2: outcome(0.2, profit=3.0)}
        assert store.verify() == []
    edit(path, "UPDATE outcomes SET metrics='{\"utility\": 0.3}' WHERE mask='2'")
    edit(path, "UPDATE added_metrics SET value=4.0 WHERE mask='2'")
    with UtilityStore(path) as store:
        assert len(store.verify()) == 2


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.register("g", 2),
        lambda store: store.append("g", [(1, Outcome({"utility": 0.5}))]),
        lambda store: store.read("g"),
        lambda store: store.games(),
        lambda store: store.game("g"),
        lambda store: store.rename("g", ["a", "b"]),
        lambda store: store.verify(),
        lambda store: store.close(),
    ],
)
def test_a_store_belongs_to_the_thread_that_opened_it(
    use: Callable[[UtilityStore], Any], tmp_path: Path
) -> None:
    with UtilityStore(tmp_path / "s.db") as store, ThreadPoolExecutor(1) as other:
        store.register("g", 2)
        with pytest.raises(StoreError, match="opened in another thread; open it in every thread"):
            other.submit(use, store).result()
        assert store.game("g").n == 2  # and is not harmed


def test_every_thread_may_open_the_same_file(tmp_path: Path) -> None:
    def append(mask: int) -> None:
        with UtilityStore(tmp_path / "s.db") as store:
            store.append("g", [(mask, Outcome({"utility": float(mask)}))])

    with UtilityStore(tmp_path / "s.db") as store:
        store.register("g", 4)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(append, range(16)))
        assert sorted(store.read("g")) == list(range(16))
