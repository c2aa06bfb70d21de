"""A job as terms of an agreement, and whether a job is the one that was agreed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue._checks import expect, texts_by_name
from fedvalue._files import json_ready
from fedvalue.agreement import Agreement, Party, PayoutTerms, differences, new_agreement, read_agreement
from fedvalue.errors import InputError
from fedvalue.payout import Payout, payout
from fedvalue.run._folder import AGREEMENT_FILE
from fedvalue.scenarios import Scenario
from fedvalue.values import Values
from fedvalue.what_if import check_copies

if TYPE_CHECKING:
    from fedvalue.run._job import Job

__all__ = [
    "agreement_of",
    "agreement_on",
    "members_of",
    "not_as_agreed",
    "payout_terms_of",
    "refuse_other_job",
    "refuse_other_terms",
    "terms_agreed_for",
    "terms_of",
]

# Of the record of a run, what makes the values; where it is computed and with which versions does not.
_TERMS = ("model", "model_options", "learner", "training")
_NAMED = 6


def terms_of(job: Job) -> dict[str, Any]:
    """What is trained and how it is valued, as plain data. Paths and devices are not part of it."""
    record = job.record()
    scenario = {key: part for key, part in record["scenario"].items() if key not in ("data_dir", "clients")}
    if isinstance(scenario["options"], Mapping):
        scenario["options"] = {k: v for k, v in scenario["options"].items() if k != "folder"}
    held = job.prepared.scenario
    test = {"rows": len(held.test), "fingerprint": held.test.fingerprint, "parts": sorted(held.test_parts)}
    parts = {"scenario": scenario, "test": test, **{name: record[name] for name in _TERMS}}
    return dict(json_ready({**job.identity(), **parts}))


def members_of(scenario: Scenario) -> list[dict[str, Any]]:
    """The clients with the number and the fingerprint of their rows."""
    return [
        {"name": name, "rows": len(data), "fingerprint": data.fingerprint}
        for name, data in zip(scenario.names, scenario.clients, strict=True)
    ]


def agreement_of(
    job: Job,
    operator: Party,
    keys: Mapping[str, str],
    terms: PayoutTerms,
    title: str = "",
    made: str | None = None,
) -> Agreement:
    """The terms of a job, to be signed."""
    return agreement_on(terms_of(job), members_of(job.prepared.scenario), operator, keys, terms, title, made)


def agreement_on(
    job: Mapping[str, Any],
    members: Sequence[Mapping[str, Any]],
    operator: Party,
    keys: Mapping[str, str],
    terms: PayoutTerms,
    title: str = "",
    made: str | None = None,
) -> Agreement:
    """The terms of what will be run, to be signed. Payout terms that no values could be paid by are refused now."""
    expect("operator", operator, Party, "an fv.Party, such as fv.Party('Clearing', key)")
    expect("payout", terms, PayoutTerms, "fv.PayoutTerms, such as fv.PayoutTerms(pot='1000')")
    keys = texts_by_name("keys", keys, "names of clients to their public keys")
    names = tuple(member["name"] for member in members)
    alike = Values(np.ones(len(names)), names, "exact", 0, guarantee="exact")
    payout(alike, terms.pot or 1_000_000, terms.rule, terms.min_share, terms.step, terms.currency, draws=100)
    check_copies(terms.copies, job["groups"])
    return new_agreement(job, members, operator, keys, terms, title, made)


def refuse_other_job(agreement: Agreement, job: Job) -> None:
    """Raises where the job is not the one that was agreed, or where the agreement is not signed."""
    refuse_other_terms(agreement, terms_of(job), members_of(job.prepared.scenario))


def refuse_other_terms(
    agreement: Agreement,
    terms: Mapping[str, Any],
    members: Sequence[Mapping[str, Any]],
    what: str = "job",
    parts: Collection[str] = ("name", "rows", "fingerprint"),
) -> None:
    """Raises where the agreement is not signed, or where terms or members (by these parts of them) are not the agreed ones."""
    wrong = agreement.problems()
    if wrong:
        raise InputError(
            f"The agreement does not stand: {'; '.join(wrong)}. `fedvalue agreement show FILE` lists who has signed, and "
            "`fedvalue agreement sign FILE --key KEY` signs it."
        )
    found = list(differences(agreement.job, terms))
    now = {member["name"]: {part: member[part] for part in parts} for member in members}
    agreed = {m["name"]: {k: v for k, v in m.items() if k in parts} for m in agreement.terms["members"]}
    found += differences(agreed, now)
    found += [] if list(agreed) == list(now) else ["the order of the clients"]
    if found:
        more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise InputError(
            f"This {what} is not the one that was agreed. It differs in {'; '.join(found[:_NAMED])}{more}. Run what was "
            "agreed, or make another agreement."
        )


def terms_agreed_for(values: Values, path: Path) -> PayoutTerms | None:
    """How the pot shall be shared out by the agreement beside the values; None where it is not there, or another one."""
    file = (path if path.is_dir() else path.parent) / AGREEMENT_FILE
    if not values.agreement or not file.is_file():
        return None
    agreement = read_agreement(file)
    return agreement.payout if agreement.hash == values.agreement else None


def payout_terms_of(paid: Payout) -> PayoutTerms:
    """The terms of a payout, as an agreement has them."""
    numbers = (str(paid.min_share), str(paid.step), paid.currency, str(paid.pot))
    return PayoutTerms(paid.rule, *numbers, paid.absent_rule, paid.copies_rule)


def not_as_agreed(values: Values, path: Path, paid: Payout, in_percent: bool = False) -> str:
    """A warning where values that were made under an agreement are paid by other terms; otherwise nothing."""
    if not values.agreement:
        return ""
    agreed = terms_agreed_for(values, path)
    if agreed is None:
        return f"The values were made under the agreement {values.agreement}, which is not beside them: whether this is the payout that was agreed is not known."
    now = payout_terms_of(paid)
    if in_percent:
        now = replace(now, pot=agreed.pot, currency=agreed.currency, step=agreed.step)
    other = agreed.differing(now)
    return f"This is not the payout that was agreed: {'; '.join(other)}." if other else ""
