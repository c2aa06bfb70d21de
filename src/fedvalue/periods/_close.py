"""Closing a period: the job is given what earlier periods fixed, run, paid out, and written down."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from fedvalue._files import json_ready, json_text, write_file, write_json
from fedvalue.agreement import Agreement, PayoutTerms
from fedvalue.errors import InputError
from fedvalue.games import FederatedGame
from fedvalue.payout import payout
from fedvalue.periods._accounts import refuse_strangers, said_the_same
from fedvalue.periods._balances import Balances, check_terms, settle
from fedvalue.periods._entry import Member, Money, Period
from fedvalue.periods._folder import (
    PREPROCESSING_FILE,
    SEALED,
    STORE_FILE,
    check_name,
    digest_of,
    previous_seal,
)
from fedvalue.periods._members import Attendance, Client, attend, clients_of
from fedvalue.periods._store import history_of, refuse_altered_store
from fedvalue.periods._terms import refuse_other_terms, terms_of
from fedvalue.run import AGREEMENT_FILE, Job, read_values, sparing
from fedvalue.scenarios import Scale, Scenario, preprocessing_of
from fedvalue.store import History, UtilityStore
from fedvalue.values import Values
from fedvalue.what_if import check_copies, copies_by

__all__ = ["Begun", "Terms", "begin", "carried", "entry_of", "keys_of", "settled"]

_OPEN_FILE = "open.json"


@dataclass(frozen=True)
class Terms:
    """How a pot is paid out. Without a pot only values are written down, and balances stay as they are."""

    pot: Any = None
    currency: str = ""
    rule: str = "floor"
    min_share: Any = 0
    step: Any = "0.01"
    debts: str = "forgive"
    escrow: Collection[str] = ()
    release: Collection[str] = ()
    anyway: bool = False
    copies: str = "each"


@dataclass(frozen=True)
class Begun:
    """A period that is about to be closed: its members, and what fixes its values besides them.

    `keys` are the public keys of clients by name, `absent` those who have no value, with the reason. `scenario` is what was learnt
    from, where the rows are here.
    """

    name: str
    clients: Sequence[Client]
    attendance: Attendance
    terms: Mapping[str, Any]
    closed: Sequence[Period] = field(default=())
    same: Collection[str] = ()
    agreed: Agreement | None = None
    groups: Mapping[str, Sequence[str]] | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    scenario: Scenario | None = None


def begin(
    folder: Path,
    name: str,
    job: Job,
    closed: Sequence[Period],
    renamed: Mapping[str, str],
    new_terms: bool,
    same: Collection[str],
) -> tuple[Begun, Job]:
    """The period, and its job with the folder's store and what was learnt from the members of the first period."""
    check_name(name, closed)
    if job.store is not None or job.out is not None:
        raise InputError("Leave store and out to the periods: all trainings are kept in their folder.")
    refuse_altered_store(folder, closed)
    fixed = {} if new_terms or not closed else _fixed(folder, job, closed[-1])
    fixed |= {} if job.period else {"period": name}
    given = replace(job, **fixed, out=folder / name, store=folder / STORE_FILE, overwrite=True)
    game = given.prepared.game
    terms = terms_of(given)
    clients = clients_of(game.scenario)
    attendance = attend(clients, closed, renamed)
    said_the_same(attendance, same)
    if closed and not new_terms:
        refuse_other_terms(terms, game.names, closed[-1], attendance.was)
    _rename(folder / STORE_FILE, game)
    decided = _decided(folder / name, given, attendance.new)
    begun = Begun(name, clients, attendance, terms, closed, same, job.agreed, job.groups, keys_of(job.agreed))
    return replace(begun, scenario=game.scenario), decided


def keys_of(agreed: Agreement | None) -> dict[str, str]:
    """The public keys of members by name."""
    return {} if agreed is None else {party.name: party.key for party in agreed.members}


def _rename(file: Path, game: FederatedGame) -> None:
    """The same clients may have been there before under other names: that is written down period by period."""
    if file.exists():
        with UtilityStore(file) as store:
            described = store.descriptions().get(game.id, {})
            if described.get("names") not in (None, list(game.names)):
                store.rename(game.id, game.names)


def _fixed(folder: Path, job: Job, last: Period) -> dict[str, Any]:
    """What a job takes over from the period before: the preprocessing of files, or the scale of targets."""
    if isinstance(job.scenario, Scenario):
        if last.target is None or job.scenario.classes:
            return {}
        return {"scenario": replace(job.scenario, target_scale=Scale(*last.target))}
    file = folder / PREPROCESSING_FILE
    if last.preprocessing is None or "preprocessing" in job.scenario_options:
        return {}
    if digest_of(file) != last.preprocessing:
        raise InputError(f"{file} was altered since {last.name} was closed. Restore it from a copy.")
    return {"scenario_options": {**job.scenario_options, "preprocessing": str(file)}}


def _decided(out: Path, job: Job, new: Sequence[str]) -> Job:
    """The plan is decided once: what a run that was stopped has trained meanwhile must not change it."""
    file, key = out / _OPEN_FILE, json.loads(json.dumps(json_ready(job.identity())))
    try:
        begun = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        begun = {}
    if (
        isinstance(begun, dict)
        and begun.get("job") == key
        and begun.get("clients") == list(job.prepared.game.names)
    ):
        found = begun.get("new")
        return replace(job, options={**job.options, "new": found}) if found else job
    decided = sparing(job, new)
    out.mkdir(parents=True, exist_ok=True)
    spared = decided.options.get("new") if decided is not job else None
    write_json(file, {"job": key, "clients": list(job.prepared.game.names), "new": spared})
    return decided


