"""Agreements: what is signed is what is run, and nothing else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.agreement import (
    Agreement,
    Party,
    PayoutTerms,
    canonical,
    make_key,
    read_agreement,
    read_public_line,
)
from fedvalue.cli import app
from fedvalue.run import agreement_lines

JOB: dict[str, Any] = {"clients": 3, "samples": 15, "method": "exact"}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for who in ("operator", "member", "stranger"):
        make_key(folder / who)
    return folder


@pytest.fixture(scope="module")
def draft(keys: Path) -> Agreement:
    operator, member = (read_public_line(keys / f"{who}.pub") for who in ("operator", "member"))
    return fv.Job("synthetic", **JOB).agree(Party("Clearing", operator), {"client-1": member}, title="Pilot")


@pytest.fixture(scope="module")
def signed(draft: Agreement, keys: Path) -> Agreement:
    return draft.sign(keys / "operator").sign(keys / "member")


class TestSigning:
    def test_all_who_have_a_key_must_sign(self, draft: Agreement, keys: Path) -> None:
        assert draft.unsigned == ("Clearing", "client-1")
        half = draft.sign(keys / "operator")
        assert half.problems() == ["not signed by client-1"]
        assert half.sign(keys / "member").problems() == []
        assert (
            half.sign(keys / "operator").signatures == half.signatures
        )  # Ed25519 signs the same in the same way

    def test_one_signature_never_counts_for_two_parties(self, signed: Agreement) -> None:
        members = [{**member, "key": signed.operator.key} for member in signed.terms["members"][:1]]
        other = Agreement({**signed.terms, "members": members + signed.terms["members"][1:]})
        assert "client-0 has the same key as Clearing: one signature would count for both" in other.problems()

    def test_the_hash_is_that_of_the_terms_alone(self, draft: Agreement, signed: Agreement) -> None:
        assert draft.hash == signed.hash

    def test_strangers_cannot_sign(self, draft: Agreement, keys: Path) -> None:
        with pytest.raises(fv.InputError, match="belongs to no party"):
            draft.sign(keys / "stranger")

    @pytest.mark.parametrize(
        ("part", "value"),
        [("title", "Pilot 2"), ("made", "2020-01-01"), ("payout", {"rule": "shift"}), ("job", {"seed": 1})],
    )
    def test_other_terms_have_no_signature(self, signed: Agreement, part: str, value: Any) -> None:
        now = {**signed.terms[part], **value} if isinstance(value, dict) else value
        other = Agreement({**signed.terms, part: now}, signed.signatures)
        assert len(other.problems()) == 2
        assert all("does not fit these terms" in problem for problem in other.problems())

    def test_keys_of_other_programs_do(self, keys: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_ssh_private_key

        key = load_ssh_private_key((keys / "operator").read_bytes(), None)
        assert isinstance(key, Ed25519PrivateKey)
        assert (keys / "operator").stat().st_mode & 0o077 == 0

    def test_a_key_is_never_overwritten(self, keys: Path) -> None:
        with pytest.raises(fv.InputError, match="never overwritten"):
            make_key(keys / "operator")

    @pytest.mark.parametrize(
        "content", [b"", b"ssh-ed25519 AAAA", b"-----BEGIN OPENSSH PRIVATE KEY-----\n", b"\xff"]
    )
    def test_what_is_no_key(self, draft: Agreement, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "key").write_bytes(content)
        with pytest.raises(fv.InputError, match="Ed25519 key as"):
            draft.sign(tmp_path / "key")
        with pytest.raises(fv.InputError, match=r"key"):
            read_public_line(tmp_path / "key")

    @pytest.mark.slow
    def test_ssh_keygen_makes_keys_that_fit(self, tmp_path: Path) -> None:
        made = tmp_path / "id"
        try:
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(made)],
                check=True,
                capture_output=True,
            )
        except FileNotFoundError:
            pytest.skip("there is no ssh-keygen")
        job = fv.Job("synthetic", **JOB)
        agreement = job.agree(Party("Clearing", read_public_line(tmp_path / "id.pub"))).sign(made)
        assert agreement.problems() == []


class TestMaking:
    def test_names_that_nobody_has_and_keys_that_two_have(self, keys: Path) -> None:
        line = read_public_line(keys / "operator.pub")
        job = fv.Job("synthetic", **JOB)
        with pytest.raises(fv.InputError, match="no client 'client-9'"):
            job.agree(Party("Clearing", line), {"client-9": line})
        with pytest.raises(fv.InputError, match="same key"):
            job.agree(Party("Clearing", line), {"client-1": line})

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            ({"operator": "Clearing"}, "operator must be an fv.Party"),
            (
                {"operator": Party("Clearing", "Bern")},
                "Expected the key of Clearing to be a public Ed25519 key",
            ),
            (
                {"keys": "client-1"},
                "keys must be a dict from names of clients to their public keys. Got 'client-1'",
            ),
            ({"keys": ["client-1"]}, "keys must be a dict"),
            ({"keys": {"client-1": 3}}, "keys must be a dict"),
            ({"payout": "floor"}, "payout must be fv.PayoutTerms"),
        ],
    )
    def test_parts_of_another_kind(self, given: dict[str, Any], says: str, keys: Path) -> None:
        operator = Party("Clearing", read_public_line(keys / "operator.pub"))
        with pytest.raises(fv.InputError, match=says):
            fv.Job("synthetic", **JOB).agree(**{"operator": operator, **given})

    @pytest.mark.parametrize("members", ["Bern", {"Bern": 1}, ["Bern"], [{"name": "Bern", "key": ""}]])
    def test_members_that_are_no_list_of_clients(
        self, members: Any, signed: Agreement, tmp_path: Path
    ) -> None:
        Agreement({**signed.terms, "members": members}).save(tmp_path / "a.json")
        with pytest.raises(
            fv.InputError, match=r"members must be a list of clients|a client must have a name"
        ):
            read_agreement(tmp_path / "a.json")

    def test_a_payout_that_cannot_be_is_noticed_now(self, keys: Path) -> None:
        line = read_public_line(keys / "operator.pub")
        with pytest.raises(fv.InputError, match="Unknown rule"):
            fv.Job("synthetic", **JOB).agree(Party("Clearing", line), payout=PayoutTerms(rule="fair"))

    def test_canonical_bytes_do_not_depend_on_the_order(self) -> None:
        assert canonical({"b": [1, 2.5], "a": None}) == canonical({"a": None, "b": [1, 2.5]})
        with pytest.raises(ValueError, match="not JSON compliant"):
            canonical({"a": float("nan")})

    def test_it_is_read_back(self, signed: Agreement, tmp_path: Path) -> None:
        again = read_agreement(signed.save(tmp_path / "a.json"))
        assert again == signed
        assert again.operator.name == "Clearing"
        assert [member.name for member in again.members] == ["client-0", "client-1", "client-2"]

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"terms": {}, "signatures": []}', "[" * 100_000])
    def test_files_that_are_none(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(fv.InputError, match="is not an agreement"):
            read_agreement(tmp_path / "a.json")

    @pytest.mark.parametrize(
        ("job", "budget", "seeds"),
        [
            (
                {"method": "surrogate"},
                "by default 56 trainings of 3",
                "left open: as many as suit the budget",
            ),
            ({"method": "exact"}, "all 8 coalitions", "left open: all coalitions are trained with the first"),
            ({"method": "surrogate", "seeds": 1}, "by default 8 coalitions", "1"),
            ({"method": "permutation", "budget": 7}, "7", "left open: permutation trains with one"),
            (
                {"method": "mine", "plan": "0123"},
                "by default 8 coalitions",
                "left open: mine trains with one",
            ),
        ],
    )
    def test_what_was_left_open_is_said_in_words(self, job: dict[str, Any], budget: str, seeds: str) -> None:
        told = {"budget": None, "seeds": None, "plan": None, "options": {}, "groups": None, **job}
        members = [{"name": name, "key": ""} for name in "abc"]
        shown = dict(agreement_lines(Agreement({"job": told, "payout": {"pot": None}, "members": members})))
        assert budget in shown["job.budget"]
        assert shown["job.seeds"].startswith(seeds)
        assert "None" not in "".join(shown.values())


class TestRunning:
    def test_what_was_agreed_is_run_and_every_result_says_so(self, signed: Agreement, tmp_path: Path) -> None:
        result = fv.run("synthetic", **JOB, out=tmp_path, agreement=signed)
        assert result.values.agreement == signed.hash
        for file in ("values.json", "run.json"):
            assert json.loads((tmp_path / file).read_text())["agreement"] == signed.hash
        assert read_agreement(tmp_path / "agreement.json") == signed
        assert signed.hash in (tmp_path / "report.html").read_text()
        paid = result.payout(100)
        assert paid.to_dict()["agreement"] == signed.hash
        assert signed.hash in paid.to_markdown()

    @pytest.mark.parametrize(
        ("other", "named"),
        [
            ({"samples": 16}, "scenario.fingerprint"),
            ({"rounds": 3}, "training.rounds: agreed 4, now 3"),
            ({"metric": "mse"}, "metric: agreed 'r2', now 'mse'"),
            ({"method": "loo"}, "method: agreed 'exact', now 'loo'"),
            ({"seed": 5}, "seed: agreed 0, now 5"),
            ({"empty": 0.0}, "empty: agreed 'initial', now '0.0'"),
            ({"model_options": {"ridge": 0.5}}, "learner.ridge"),
            ({"scenario": "digits"}, "scenario.name"),
        ],
    )
    def test_another_job_is_refused_and_says_why(
        self, signed: Agreement, other: dict[str, Any], named: str
    ) -> None:
        job = fv.Job(**{"scenario": "synthetic", **JOB, **other}, agreement=signed)
        with pytest.raises(fv.InputError, match="not the one that was agreed") as caught:
            job.run()
        found = str(caught.value)
        assert named in found or "more. Run what" in found

    def test_an_agreement_that_somebody_has_not_signed(self, draft: Agreement, keys: Path) -> None:
        with pytest.raises(fv.InputError, match=r"does not stand: not signed by client-1"):
            fv.run("synthetic", **JOB, agreement=draft.sign(keys / "operator"))

    def test_where_it_is_computed_does_not_count(self, signed: Agreement, tmp_path: Path) -> None:
        job = fv.Job(
            "synthetic", **JOB, agreement=signed, memory="1GB", store=tmp_path / "s.db", checkpoint=1.0
        )
        assert job.run().values.agreement == signed.hash


class TestCommand:
    def done(self, *args: object) -> str:
        result = CliRunner().invoke(app, list(map(str, args)))
        assert result.exit_code == 0, result.output
        return result.stdout

    def test_from_the_first_key_to_a_signed_agreement(self, tmp_path: Path) -> None:
        for who in ("op", "a"):
            self.done("agreement", "key", tmp_path / who)
        file = tmp_path / "agreement.json"
        options = ("--scenario", "synthetic", "--clients", 3, "--samples", 15, "--exact")
        who = ("--operator", f"Clearing={tmp_path / 'op.pub'}", "--member", f"client-0={tmp_path / 'a.pub'}")
        self.done("agreement", "new", file, *who, "--currency", "EUR", "--", *options)
        assert CliRunner().invoke(app, ["agreement", "check", str(file)]).exit_code == 1
        for key in ("op", "a"):
            self.done("agreement", "sign", file, "--key", tmp_path / key)
        assert "2 signatures fit" in self.done("agreement", "check", file)
        shown = self.done("agreement", "show", file)
        assert "operator: Clearing (signed)" in shown
        assert "client: client-2 (no key)" in shown
        assert "payout.currency: EUR" in shown
        assert "job.budget: left open: all 8 coalitions of 3 clients are trained" in shown
        assert "payout.pot: left open: any pot" in shown
        assert "None" not in shown
        told = json.loads(self.done("agreement", "show", file, "--json"))
        assert told["hash"] == read_agreement(file).hash
        self.done("run", *options, "--agreement", file, "--dry-run", "--quiet")
        refused = CliRunner().invoke(
            app, ["run", *map(str, options), "--seed", "1", "--agreement", str(file)]
        )
        assert refused.exit_code == 2
        assert "seed: agreed 0, now 1" in refused.output
