"""Verification: sound runs pass whatever the method, and nothing that was altered does."""

from __future__ import annotations

import json
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alterations import (
    FILES,
    SEALED,
    alter_and_seal,
    alter_file,
    better_accuracy,
    cut_off,
    earlier_format,
    random_alteration,
    reseal_store,
    resigned,
    signed_run,
)
from marks import first_fast
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue._files import sealed, write_json
from fedvalue.agreement import make_key, read_agreement, read_public_line
from fedvalue.cli import app
from fedvalue.evidence import sign
from fedvalue.run import add_disclosure, keep_earlier, read_disclosures, read_values


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without reports, which take the longest to be written again."""
    folder = tmp_path_factory.mktemp("signed")
    signed_run(folder, reports=False, scenario="synthetic")
    return folder


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("complete")
    signed_run(folder, scenario="synthetic")
    return folder


@pytest.fixture
def case(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "case")
    return tmp_path / "case"


def wrong(case: Path, **more: Any) -> list[str]:
    found = fv.verify(case / "run", case / "agreement.json", **more)
    return [line for line in found.lines() if line.startswith("WRONG")]


class TestSound:
    def test_everything_is_checked_and_nothing_is_wrong(self, complete: Path) -> None:
        found = fv.verify(complete / "run", complete / "agreement.json", retrain=3, method="permutation")
        assert found.sound, str(found)
        assert [check for check in found.checks if check.state == "unchecked"] == []
        looked = {check.what for check in found.checks}
        assert {"payout.json", "payout.csv", "payout.md", "report.html", "report.md", "The store"} <= looked
        assert "to the last bit" in str(found)

    def test_checking_changes_nothing(self, case: Path) -> None:
        before = {path.name: path.read_bytes() for path in (case / "run").iterdir()}
        fv.verify(case / "run", case / "agreement.json")
        assert {path.name: path.read_bytes() for path in (case / "run").iterdir()} == before

    def test_the_page_can_be_kept(self, case: Path) -> None:
        found = fv.verify(case / "run")
        page = found.save(case / "verdict.html").read_text()
        assert found.statement in page
        assert "default-src 'none'" in page
        assert "# Verification" in found.save(case / "verdict.md").read_text()
        assert json.loads(json.dumps(found.to_dict()))["sound"] is True

    @pytest.mark.parametrize(
        "options",
        first_fast(
            [
                {"method": "exact", "metric": "loss", "clients": 3, "partition": "free-riders"},
                {"budget": 64, "clients": 6},
                {"budget": 24, "seeds": 1, "clients": 6},
                {"method": "ipss", "budget": 16, "clients": 6},
                {"method": "permutation", "budget": 16, "replicates": 2},
                {"method": "exact", "empty": "majority"},
                {"method": "exact", "empty": 0.25, "options": {"noise": False}},
                {"method": "cc-paired", "budget": 14, "clients": 6},
            ]
        ),
    )
    def test_values_by_any_method_follow_from_the_store(
        self, tmp_path: Path, options: dict[str, Any]
    ) -> None:
        job = {"clients": 4, "samples": 12, "rounds": 1, **options}
        fv.run("digits", **job, out=tmp_path / "run")
        found = fv.verify(tmp_path / "run")
        assert found.sound, str(found)
        assert "same to the last bit" in str(found)

    @pytest.mark.parametrize(("by_others", "state"), [(5, "sound"), (-1, "wrong")])
    def test_what_others_trained_meanwhile_came_from_the_store(
        self, tmp_path: Path, by_others: int, state: str
    ) -> None:
        """Processes with one store share the work, and all their rows lie between beginning and end of each."""
        run = tmp_path / "run"
        values = fv.run("synthetic", clients=3, samples=15, method="exact", out=run).values
        assert values.cost is not None
        cost = values.cost.trained - by_others, values.cost.reused + by_others
        shared = replace(values, cost=replace(values.cost, trained=cost[0], reused=cost[1]))
        shared.save(run / "values.json")
        (run / "report.html").unlink()
        assert {check.state for check in fv.verify(run).checks if check.what == "The values"} == {
            "sound",
            state,
        }

    @pytest.mark.parametrize("copies", ["each", "share"])
    def test_groups_and_copies_that_share(self, tmp_path: Path, copies: str) -> None:
        run, groups = tmp_path / "run", {"Holding": ["client-0", "client-2"]}
        of = fv.load_scenario("synthetic", clients=3, samples=15)
        alike = replace(of, clients=(*of.clients, of.clients[2]), names=(*of.names, "copy"))
        joined = None if copies == "share" else groups
        fv.run(alike, method="exact", model="least-squares", groups=joined, out=run)
        command = ["payout", str(run), "--pot", "100", "--copies", copies]
        command += ["--json", str(run / "payout.json"), "--quiet"]
        assert CliRunner().invoke(app, command).exit_code == 0
        found = fv.verify(run)
        assert found.sound, str(found)
        assert "same to the last bit" in str(found)

    @pytest.mark.slow
    def test_a_store_that_has_grown_since(self, tmp_path: Path) -> None:
        """The surrogate learns from whatever the store knows: what came later must not count."""
        job = {"scenario": "synthetic", "clients": 6, "samples": 15, "store": tmp_path / "s.db", "seeds": 1}
        first = fv.run(**job, budget=20, out=tmp_path / "one")
        second = fv.run(**job, budget=30, seed=0, out=tmp_path / "two")
        assert first.values.chain is not None
        assert second.values.chain is not None
        assert second.values.chain.rows_before == first.values.chain.rows
        for name in ("one", "two"):
            found = fv.verify(tmp_path / name)
            assert found.sound, str(found)
        assert "came later and count for nothing" in str(fv.verify(tmp_path / "one"))

    def test_values_of_a_function_with_a_store(self, tmp_path: Path) -> None:
        table = np.random.default_rng(0).random(16)
        values = fv.value(fv.TableGame(table), "permutation", 12, store=tmp_path / "s.db")
        file = values.save(tmp_path / "v.json")
        assert fv.verify(file, store=tmp_path / "s.db").sound
        assert "not there" in str(fv.verify(file))

    def test_what_needs_a_recorded_training_cannot_be_known(self, tmp_path: Path) -> None:
        fv.run("digits", clients=3, samples=12, rounds=1, method="or", out=tmp_path / "run")
        found = fv.verify(tmp_path / "run")
        assert not found.sound
        assert not found.wrong, str(found)
        assert "cannot be computed from the store alone" in str(found)
        assert "report.html: it is only consistent with values that were not checked" in str(found)
        assert CliRunner().invoke(app, ["verify", str(tmp_path / "run"), "--quiet"]).exit_code == 2

    def test_the_plan_of_a_dry_run_is_not_passed_over_in_silence(self, case: Path) -> None:
        (case / "run" / "plan.json").write_text("{}")
        found = fv.verify(case / "run", case / "agreement.json")
        assert found.sound
        assert "nobody has looked into plan.json" in str(found)

    def test_what_is_otherwise_in_a_job_of_ones_own_is_named(self, case: Path) -> None:
        job = fv.Job("synthetic", clients=3, samples=15, rounds=2, method="exact")
        (line,) = wrong(case, retrain=1, job=job)
        assert line.endswith("By run.json it was: training.rounds 1, not 2")

    @pytest.mark.parametrize(
        "options",
        [{"method": "exact"}, {"method": "loo"}, {"method": "exact", "empty": 0.25, "metric": "mse"}],
    )
    def test_models_tested_on_rows_of_the_clients(self, options: dict[str, Any], tmp_path: Path) -> None:
        of: dict[str, Any] = {"clients": 3, "samples": 15, "partition": "size", "rounds": 1, **options}
        values = fv.run("synthetic", test="by-client", **of, out=tmp_path / "run").values
        found = fv.verify(tmp_path / "run", retrain=2)
        assert found.sound, str(found)
        assert "Trainings made again: 2 coalitions of" in str(found)
        if values.benefits is None:
            assert "does not say how much each training counts" in values.notes[0]
            return
        told = values.benefits
        for change in ({"matrix": told.matrix + 0.1}, {"weights": told.weights[::-1]}, {"rows": (9, 1, 1)}):
            replace(values, benefits=replace(told, **change)).save(tmp_path / "run" / "values.json")
            assert "they differ in benefits" in str(fv.verify(tmp_path / "run"))

    @pytest.mark.slow
    def test_training_again_from_a_folder_of_ones_own(self, tmp_path: Path) -> None:
        """The folder may be called otherwise, or be on another machine; other rows are another game."""
        rng, folder = np.random.default_rng(0), tmp_path / "hospitals"
        folder.mkdir()
        for name, rows in (("aachen", 30), ("bern", 40), ("como", 25), ("test", 60)):
            x = rng.normal(size=(rows, 3))
            lines = [f"{a:.4f},{b:.4f},{c:.4f},{int(a + b + c > 0)}" for a, b, c in x]
            (folder / f"{name}.csv").write_text("\n".join(["a,b,c,outcome", *lines]) + "\n")
        fv.run("files", data_dir=folder, label="outcome", method="exact", rounds=1, out=tmp_path / "run")
        elsewhere = folder.rename(tmp_path / "elsewhere")
        found = fv.verify(tmp_path / "run", retrain=3, data_dir=elsewhere)
        assert "3 coalitions of 28" in str(found)
        assert found.sound, str(found)
        assert "cannot be read here" in str(fv.verify(tmp_path / "run", retrain=3))
        with (elsewhere / "bern.csv").open("a") as file:
            file.write("9.0,9.0,9.0,0\n")
        assert not fv.verify(tmp_path / "run", retrain=3, data_dir=elsewhere).sound


class TestSignedFolder:
    def test_a_rerun_is_refused_before_anything_is_trained(
        self, case: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run, job = case / "run", _job_of(case)
        monkeypatch.setattr(fv.FederatedGame, "evaluate_trials", lambda *given, **more: 1 / 0)
        before = {path.name: path.read_bytes() for path in run.iterdir()}
        with pytest.raises(fv.InputError, match="are signed"):
            job.check_folder()
        with pytest.raises(fv.InputError, match="are signed"):
            job.run()
        assert {path.name: path.read_bytes() for path in run.iterdir()} == before

    def test_what_makes_way_keeps_its_signatures(self, case: Path) -> None:
        replace(_job_of(case), overwrite=True).run(report=False)
        (earlier,) = (case / "run" / "earlier").iterdir()
        found = fv.verify(earlier, case / "agreement.json")
        assert found.sound, str(found)
        assert "signed by Clearing" in str(found)
        assert not (case / "run" / "evidence.json").exists()
        assert not (case / "run" / "payout.json").exists()  # it belongs to what was signed

    def test_what_a_failed_run_sent_does_not_break_signatures(self, case: Path) -> None:
        """A federation notes what left the clients also where it failed; why one failed is put elsewhere."""
        run = case / "run"
        keep_earlier(run, ["error.json"])
        assert fv.verify(run, case / "agreement.json").sound
        values = read_values(run)
        assert values.disclosure is not None
        add_disclosure(run, values.disclosure, values.game_id)
        (earlier,) = (run / "earlier").iterdir()
        assert fv.verify(earlier, case / "agreement.json").sound
        assert len(read_disclosures(run / "disclosure.json")) == 2

    @pytest.mark.parametrize("command", [("report", "{}"), ("payout", "{}", "--json", "{}/payout.json")])
    def test_a_signed_file_is_not_written_again(self, whole: Path, command: tuple[str, ...]) -> None:
        run = whole / "run"
        if command[0] == "report":
            command = (*command, "--out", "{}/payout.md", "--format", "md")
        before = {path.name: path.read_bytes() for path in run.iterdir()}
        found = CliRunner().invoke(app, [word.format(run) for word in command])
        assert found.exit_code != 0
        assert "is signed" in found.output
        assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def _job_of(case: Path) -> fv.Job:
    return fv.Job(
        "synthetic",
        clients=3,
        samples=15,
        rounds=1,
        method="exact",
        out=case / "run",
        agreement=case / "agreement.json",
    )


class TestAltered:
    @pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("report")])
    def test_a_character_of_any_file(self, case: Path, name: str) -> None:
        alter_file(case / "run", name, random.Random(name))
        assert wrong(case)

    @pytest.mark.parametrize("name", first_fast(["report.html", "report.md"]))
    def test_a_character_of_a_report(self, complete: Path, tmp_path: Path, name: str) -> None:
        shutil.copytree(complete, tmp_path / "case")
        alter_file(tmp_path / "case" / "run", name, random.Random(name))
        assert any(line.startswith(f"WRONG: {name}") for line in wrong(tmp_path / "case"))

    @pytest.mark.parametrize("name", SEALED)
    @pytest.mark.parametrize("seed", first_fast(range(3)))
    def test_a_value_of_a_sealed_file(self, case: Path, name: str, seed: int) -> None:
        alter_and_seal(case / "run", name, random.Random(seed))
        assert wrong(case)

    @pytest.mark.parametrize("seed", first_fast(range(3)))
    def test_digests_made_anew_without_the_key(self, case: Path, seed: int) -> None:
        resigned(case / "run", random.Random(seed))
        assert any("signature of Clearing does not fit" in line for line in wrong(case))

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("mean", [0.5, 0.25, 0.25]),
            ("stderr", [0.0, 0.0, 0.0]),
            ("utility_of_none", 0.0),
            ("utility_of_all", 1.0),
            ("guarantee", "unbiased"),
            ("evaluations", 4),
            ("names", ["client-2", "client-1", "client-0"]),
            ("agreement", ""),
            ("chain", None),
            ("game_id", "federation-1"),
            ("metric", "mae"),
        ],
    )
    def test_values_that_do_not_follow_are_found_without_a_signature(
        self, case: Path, field: str, value: object
    ) -> None:
        (case / "run" / "evidence.json").unlink()
        file = case / "run" / "values.json"
        write_json(file, sealed(json.loads(file.read_text()) | {field: value}))
        said = [line for line in wrong(case) if "nobody has signed" not in line]
        assert said

    def test_amounts_that_do_not_follow(self, case: Path) -> None:
        file = case / "run" / "payout.json"
        data = json.loads(file.read_text())
        data["lines"][0]["amount"], data["lines"][1]["amount"] = "1.00", "2.00"
        write_json(file, sealed(data))
        assert any("the amounts or the words are others" in line for line in wrong(case))

    def test_other_terms_of_payout_than_agreed(self, case: Path) -> None:
        values = fv.run(
            "synthetic", clients=3, samples=15, rounds=1, method="exact", store=case / "run" / "store.db"
        )
        again = read_agreement(case / "agreement.json")
        paid = fv.payout(replace(values.values, agreement=again.hash), "2000", "shift", currency="EUR")
        write_json(case / "run" / "payout.json", sealed(paid.to_dict()))
        said = " ".join(wrong(case))
        assert "rule 'shift' instead of 'floor'" in said
        assert "pot 2000 instead of 1000" in said

    @pytest.mark.parametrize("alteration", [cut_off, earlier_format])
    def test_a_store_that_lost_its_end_or_its_chain(self, case: Path, alteration: Any) -> None:
        alteration(case / "run" / "store.db", random.Random(1))
        assert wrong(case)

    def test_a_store_made_anew_is_not_the_one_that_was_signed(self, case: Path) -> None:
        changed = ("UPDATE outcomes SET seconds=seconds+1 WHERE mask='3'", ())
        reseal_store(case / "run" / "store.db", changed)
        assert any("the store was made anew" in line for line in wrong(case))

    def test_the_agreement_in_the_folder_is_not_mine(self, case: Path, tmp_path: Path) -> None:
        other = signed_run(tmp_path / "other", reports=False, scenario="synthetic", seed=1)
        found = fv.verify(case / "run", tmp_path / "other" / "agreement.json")
        assert other.values.agreement not in found.about.values()
        assert any("another agreement than" in line for line in found.lines())

    def test_signatures_that_are_gone_are_missed_where_there_is_an_agreement(self, case: Path) -> None:
        (case / "run" / "evidence.json").unlink()
        assert any("nobody has signed" in line for line in wrong(case))
        (case / "run" / "agreement.json").unlink()
        assert wrong(case)

    def test_other_trainings_are_found_by_training_again(self, case: Path, tmp_path: Path) -> None:
        """A store that is made of lies from its first row on is sound in itself: only training shows them."""
        job = fv.Job("synthetic", clients=3, samples=15, rounds=1, method="exact", out=tmp_path / "lies")
        (tmp_path / "lies").mkdir()
        game = job.prepared.game
        with fv.UtilityStore(job.store_path or "") as store:
            store.register(game.id, 3, {"names": list(game.names)})
            for mask, outcome in game.evaluate([1, 2, 4]):
                better = {name: number + 0.1 for name, number in outcome.metrics.items()}
                store.append(game.id, [(mask, fv.Outcome(better, rows={}))])
        job.run()
        assert fv.verify(tmp_path / "lies").sound
        assert any(
            "stored" in line for line in fv.verify(tmp_path / "lies", retrain=7).lines() if "WRONG" in line
        )

    @pytest.mark.slow
    def test_random_alterations(self, tmp_path: Path) -> None:
        signed_run(tmp_path)
        rng = random.Random(0)
        for number in range(15):
            copy = tmp_path / f"copy-{number}"
            shutil.copytree(tmp_path / "run", copy)
            what = random_alteration(copy, rng)
            assert not fv.verify(copy, tmp_path / "agreement.json").sound, what

    @pytest.mark.slow
    def test_accuracies_that_do_not_go_with_the_test_rows(self, tmp_path: Path) -> None:
        """Where everything is made anew, head and signature included, impossible numbers still show."""
        fv.run("digits", clients=3, samples=12, rounds=1, method="exact", out=tmp_path / "run")
        better_accuracy(tmp_path / "run" / "store.db", random.Random(0))
        found = fv.verify(tmp_path / "run")
        assert any("made anew" in line for line in found.lines())
        text = (
            "UPDATE outcomes SET metrics=replace(metrics, '\"correct\": ', '\"correct\": 1') WHERE mask='3'"
        )
        reseal_store(tmp_path / "run" / "store.db", (text, ()))
        assert not fv.verify(tmp_path / "run").sound


class TestSigning:
    def test_several_sign_the_same(self, case: Path) -> None:
        sign(case / "run", case / "member")
        found = fv.verify(case / "run", case / "agreement.json")
        assert found.sound, str(found)
        assert "signed by Clearing, client-0" in str(found)

    def test_what_came_later_is_not_covered(self, case: Path) -> None:
        (case / "run" / "letter.txt").write_text("to whom it may concern")
        found = fv.verify(case / "run", case / "agreement.json")
        assert found.sound
        assert "not among the files that were signed: letter.txt" in str(found)
        sign(case / "run", case / "member")  # of other files than the operator's
        assert any("Clearing has not signed" in line for line in wrong(case))

    def test_what_is_wrong_is_not_signed(self, case: Path) -> None:
        alter_file(case / "run", "payout.csv", random.Random(0))
        with pytest.raises(fv.InputError, match="not signed, because something is wrong"):
            sign(case / "run", case / "operator")

    def test_without_an_agreement_a_key_can_be_asked_for(self, tmp_path: Path) -> None:
        fv.run("synthetic", clients=3, samples=15, method="exact", out=tmp_path / "run")
        make_key(tmp_path / "key")
        make_key(tmp_path / "other")
        sign(tmp_path / "run", tmp_path / "key")
        assert fv.verify(tmp_path / "run", signed_by=read_public_line(tmp_path / "key.pub")).sound
        assert not fv.verify(tmp_path / "run", signed_by=read_public_line(tmp_path / "other.pub")).sound


class TestHostilePayouts:
    """What a file of somebody else says must not take all memory, or wait for ever."""

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (
                {"stability": {"draws": 10**10}},
                "NOT CHECKED: payout.json: it says that it was made with more than",
            ),
            (
                {"pot": "1e99999999999"},
                "WRONG: payout.json: it cannot be shared out again: The pot must be a plain",
            ),
            ({"absent_rule": "last-period=PIPE"}, "the earlier period: it is not a file"),
        ],
    )
    def test_they_are_findings(self, change: dict[str, Any], says: str, case: Path) -> None:
        os.mkfifo(case / "pipe")
        file = case / "run" / "payout.json"
        data = {k: v for k, v in json.loads(file.read_text()).items() if k != "checksum"} | change
        text = json.dumps(sealed(data)).replace("PIPE", str(case / "pipe"))
        file.write_text(json.dumps(sealed({k: v for k, v in json.loads(text).items() if k != "checksum"})))
        assert any(says in line for line in fv.verify(case / "run").lines())

    def test_a_page_whose_data_never_ends(self, case: Path) -> None:
        mark = 'Written by fedvalue <script type="application/json" id="fedvalue-report">'
        (case / "run" / "page.html").write_text(mark * 200_000)  # took minutes
        assert any("do not give this page" in line for line in fv.verify(case / "run").lines())


class TestNamesOfFiles:
    """Names are somebody else's text."""

    def test_a_name_adds_no_line_to_the_verdict(self, case: Path) -> None:
        (case / "run" / "a\nsound: The values: all is well").write_text("x")
        found = fv.verify(case / "run", case / "agreement.json")
        assert len(str(found).splitlines()) == len(found.lines()) + 1

    def test_a_name_that_is_no_text_is_refused_where_it_would_be_written_down(self, case: Path) -> None:
        try:
            (case / "run" / "\udcff.txt").write_bytes(b"")
        except OSError:
            pytest.skip("this file system has no such names")
        fv.verify(case / "run", case / "agreement.json").save(case / "verdict.html")
        with pytest.raises(fv.InputError, match=r"is not text in UTF-8.*Rename"):
            fv.sign(case / "run", case / "operator")

    def test_a_name_that_is_too_long_is_a_finding(self, case: Path) -> None:
        file = case / "run" / "evidence.json"
        data = json.loads(file.read_text())
        data["statement"]["files"]["x" * 5_000] = "0"
        file.write_text(json.dumps(data))
        assert any("cannot be read: File name too long" in line for line in wrong(case))


