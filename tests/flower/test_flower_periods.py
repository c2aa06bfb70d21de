"""Periods that a federation has valued: joins, leaves, absent clients; what is known of the others is not trained again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import digits
from flower_fakes import FakeGrid, Signing, parties, trained_messages
from kills import killed_before
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.agreement import make_key, read_public_line
from fedvalue.cli import app
from fedvalue.errors import InputError
from fedvalue.flower import Task, plan_federation, value_federation
from fedvalue.periods import Period, Periods

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

SCENARIO = digits((20, 24, 28, 32))
TASK = Task("classification", 10, SCENARIO.test)
PAID = {"pot": 1000, "currency": "EUR"}


class Federation:
    """One that values its clients every quarter, into one folder and one store."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.periods = Periods(folder / "consortium")
        self.grid = FakeGrid([])

    def value(self, *members: int, absent: int | None = None, **more: Any) -> None:
        there = [replace(parties(SCENARIO)[i], position=place) for place, i in enumerate(members)]
        signing = Signing(self.folder / "keys", there, without=range(4))
        self.grid = signing.grid()
        if absent is not None:
            del self.grid.parties[100 + members.index(absent)]
        value_federation(self.grid, signing.settings(self.out, **more), TASK)

    def close(self, name: str, **more: Any) -> Period:
        return self.periods.close(name, self.out, **{**PAID, **more})


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


@pytest.mark.slow
def test_who_joins_leaves_or_is_absent(federation: Federation) -> None:
    federation.value(0, 1, 2)
    spring = federation.close("2026-Q1")
    assert (spring.trained, spring.known) == (8, 0)
    federation.value(0, 1, 2, 3)
    summer = federation.close("2026-Q2")
    assert (summer.trained, summer.known) == (8, 8)  # of 16 coalitions, those with the joiner
    federation.value(1, 2, 3, absent=3)
    assert not trained_messages(federation.grid)
    with pytest.raises(InputError, match="'client 3' is absent in this period"):
        federation.close("2026-Q3", renamed={"client 3": "client 1"})
    autumn = federation.close("2026-Q3")
    assert (autumn.trained, autumn.known) == (0, 4)

    statuses = [{member.name: member.status for member in period.members} for period in (summer, autumn)]
    assert statuses[0]["client 3"] == "joined"
    assert set(statuses[1]) == {"client 1", "client 2"}
    assert autumn.left == ("client 0",)  # who is absent has not left
    assert list(autumn.absent) == ["client 3"]
    assert autumn.money is not None
    assert sum(line.paid for line in autumn.money.settlement.lines) == Decimal(1000)
    assert federation.periods.verify() == []
    again = federation.periods.closed[-1]
    assert again == autumn
    page = (federation.folder / "consortium" / "history.html").read_text(encoding="utf-8")
    assert "client 3 was absent" in page
    assert ",absent," in (federation.folder / "consortium" / "history.csv").read_text(encoding="utf-8")


def test_each_period_can_be_verified_by_itself_and_an_altered_one_is_found(federation: Federation) -> None:
    federation.value(0, 1)
    kept = federation.folder / "consortium" / "2026-Q1"
    kept.mkdir(parents=True)
    for name in ("agreement.json", "evidence.json", "store.db.replies"):
        (kept / name).write_text("of another run, which was killed before the period was closed")
    federation.close("2026-Q1")
    assert fv.verify(kept).sound
    federation.value(0, 1, 2)  # the federation's own store grows; the copy does not
    assert federation.periods.verify() == []
    (kept / "store.db").write_bytes((federation.out / "store.db").read_bytes())
    assert federation.periods.verify() == ["2026-Q1: store.db was altered after the period was closed"]


def test_one_book_of_replies_for_all_quarters(tmp_path: Path) -> None:
    """What was signed in one quarter also counts for the same coalitions in the next; an earlier one stays sound."""
    periods, out = Periods(tmp_path / "consortium"), tmp_path / "out"
    signing = Signing(tmp_path, [replace(parties(SCENARIO)[i], position=i) for i in range(3)])
    for name, absent in (("2026-Q1", [102]), ("2026-Q2", [])):
        grid = signing.grid()
        for node in absent:
            del grid.parties[node]
        value_federation(grid, signing.settings(out), TASK)
        periods.close(name, out, **PAID)
    assert [(period.trained, period.known) for period in periods.closed] == [(4, 0), (4, 4)]
    folders = [tmp_path / "consortium" / period.name for period in periods.closed]
    for folder, signed in zip(folders, (3, 7), strict=True):
        verdict = fv.verify(folder)
        assert verdict.sound
        assert f"every local training in {signed} trainings" in str(verdict)
    later = folders[1] / "store.db.replies"
    shutil.copyfile(folders[0] / "store.db.replies", later)  # it has nothing of the client that came
    assert not fv.verify(folders[1]).sound
    shutil.copyfile(
        out / "store.db.replies", folders[0] / "store.db.replies"
    )  # that of the quarter, and more
    assert fv.verify(folders[0]).sound
    assert "2026-Q1: store.db.replies was altered after the period was closed" in periods.verify()


