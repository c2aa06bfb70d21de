"""Quarters of a consortium: who joined and left, what had to be trained, and that what is closed stays as it is."""

from __future__ import annotations

import csv
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dirty_folders import clean, csv_of
from federations import line, party

import fedvalue as fv
from fedvalue.errors import InputError
from fedvalue.periods import Periods
from fedvalue.scenarios import Scenario
from fedvalue.store import _chain
from fedvalue.store._rows import COLUMNS, checksum
from fedvalue.store._schema import CHAIN, PER_ROW

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = ("Aachen", "Bern", "Como", "Delft", "Essen", "Fulda")
POT: dict[str, Any] = {"pot": 1000, "currency": "EUR"}


@cache
def pool() -> Scenario:
    return replace(line((20, 12, 30, 9, 25, 14)), names=NAMES)


def of(*names: str, more: str = "") -> Scenario:
    """Some of the clients; `more` has half of its rows only, as if there were fewer before."""
    whole = pool()
    clients = [whole.clients[NAMES.index(name)] for name in names]
    clients = [
        party(data, slice(0, len(data) // 2)) if name == more else data
        for name, data in zip(names, clients, strict=True)
    ]
    return replace(whole, clients=tuple(clients), names=names)


def job(scenario: Any, **more: Any) -> fv.Job:
    given = {"model": "least-squares", "rounds": 1, "method": "exact", "options": {"noise": False}, **more}
    return fv.Job(scenario, **given)


@pytest.fixture
def periods(tmp_path: Path) -> Periods:
    return Periods(tmp_path / "consortium")


@pytest.fixture(scope="module")
def closed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One joins; then one leaves, and another has more rows."""
    periods = Periods(tmp_path_factory.mktemp("periods") / "consortium")
    periods.close("2026-Q1", job(of(*NAMES[:4], more="Como")), **POT)
    periods.close("2026-Q2", job(of(*NAMES[:5], more="Como")), **POT, escrow=["Bern"])
    periods.close("2026-Q3", job(of(*NAMES[1:5])), **POT, release=["Bern"])
    return periods.folder


@pytest.fixture
def three(closed_once: Path, tmp_path: Path) -> Periods:
    return Periods(shutil.copytree(closed_once, tmp_path / "consortium"))


class TestQuarters:
    def test_what_had_to_be_trained(self, three: Periods) -> None:
        """All; those with the joiner; those with the client that has more rows."""
        assert [(p.trained, p.known) for p in three.closed] == [(16, 0), (16, 16), (8, 8)]

    def test_values_are_those_from_scratch(self, three: Periods) -> None:
        for period, scenario in zip(
            three.closed, (of(*NAMES[:4], more="Como"), None, of(*NAMES[1:5])), strict=True
        ):
            if scenario is not None:
                fixed = replace(scenario, target_scale=pool().scale)
                scratch = job(fixed).run().values
                assert [member.value for member in period.members] == scratch.mean.tolist()

    def test_who_came_and_went(self, three: Periods) -> None:
        status = [{member.name: member.status for member in period.members} for period in three.closed]
        assert set(status[0].values()) == {"joined"}
        assert {name for name, what in status[1].items() if what == "joined"} == {"Essen"}
        assert status[2] == {"Bern": "stayed", "Como": "changed", "Delft": "stayed", "Essen": "stayed"}
        assert [period.left for period in three.closed] == [(), (), ("Aachen",)]
        fourth = three.close("2026-Q4", job(of(*NAMES[:5])), **POT)
        assert {m.name: m.status for m in fourth.members}["Aachen"] == "returned"

    def test_money_goes_on(self, three: Periods) -> None:
        lines = [{x.name: x for x in p.money.settlement.lines} for p in three.closed if p.money is not None]
        assert (lines[1]["Bern"].paid, lines[1]["Bern"].after.escrow) == (0, lines[1]["Bern"].earned)
        assert lines[2]["Bern"].paid == lines[2]["Bern"].earned + lines[1]["Bern"].earned
        assert sum(x.paid for of_period in lines for x in of_period.values()) == Decimal(3000)
        assert lines[2]["Aachen"].paid == 0

    def test_everything_fits_together(self, three: Periods) -> None:
        assert three.verify() == []

    def test_a_period_without_a_pot_leaves_balances_alone(self, three: Periods) -> None:
        before = three.closed[-1].balances
        period = three.close("2026-Q4", job(of(*NAMES[1:5])))
        assert period.money is None
        assert period.balances == before
        assert three.verify() == []

    def test_a_client_with_another_name_keeps_its_account(self, three: Periods) -> None:
        scenario = replace(of(*NAMES[1:5]), names=("Bern", "Como Nord", "Delft", "Essen"))
        period = three.close("2026-Q4", job(scenario), **POT, renamed={"Como": "Como Nord"})
        member = next(m for m in period.members if m.name == "Como Nord")
        assert (member.status, member.was, period.left, period.trained) == ("stayed", "Como", (), 0)
        assert "Como" not in period.balances.accounts
        assert three.verify() == []

    def test_rows_of_one_who_left_are_not_passed_over(self, three: Periods) -> None:
        """Sold, copied, or the same client: its account stays where it is unless it is said to be the same."""
        scenario = replace(of(*NAMES[1:5]), names=("Bern", "Como Nord", "Delft", "Essen"))
        period = three.close("2026-Q4", job(scenario), **POT)
        assert period.members[1].status == "joined with the rows of Como"
        assert period.left == ("Como",)
        assert "Como" in period.balances.accounts
        assert "Como Nord joined with the rows of Como" in (three.folder / "history.html").read_text()

    @pytest.mark.parametrize(
        ("renamed", "match"),
        [
            ({"x": "Bern"}, "in no closed period"),
            ({"Bern": "x"}, "but the clients are"),
            ({"Aachen": "Bern"}, "another client"),
        ],
    )
    def test_names_that_cannot_be_are_refused(
        self, three: Periods, renamed: dict[str, str], match: str
    ) -> None:
        with pytest.raises(InputError, match=match):
            three.close("2026-Q4", job(of(*NAMES[1:5])), renamed=renamed)


class TestWhatIsClosedStays:
    def test_a_period_is_closed_once_and_in_order(self, three: Periods) -> None:
        before = {file: file.read_bytes() for file in (three.folder / "periods").iterdir()}
        for name, match in (("2026-Q3", "is closed"), ("2026-q3", "is closed"), ("2026-Q2b", "lies before 2026-Q3"),
                            ("2025-Q4", "in order"), ("../x", "short name"), ("", "short name"), ("periods", "short name")):  # fmt: skip
            with pytest.raises(InputError, match=match):
                three.close(name, job(of(*NAMES[:3])), **POT)
        assert {file: file.read_bytes() for file in (three.folder / "periods").iterdir()} == before

    def test_numbers_in_names_count_as_numbers(self, periods: Periods) -> None:
        for name in ("2026-2", "2026-10"):
            periods.close(name, job(of(*NAMES[:2])))
        with pytest.raises(InputError, match="lies before 2026-10"):
            periods.close("2026-9", job(of(*NAMES[:2])))

    def test_two_that_close_at_once_do_not_overwrite_each_other(self, three: Periods) -> None:
        from fedvalue.periods._folder import append

        last = three.closed[-1]
        with pytest.raises(InputError, match="Another process has closed a period"):
            append(three.folder, last)
        assert three.closed[-1] == last
        assert not list((three.folder / "periods").glob(".*"))

    def test_one_altered_digit_anywhere_is_found(self, three: Periods) -> None:
        """In what was written down of a period, every byte in turn that is a digit or a letter."""
        file = three.folder / "periods" / "0002.json"
        text = file.read_text()
        draw = random.Random(0)
        places = [k for k, sign in enumerate(text) if sign.isalnum()]
        for place in draw.sample(places, 60):
            other = "1" if text[place] != "1" else "2"
            file.write_text(text[:place] + other + text[place + 1 :])
            assert three.verify() != [], text[place - 20 : place + 20]
        file.write_text(text)
        assert three.verify() == []

    @pytest.mark.parametrize("name", ["values.json", "run.json"])
    def test_altered_files_of_a_run_are_found(self, three: Periods, name: str) -> None:
        file = three.folder / "2026-Q1" / name
        file.write_text(file.read_text().replace("least", "most").replace("0.", "0.1", 1))
        assert any(f"{name} was altered" in problem for problem in three.verify())

    @pytest.mark.parametrize(
        "name",
        ["history.html", "history.csv", "history.json", "2026-Q2/report.html", "2026-Q2/disclosure.json"],
    )
    def test_one_altered_digit_of_a_page_is_found(self, three: Periods, name: str) -> None:
        file = three.folder / name
        text = file.read_text()
        place = next(k for k in range(len(text) - 1, 0, -1) if text[k].isdigit())
        file.write_text(text[:place] + ("1" if text[place] != "1" else "2") + text[place + 1 :])
        (problem,) = three.verify()
        assert file.name in problem
        file.unlink()
        assert len(three.verify()) == 1
        if "/" not in name:
            three.write_history()
            assert three.verify() == []

    def test_what_is_slipped_into_a_closed_run_is_found(self, three: Periods) -> None:
        (three.folder / "2026-Q2" / "agreement.json").write_text("{}")
        assert three.verify() == ["2026-Q2: agreement.json was put there after the period was closed"]

    def test_a_forged_amount_with_a_new_seal_is_found(self, three: Periods) -> None:
        """Whoever writes the last period anew, seal and all, has to share out the pot as the values say."""
        from fedvalue.periods._entry import seal_of

        file = three.folder / "periods" / "0003.json"
        plain = json.loads(file.read_text())
        plain["money"]["lines"][0]["paid"], plain["money"]["lines"][0]["earned"] = "900.00", "900.00"
        plain["seal"] = seal_of({key: value for key, value in plain.items() if key != "seal"})
        file.write_text(json.dumps(plain))
        assert three.verify()[0] == "2026-Q3: its payout is not what its values and terms give"

    @pytest.mark.parametrize("number", [1, 2])
    def test_a_missing_or_exchanged_period_is_found(self, three: Periods, number: int) -> None:
        file = three.folder / "periods" / f"000{number}.json"
        kept = file.read_bytes()
        file.unlink()
        assert "is missing" in three.verify()[0]
        with pytest.raises(InputError, match="is missing"):
            three.close("2026-Q4", job(of(*NAMES[:3])))
        file.write_bytes((three.folder / "periods" / "0003.json").read_bytes())
        assert "does not follow" in three.verify()[0]
        file.write_bytes(kept)
        assert three.verify() == []

    @pytest.mark.parametrize("rechained", [False, True])
    def test_nothing_is_taken_over_from_an_altered_store(self, three: Periods, rechained: bool) -> None:
        """A training is made better, its checksum too; or the whole chain of its game is made anew."""
        game = three.closed[-1].game_id
        _improve(three.folder / "store.db", game, rechained)
        before = (three.folder / "store.db").read_bytes()
        with pytest.raises(InputError, match="nothing is taken over or paid by them: store"):
            three.close("2026-Q4", job(of(*NAMES[1:6])), **POT)
        assert len(three.closed) == 3
        assert (three.folder / "store.db").read_bytes() == before
        assert any("store.db" in problem for problem in three.verify())
        (three.folder / "store.db").rename(three.folder / "altered.db")
        assert three.close("2026-Q4", job(of(*NAMES[1:6])), **POT).known == 0

    def test_an_empty_folder_says_so(self, periods: Periods) -> None:
        assert "holds no closed period" in periods.verify()[0]


class TestTerms:
    def test_other_rules_are_not_mixed_with_those_before(self, three: Periods) -> None:
        changed = {"model_options": {"ridge": 0.1}}
        with pytest.raises(
            InputError, match=r"not be comparable with those of 2026-Q3: learner is not the same"
        ):
            three.close("2026-Q4", job(of(*NAMES[1:5]), **changed))
        with pytest.raises(InputError, match="metric"):
            three.close("2026-Q4", job(of(*NAMES[1:5]), metric="mse"))
        period = three.close("2026-Q4", job(of(*NAMES[1:5]), **changed), new_terms=True)
        assert period.trained == 16
        assert three.verify() == []

    @pytest.mark.parametrize(
        ("changed", "named"),
        [
            ({"method": "loo", "options": {}}, "method, options are"),
            ({"budget": 16}, "budget is"),
            ({"method": "surrogate", "seeds": 2, "options": {}}, "method, options, seeds are"),
            ({"groups": {"North": ["Bern", "Como"]}}, "groups is"),
        ],
    )
    def test_how_values_are_made_of_trainings_is_a_term(
        self, three: Periods, changed: dict[str, Any], named: str
    ) -> None:
        with pytest.raises(InputError, match=f"comparable with those of 2026-Q3: {named} not the same"):
            three.close("2026-Q4", job(of(*NAMES[1:5]), **changed))
        assert three.close("2026-Q4", job(of(*NAMES[1:5]), **changed), new_terms=True).terms["method"]
        assert three.verify() == []

    def test_groups_go_on_whoever_joins_or_leaves(self, periods: Periods) -> None:
        periods.close("Q1", job(of(*NAMES[:4]), groups={"North": ["Aachen", "Bern"]}))
        periods.close("Q2", job(of(*NAMES[:3], "Essen"), groups={"North": ["Aachen", "Bern", "Essen"]}))
        scenario = replace(of("Aachen", "Bern", "Como"), names=("Aachen", "Basel", "Como"))
        groups = {"North": ["Aachen", "Basel"]}
        periods.close("Q3", job(scenario, groups=groups), renamed={"Bern": "Basel"})
        with pytest.raises(InputError, match="groups is not the same"):
            periods.close("Q4", job(scenario, groups={"North": ["Aachen", "Como"]}))

    def test_the_scale_of_targets_is_that_of_the_first_period(self, periods: Periods) -> None:
        """It is learnt from all clients, and whoever joined would change it for everybody."""
        free = [replace(of(*names), target_scale=None) for names in (NAMES[:3], NAMES[:4])]
        assert free[0].scale != free[1].scale
        first, second = (periods.close(f"Q{k}", job(scenario)) for k, scenario in enumerate(free))
        assert second.target == first.target == (free[0].scale.centre, free[0].scale.spread)
        assert (second.trained, second.known) == (8, 8)

    def test_balances_are_in_one_currency(self, three: Periods) -> None:
        with pytest.raises(InputError, match="carried over in EUR. Got 'CHF'".replace(".", r"\.")):
            three.close("2026-Q4", job(of(*NAMES[1:5])), pot=100, currency="CHF")
        assert len(three.closed) == 3

    @pytest.mark.parametrize(
        "terms",
        [
            {"rule": "x"},
            {"debts": "x"},
            {"escrow": ["x"]},
            {"release": ["x"]},
            {"pot": "much"},
            {"pot": 0},
            {"pot": "nan"},
        ],
    )
    def test_terms_that_cannot_be_are_refused_before_anything_is_trained(
        self, periods: Periods, terms: dict[str, Any]
    ) -> None:
        with pytest.raises(InputError):
            periods.close("Q1", job(of(*NAMES[:3])), **{**POT, **terms})
        assert not (periods.folder / "store.db").exists()

    def test_where_trainings_are_kept_is_not_the_jobs_business(
        self, periods: Periods, tmp_path: Path
    ) -> None:
        with pytest.raises(InputError, match="Leave store and out"):
            periods.close("Q1", job(of(*NAMES[:3]), store=tmp_path / "other.db"))
        with pytest.raises(InputError, match=r"an fv\.Job"):
            periods.close("Q1", of(*NAMES[:3]))  # type: ignore[arg-type]


class TestFiles:
    def write(self, folder: Path, change: Callable[[dict[str, Any]], None] = lambda files: None) -> Path:
        files = clean()
        change(files)
        folder.mkdir()
        for name, rows in files.items():
            (folder / f"{name}.csv").write_text(csv_of(rows))
        return folder

    def test_preprocessing_is_learnt_in_the_first_period(self, periods: Periods, tmp_path: Path) -> None:
        def changes(files: dict[str, Any]) -> None:
            files["c4"] = [list(row) for row in files.pop("c3")]
            for row in files["c4"][1:]:
                row[0] = str(int(row[0]) + 40)

        given: dict[str, Any] = {
            "label": "outcome",
            "model": "xgboost",
            "rounds": 1,
            "method": "exact",
            "options": {"noise": False},
        }
        pytest.importorskip("xgboost")
        first = periods.close("Q1", fv.Job(data_dir=self.write(tmp_path / "one"), **given))
        second = periods.close("Q2", fv.Job(data_dir=self.write(tmp_path / "two", changes), **given))
        assert second.preprocessing == first.preprocessing is not None
        assert (first.trained, second.trained, second.known) == (16, 8, 8)
        kept = {member.name: member.status for member in second.members}
        assert kept == {"c0": "stayed", "c1": "stayed", "c2": "stayed", "c4": "joined"}
        assert periods.verify() == []
        file = periods.folder / "preprocessing.json"
        file.write_text(file.read_text().replace("age", "Age"))
        assert any("preprocessing.json was altered" in problem for problem in periods.verify())
        with pytest.raises(InputError, match="was altered since Q2"):
            periods.close("Q3", fv.Job(data_dir=tmp_path / "two", **given))


class TestStopped:
    def test_after_the_run_it_can_be_closed_again(
        self, periods: Periods, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(*given: Any) -> None:
            raise KeyboardInterrupt

        for where in ("entry_of", "append"):
            with monkeypatch.context() as patched:
                patched.setattr(f"fedvalue.periods.{where}", stop)
                with pytest.raises(KeyboardInterrupt):
                    periods.close("Q1", job(of(*NAMES[:4])), **POT)
            assert periods.closed == ()
        period = periods.close("Q1", job(of(*NAMES[:4])), **POT)
        assert (period.trained, period.known) == (0, 16)
        assert periods.verify() == []

    def test_before_the_page_it_is_closed(self, periods: Periods, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Periods, "write_history", lambda self: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                periods.close("Q1", job(of(*NAMES[:4])), **POT)
        assert len(periods.closed) == 1
        assert periods.write_history().exists()

    def test_another_job_may_take_the_place_of_one_that_was_stopped(
        self, periods: Periods, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr("fedvalue.periods.append", lambda *given: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                periods.close("Q1", job(of(*NAMES[:4])))
        period = periods.close("Q1", job(of(*NAMES[:3])))
        assert [member.name for member in period.members] == list(NAMES[:3])
        assert periods.verify() == []

    @pytest.mark.slow
    def test_a_killed_process(self, tmp_path: Path) -> None:
        """Killed while it trains; the same again goes on, and comes to the values of one that was left alone."""
        code = """
import sys, fedvalue as fv
job = fv.Job("digits", clients=5, samples=30, rounds=2, epochs=1, method="exact", options={"noise": False}, checkpoint=0.01)
fv.Periods(sys.argv[1]).close("Q1", job, pot=100)
"""
        folder = tmp_path / "consortium"
        command = [sys.executable, "-c", code, str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        try:
            while process.poll() is None and time.monotonic() < deadline and _rows(folder / "store.db") < 8:
                time.sleep(0.02)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert process.returncode == -signal.SIGKILL
        assert Periods(folder).closed == ()
        subprocess.run(command, check=True)
        (period,) = Periods(folder).closed
        assert period.known >= 8
        assert period.trained + period.known == 32
        alone = Periods(tmp_path / "alone")
        subprocess.run([*command[:3], str(alone.folder)], check=True)
        assert alone.closed[0].members == period.members
        assert Periods(folder).verify() == []


def _improve(store: Path, game: str, rechained: bool) -> None:
    with closing(sqlite3.connect(store)) as db:
        place, found = COLUMNS.index("metrics"), None
        where = "WHERE game_id=? AND mask=?"
        (mask,) = db.execute("SELECT max(mask) FROM outcomes WHERE game_id=?", (game,)).fetchone()
        for row in db.execute(f"SELECT {', '.join(COLUMNS)} FROM outcomes {where}", (game, mask)).fetchall():
            metrics = json.loads(row[place])
            better = json.dumps({name: value / 2 for name, value in metrics.items()}, sort_keys=True)
            found = (*row[:place], better, *row[place + 1 :])
            db.execute(
                f"UPDATE outcomes SET metrics=?, checksum=? {where}", (better, checksum(found), game, mask)
            )
        assert found is not None
        if rechained:
            db.execute(f"DELETE FROM {PER_ROW} WHERE game_id=?", (game,))  # they would speak against it
            db.execute(f"DELETE FROM {CHAIN} WHERE game_id=?", (game,))
            _chain.append(db, game, _chain.uncovered(db, game))
        db.commit()
    with fv.UtilityStore(store) as opened:
        assert bool(opened.verify()) == (not rechained)


def _rows(store: Path) -> int:
    if not store.exists():
        return 0
    try:
        with fv.UtilityStore(store, create=False) as opened:
            return sum(game.outcomes for game in opened.games())
    except fv.StoreError:  # it is being made
        return 0


class TestTheSurrogate:
    @pytest.mark.slow
    def test_a_plan_is_decided_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stopped after its trainings, it comes to what it would have come to."""
        given: dict[str, Any] = {"method": "surrogate", "budget": 20, "seeds": 1, "options": {}}
        values = []
        for stopped in (False, True):
            periods = Periods(tmp_path / str(stopped))
            periods.close("Q1", job(of(*NAMES[:5]), **given))
            if stopped:
                with monkeypatch.context() as patched:
                    patched.setattr("fedvalue.periods.append", lambda *given: 1 / 0)
                    with pytest.raises(ZeroDivisionError):
                        periods.close("Q2", job(of(*NAMES), **given))
            period = periods.close("Q2", job(of(*NAMES), **given))
            values.append([member.value for member in period.members])
            if not stopped:
                assert period.trained < 20
        assert values[0] == values[1]


class TestHistory:
    def test_as_a_table(self, three: Periods) -> None:
        with (three.folder / "history.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["client"] for row in rows if row["period"] == "2026-Q3"] == [
            "Bern",
            "Como",
            "Delft",
            "Essen",
            "Aachen",
        ]
        last = next(row for row in rows if row["period"] == "2026-Q3" and row["client"] == "Bern")
        assert (last["status"], last["currency"], last["seal"]) == ("stayed", "EUR", three.closed[-1].seal)
        paid = sum(Decimal(row["paid"]) for row in rows if row["period"] == "2026-Q3")
        assert paid == sum(x.paid for x in three.closed[-1].money.settlement.lines)  # type: ignore[union-attr]
        assert np.isclose(float(last["value"]), three.closed[-1].members[0].value)

    def test_as_plain_data(self, three: Periods) -> None:
        plain = json.loads((three.folder / "history.json").read_text())
        assert [period["seal"] for period in plain["periods"]] == [period.seal for period in three.closed]

    def test_as_a_page(self, three: Periods) -> None:
        page = (three.folder / "history.html").read_text()
        assert "default-src 'none'" in page
        assert "3 periods, 2026-Q1 to 2026-Q3" in page
        assert "Since the period before: Como has other rows than before, Aachen left." in page
        assert "8 trainings for it; 8 known from earlier" in page
        assert all(period.seal in page for period in three.closed)
        assert page.count("<svg") == 5
        assert three.write_history().read_text() == page  # the same periods, the same bytes

    def test_names_are_data(self, periods: Periods) -> None:
        names = ("<script>alert(1)</script>", "=1+1", 'a"b\\n')
        periods.close("Q1", job(replace(of(*NAMES[:3]), names=names)), **POT)
        page, table = ((periods.folder / f"history.{kind}").read_text() for kind in ("html", "csv"))
        assert "<script>alert" not in page
        assert "'=1+1" in table
        assert periods.verify() == []
