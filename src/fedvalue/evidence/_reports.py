"""Reports in the folder of a run: written again from values and trainings, and compared letter by letter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from fedvalue._version import __version__
from fedvalue.agreement import PayoutTerms
from fedvalue.errors import FedvalueError
from fedvalue.evidence._kept import histories
from fedvalue.evidence._payouts import shared_out_in
from fedvalue.evidence._run import LeftRun
from fedvalue.evidence._verdict import Check, sound, unchecked, wrong
from fedvalue.payout import RULES
from fedvalue.report import FORMATS, Cover, Terms, facts_of
from fedvalue.run import RECORD_FILE
from fedvalue.store import History, UtilityStore
from fedvalue.values import Values
from fedvalue.what_if import COPIES_RULES

__all__ = ["is_report", "reports"]

_DATA = re.compile(rb'<script type="application/json" id="fedvalue-report">(.*?)</script>', re.DOTALL)
_TITLE = b"# What the data of "


def is_report(file: Path) -> bool:
    """Whether a file is one that `fedvalue report` writes."""
    if file.suffix == ".html":
        return b'id="fedvalue-report"' in file.read_bytes()
    return file.suffix == ".md" and file.read_bytes().startswith(_TITLE)


def reports(run: LeftRun, store: UtilityStore | None, values: Values) -> Iterator[Check]:
    """Every report must be one that these values and trainings give."""
    files = [file for file in run.files if is_report(file)]
    if not files:
        return
    if run.record is None and (run.folder / RECORD_FILE).exists():
        yield unchecked("The report", "it cannot be written again without the record of the run")
        return
    written_by = ((run.record or {}).get("versions") or {}).get("fedvalue", __version__)
    if written_by != __version__:
        yield unchecked(
            "The report",
            f"it was written by fedvalue {written_by}; this is {__version__}, which words it otherwise",
        )
        return
    known = [*(() if store is None else histories(store, values)), None]  # a report may be written without
    covers = [found.cover for file in files if (found := _told(file)) is not None]
    for file in files:
        content, said = file.read_bytes(), _told(file)
        terms = list(_terms(run)) if said is None else [said.terms]
        heads = [None, *dict.fromkeys(covers)] if said is None else [said.cover]
        kind = file.suffix.lstrip(".")
        ways = product(terms, heads, known)
        fitting = (
            how
            for how, head, history in ways
            if content == _rendered(values, run.record, history, how, kind, head)
        )
        used = next(fitting, None)
        if used is None:
            yield wrong(
                file.name, "values and trainings do not give this report, by whatever terms of payout"
            )
        elif run.agreement is not None and (other := _other_terms(run.agreement.payout, used)):
            yield wrong(file.name, f"it shares out otherwise than agreed: {', '.join(other)}")
        else:
            yield sound(file.name, "written again from values and trainings, it is the same to the letter")


def _other_terms(agreed: PayoutTerms, used: Terms) -> list[str]:
    """A report that was asked for no payout shows parts in percent, which pay nobody."""
    if not used.chosen:
        return []
    told = used.to_dict()
    said = {
        "rule": (agreed.rule, told["rule"] or "floor"),
        "absent": (agreed.absent, told["absent"]),
        "copies": (agreed.copies, told["copies"]),
    }
    if used.pot is not None:
        said["currency"] = agreed.currency, used.currency
        if agreed.pot is not None and Decimal(agreed.pot) != Decimal(used.pot):
            said["pot"] = agreed.pot, used.pot
    return [f"{name} {now!r} instead of {was!r}" for name, (was, now) in said.items() if was != now]


def _rendered(
    values: Values,
    record: Mapping[str, Any] | None,
    history: History | None,
    terms: Terms,
    kind: str,
    cover: Cover | None,
) -> bytes | None:
    try:
        facts = facts_of(values, history, record, terms, (record or {}).get("budget"), cover)
        return FORMATS[kind](facts).encode()
    except FedvalueError:
        return None


class _Told(NamedTuple):
    """What a page says of how it was written."""

    terms: Terms
    cover: Cover


def _told(file: Path) -> _Told | None:
    """A page has its data in itself; a text has not."""
    found = _DATA.search(file.read_bytes())
    if found is None:
        return None
    try:
        data = json.loads(found[1])
        return _Told(Terms(**data["terms"]), Cover(**data["cover"]))
    except (ValueError, KeyError, TypeError, RecursionError, FedvalueError):
        return _Told(Terms(), Cover())  # altered: no page that is written now will be the same


def _terms(run: LeftRun) -> Iterator[Terms]:
    """By which terms a text may have been written: those of the payouts in the folder, or in percent."""
    anyway = run.values is not None and bool(run.values.warning)
    yield Terms()
    for data in shared_out_in(run):
        told = {name: _text(data, name) for name in ("pot", "currency", "rule")}
        yield Terms(
            **told,
            anyway=anyway,
            absent=_text(data, "absent_rule") or "excluded",
            copies=_text(data, "copies_rule") or "each",
        )
    for rule, copies in product(RULES, COPIES_RULES):
        yield Terms(None, "", rule, anyway, copies=copies)


def _text(data: Mapping[str, Any], name: str) -> str:
    return str(data.get(name, ""))