@pytest.mark.slow
def test_killed_before_every_change_of_a_file_while_it_closes(federation: Federation, tmp_path: Path) -> None:
    federation.value(0, 1)
    stages, killed = 0, True
    while killed:
        periods = Periods(tmp_path / f"consortium-{stages}")
        periods.folder.mkdir()
        killed = killed_before(
            stages, periods.folder, lambda periods=periods: periods.close("2026-Q1", federation.out, **PAID)
        )
        if not periods.closed:
            periods.close("2026-Q1", federation.out, **PAID)
        periods.write_history()
        assert periods.verify() == []
        assert fv.verify(periods.folder / "2026-Q1").sound
        stages += 1
        assert stages < 60
    assert stages > 8


def test_values_that_do_not_follow_from_the_trainings_pay_nobody(federation: Federation) -> None:
    federation.value(0, 1)
    file = federation.out / "values.json"
    told = json.loads(file.read_text())
    told.pop("checksum")
    told["mean"].reverse()
    fv.Values.from_dict(told).save(file)  # with a checksum that fits
    with pytest.raises(
        InputError, match="something is wrong with: The values: computed again from the store"
    ):
        federation.close("2026-Q1")
    assert federation.periods.closed == ()


def test_what_is_not_a_period(federation: Federation, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file"):
        federation.close("2026-Q1")
    federation.value(0, 1)
    federation.close("2026-Q1")
    with pytest.raises(InputError, match="2026-Q1 was closed with this run already"):
        federation.close("2026-Q2")
    values = federation.out / "values.json"
    values.write_text(
        json.dumps(json.loads(values.read_text()), indent=7)
    )  # the same, written in another way
    with pytest.raises(InputError, match="2026-Q1 was closed with this run already"):
        federation.close("2026-Q2")
    federation.value(0, 1, rounds=3)
    with pytest.raises(InputError, match="not be comparable with those of 2026-Q1: training"):
        federation.close("2026-Q2")
    assert federation.close("2026-Q2", new_terms=True).trained == 4
    local = fv.run("synthetic", clients=3, samples=20, method="loo", out=tmp_path / "local").job.out
    assert local is not None
    with pytest.raises(InputError, match="is not the folder of a run in a Flower federation"):
        federation.periods.close("2026-Q3", local)
    other = shutil.copytree(federation.out, tmp_path / "other")
    (other / "store.db").unlink()
    with pytest.raises(InputError, match="There is no store"):
        federation.periods.close("2026-Q3", other)


def test_an_agreement_binds_the_payout_and_keys_hold_accounts(tmp_path: Path) -> None:
    make_key(tmp_path / "operator")
    signing = Signing(tmp_path / "keys", parties(digits((20, 24))))
    settings = signing.settings(tmp_path / "out")
    task = Task("classification", 10, SCENARIO.test)
    plan = plan_federation(signing.grid(), settings, task)
    party = fv.Party("Clearing", read_public_line(tmp_path / "operator.pub"))
    agreement = plan.agree(party, payout=fv.PayoutTerms(pot="1000", currency="EUR"))
    for key in (tmp_path / "operator", *signing.keys.values()):
        agreement = agreement.sign(key)
    agreed = signing.settings(tmp_path / "out", agreement=str(agreement.save(tmp_path / "agreement.json")))
    value_federation(signing.grid(), agreed, task)
    periods = Periods(tmp_path / "consortium")
    with pytest.raises(InputError, match="not the one that was agreed: pot 999"):
        periods.close("2026-Q1", tmp_path / "out", pot=999, currency="EUR")
    period = periods.close("2026-Q1", tmp_path / "out", **PAID)
    assert [member.key for member in period.members] == list(signing.public.values())
    kept = tmp_path / "consortium" / "2026-Q1"
    fv.sign(kept, tmp_path / "operator")
    found = fv.verify(kept, tmp_path / "agreement.json")
    assert found.sound, found.lines()
    assert any("every local training" in line for line in found.lines())
    assert periods.verify() == []


def test_the_command(federation: Federation) -> None:
    federation.value(0, 1)
    folder = federation.folder / "consortium"
    told = ["period", "close", str(folder), "2026-Q1", "--federation", str(federation.out), "--pot", "1000"]
    done = CliRunner().invoke(app, told)
    assert done.exit_code == 0, done.output
    assert "4 trainings were made, 0 were known." in done.output
    assert Periods(folder).closed[0].name == "2026-Q1"
    wrong = CliRunner().invoke(app, [*told, "--exact"])
    assert (wrong.exit_code, "What a federation ran is in its folder" in wrong.output) == (2, True)
