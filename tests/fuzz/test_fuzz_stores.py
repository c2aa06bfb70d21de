"""Random damage to stores: one error or a finding, never a traceback, never another number in silence.

Takes some seconds; with FEDVALUE_FUZZ=long some minutes.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.store import export, read_history, summary

EXAMPLES = 4_000 if os.environ.get("FEDVALUE_FUZZ") == "long" else min(60, settings.default.max_examples)
N = 5


@pytest.fixture(autouse=True, scope="module")
def impatient() -> Iterator[None]:
    """Nobody else holds locks here: what SQLite takes for one, in a damaged file, is not waited for."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fedvalue.store._file.LOCK_SECONDS", 0.02)
        patched.setattr("fedvalue.store._explained.LOCK_SECONDS", 0.02)
        yield


def metrics(mask: int) -> dict[str, float]:
    correct = 40.0 + 3 * mask.bit_count() + mask % 7
    return {"accuracy": correct / 120, "correct": correct, "loss": 2.5 - mask / 50}


@cache
def whole() -> tuple[bytes, dict[int, dict[str, float]], str]:
    """A sound store as bytes, what is in it, and the id of its game."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        with fv.UtilityStore(path) as store:
            store.register("game", N, {"names": list("abcde")})
            store.append("game", [(m, fv.Outcome(metrics(m), 0.5, "local", "cpu")) for m in range(1 << N)])
            more = [(m, fv.Outcome({**metrics(m), "profit": 7.0 + m}, 0.5)) for m in range(0, 1 << N, 3)]
            store.append("game", more)
            known = {mask: dict(outcome.metrics) for mask, outcome in store.read("game").items()}
        return path.read_bytes(), known, "game"


def look_at_everything(path: Path) -> None:
    """Whatever is still handed out is what was stored; whatever is altered is a finding."""
    _, truth, game = whole()
    with suppress(fv.StoreError), fv.UtilityStore(path, create=False) as store:
        store.verify()
        read: dict[int, Any] | None = None
        with suppress(fv.StoreError):
            read = {mask: dict(outcome.metrics) for mask, outcome in store.read(game).items()}
        for mask in (read or {}).keys() & truth.keys():
            for name, number in (read or {})[mask].items():
                assert truth[mask].get(name) == number, "another number, in silence"
        if read is not None and (set(read) - set(truth)):
            raise AssertionError("a coalition that nobody stored")
        with suppress(fv.StoreError):
            some = store.read(game, [0, 3, 15])
            assert all(dict(some[mask].metrics).items() <= truth[mask].items() for mask in some)
        with suppress(fv.FedvalueError):
            assert all(
                row["metrics"].items() <= truth[int(row["mask"], 16)].items() for row in store.rows(game)
            )
        with suppress(fv.FedvalueError):
            summary(store, game)
        with suppress(fv.FedvalueError):
            export(store, game, path.with_name("out.csv"))
        with suppress(fv.FedvalueError):
            table = fv.value([0.0, 1.0, 1.0, 3.0], "exact")
            read_history(store, fv.Values.from_dict({**table.to_dict(), "game_id": game}))
        with suppress(fv.FedvalueError):
            store.append(game, [(3, fv.Outcome({**metrics(3), "cost": 1.0}))])
    with suppress(fv.StoreError), fv.UtilityStore(path.with_name("new.db")) as target:
        target.merge(path)
        assert all(
            dict(outcome.metrics).items() <= {**truth[mask], "cost": 1.0}.items()
            for mask, outcome in target.read(game).items()
        )
    for arguments in (["verify"], ["ls"], ["show", game]):
        said = CliRunner().invoke(app, ["store", arguments[0], str(path), *arguments[1:]])
        assert said.exception is None or isinstance(said.exception, (SystemExit, fv.FedvalueError)), (
            said.output
        )


@pytest.mark.slow
@settings(max_examples=EXAMPLES)
@given(
    places=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.none() | st.integers(0, 10**9),
)
def test_bytes_that_were_overwritten_or_lost(places: list[tuple[int, int]], cut: int | None) -> None:
    content = bytearray(whole()[0])
    for place, byte in places:
        content[place % len(content)] = byte
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        path.write_bytes(content[: cut % len(content)] if cut is not None and cut % 3 == 0 else content)
        look_at_everything(path)


VALUES = st.one_of(
    st.sampled_from(
        ["NULL", "''", "x'00ff'", "-1", "1e999", "'3'", "'ff'", "9e99", "'{}'", "'[1]'", "'{\"loss\": 1}'"]
    ),
    st.integers(-(2**40), 2**40).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"\A[a-z0-9 ./{}:]{0,12}\Z").map(lambda text: f"'{text}'"),
    st.floats(-1, 1).map(lambda x: f'\'{{"accuracy": 0.5, "correct": 60.0, "loss": {x!r}}}\''),
)
COLUMNS = st.sampled_from(
    [
        *(
            f"outcomes.{c}"
            for c in ["mask", "replicate", "metrics", "backend", "device", "seconds", "created", "checksum"]
        ),
        *(f"games.{c}" for c in ["game_id", "n", "description", "created"]),
        *(f"added_metrics.{c}" for c in ["mask", "replicate", "name", "value", "created", "checksum"]),
    ]
)
WHERE = st.sampled_from(["mask='3'", "mask='f'", "mask='1e'", "mask IN ('0', '9')", "1"])
SCHEMA = st.sampled_from(
    [
        "DELETE FROM games",
        "DELETE FROM outcomes WHERE mask='f'",
        "DROP TABLE games",
        "DROP TABLE claims",
        "DROP TABLE outcomes",
        "CREATE VIEW v AS SELECT * FROM outcomes",
        "CREATE TRIGGER t AFTER INSERT ON outcomes BEGIN DELETE FROM games; END",
        "ALTER TABLE outcomes RENAME TO o",
        "ALTER TABLE outcomes ADD COLUMN more TEXT",
        "PRAGMA user_version = 1",
        "PRAGMA user_version = 77",
        "INSERT INTO claims VALUES ('game', 0, '3', 'x', 'soon')",
    ]
)


@settings(max_examples=EXAMPLES)
@given(
    updates=st.lists(st.tuples(COLUMNS, VALUES, WHERE), max_size=3),
    statements=st.lists(SCHEMA, max_size=2),
)
def test_edits_by_hand(updates: list[tuple[str, str, str]], statements: list[str]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        path.write_bytes(whole()[0])
        database = sqlite3.connect(path, isolation_level=None)
        for column, value, where in updates:
            table, name = column.split(".")
            with suppress(sqlite3.Error):
                database.execute(
                    f"UPDATE {table} SET {name}={value} WHERE {where if table != 'games' else '1'}"
                )
        for statement in statements:
            with suppress(sqlite3.Error):
                database.execute(statement)
        database.close()
        look_at_everything(path)


@settings(max_examples=EXAMPLES)
@given(mask=st.integers(0, (1 << N) - 1), digit=st.integers(0, 9), place=st.integers(0, 200))
def test_every_altered_digit_of_a_metric_is_noticed(mask: int, digit: int, place: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        path.write_bytes(whole()[0])
        database = sqlite3.connect(path, isolation_level=None)
        ((text,),) = database.execute("SELECT metrics FROM outcomes WHERE mask=?", (f"{mask:x}",))
        digits = [i for i, letter in enumerate(text) if letter.isdecimal()]
        at = digits[place % len(digits)]
        altered = f"{text[:at]}{digit}{text[at + 1 :]}"
        database.execute("UPDATE outcomes SET metrics=? WHERE mask=?", (altered, f"{mask:x}"))
        database.close()
        with fv.UtilityStore(path) as store:
            if altered == text:
                assert store.verify() == []
                return
            assert len(store.verify()) == 1
            with pytest.raises(fv.StoreError, match=f"game / {mask:x} / 0"):
                store.read("game")
