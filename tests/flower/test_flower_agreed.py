"""A federation under a signed agreement: what was agreed is run, and nothing else; the other side checks it from the folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import digits
from flower_fakes import SIZES, Signing, parties
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.agreement import make_key, read_public_line
from fedvalue.cli import app
from fedvalue.errors import InputError
from fedvalue.flower import FederationPlan, Task, plan_federation, value_federation
from fedvalue.flower._registered import read_roster, write_roster
from fedvalue.scenarios import Dataset

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

TEST = digits(SIZES).test
TASK = Task("classification", 10, TEST)


class Consortium:
    """Three members that sign, an operator, and the agreement on what a dry run says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.signing = Signing(folder, parties(digits(SIZES)))
        self.operator = folder / "operator"
        make_key(self.operator)
        self.file = folder / "agreement.json"
        self.out = folder / "out"
        self.plan = plan_federation(self.signing.grid(), self.settings(), TASK)
        party = fv.Party("Clearing", read_public_line(folder / "operator.pub"))
        agreement = self.plan.agree(party, payout=fv.PayoutTerms(pot="1000"), title="Pilot")
        for key in (self.operator, *self.signing.keys.values()):
            agreement = agreement.sign(key)
        self.agreement = agreement
        agreement.save(self.file)

    def settings(self, **more: Any) -> Any:
        return self.signing.settings(self.out, **{"method": "loo", **more})


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    found = Consortium(tmp_path_factory.mktemp("agreed"))
    value_federation(found.signing.grid(), found.settings(agreement=str(found.file)), TASK)
    fv.sign(found.out, found.operator)
    return found


class TestKept:
    def test_the_plan_survives_its_file(self, consortium: Consortium) -> None:
        read = FederationPlan.from_dict(json.loads((consortium.out / "plan.json").read_text()))
        party = fv.Party("Clearing", read_public_line(consortium.folder / "operator.pub"))
        again = read.agree(party, payout=fv.PayoutTerms(pot="1000"), title="Pilot")
        assert again.job == consortium.agreement.job
        assert [member.key for member in again.members] == list(consortium.signing.public.values())

    def test_the_hash_is_in_every_result(self, consortium: Consortium) -> None:
        files = ("values.json", "run.json", "report.html")
        assert all(consortium.agreement.hash in (consortium.out / file).read_text() for file in files)
        assert fv.read_agreement(consortium.out / "agreement.json") == consortium.agreement

    def test_the_other_side_verifies_the_folder(self, consortium: Consortium) -> None:
        found = fv.verify(consortium.out, consortium.file)
        assert found.sound, found.lines()
        signed = next(check for check in found.checks if check.what == "What the nodes signed")
        assert signed.text.endswith("with the keys in the agreement")

    def test_training_again_is_not_possible_and_the_verdict_says_why(self, consortium: Consortium) -> None:
        found = fv.verify(consortium.out, consortium.file, retrain=2)
        (check,) = (check for check in found.checks if check.what == "Trainings made again")
        assert check.state == "undecided"
        assert "the rows of this federation are with its clients" in check.text

    def test_another_agreement_is_found(self, consortium: Consortium, tmp_path: Path) -> None:
        job = {**consortium.agreement.job, "seed": 4}
        other = replace(consortium.agreement, terms={**consortium.agreement.terms, "job": job}, signatures=())
        for key in (consortium.operator, *consortium.signing.keys.values()):
            other = other.sign(key)
        found = fv.verify(consortium.out, other.save(tmp_path / "other.json"))
        assert found.wrong
        assert any("is another agreement" in line for line in found.lines())


