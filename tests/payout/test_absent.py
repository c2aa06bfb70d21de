"""Payouts where clients were absent: who is named, what the rule does with the pot, and that nothing of it is lost."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue._files import sealed
from fedvalue.cli import app
from fedvalue.payout import AbsentRule, Payout, payout
from fedvalue.values import Values


def these(*mean: float, absent: dict[str, str] | None = None, **more: Any) -> Values:
    names = [f"c{i}" for i in range(len(mean))]
    return Values(list(mean), names, "exact", 8, guarantee="exact", absent=absent or {}, **more)


GONE = {"north": "did not answer within 120 s"}


def everything(found: Payout) -> Decimal:
    return sum((one.amount for one in (*found.lines, *found.absent)), found.held)


def said(found: Payout) -> str:
    return " ".join(found.policy)


class TestRules:
    def test_excluded_clients_are_named_and_paid_nothing(self) -> None:
        found = payout(these(3, 1, absent=GONE), 100)
        assert [line.amount for line in found.lines] == [75, 25]
        assert [(one.name, one.amount, one.note) for one in found.absent] == [("north", 0, "excluded")]
        assert (
            "Absent: north (did not answer within 120 s). By the rule excluded they are paid nothing"
            in said(found)
        )

    def test_escrow_sets_a_part_aside(self) -> None:
        found = payout(these(3, 1, absent=GONE), 100, absent="escrow=0.2")
        assert [line.amount for line in found.lines] == [60, 20]
        assert (found.held, found.absent[0].note) == (20, "in escrow")
        assert (
            "20% of the pot (20.00) is set aside until they are valued; the other 80.00 are shared"
            in said(found)
        )

    def test_escrow_is_in_whole_steps(self) -> None:
        found = payout(these(3, 1, absent=GONE), 100, step=1, absent="escrow=0.333")
        assert (found.held, everything(found)) == (33, 100)

    def test_amounts_of_an_earlier_payout_are_paid_again(self, tmp_path: Path) -> None:
        file = tmp_path / "first-quarter.json"
        before = replace(these(1, 3), names=("c0", "north"))
        file.write_text(json.dumps(sealed(payout(before, 60).to_dict())), encoding="utf-8")
        found = payout(these(3, 1, absent=GONE), 100, absent=f"last-period={file}")
        assert [(one.name, one.amount) for one in found.absent] == [("north", 45)]
        assert [str(line.amount) for line in found.lines] == ["41.25", "13.75"]
        assert "first-quarter.json has for them, together 45.00; the other 55.00" in said(found)

    def test_whoever_was_absent_before_has_the_amount_of_then(self) -> None:
        earlier = payout(
            these(3, 1, absent=GONE), 100, absent=AbsentRule("last-period", {"north": Decimal(7)})
        )
        again = AbsentRule("last-period", {one.name: one.amount for one in earlier.absent})
        assert payout(these(1, 1, absent=GONE), 50, absent=again).absent[0].amount == 7

    @pytest.mark.parametrize("folder", [True, False])
    def test_earlier_values_are_paid_by_the_same_rule_and_pot(self, tmp_path: Path, folder: bool) -> None:
        before = replace(these(2, 1, -1), names=("c0", "north", "c1"))
        file = tmp_path / "values.json"
        file.write_text(json.dumps(sealed(before.to_dict())), encoding="utf-8")
        rule = f"last-period={tmp_path if folder else file}"
        found = payout(these(3, 1, absent=GONE), 90, "shift", absent=rule)
        assert found.absent[0].amount == 36  # (1 + 1) of (3, 2, 0)
        assert [line.amount for line in found.lines] == [54, 0]
        assert "what this rule would pay them of this pot by their values" in said(found)

    def test_nobody_absent(self) -> None:
        plain = payout(these(3, 1), 100)
        assert (plain.absent, plain.held) == ((), 0)
        found = payout(these(3, 1), 100, absent="escrow=0.2")
        assert [line.amount for line in found.lines] == [75, 25]
        assert "escrow=0.2. Nobody was absent, so nothing is set aside." in said(found)

    @given(
        means=st.lists(st.floats(0.001, 10), min_size=1, max_size=6),
        cents=st.integers(100, 10**7),
        part=st.decimals("0.01", "0.9", places=4),
        last=st.decimals("0", "0.5", places=3),
    )
    def test_everything_adds_up_to_the_pot(
        self, means: list[float], cents: int, part: Decimal, last: Decimal
    ) -> None:
        values, pot = these(*means, absent=GONE), Decimal(cents) / 100
        for rule in ("excluded", f"escrow={part}", AbsentRule("last-period", {"north": last})):
            found = payout(values, pot, absent=rule, draws=100)
            assert everything(found) == pot
            assert all(line.amount >= 0 for line in found.lines)


class TestRefusals:
    @pytest.mark.parametrize(
        ("rule", "says"),
        [
            ("exclude", r"Unknown rule for absent clients 'exclude'. Did you mean 'excluded'"),
            ("excluded=1", "Unknown rule for absent clients"),
            ("escrow", "needs a part of the pot"),
            ("escrow=1", "between 0 and 1. Got 1"),
            ("escrow=some", "must be a plain number"),
            ("last-period", "needs the values or the payout of an earlier period"),
            ("last-period=nowhere.json", "Cannot read nowhere.json, the earlier period"),
            (7, "A rule for absent clients is one of"),
        ],
    )
    def test_rules_that_cannot_be(self, rule: Any, says: str) -> None:
        with pytest.raises(fv.InputError, match=says):
            payout(these(3, 1), 100, absent=rule)

    def test_an_earlier_period_without_the_client(self) -> None:
        rule = AbsentRule("last-period", {"south": Decimal(5)})
        with pytest.raises(fv.InputError, match=r"has no client 'north', who is absent now. It has: south"):
            payout(these(3, 1, absent=GONE), 100, absent=rule)

    def test_another_currency(self, tmp_path: Path) -> None:
        file = tmp_path / "earlier.json"
        file.write_text(
            json.dumps(sealed(payout(replace(these(1), names=("north",)), 5, currency="CHF").to_dict()))
        )
        with pytest.raises(fv.InputError, match=r"is in CHF, and this pot in EUR"):
            payout(these(3, 1, absent=GONE), 100, currency="EUR", absent=f"last-period={file}")

    def test_nothing_left_for_the_others(self) -> None:
        rule = AbsentRule("last-period", {"north": Decimal(100)})
        with pytest.raises(fv.InputError, match="nothing is left for the others"):
            payout(these(3, 1, absent=GONE), 100, absent=rule)

    def test_an_altered_file(self, tmp_path: Path) -> None:
        file = tmp_path / "earlier.json"
        written = json.dumps(sealed(payout(replace(these(1), names=("north",)), 5).to_dict()))
        for altered in (
            written.replace('"amount": "5.00"', '"amount": "9.00"'),
            json.dumps(these(1).to_dict()),
        ):
            file.write_text(altered, encoding="utf-8")
            with pytest.raises(
                fv.InputError, match=r"earlier\.json, the earlier period, is not as fedvalue wrote it"
            ):
                payout(these(3, 1, absent=GONE), 100, absent=f"last-period={file}")

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", '{"format": "fedvalue.payout/1", "lines": [{"client": "a"}]}', "\udcff"]
    )
    def test_files_that_are_something_else(self, tmp_path: Path, text: str) -> None:
        file = tmp_path / "odd.json"
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(fv.InputError, match=r"odd\.json"):
            payout(these(3, 1, absent=GONE), 100, absent=f"last-period={file}")


class TestOutput:
    def test_every_form_names_who_was_absent(self, tmp_path: Path) -> None:
        odd = {"=cmd|x": "did <b>not</b> answer"}
        found = payout(these(3, 1, absent=odd), 100, absent="escrow=0.2", currency="EUR")
        rows = list(csv.DictReader(io.StringIO(found.to_csv())))
        assert [(row["client"], row["payout"]) for row in rows[-2:]] == [
            ("'=cmd|x", "0.00"),
            ("set aside", "20.00"),
        ]
        assert sum(Decimal(row["payout"]) for row in rows) == 100
        page = found.to_markdown()
        assert "| Set aside |" in page
        assert "<b>" not in page
        data = json.loads(json.dumps(found.to_dict()))
        assert (data["absent_rule"], data["held"], data["absent"][0]["client"]) == (
            "escrow=0.2",
            "20.00",
            "=cmd|x",
        )
        assert "absent" in str(found)

    def test_the_commands(self, tmp_path: Path) -> None:
        file = tmp_path / "values.json"
        file.write_text(json.dumps(sealed(these(3, 1, absent=GONE).to_dict())), encoding="utf-8")
        done = CliRunner().invoke(app, ["payout", str(file), "--pot", "100", "--absent", "escrow=0.2"])
        assert done.exit_code == 0, done.output
        assert "north" in done.output
        assert "set aside" in done.output
        options = ["--pot", "100", "--absent", "escrow=0.2", "--out", "-", "--format", "md"]
        page = CliRunner().invoke(app, ["report", str(file), *options])
        assert "20% of the pot (20.00) is set aside" in " ".join(page.output.split())
        assert "| Set aside |" in page.output
        assert "**100.00**" in page.output  # with what is set aside, the total is the pot
        wrong = CliRunner().invoke(app, ["report", str(file), "--absent", "nobody"])
        assert wrong.exit_code == 2
