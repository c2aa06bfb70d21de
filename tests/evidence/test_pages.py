"""Pages in the folder of a run: reports and statements must be those that values and trainings give."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from marks import first_fast
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue._files import sealed, write_json
from fedvalue.agreement import make_key
from fedvalue.cli import app
from fedvalue.evidence import sign


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with groups, and its pages: reports, and statements in folders."""
    run = tmp_path_factory.mktemp("pages") / "run"
    groups = {"Holding": ["client-0", "client-2"]}
    result = fv.run("synthetic", clients=3, samples=15, method="exact", groups=groups, out=run)
    for kind in ("html", "md"):
        result.report(
            run / f"report.{kind}",
            pot=1000,
            currency="EUR",
            consortium="North",
            statements=run / f"to-{kind}",
        )
    make_key(run.parent / "key")
    return run


def test_statements_are_checked_and_signed(paid: Path, tmp_path: Path) -> None:
    shutil.copytree(paid, tmp_path / "run")
    found = fv.verify(tmp_path / "run")
    assert found.sound, str(found)
    pages = {check.what for check in found.checks if check.what.startswith("to-")}
    assert len(pages) == 6
    sign(tmp_path / "run", paid.parent / "key")
    assert "signed by" in str(fv.verify(tmp_path / "run"))
    (tmp_path / "run" / "to-md" / "2-client-1.md").unlink()
    assert "to-md/2-client-1.md was signed and is not there" in str(fv.verify(tmp_path / "run"))


@pytest.mark.parametrize("name", first_fast(["to-html/1-client-0.html", "to-md/3-client-2.md", "report.md"]))
def test_every_altered_digit_is_found(paid: Path, tmp_path: Path, name: str) -> None:
    """Any of them: the page is altered at a time, and only that page is left to be checked."""
    shutil.copytree(paid, tmp_path / "run", ignore=shutil.ignore_patterns("*.html", "*.md"))
    page, text = tmp_path / "run" / name, (paid / name).read_text(encoding="utf-8")
    places = [i for i, letter in enumerate(text) if letter.isdecimal()]
    for at in random.Random(0).sample(places, 4):
        page.write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :], encoding="utf-8")
        found = fv.verify(tmp_path / "run")
        assert not found.sound, text[at - 40 : at + 10]
        assert any(check.what == name for check in found.checks if check.state != "sound")


@pytest.mark.parametrize("name", ["report.html", "report.md", "to-html/1-client-0.html"])
def test_a_page_that_claims_another_release_is_not_sound(paid: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(paid, tmp_path / "run")
    page = tmp_path / "run" / name
    text = page.read_text(encoding="utf-8").replace("1,000.00", "9,000.00")
    page.write_text(text.replace(fv.__version__, "9.9.9"), encoding="utf-8")
    found = fv.verify(tmp_path / "run")
    assert not found.sound
    assert not found.wrong
    assert f"NOT CHECKED: {name}: it says that fedvalue 9.9.9 wrote it" in str(found)
    assert CliRunner().invoke(app, ["verify", str(tmp_path / "run")]).exit_code == 2


def test_a_record_of_another_release_switches_nothing_off(paid: Path, tmp_path: Path) -> None:
    shutil.copytree(paid, tmp_path / "run")
    record = tmp_path / "run" / "run.json"
    data = json.loads(record.read_text(encoding="utf-8"))
    data["versions"]["fedvalue"] = "9.9.9"
    write_json(record, sealed(data))
    (tmp_path / "run" / "to-md" / "2-client-1.md").write_text("# Statement for client-1\n", encoding="utf-8")
    found = [line for line in fv.verify(tmp_path / "run").lines() if line.startswith("WRONG")]
    assert any("to-md/2-client-1.md" in line for line in found)


def test_a_page_without_its_mark_is_still_looked_at(paid: Path, tmp_path: Path) -> None:
    shutil.copytree(paid, tmp_path / "run")
    page = tmp_path / "run" / "report.html"
    text = page.read_text(encoding="utf-8").replace('id="fedvalue-report"', 'id="fedvalue-rep0rt"')
    page.write_text(text, encoding="utf-8")
    assert not fv.verify(tmp_path / "run").sound
