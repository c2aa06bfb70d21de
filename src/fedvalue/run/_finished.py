"""A run that was carried out, found again by its path: its payout, and the facts of its report.

What is not said of a payout is as agreed, where an agreement lies beside the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedvalue.agreement import PayoutTerms
from fedvalue.errors import InputError
from fedvalue.payout import Payout, payout
from fedvalue.run._agreed import not_as_agreed, terms_agreed_for
from fedvalue.run._folder import find_history, find_store, read_record
from fedvalue.values import Values
from fedvalue.what_if import copies_by

if TYPE_CHECKING:
    from fedvalue.report import Absent, Cover, Facts, Terms
    from fedvalue.store import History

__all__ = ["facts_of_run", "payout_of_run"]

_MOST_COALITIONS = 1 << 17  # beyond, reading them for a page takes minutes and gigabytes


def payout_of_run(
    values: Values,
    path: Path,
    said: Mapping[str, str | None],
    store: Path | None = None,
    anyway: bool = False,
) -> tuple[Payout, str]:
    """The pot shared out by the values at this path, and a warning where it is not the payout that was agreed.

    `said` are terms by their names in `PayoutTerms`, None where nothing was said.
    """
    terms = _agreed(values, path).but(said)
    if terms.pot is None:
        raise InputError(
            "How much is to be shared out? Give --pot AMOUNT: no agreement beside the values names a pot."
        )
    paid = payout(
        values,
        terms.pot,
        terms.rule,
        terms.min_share,
        terms.step,
        terms.currency,
        absent=terms.absent,
        anyway=anyway,
        copies=copies_by(terms.copies, values, lambda: find_history(values, path, store)),
    )
    return paid, not_as_agreed(values, path, paid)


def facts_of_run(
    values: Values,
    path: Path,
    said: Mapping[str, str | None],
    store: Path | None = None,
    anyway: bool = False,
    cover: Cover | None = None,
) -> tuple[Facts, str]:
    """What a report of the values at this path says, and a warning where its payout is not the one that was agreed."""
    from fedvalue.report import Absent, facts_of

    record = _record_of(values, path)
    terms = _report_terms(_agreed(values, path), said, anyway)
    facts = facts_of(
        values, _history_of(values, path, store), record, terms, (record or {}).get("budget"), cover
    )
    if isinstance(facts.payout, Absent):
        return facts, ""
    return facts, not_as_agreed(values, path, facts.payout, in_percent=terms.pot is None)


def _agreed(values: Values, path: Path) -> PayoutTerms:
    return terms_agreed_for(values, path) or PayoutTerms()


def _report_terms(agreed: PayoutTerms, said: Mapping[str, str | None], anyway: bool) -> Terms:
    """Payouts are in percent where no pot is named here, also under an agreement that names one."""
    from fedvalue.report import Terms

    terms = agreed.but(said)
    in_percent = said.get("pot") is None
    usual = said.get("rule") is None and agreed.rule == PayoutTerms().rule  # nobody has asked for a payout
    return Terms(
        pot=None if in_percent else terms.pot,
        currency=(said.get("currency") or "") if in_percent else terms.currency,
        rule=None if usual else terms.rule,
        anyway=anyway,
        absent=terms.absent,
        copies=terms.copies,
        min_share=terms.min_share,
        step=terms.step,
    )


def _record_of(values: Values, path: Path) -> dict[str, Any] | None:
    """The record of this run; that of another one beside the values names a command that would give other values."""
    record = read_record(path)
    if record is None or any(record.get(key) != getattr(values, key) for key in ("game_id", "method")):
        return None
    return record


def _history_of(values: Values, path: Path, store: Path | None) -> History | Absent | None:
    from fedvalue.report import Absent

    if store is None and not find_store(path, None).is_file():
        return None
    try:
        found = find_history(values, path, store, _MOST_COALITIONS)
    except InputError as error:
        if store is not None or path.is_dir():
            raise
        return Absent(str(error))  # values alone, and a store that only happens to be beside them
    return found or Absent(
        f"More than {_MOST_COALITIONS:,} coalitions were trained, too many to look at one by one in a report."
    )
