"""Periods and payouts under an agreement: what was signed binds the money, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.agreement import Party, PayoutTerms, make_key, read_public_line
from fedvalue.cli import app
from fedvalue.errors import InputError
from fedvalue.periods import Periods

pytest.importorskip("cryptography")
pytestmark = pytest.mark.usefixtures("one_thread")

GIVEN: dict[str, Any] = {"clients": 3, "samples": 20, "method": "exact"}
OPTIONS = ("--scenario", "synthetic", "--clients", "3", "--samples", "20", "--exact")
AGREED: dict[str, Any] = {"pot": "10000", "currency": "EUR"}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10,000 EUR by the rule floor, signed by the operator."""
    folder = tmp_path_factory.mktemp("agreed")
    make_key(folder / "key")
    operator = Party("Clearing", read_public_line(folder / "key.pub"))
    draft = fv.Job("synthetic", **GIVEN).agree(operator, payout=PayoutTerms("floor", **AGREED))
    return draft.sign(folder / "key").save(folder / "agreement.json")


@pytest.fixture(scope="module")
def done(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run under the agreement."""
    out = tmp_path_factory.mktemp("run") / "run"
    fv.run("synthetic", **GIVEN, out=out, agreement=file)
    return out


class TestPeriods:
    def test_what_was_agreed_is_paid(self, file: Path, tmp_path: Path) -> None:
        periods = Periods(tmp_path / "consortium")
        period = periods.close("Q1", fv.Job("synthetic", **GIVEN, agreement=file), **AGREED)
        assert period.money is not None
        assert sum(line.paid for line in period.money.settlement.lines) == 10000
        assert periods.verify() == []

    @pytest.mark.parametrize(
        ("other", "named"),
        [
            ({"pot": 9999}, "pot 9999 instead of 10000"),
            ({"rule": "shift"}, "rule 'shift' instead of 'floor'"),
            ({"min_share": "0.1"}, r"min_share 0\.1 instead of 0"),
            ({"step": "1"}, r"step 1 instead of 0\.01"),
            ({"currency": "USD"}, "currency 'USD' instead of 'EUR'"),
            ({"debts": "carry"}, "debts 'carry', of which it says nothing"),
            ({"escrow": ["client-1"]}, "escrow for client-1, of which"),
        ],
    )
    def test_other_terms_are_refused_before_anything_is_trained(
        self, file: Path, tmp_path: Path, other: dict[str, Any], named: str
    ) -> None:
        job = fv.Job("synthetic", **GIVEN, agreement=file)
        with pytest.raises(InputError, match=f"not the one that was agreed.*{named}"):
            Periods(tmp_path / "c").close("Q1", job, **{**AGREED, **other})
        assert not (tmp_path / "c" / "store.db").exists()
        assert Periods(tmp_path / "c").closed == ()

    def test_an_agreement_is_paid_once(self, file: Path, tmp_path: Path) -> None:
        periods, job = Periods(tmp_path / "c"), fv.Job("synthetic", **GIVEN, agreement=file)
        periods.close("Q1", job)  # pays nobody
        periods.close("Q2", job, **AGREED)
        with pytest.raises(InputError, match="Q2 was paid by this agreement already"):
            periods.close("Q3", job, **AGREED)
        assert [period.name for period in periods.closed] == ["Q1", "Q2"]

    def test_on_the_command_line(self, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        told = ["period", "close", "c", "Q1", "--pot", "9999", "--rule", "shift", *OPTIONS]
        found = CliRunner().invoke(app, [*told, "--agreement", str(file)])
        assert found.exit_code != 0
        said = " ".join(str(found.output).split()) + str(found.exception)
        assert "rule 'shift' instead of 'floor'" in said
        assert "pot 9999 instead of 10000" in said


class TestPayouts:
    def told(self, *args: object) -> str:
        found = CliRunner().invoke(app, [str(arg) for arg in args])
        assert found.exit_code == 0, found.output
        return found.stderr

    def test_other_terms_than_agreed_are_said(self, done: Path, tmp_path: Path) -> None:
        other = ("--pot", "77", "--rule", "shift", "--currency", "EUR")
        for command in (("payout", done), ("report", done, "--out", tmp_path / "r.html")):
            said = self.told(*command, *other)
            assert (
                "Warning: This is not the payout that was agreed: rule 'shift' instead of 'floor'; " in said
            )
            assert "pot 77 instead of 10000" in said
        assert "shift" in self.told("report", done, "--out", tmp_path / "r.html", "--rule", "shift")

    def test_the_agreed_ones_need_no_word(self, done: Path, tmp_path: Path) -> None:
        assert "Warning" not in self.told("payout", done, "--pot", "10000.00", "--currency", "EUR")
        assert "Warning" not in self.told("report", done, "--out", tmp_path / "r.html")

    def test_the_agreed_pot_is_shared_out(self, done: Path, tmp_path: Path) -> None:
        assert "Warning" not in self.told("payout", done, "--json", tmp_path / "p.json")
        paid = json.loads((tmp_path / "p.json").read_text())
        assert (paid["pot"], paid["currency"]) == ("10000", "EUR")
        assert "Warning" not in self.told("report", done, "--pot", "10000", "--out", tmp_path / "r.html")
        assert "EUR" in (tmp_path / "r.html").read_text()

    def test_without_an_agreement_a_pot_must_be_said(self, tmp_path: Path) -> None:
        fv.run("synthetic", **GIVEN, out=tmp_path / "run")
        found = CliRunner().invoke(app, ["payout", str(tmp_path / "run")])
        assert found.exit_code != 0
        assert "--pot AMOUNT" in str(found.output) + str(found.exception)

    def test_an_agreement_that_is_not_there_is_said(self, done: Path) -> None:
        kept = (done / "agreement.json").read_bytes()
        try:
            (done / "agreement.json").unlink()
            assert "is not beside them" in self.told("payout", done, "--pot", "10000", "--currency", "EUR")
        finally:
            (done / "agreement.json").write_bytes(kept)
