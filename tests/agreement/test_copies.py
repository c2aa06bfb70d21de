"""Copies that share one part: agreement, payout, report, periods and verification say the same amounts."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue._files import sealed, write_json
from fedvalue.agreement import Party, PayoutTerms, make_key, read_public_line
from fedvalue.cli import app
from fedvalue.periods import Periods

pytestmark = pytest.mark.usefixtures("one_thread")
TERMS = PayoutTerms(currency="EUR", pot="1000", copies="share")


@pytest.fixture(scope="module")
def job() -> fv.Job:
    """Three clients, and a copy of the last one."""
    of = fv.load_scenario("synthetic", clients=3, samples=15)
    alike = replace(of, clients=(*of.clients, of.clients[2]), names=(*of.names, "copy"))
    return fv.Job(alike, method="exact", model="least-squares")


@pytest.fixture(scope="module")
def folder(job: fv.Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run under an agreement by which copies share, with payout and report as the commands write them by default."""
    out = tmp_path_factory.mktemp("copies")
    make_key(out / "key")
    draft = job.agree(Party("Clearing", read_public_line(out / "key.pub")), payout=TERMS)
    agreed = draft.sign(out / "key")
    agreed.save(out / "agreement.json")
    run = out / "run"
    replace(job, out=run, agreement=agreed).run(report=False)
    for command in (
        ["payout", str(run), "--currency", "EUR", "--json", str(run / "payout.json"), "--quiet"],
        ["report", str(run), "--pot", "1000", "--currency", "EUR", "--quiet"],
        [
            "report",
            str(run),
            "--pot",
            "1000",
            "--currency",
            "EUR",
            "--quiet",
            "--out",
            str(run / "report.md"),
        ],
    ):
        assert CliRunner().invoke(app, command).exit_code == 0
    fv.sign(run, out / "key")
    return out


def paid(run: Path) -> dict[str, str]:
    lines = json.loads((run / "payout.json").read_text(encoding="utf-8"))["lines"]
    return {line["client"]: line["amount"] for line in lines}


def test_payout_report_and_verification_follow_the_agreement(folder: Path) -> None:
    amounts = paid(folder / "run")
    assert float(amounts["copy"]) == pytest.approx(float(amounts["client-2"]), abs=0.02)
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    told = re.search(r'id="fedvalue-report">(.*?)</script>', page, re.DOTALL)
    assert told is not None
    assert {x["client"]: x["amount"] for x in json.loads(told[1])["payout"]["lines"]} == amounts
    assert all(f"{float(amount):,.2f}" in page for amount in amounts.values())
    found = fv.verify(folder / "run", folder / "agreement.json")
    assert found.sound, str(found)


def test_a_payout_for_each_is_not_what_was_agreed(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    for name in ("evidence.json", "report.html", "report.md"):
        (tmp_path / "run" / name).unlink()
    each = fv.payout(
        fv.Values.from_dict(json.loads((tmp_path / "run" / "values.json").read_text())),
        "1000",
        currency="EUR",
    )
    write_json(tmp_path / "run" / "payout.json", sealed(each.to_dict()))
    found = fv.verify(tmp_path / "run", folder / "agreement.json")
    assert (
        "WRONG: payout.json: shared out otherwise than agreed: copies 'each' instead of 'share'"
        in found.lines()
    )


def test_a_period_pays_the_same(job: fv.Job, folder: Path, tmp_path: Path) -> None:
    periods = Periods(tmp_path)
    agreed = replace(job, agreement=folder / "agreement.json")
    with pytest.raises(fv.InputError, match="copies 'each' instead of 'share'"):
        periods.close("Q1", agreed, pot="1000", currency="EUR", copies="each")
    money = periods.close("Q1", agreed, pot="1000", currency="EUR").money
    assert money is not None
    assert {line.name: str(line.paid) for line in money.settlement.lines} == paid(folder / "run")
    assert periods.verify() == []


def test_what_no_values_could_be_paid_by_is_refused_at_once(job: fv.Job, folder: Path) -> None:
    operator = Party("Clearing", read_public_line(folder / "key.pub"))
    with pytest.raises(fv.InputError, match="each or share"):
        job.agree(operator, payout=PayoutTerms(copies="some"))
    grouped = replace(job, groups={"Holding": ["client-0", "copy"]})
    with pytest.raises(fv.InputError, match="group of their own"):
        grouped.agree(operator, payout=PayoutTerms(copies="share"))


def test_what_copies_share_cannot_be_said_without_trainings(folder: Path, tmp_path: Path) -> None:
    values = fv.Values.from_dict(json.loads((folder / "run" / "values.json").read_text()))
    with pytest.raises(fv.InputError, match="Who has copies is seen by the trainings"):
        fv.report(values, tmp_path / "r.html", pot=1000, copies="share")


def test_reports_pay_the_agreed_smallest_share_in_the_agreed_steps(job: fv.Job, tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    operator = Party("Clearing", read_public_line(tmp_path / "key.pub"))
    terms = PayoutTerms("shift", "0.2", "1", "EUR", "1000")
    agreed = job.agree(operator, payout=terms).sign(tmp_path / "key")
    agreed.save(tmp_path / "agreement.json")
    run = tmp_path / "run"
    replace(job, out=run, agreement=agreed).run(report=False)

    def wrong(*options: str) -> list[str]:
        for command in (
            ["payout", str(run), "--json", str(run / "payout.json")],
            ["report", str(run), *options],
        ):
            assert CliRunner().invoke(app, command).exit_code == 0
        (run / "evidence.json").unlink(missing_ok=True)
        return [line for line in fv.verify(run, tmp_path / "agreement.json").lines() if "report.html" in line]

    assert wrong("--pot", "1000")[0].startswith("sound")
    page, paid = ((run / name).read_text() for name in ("report.html", "payout.json"))
    assert all(f"{line['amount']} EUR" in page for line in json.loads(paid)["lines"])
    assert wrong()[0].startswith("sound")  # in percent
    other = wrong("--pot", "1000", "--min-share", "0", "--round", "0.01")
    assert other[0].endswith("min_share '0' instead of '0.2', step '0.01' instead of '1'")
