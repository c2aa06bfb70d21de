"""`fedvalue period`: quarters on the command line, from options or a file, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fedvalue.cli import app
from fedvalue.periods import Periods

SMALL = ("--clients", "3", "--samples", "20", "--rounds", "1", "--epochs", "1", "--exact", "--no-noise")
MONEY = ("--pot", "100", "--currency", "EUR", "--anyway")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    monkeypatch.chdir(tmp_path)


def period(*args: object) -> Result:
    return CliRunner().invoke(app, ["period", *map(str, args)])


def output(*args: object) -> str:
    found = period(*args)
    assert found.exit_code == 0, found.output
    return found.stdout


def test_two_quarters(tmp_path: Path) -> None:
    first = output("close", "clinics", "2026-Q1", *MONEY, *SMALL)
    assert "8 trainings were made, 0 were known." in first
    assert "client-1" in first
    Path("fedvalue.toml").write_text(
        "[run]\nclients = 3\nsamples = 20\nrounds = 1\nepochs = 1\nexact = true\nno-noise = true\n"
    )
    second = output("close", "clinics", "2026-Q2", *MONEY, "--escrow", "client-0")
    assert "From fedvalue.toml: clients, samples," in second
    assert "0 trainings were made, 8 were known." in second
    shown = output("show", "clinics")
    assert [line.split()[0] for line in shown.splitlines()[1:3]] == ["2026-Q1", "2026-Q2"]
    assert "escrow carried" in output("show", "clinics", "2026-Q2")
    rows = list(csv.DictReader(io.StringIO(output("show", "clinics", "--csv", "-"))))
    assert [row["client"] for row in rows] == ["client-0", "client-1", "client-2"] * 2
    plain = json.loads(output("show", "clinics", "--json", "-"))
    seals = [one.seal for one in Periods("clinics").closed]
    assert [one["seal"] for one in plain["periods"]] == seals
    assert f"No problems: 2 periods, the last with the seal {seals[-1]}" in output("verify", "clinics")
    assert output("verify", "clinics", "--seal", seals[0])
    kept = period("verify", "clinics", "--seal", "0" * 64)
    assert kept.exit_code == 1
    assert "No closed period has the seal" in kept.stdout
    file = tmp_path / "clinics" / "2026-Q1" / "values.json"
    file.write_text(file.read_text().replace("exact", "inexact"))
    found = period("verify", "clinics", "--json")
    assert found.exit_code == 1
    assert (
        json.loads(found.stdout)["problems"][0]
        == "2026-Q1: values.json was altered after the period was closed"
    )
    again = period("close", "clinics", "2026-Q2", *SMALL)
    assert (again.exit_code, "What is closed is not altered" in again.stderr) == (2, True)


def test_as_json_only() -> None:
    plain = json.loads(output("close", "clinics", "Q1", *SMALL, "--json", "-"))
    assert (plain["name"], plain["money"], plain["trained"]) == ("Q1", None, 8)


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (("close", "clinics", "Q1", "--bogus", "3"), "No such option: --bogus"),
        (("close", "clinics", "Q1", "--dry-run"), "options of `fedvalue run` alone"),
        (("close", "clinics", "Q1", "--out", "x", *SMALL), "Leave store and out"),
        (("close", "clinics", "a/b", *SMALL), "short name"),
        (("close", "clinics", "Q1", "--renamed", "x", *SMALL), "written as OLD=NEW"),
        (("close", "clinics", "Q1", "--renamed", "x=y", *SMALL), "in no closed period"),
        (("close", "clinics", "Q1", "--debts", "never", *MONEY, *SMALL), "forgive or carry"),
        (("show", "clinics"), "holds no closed period"),
        (("verify", "clinics"), "has 1 problem"),
    ],
)
def test_mistakes_are_sentences(args: tuple[str, ...], match: str) -> None:
    found = period(*args)
    assert found.exit_code in (1, 2)
    assert match in found.output + found.stderr
    assert "Traceback" not in found.output + found.stderr
