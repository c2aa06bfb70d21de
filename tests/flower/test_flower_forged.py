"""An operator who alters the results of a federation, makes every hash anew and signs again: nothing of that is sound."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from books import Lines, lines_of, signature_under, write_lines
from federations import digits
from flower_fakes import SIZES, Signing, parties

import fedvalue as fv
from fedvalue._files import sealed
from fedvalue.agreement import make_key, read_public_line
from fedvalue.evidence import Check
from fedvalue.flower import Task, plan_federation, value_federation

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

WHAT = "What the nodes signed"
TASK = Task("classification", 10, digits(SIZES).test)
Record = dict[str, Any]


class Consortium:
    """Three members that sign, an operator, a signed agreement, and the signed results."""

    def __init__(self, folder: Path) -> None:
        self.signing = Signing(folder, parties(digits(SIZES)))
        self.operator, self.file, self.out = folder / "operator", folder / "agreement.json", folder / "out"
        make_key(self.operator)
        party = fv.Party("Clearing", read_public_line(folder / "operator.pub"))
        settings = self.signing.settings(self.out, method="loo")
        agreement = plan_federation(self.signing.grid(), settings, TASK).agree(party)
        for key in (self.operator, *self.signing.keys.values()):
            agreement = agreement.sign(key)
        agreement.save(self.file)
        settings = self.signing.settings(self.out, method="loo", agreement=str(self.file))
        value_federation(self.signing.grid(), settings, TASK)
        fv.sign(self.out, self.operator)


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return Consortium(tmp_path_factory.mktemp("forged"))


def forged(
    consortium: Consortium,
    copy: Path,
    book: Callable[[Lines], Lines | None] = lambda lines: lines,
    record: Callable[[Record], object] = lambda record: None,
) -> fv.Verdict:
    """The verdict on a copy that the operator has altered, made sound again as far as that goes, and signed."""
    shutil.copytree(consortium.out, copy)
    write_lines(copy, book(lines_of(copy)))
    told = json.loads((copy / "run.json").read_text())
    told.pop("checksum")
    record(told)
    (copy / "run.json").write_text(json.dumps(sealed(told)))
    (copy / "report.html").unlink()
    (copy / "evidence.json").unlink()
    fv.sign(copy, consortium.operator)
    return fv.verify(copy, consortium.file)


def said(verdict: fv.Verdict) -> list[Check]:
    return [check for check in verdict.checks if check.what == WHAT]


def _without(client: int) -> Callable[[Lines], Lines]:
    return lambda lines: [line for line in lines if line.get("reply", {}).get("client") != client]


def _renamed(lines: Lines) -> Lines:
    for line in lines:
        if "sitting" in line:
            line["sitting"]["clients"] = [f"x{name}" for name in line["sitting"]["clients"]]
    return _without(1)(lines)


def _no_rows(record: Record) -> None:
    record["scenario"]["rows"][1] = 0


def _other_prints(record: Record) -> None:
    record["scenario"]["fingerprints"] = record["scenario"]["fingerprints"][:1] * 3


def _other_format(record: Record) -> None:
    record["format"] = "fedvalue.run/1"


class TestAnOperatorWhoSignsAgain:
    def test_the_honest_folder_is_sound(self, consortium: Consortium, tmp_path: Path) -> None:
        assert forged(consortium, tmp_path / "out").sound

    @pytest.mark.parametrize(
        ("book", "record"),
        [
            (_without(1), lambda record: None),
            (lambda lines: None, lambda record: None),
            (lambda lines: [], lambda record: None),
            (_renamed, lambda record: None),
            (_without(1), _no_rows),
            (_without(1), _other_prints),
            (_without(1), _other_format),
            (lambda lines: None, _other_format),
            (lambda lines: None, lambda record: record.pop("format")),
        ],
    )
    def test_replies_that_are_gone(
        self, book: Any, record: Any, consortium: Consortium, tmp_path: Path
    ) -> None:
        try:
            verdict = forged(consortium, tmp_path / "out", book, record)
        except fv.InputError:  # the software does not even sign it
            return
        assert not verdict.sound

    def test_a_member_who_signs_for_another(self, consortium: Consortium, tmp_path: Path) -> None:
        def accomplice(lines: Lines) -> Lines:
            sitting = next(line["sitting"] for line in lines if "sitting" in line)
            mine = {**sitting, "clients": sitting["clients"][:1], "keys": sitting["keys"][:1]}
            mine["data"], mine["game"] = sitting["data"][1:2], "0" * 16
            made: Lines = [{"sitting": mine}]
            for line in lines:
                if (reply := line.get("reply", {})).get("client") == 1:
                    mine_too = {**reply, "game": "0" * 16, "client": 0}
                    signature = signature_under(mine_too, sitting, consortium.signing.keys[0])
                    made.append({"reply": {**mine_too, "signature": signature}})
            return [*_without(1)(lines), *made]

        verdict = forged(consortium, tmp_path / "out", accomplice)
        assert not verdict.sound

    def test_a_member_who_trains_on_other_rows_than_agreed(
        self, consortium: Consortium, tmp_path: Path
    ) -> None:
        other = "f" * 64

        def bought(lines: Lines) -> Lines:
            sitting = next(line["sitting"] for line in lines if "sitting" in line)
            sitting["data"][1] = other
            for line in lines:
                if (reply := line.get("reply", {})).get("client") == 1:
                    reply["data"] = other
                    reply["signature"] = signature_under(reply, sitting, consortium.signing.keys[1])
            return lines

        def record(told: Record) -> None:
            told["scenario"]["fingerprints"][1] = other

        with pytest.raises(fv.InputError, match="the record has other rows of client 1 than the agreement"):
            forged(consortium, tmp_path / "out", bought, record)

    def test_keys_of_an_earlier_run_accuse_nobody(self, consortium: Consortium, tmp_path: Path) -> None:
        def earlier(lines: Lines) -> Lines:
            sitting = next(line["sitting"] for line in lines if "sitting" in line)
            return [{"sitting": {**sitting, "keys": ["", *sitting["keys"][1:]]}}, *lines]

        assert forged(consortium, tmp_path / "out", earlier).sound