class TestCommand:
    def test_exit_codes_and_the_page(self, case: Path) -> None:
        command = ["verify", str(case / "run"), "--agreement", str(case / "agreement.json")]
        good = CliRunner().invoke(app, [*command, "--retrain", "2", "--out", str(case / "v.html")])
        assert good.exit_code == 0, good.output
        assert "Nothing is wrong" in good.stdout
        assert "Verification of a valuation" in (case / "v.html").read_text()
        alter_file(case / "run", "payout.csv", random.Random(0))
        bad = CliRunner().invoke(app, [*command, "--quiet"])
        assert bad.exit_code == 1
        assert "WRONG: payout.csv" in bad.stdout
        told = CliRunner().invoke(app, [*command, "--json", "-"])
        assert told.exit_code == 1
        assert json.loads(told.stdout)["sound"] is False

    def test_what_is_no_run(self, tmp_path: Path) -> None:
        result = CliRunner().invoke(app, ["verify", str(tmp_path)])
        assert result.exit_code == 2
        assert "Name the folder of a run" in result.output

    def test_signing(self, case: Path) -> None:
        result = CliRunner().invoke(app, ["sign", str(case / "run"), "--key", str(case / "member")])
        assert result.exit_code == 0, result.output
        assert "evidence.json" in result.stdout


@pytest.mark.parametrize(
    "damage", first_fast(["[" * 100_000, '{"statement": {}, "signatures": []}', "[]", "{}", "\x00"], keep=2)
)
@pytest.mark.parametrize(
    "name", ["evidence.json", "values.json", "run.json", "agreement.json", "payout.json"]
)
def test_files_that_hold_anything_are_findings_and_never_a_traceback(
    case: Path, name: str, damage: str
) -> None:
    (case / "run" / name).write_text(damage)
    assert wrong(case)