def carried(folder: Path, begun: Begun, terms: Terms) -> Balances:
    """What is carried over into the period. Terms of payout that cannot be are refused here, before anything is trained."""
    before = begun.closed[-1].balances if begun.closed else Balances()
    before = before.renamed({old: new for new, old in begun.attendance.was.items()})
    refuse_strangers(begun.clients, begun.attendance, begun.keys, begun.closed, before, begun.same)
    if terms.pot is not None:
        check_terms(
            terms.rule, terms.debts, terms.escrow, terms.release, list(begun.attendance.status), before
        )
        as_pot(terms.pot)
        check_copies(terms.copies, begun.groups)
        _refuse_unagreed(begun.agreed, terms, begun.absent)
        _refuse_paid(folder, begun.agreed, begun.closed)
        currency = next(
            (p.money.currency for p in reversed(begun.closed) if p.money is not None), terms.currency
        )
        if currency != terms.currency:
            raise InputError(
                f"Balances are carried over in {currency}. Got {terms.currency or 'no currency'!r}."
            )
    return before


def _refuse_unagreed(agreement: Agreement | None, terms: Terms, absent: Collection[str]) -> None:
    """What the members have signed binds the payout, too. Debts and escrow are in no agreement."""
    if agreement is None:
        return
    agreed = agreement.payout
    # A period excludes who is absent. Where nobody is, the rule for absent clients is kept whatever it is.
    numbers = (str(terms.min_share), str(terms.step), terms.currency, str(terms.pot))
    other = agreed.differing(
        PayoutTerms(terms.rule, *numbers, "excluded" if absent else agreed.absent, terms.copies)
    )
    other += [] if terms.debts == "forgive" else [f"debts {terms.debts!r}, of which it says nothing"]
    other += [f"escrow for {', '.join(terms.escrow)}, of which it says nothing"] if terms.escrow else []
    if other:
        raise InputError(
            f"This payout is not the one that was agreed: {'; '.join(other)}. Pay out as agreed, or make another agreement."
        )


def _refuse_paid(folder: Path, agreement: Agreement | None, closed: Sequence[Period]) -> None:
    """What was signed once is paid once."""
    for period in closed if agreement is not None else ():
        under = read_values(folder / period.name).agreement if AGREEMENT_FILE in period.files else ""
        if agreement is not None and period.money is not None and under == agreement.hash:
            raise InputError(
                f"The period {period.name} was paid by this agreement already, and nobody is paid twice by it. Have the members "
                "sign another one for this period."
            )


def as_pot(pot: Any) -> Decimal:
    """The pot as it is written."""
    try:
        exact = Decimal(str(pot))
    except ArithmeticError:
        exact = Decimal("nan")
    if not exact.is_finite() or exact <= 0:
        raise InputError(f"The pot must be a plain number above 0 such as 1000. Got {pot!r}.")
    return exact


def settled(values: Values, terms: Terms, before: Balances, history: Callable[[], History]) -> Money | None:
    """The period in money; None without a pot. Where copies share one part, the trainings say who they are."""
    if terms.pot is None:
        return None
    pot = as_pot(terms.pot)
    copies = copies_by(terms.copies, values, history)
    shares = payout(
        values,
        pot + before.reserve,
        terms.rule,
        terms.min_share,
        terms.step,
        terms.currency,
        anyway=terms.anyway,
        copies=copies,
    )
    escrow, release = tuple(terms.escrow), tuple(terms.release)
    settlement = settle(shares, pot, before, terms.debts, escrow, release)
    return Money(
        terms.rule, str(terms.min_share), str(terms.step), terms.currency, terms.debts, escrow, release, terms.anyway,
        terms.copies, settlement,
    )  # fmt: skip


def entry_of(folder: Path, begun: Begun, values: Values, terms: Terms, before: Balances) -> Period:
    """What is written down of a period that was run, given what is carried over."""
    money = settled(values, terms, before, lambda: history_of(folder, begun.name, values))
    interval = values.interval()
    attendance = said_the_same(begun.attendance, begun.same)
    members = tuple(
        Member(
            name,
            attendance.status[name],
            data,
            rows,
            float(values.mean[i]),
            None if interval is None else float(interval[i, 0]),
            None if interval is None else float(interval[i, 1]),
            begun.attendance.was.get(name),
            begun.keys.get(name, ""),
        )
        for i, (name, data, rows) in enumerate(begun.clients)
    )
    scenario, out, cost = begun.scenario, folder / begun.name, values.cost
    learnt = None if scenario is None or scenario.classes else (scenario.scale.centre, scenario.scale.spread)
    return Period(
        number=len(begun.closed) + 1,
        name=begun.name,
        closed=datetime.now(UTC).isoformat(timespec="seconds"),
        previous=previous_seal(begun.closed),
        terms=begun.terms,
        members=members,
        left=begun.attendance.left,
        metric=values.metric,
        method=values.method,
        guarantee=values.guarantee,
        game_id=values.game_id,
        utility_of_none=values.utility_of_none,
        utility_of_all=values.utility_of_all,
        trained=0 if cost is None else cost.trained,
        known=0 if cost is None else cost.reused,
        files={name: digest_of(out / name) for name in SEALED if (out / name).exists()},
        preprocessing=None if scenario is None else _kept(folder, scenario),
        target=learnt,
        money=money,
        balances=before if money is None else money.settlement.after,
        absent=begun.absent,
    )


def _kept(folder: Path, scenario: Scenario) -> str | None:
    """What was learnt from files is kept beside the periods; its digest is a part of each."""
    learnt = preprocessing_of(scenario)
    if learnt is None:
        return None
    file = folder / PREPROCESSING_FILE
    text = json_text(learnt).encode()
    if not file.exists() or file.read_bytes() != text:
        with write_file(file) as written:
            written.write(text)
    return digest_of(file)