class TestRefused:
    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"rounds": 3}, "training.rounds: agreed 2, now 3"),
            ({"model": "linear"}, "learner"),
            ({"metric": "loss"}, "metric: agreed 'accuracy', now 'loss'"),
            ({"method": "ipss", "budget": 5}, "method: agreed 'loo', now 'ipss'"),
            ({"seed": 4}, "seed: agreed 3, now 4"),
            ({"replicates": 2}, "replicates: agreed 1, now 2"),
            ({"max-claim": 5.0}, "limits.max-claim: agreed 1000.0, now 5.0"),
        ],
    )
    def test_other_settings(self, change: dict[str, Any], says: str, consortium: Consortium) -> None:
        settings = consortium.settings(agreement=str(consortium.file), **change)
        grid = consortium.signing.grid()
        with pytest.raises(InputError, match=f"valuation is not the one that was agreed.*{says}"):
            value_federation(grid, settings, TASK)
        assert not any(message.metadata.message_type.startswith("train") for message in grid.sent)

    def test_another_test_set_or_other_rows(self, consortium: Consortium) -> None:
        settings = consortium.settings(agreement=str(consortium.file))
        fewer = Task("classification", 10, Dataset(TEST.x[1:], TEST.y[1:]))
        with pytest.raises(InputError, match="test"):
            value_federation(consortium.signing.grid(), settings, fewer)
        grid = consortium.signing.grid()
        grid.parties[101] = replace(grid.parties[101], train=Dataset(TEST.x[:20], TEST.y[:20]))
        with pytest.raises(InputError, match="fingerprint: agreed"):
            value_federation(grid, settings, TASK)

    def test_somebody_absent(self, consortium: Consortium) -> None:
        grid = consortium.signing.grid()
        del grid.parties[102]
        with pytest.raises(InputError, match=r"Absent: .*begins with all who agreed"):
            value_federation(grid, consortium.settings(agreement=str(consortium.file)), TASK)

    def test_another_key_for_signing(self, consortium: Consortium, tmp_path: Path) -> None:
        clients = read_roster(consortium.signing.roster)
        other = read_public_line(make_key(tmp_path / "other"))
        write_roster(tmp_path / "roster.json", [replace(clients[0], signs=other), *clients[1:]])
        told = {"agreement": str(consortium.file), "roster": str(tmp_path / "roster.json")}
        with pytest.raises(InputError, match="key: agreed"):
            value_federation(consortium.signing.grid(), consortium.settings(**told), TASK)

    def test_an_agreement_that_is_not_signed_or_not_there(
        self, consortium: Consortium, tmp_path: Path
    ) -> None:
        file = replace(consortium.agreement, signatures=()).save(tmp_path / "bare.json")
        with pytest.raises(InputError, match="does not stand: not signed by Clearing"):
            value_federation(consortium.signing.grid(), consortium.settings(agreement=str(file)), TASK)
        missing = consortium.settings(agreement=str(tmp_path / "none.json"))
        with pytest.raises(InputError, match="seen from where the SuperLink was started"):
            value_federation(consortium.signing.grid(), missing, TASK)

    def test_nobody_agrees_without_those_who_are_absent(self, consortium: Consortium) -> None:
        plan = replace(consortium.plan, absent={"client 2": "was not there"})
        with pytest.raises(InputError, match="Absent: client 2"):
            plan.agree(fv.Party("Clearing"))


def test_the_command_makes_an_agreement_of_a_plan(consortium: Consortium, tmp_path: Path) -> None:
    key, file = consortium.folder / "operator.pub", tmp_path / "agreement.json"
    plan = str(consortium.out / "plan.json")
    told = ["agreement", "new", str(file), "--operator", f"Clearing={key}", "--plan", plan, "--pot", "1000"]
    done = CliRunner().invoke(app, [*told, "--title", "Pilot"])
    assert done.exit_code == 0, done.output
    assert fv.read_agreement(file).job == consortium.agreement.job
    assert "To be signed by Clearing, client 0, client 1, client 2" in done.output
    again = CliRunner().invoke(app, [*told[:2], str(tmp_path / "b.json"), *told[3:], "--", "--exact"])
    assert (again.exit_code, "A plan says what will be run" in again.output) == (2, True)
    (tmp_path / "bad.json").write_text("[]")
    bad = CliRunner().invoke(
        app, [*told[:2], str(tmp_path / "c.json"), *told[3:5], "--plan", str(tmp_path / "bad.json")]
    )
    assert (bad.exit_code, "is not a plan" in bad.output) == (2, True)
