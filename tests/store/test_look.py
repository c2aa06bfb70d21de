"""Looking into a store that others write: nothing is written, nothing is left, nobody waits."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from fedvalue.errors import NoStoreError, StoreError
from fedvalue.outcome import Outcome
from fedvalue.store import StoreLook, UtilityStore, new_owner


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that nobody has open."""
    path = tmp_path / "store.db"
    with UtilityStore(path) as made:
        made.register("g", 2, {"names": ["a", "b"]})
        made.append("g", [(mask, Outcome({"utility": mask / 4}, 0.5)) for mask in range(3)])
    return path


def beside(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def test_what_is_at_rest_is_read_and_stays_as_it_is(store: Path) -> None:
    before = store.read_bytes(), store.stat().st_mtime_ns
    with StoreLook(store) as look:
        assert [game.outcomes for game in look.games()] == [3]
        assert {row.mask: row.metrics["utility"] for row in look.latest("g", 9)} == {0: 0.0, 1: 0.25, 2: 0.5}
        assert len(look.latest("g", 2)) == 2
        assert (look.is_open_elsewhere, look.lacks_log, look.claimed("g")) == (False, False, 0)
        assert beside(store) == ["store.db"]
    assert beside(store) == ["store.db"]
    assert (store.read_bytes(), store.stat().st_mtime_ns) == before


def test_nothing_can_be_written(store: Path) -> None:
    with StoreLook(store) as look, pytest.raises(StoreError, match="nothing can be written"):
        look.append("g", [(3, Outcome({"utility": 1.0}))])


def test_what_is_being_written_is_seen_and_the_writer_never_waits(store: Path) -> None:
    with UtilityStore(store) as writer:
        writer.append("g", [(3, Outcome({"utility": 1.0}))])
        with StoreLook(store) as look:
            assert look.latest("g", 1)[0].mask == 3
            assert look.is_open_elsewhere
            began = time.monotonic()
            writer.append("g", [(3, Outcome({"utility": 1.0, "other": 2.0}))])
            writer.claim("g", [1], 7, new_owner(), 60.0)
            assert time.monotonic() - began < 2.0
            assert look.claimed("g") == 0  # a look is one moment
        with StoreLook(store) as look:
            assert look.claimed("g") == 1
            assert look.latest("g", 1)[0].metrics == {"utility": 1.0, "other": 2.0}
    with UtilityStore(store) as again:
        assert again.verify() == []


def test_a_store_that_is_closed_while_somebody_looks_is_whole_all_the_same(store: Path) -> None:
    with UtilityStore(store) as writer:
        writer.append("g", [(3, Outcome({"utility": 1.0}))])
        look = StoreLook(store)
    assert "store.db-wal" in beside(store)  # the newest rows are there until somebody opens it again
    look.close()
    with StoreLook(store) as again:
        assert (again.games()[0].outcomes, again.lacks_log) == (4, False)
    with UtilityStore(store) as opened:
        assert opened.verify() == []
    assert beside(store) == ["store.db"]


def test_a_short_look_at_the_end_leaves_one_file(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedvalue.store._closing._PAUSE", 0.1)  # on a busy machine a glance takes its time
    writer = UtilityStore(store)
    writer.append("g", [(3, Outcome({"utility": 1.0}))])
    opened = threading.Event()

    def glance() -> None:
        with StoreLook(store):
            opened.set()
            time.sleep(0.02)

    thread = threading.Thread(target=glance)
    thread.start()
    assert opened.wait(10)
    writer.close()
    thread.join()
    assert beside(store) == ["store.db"]


def test_moments_are_compared_as_the_store_writes_them(store: Path) -> None:
    with StoreLook(store) as look:
        created = look.latest("g", 1)[0].created
        assert look.stored_after("g", created) == 0
        assert look.stored_after("g", "2020-01-01T00:00:00.000+00:00") == 3


def test_a_copy_without_its_log_says_so_and_gets_no_files_beside_it(store: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    copy = tmp_path / "copy" / "store.db"
    with UtilityStore(store) as writer:
        writer.append("g", [(3, Outcome({"utility": 1.0}))])
        shutil.copy(store, copy)
    with StoreLook(copy) as look:
        assert look.lacks_log
        assert look.games()[0].outcomes >= 3
    assert beside(copy) == ["store.db"]


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoStoreError, match="no store at"):
        StoreLook(tmp_path / "missing.db")
    (tmp_path / "text.db").write_text("no database, though long enough for a header" * 9)
    with pytest.raises(StoreError):
        StoreLook(tmp_path / "text.db")
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(StoreError, match="not a fedvalue store"):
        StoreLook(tmp_path / "other.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match="empty"):
        StoreLook(tmp_path / "empty.db")


def test_a_store_that_may_not_be_read(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*args: object, **options: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr("fedvalue.store._look.sqlite3.connect", refuses)
    with pytest.raises(
        StoreError, match=r"Could not read the store .*and that you may read it and its folder"
    ):
        StoreLook(store)
