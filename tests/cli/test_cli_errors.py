"""Bad input on the command line: exit code 2 and one line, before anything is trained; and what is said of options."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import IO, Any

import pytest
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import _tables, _targets, app

VALUES = fv.Values([3.0, 1.0], ("a", "b"), "exact", 4, guarantee="exact")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("table.json").write_text("[0, 1, 1, 3]")
    Path("broken.json").write_text("[0, 1")
    Path("deep.json").write_text("[" * 100_000)
    Path("text.npz").write_text("no archive")
    Path("text.db").write_text("no store")
    Path("latin.toml").write_bytes(b"[run]\nlabel = '\xe9'")
    Path("deep.toml").write_text("[run]\nbudget = " + "[" * 100_000)
    Path("wrong.toml").write_text("[run]\nbudgt = 3\n")
    Path("table.toml").write_text("[plan]\nclients = 3\n")
    Path("kind.toml").write_text("[run]\nbudget = {a = 1}\n")
    Path("date.toml").write_text("[run]\nbudget = 2024-01-01\n")
    Path("empty").mkdir()
    return tmp_path


WRONG = [
    "run --scenario digit", "run --clients 0", "run --clients two", "run --samples 0", "run --partition sizes",
    "run --model mpl", "run --rounds 0", "run --rounds 1.5", "run --epochs -1", "run --batch 0", "run --rate 0",
    "run --rate nan", "run --optimizer adm", "run --momentum 2", "run --algorithm fedsdg", "run --mu -1",
    "run --metric acuracy", "run --metric os.path:nothing", "run --metric nowhere:f", "run --replicates 0",
    "run --replicates 99999999 --dry-run", "run --method exakt", "run --method nowhere:plan", "run --budget 0",
    "run --budget many", "run --exact --method ipss", "run --exact --budget 3", "run --option patience",
    "run --option patience=1", "run --method tmc --option patience=long", "run --seed -1", "run --seed 1e3",
    "run --device tpu", "run --device cuda:x", "run --memory lots", "run --memory 1", "run --backend cloud",
    "run --workers 2", "run --scenario files", "run --scenario files --data-dir missing",
    "run --scenario files --data-dir empty", "run --scenario-option seed=3", "run --scenario-option alpha",
    "run --store text.db", "run --store empty", "run --json missing/v.json", "run --config missing.toml",
    "run --config latin.toml", "run --config deep.toml", "run --config wrong.toml", "run --config table.toml",
    "run --config kind.toml", "run --config date.toml", "run --config empty", "run --config wrong.toml --no-config",
    "run --rouns 3", "value --table missing.json", "value --table broken.json", "value --table deep.json",
    "value --table text.npz", "value --table empty", "value --table table.json --method exakt",
    "value --table table.json --budget 0", "value --table table.json --array x", "value", "value --table table.json --store empty",
    "compare --table missing.json", "compare --table table.json --methods exakt", "plan", "plan --clients 0",
    "plan --clients 3 --target 0", "plan --clients 3 --minutes -1 --cost 1", "payout missing --pot 100",
    "payout empty --pot 100", "payout table.json --pot 100", "payout broken.json --pot 100", "payout deep.json --pot 100",
    "audit missing", "audit empty", "report missing", "report empty", "store ls missing.db", "store show missing.db g",
    "store export missing.db g --out o.csv", "store verify missing.db", "store merge new.db missing.db",
    "store rename missing.db g a b", "data show digit", "nothing",
]  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
def test_wrong_input_is_one_line_and_exit_code_2(line: str) -> None:
    done = CliRunner().invoke(app, line.split())
    assert isinstance(done.exception, (SystemExit, type(None))), done.exception
    # A file that is no store is found when it is opened, like one that cannot be read.
    assert done.exit_code == (1 if "--store text.db" in line or "--store empty" in line else 2), done.output
    assert "Traceback" not in done.output
    said = [
        text
        for text in done.stderr.splitlines()
        if not text.startswith(("Usage", "Try ", "Note")) and text.strip()
    ]
    assert len(said) == 1
    assert len(said[0]) < 900


def test_a_read_only_file_system_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *args: Any, **named: Any) -> IO[bytes]:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    command = ["value", "--table", "table.json", "--method", "exact", "--json", "values.json"]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        patch.setattr(Path, "unlink", refuse)
        patch.setattr("fedvalue.games.read_table", lambda *args: fv.TableGame([0, 1, 1, 3]))
        done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert done.stderr == "Error: Cannot write values.json: Read-only file system.\n"
    with monkeypatch.context() as patch:
        patch.setattr(_targets.os, "access", lambda path, mode: mode != os.W_OK)
        done = CliRunner().invoke(app, command)
    assert done.stderr == "Error: Cannot write values.json: its folder cannot be written to.\n"


def test_a_folder_in_place_of_a_file_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    small = ["run", "--clients", "2", "--samples", "10", "--exact", "--no-noise", "--quiet"]
    done = CliRunner().invoke(app, [*small, "--json", str(tmp_path)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"Error: Cannot write {tmp_path}: it is a folder.\n"


def test_values_are_printed_although_their_file_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(_targets, "write_file", full)
    small = ["run", "--scenario", "synthetic", "--clients", "2", "--samples", "10", "--exact"]
    done = CliRunner().invoke(app, [*small, "--json", "values.json"])
    assert done.exit_code != 0
    assert "Data value by exact" in done.stdout


@pytest.mark.slow
def test_what_came_from_the_file_is_said() -> None:
    Path("fedvalue.toml").write_text("[run]\nscenario = 'synthetic'\nclients = 3\nsamples = 20\n")
    command = ["run", "--method", "exact"]
    first, *rest = CliRunner().invoke(app, command).stdout.splitlines()
    assert first == "From fedvalue.toml: scenario, clients, samples."
    assert rest[0].startswith("synthetic")
    assert CliRunner().invoke(app, [*command, "--quiet"]).stdout.splitlines()[0] == "Data value by exact"
    assert (
        "fedvalue.toml"
        not in CliRunner().invoke(app, ["run", "--no-config", "--clients", "2", "--dry-run"]).stdout
    )


@pytest.mark.parametrize("columns", [30, 40, 60, 64, 80, 120])
def test_numbers_stay_on_terminals_of_any_width(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _tables.print_table(VALUES.table())
    printed = capsys.readouterr().out
    assert all(number in printed for number in ("+3.0000", "+1.0000", "75.0%", "25.0%"))
    assert ("█" in printed) == (columns >= 64)


def test_no_noise_says_that_it_goes_with_exact() -> None:
    found = CliRunner().invoke(app, ["run", "--clients", "3", "--samples", "20", "--no-noise"])
    assert found.exit_code == 2
    assert "or give --exact" in found.output
    assert "'new'" not in found.output


def test_a_folder_without_a_test_set_hears_of_by_client(tmp_path: Path) -> None:
    folder = tmp_path / "clients"
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.csv").write_text("x,y\n" + "".join(f"{i % 7}.5,{i % 2}\n" for i in range(20)))
    found = CliRunner().invoke(app, ["data", "check", str(folder), "--label", "y"])
    assert found.exit_code != 0
    assert "--option test=by-client" in " ".join(found.output.split())
    found = CliRunner().invoke(
        app, ["data", "check", str(folder), "--label", "y", "--option", "test=by-client"]
    )
    assert found.exit_code == 0, found.output
