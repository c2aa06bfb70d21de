"""Forgeries by an insider, who has the operator's key and makes every checksum fit: what still shows them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alterations import reseal_store, signed_run
from marks import first_fast
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue._files import sealed, write_json
from fedvalue.cli import app
from fedvalue.evidence._run import open_run
from fedvalue.evidence._signed import write_signed
from fedvalue.run import read_values


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed")
    signed_run(folder, reports=False, scenario="synthetic")
    return folder


@pytest.fixture
def case(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "case")
    return tmp_path / "case"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A payout in which a client and its copy share one part, as the commands write it."""
    run = tmp_path_factory.mktemp("copies") / "run"
    of = fv.load_scenario("synthetic", clients=3, samples=15)
    alike = replace(of, clients=(*of.clients, of.clients[2]), names=(*of.names, "copy"))
    fv.run(alike, method="exact", model="least-squares", out=run)
    command = ["payout", str(run), "--pot", "1000", "--copies", "share", "--quiet"]
    for kind in ("json", "csv", "md"):
        command += [f"--{kind}", str(run / f"payout.{kind}")]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert json.loads((run / "payout.json").read_text())["copies"]
    return run


@pytest.fixture(scope="module")
def lies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that is made of lies from its first row on, and sound in itself."""
    out = tmp_path_factory.mktemp("lies") / "run"
    out.mkdir()
    job = fv.Job("synthetic", clients=3, samples=15, rounds=1, method="exact", out=out)
    game = job.prepared.game
    with fv.UtilityStore(job.store_path or "") as store:
        store.register(game.id, 3, {"names": list(game.names)})
        for mask, outcome in game.evaluate([1, 2, 4]):
            better = {name: number + 0.1 for name, number in outcome.metrics.items()}
            store.append(game.id, [(mask, fv.Outcome(better, rows={}))])
    job.run()
    return out


def change(file: Path, alter: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(file.read_text())
    alter(data)
    write_json(file, sealed({name: part for name, part in data.items() if name != "checksum"}))


def checked(case: Path, **more: Any) -> fv.Verdict:
    """As the operator signs it, without checking anything, and as a member checks it."""
    run = case / "run"
    (run / "evidence.json").unlink(missing_ok=True)
    left, _ = open_run(run, None, None)
    assert left.values is not None
    write_signed(left, left.values, case / "operator")
    return fv.verify(run, case / "agreement.json", **more)


def pay_again(run: Path) -> None:
    """A payout that follows from the values, whatever these are."""
    paid = fv.payout(read_values(run / "values.json"), "1000", currency="EUR", anyway=True)
    for name in ("payout.csv", "payout.md"):
        (run / name).unlink(missing_ok=True)
    write_json(run / "payout.json", sealed(paid.to_dict()))


def lines(found: fv.Verdict, word: str) -> str:
    return " ".join(line for line in found.lines() if line.startswith(word))


class TestCode:
    @pytest.mark.parametrize("field", ["method", "model", "metric"])
    def test_code_that_the_files_name_is_not_imported(
        self, case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str
    ) -> None:
        module = f"evil_{field}"
        (tmp_path / f"{module}.py").write_text("def exact(*of): ...\n")
        monkeypatch.syspath_prepend(tmp_path)

        def name(data: dict[str, Any]) -> None:
            where = data if field == "model" else data["asked"]
            where[field] = f"{module}:exact"

        change(case / "run" / "run.json", name)
        assert not checked(case, retrain=2).sound
        assert module not in sys.modules

    @pytest.mark.parametrize("method", ["nowhere:plan", "gtg", "no-such-method"])
    def test_values_are_not_what_the_files_say_because_their_method_is_unknown(
        self, case: Path, method: str
    ) -> None:
        change(case / "run" / "run.json", lambda data: data["asked"].update(method=method))
        change(case / "run" / "values.json", lambda data: data.update(mean=[0.33, 0.0, 0.0027]))
        pay_again(case / "run")
        found = checked(case)
        assert not found.sound
        assert f"the method asked for was '{method}'" in lines(found, "WRONG")
        assert "sound: payout.json" not in str(found)

    def test_a_method_of_ones_own_is_given_by_whoever_checks(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "own_plan.py").write_text(
            "import numpy as np\nimport fedvalue as fv\n\n\ndef alone(n, budget, rng):\n"
            "    singles = yield [1 << i for i in range(n)]\n    return fv.Estimate(np.array(singles))\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        job = {"clients": 3, "samples": 15, "out": tmp_path / "run"}
        fv.run("synthetic", method="own_plan:alone", **job)
        found = fv.verify(tmp_path / "run")
        assert not found.sound
        assert not found.wrong, str(found)
        command = ["verify", str(tmp_path / "run")]
        assert CliRunner().invoke(app, command).exit_code == 2
        assert CliRunner().invoke(app, [*command, "--method", "own_plan:alone"]).exit_code == 0
        assert CliRunner().invoke(app, [*command, "--method", "exact"]).exit_code == 2

        def alone(n: int, budget: int, rng: object) -> Generator[Any, Any, Any]:
            yield [1]
            return fv.Estimate(np.zeros(n))

        other = fv.verify(tmp_path / "run", method=alone)
        assert not other.sound
        assert "not the code that the run was made with" in str(other)


class TestRecord:
    @pytest.mark.parametrize(
        "name", ["seed", "budget", "metric", "method", "options", "seeds", "training", "plan"]
    )
    def test_what_is_missing_is_a_difference(self, case: Path, name: str) -> None:
        change(case / "run" / "run.json", lambda data: data.pop(name))
        found = checked(case)
        assert name in lines(found, "WRONG"), str(found)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("asked", {"method": "loo"}), ("training", {"model": 1}), ("scenario", []), ("asked", 3), ("options", "x"),
         ("game", [1]), ("versions", "1"), ("groups", 7), ("model_options", None)],
    )  # fmt: skip
    def test_sections_that_are_none_are_findings(self, case: Path, name: str, value: object) -> None:
        change(case / "run" / "run.json", lambda data: data.update({name: value}))
        found = checked(case, retrain=1)
        assert found.wrong, str(found)

    @pytest.mark.parametrize("claim", [{"idle": [0]}, {"alike": [[0, 1]]}, {"idle": ["x"]}])
    def test_data_that_clients_are_said_to_have(self, case: Path, claim: dict[str, Any]) -> None:
        change(case / "run" / "run.json", lambda data: data["game"].update(claim))
        assert "the record says that" in lines(checked(case), "WRONG")

    @pytest.mark.parametrize(
        ("section", "claim"),
        [
            ("training", {"rounds": 40}),
            ("training", {"seed": 9}),
            ("scenario", {"fingerprint": "0" * 64}),
            ("learner", {"model": "cnn"}),
        ],
    )
    def test_rules_and_data_of_another_game(self, case: Path, section: str, claim: dict[str, Any]) -> None:
        """Also where there is no agreement that says what they were."""
        change(case / "run" / "run.json", lambda data: data[section].update(claim))
        assert "other rules of training than their game does" in lines(fv.verify(case / "run"), "WRONG")

    def test_groups_that_nobody_agreed(self, case: Path) -> None:
        values = fv.run(
            "synthetic", clients=3, samples=15, rounds=1, method="exact", groups={"H": ["client-0", "client-1"]},
            store=case / "run" / "store.db",
        ).values  # fmt: skip
        told = {name: values.to_dict()[name] for name in ("mean", "groups", "details", "notes", "parts")}
        change(
            case / "run" / "values.json", lambda data: data.update(json.loads(json.dumps(told, default=list)))
        )
        assert "the values are of other groups than the agreement has" in lines(checked(case), "WRONG")

    @pytest.mark.parametrize("recorded", [False, True])
    def test_a_client_that_is_said_to_have_been_absent(self, case: Path, recorded: bool) -> None:
        run = case / "run"
        whole = read_values(run / "values.json")
        left = replace(
            whole, mean=whole.mean[1:], names=whole.names[1:], stderr=None, clients=(1, 2), covariance=None,
            parts={}, baseline=None, disclosure=None, absent={"client-0": "did not answer"},
        )  # fmt: skip
        write_json(run / "values.json", sealed(left.to_dict()))
        if recorded:
            change(run / "run.json", lambda data: data.update(absent={"client-0": "did not answer"}))
        pay_again(run)
        found = checked(case)
        assert not found.sound
        assert "client-0 agreed and has no value" in lines(found, "NOT CHECKED")
        assert recorded or "other clients as absent" in lines(found, "WRONG")


def test_a_store_that_says_it_is_older_than_checksums_is_not_called_unaltered(
    whole: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(whole / "run", tmp_path / "run")
    with closing(sqlite3.connect(run / "store.db")) as db, db:
        for table in ("chain", "claims", "per_row", "added_metrics"):
            db.execute(f"DROP TABLE IF EXISTS {table}")
        db.execute("ALTER TABLE outcomes DROP COLUMN checksum")
        db.execute("PRAGMA user_version = 1")
    change(run / "values.json", lambda data: data.update(chain=None))
    found = fv.verify(run)
    assert not found.sound
    assert "without checksums" in lines(found, "NOT CHECKED: The store")
    assert "none of them altered" not in str(found)


class TestCopies:
    def test_an_honest_one_is_computed_again_and_signed(self, shared: Path, tmp_path: Path) -> None:
        shutil.copytree(shared, tmp_path / "run")
        found = fv.verify(tmp_path / "run")
        assert found.sound, str(found)
        assert {"payout.json", "payout.csv", "payout.md"} <= {
            c.what for c in found.checks if c.state == "sound"
        }
        fv.agreement.make_key(tmp_path / "key")
        fv.sign(tmp_path / "run", tmp_path / "key")

    @pytest.mark.parametrize("alter", ["amounts", "copies"])
    def test_a_forged_one_is_found(self, shared: Path, tmp_path: Path, alter: str) -> None:
        shutil.copytree(shared, tmp_path / "run")

        def forge(data: dict[str, Any]) -> None:
            if alter == "amounts":
                data["lines"][0]["amount"], data["lines"][1]["amount"] = "1000.00", "0.00"
            else:
                data["copies"] = [["client-0", "client-1"]]

        change(tmp_path / "run" / "payout.json", forge)
        assert "payout.json" in lines(fv.verify(tmp_path / "run"), "WRONG")


class TestFiles:
    def test_a_report_by_other_terms_than_agreed(self, case: Path) -> None:
        command = [
            "report",
            str(case / "run"),
            "--pot",
            "5000",
            "--rule",
            "shift",
            "--currency",
            "EUR",
            "--quiet",
        ]
        assert CliRunner().invoke(app, command).exit_code == 0
        said = lines(checked(case), "WRONG: report.html")
        assert "rule 'shift' instead of 'floor'" in said
        assert "pot '5000' instead of '1000'" in said

    def test_a_payout_that_is_not_recognised_is_named(self, case: Path) -> None:
        run = case / "run"
        change(run / "payout.json", lambda data: data.update(format="fedvalue.payout/2"))
        text = (run / "payout.csv").read_text()
        (run / "payout.csv").write_text(text.replace("client,value", "Client,value"))
        (run / "payout.md").unlink()
        assert "payout.csv, payout.json" in lines(checked(case), "not checked: Other files")

    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            ("payout.json", "Payout.JSON"),
            ("payout.csv", "payout.CSV"),
            ("payout.md", "sent/to/Bern.Markdown"),
            ("payout.json", "sent/payout.json"),
            ("report.html", "report.htm"),
            ("report.html", "sent/REPORT.HTML"),
            ("report.html", "sent/to/report.xhtml"),
            ("report.html", ".report.html"),
        ],
    )
    def test_however_a_file_is_named_and_wherever_it_lies(self, case: Path, kind: str, name: str) -> None:
        run = case / "run"
        if kind == "report.html":
            assert CliRunner().invoke(app, ["report", str(run), "--quiet"]).exit_code == 0
        file = run / name
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run / kind, file)
        found = checked(case)
        assert found.sound, str(found)
        assert f"sound: {name}: " in lines(found, "sound")
        file.write_bytes(file.read_bytes().replace(b"client-0", b"client-9"))
        assert f"WRONG: {name}: " in lines(checked(case), "WRONG")

    @pytest.mark.parametrize(
        "name",
        ["payout.txt", ".payout.json", "sent/report.pdf", "earlier/payout.json", ".hidden/payout.json"],
    )
    def test_what_nobody_looks_into_is_named(self, case: Path, name: str) -> None:
        file = case / "run" / name
        file.parent.mkdir(exist_ok=True)
        shutil.copyfile(case / "run" / "payout.csv", file)
        folder = f"{file.parent.name}/"
        named = name if folder in ("run/", "sent/") else folder
        if name == ".payout.json":
            shutil.copyfile(case / "run" / "payout.json", file)
            assert f"sound: {name}" in lines(checked(case), "sound")
        else:
            assert named in lines(checked(case), "not checked: Other files")

    def test_a_store_that_is_also_a_page(self, case: Path) -> None:
        run = case / "run"
        (run / "store.db").rename(run / "final.html")
        change(run / "run.json", lambda data: data.update(store="final.html"))
        with closing(sqlite3.connect(run / "final.html")) as store, store:
            store.execute("CREATE TABLE page AS SELECT '<h1>All to me</h1>Written by fedvalue 0.2.0.'")
        assert "WRONG: final.html" in lines(checked(case), "WRONG")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    @pytest.mark.parametrize("name", first_fast(["run.json", "disclosure.json"]))
    def test_a_pipe_is_not_waited_for(self, case: Path, name: str) -> None:
        file = case / "run" / name
        file.unlink(missing_ok=True)
        os.mkfifo(file)
        read = f"import sys, fedvalue as fv; sys.exit(fv.verify({str(case / 'run')!r}).wrong)"
        assert subprocess.run([sys.executable, "-c", read], timeout=60).returncode == 1


class TestTrainings:
    @pytest.mark.parametrize(
        ("claim", "known"),
        first_fast(
            [
                ({"versions": {"torch": "2.12.1"}}, True),
                ({"device": "cuda"}, True),
                ({"training": {"bogus": 1}}, True),
                ({"model_options": {"bogus": 1}}, False),
                ({"format": "x"}, False),
            ],
            keep=3,
        ),
    )
    def test_what_a_record_claims_does_not_switch_it_off(
        self, lies: Path, tmp_path: Path, claim: dict[str, Any], known: bool
    ) -> None:
        shutil.copytree(lies, tmp_path / "run")

        def claimed(data: dict[str, Any]) -> None:
            for name, part in claim.items():
                data[name] = {**data[name], **part} if isinstance(part, dict) else part

        change(tmp_path / "run" / "run.json", claimed)
        (tmp_path / "run" / "report.html").unlink(missing_ok=True)
        found = fv.verify(tmp_path / "run", retrain=7)
        assert not found.sound
        assert found.wrong is known, str(found)

    @pytest.mark.parametrize("claim", [{}, {"device": "cuda"}])
    def test_test_rows_that_hardly_differ(self, whole: Path, tmp_path: Path, claim: dict[str, Any]) -> None:
        """The metrics are as they were: intervals are a thousandth as wide as they should be."""
        run = tmp_path / "run"
        shutil.copytree(whole / "run", run)
        with closing(sqlite3.connect(run / "store.db")) as store:
            rows = store.execute("SELECT mask, name, data FROM per_row WHERE kind='half'").fetchall()
        statements = []
        for mask, name, data in rows:
            centre, unit = struct.unpack_from("<dd", data)
            flat = struct.pack("<dd", centre, unit / 1000) + data[16:]
            statements.append(("UPDATE per_row SET data=? WHERE mask=? AND name=?", (flat, mask, name)))
        assert statements
        reseal_store(run / "store.db", *statements)
        change(run / "run.json", lambda data: data.update(claim))
        assert "sound: Trainings made again" in lines(fv.verify(whole / "run", retrain=2), "sound")
        assert "test rows say something else of" in lines(
            fv.verify(run, retrain=2), "WRONG: Trainings made again"
        )
