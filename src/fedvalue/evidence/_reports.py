"""Reports and statements in the folder of a run: written again from values and trainings, and compared letter by letter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

from fedvalue._text import one_line
from fedvalue._version import __version__
from fedvalue.agreement import PayoutTerms
from fedvalue.errors import FedvalueError
from fedvalue.evidence._kept import histories
from fedvalue.evidence._pages import Told, is_page, is_statement, kind_of, told_by
from fedvalue.evidence._payouts import shared_out_in
from fedvalue.evidence._run import LeftRun
from fedvalue.evidence._verdict import Check, sound, unchecked, undecided, wrong
from fedvalue.payout import RULES
from fedvalue.report import FORMATS, Cover, Facts, Terms, facts_of, statement_page
from fedvalue.run import RECORD_FILE
from fedvalue.store import History, UtilityStore
from fedvalue.values import Values
from fedvalue.what_if import COPIES_RULES

__all__ = ["reports"]


def reports(run: LeftRun, store: UtilityStore | None, values: Values) -> Iterator[Check]:
    """Every report and every statement must be one that these values and trainings give."""
    files = [
        file for file in (*run.files, *run.below) if is_page(file)
    ]  # whatever it is called, and hidden ones
    if not files:
        return
    if run.record is None and (run.folder / RECORD_FILE).exists():
        yield unchecked("The report", "it cannot be written again without the record of the run")
        return
    known = [*(() if store is None else histories(store, values)), None]  # a report may be written without
    told = {file: told_by(file) for file in files}
    writer = _Writer(run, values, known)
    for file in files:
        name, said = run.called(file), told[file]
        if (other := said.releases - {__version__}) and len(said.releases) == 1:
            yield undecided(name, _of_another_release(run, other))
            continue
        used = next(
            (terms for terms in _ways(run, said, list(told.values())) if writer.gives(file, *terms)), None
        )
        if used is None:
            yield wrong(name, "values and trainings do not give this page, by whatever terms of payout")
        elif run.agreement is not None and (differing := _other_terms(run.agreement.payout, used[0])):
            yield wrong(name, f"it shares out otherwise than agreed: {', '.join(differing)}")
        else:
            yield sound(name, "written again from values and trainings, it is the same to the letter")


def _of_another_release(run: LeftRun, other: frozenset[str]) -> str:
    """Whatever a page claims, the results are not sound by that: somebody has to look with the release it names."""
    (claimed,) = other
    recorded = ((run.record or {}).get("versions") or {}).get("fedvalue")
    run_by = f", and the record of the run names fedvalue {one_line(str(recorded))[:40]}" if recorded else ""
    return (
        f"it says that fedvalue {one_line(claimed)[:40]} wrote it{run_by}; this is {__version__}, which may word it otherwise. "
        "Check it with the release that it names, or have it written again by this one"
    )


class _Writer:
    """Writes pages again; what is needed for one is kept for the others."""

    def __init__(self, run: LeftRun, values: Values, known: Sequence[History | None]) -> None:
        self.run, self.values, self.known = run, values, known
        self.facts: dict[str, Facts | None] = {}
        self.pages: dict[str, frozenset[bytes]] = {}

    def gives(self, file: Path, terms: Terms, cover: Cover | None) -> bool:
        """Whether these terms and this head give the page, with any of the histories that are known."""
        kind, content = kind_of(file), file.read_bytes()
        what = "statement" if is_statement(file) else "report"
        return any(content in self._pages(what, kind, i, terms, cover) for i in range(len(self.known)))

    def _pages(self, what: str, kind: str, i: int, terms: Terms, cover: Cover | None) -> frozenset[bytes]:
        of = repr((i, terms, cover))
        key = f"{what} {kind} {of}"
        if key not in self.pages:
            if of not in self.facts:
                self.facts[of] = self._facts(self.known[i], terms, cover)
            self.pages[key] = frozenset(_written(self.facts[of], what, kind))
        return self.pages[key]

    def _facts(self, history: History | None, terms: Terms, cover: Cover | None) -> Facts | None:
        record: Mapping[str, Any] | None = self.run.record
        try:
            return facts_of(self.values, history, record, terms, (record or {}).get("budget"), cover)
        except FedvalueError:
            return None


def _written(facts: Facts | None, what: str, kind: str) -> Iterator[bytes]:
    if facts is None:
        return
    if what == "report":
        yield FORMATS[kind](facts).encode()
        return
    for one in facts.statements:
        yield statement_page(facts, one, kind).encode()


def _ways(run: LeftRun, said: Told, others: Sequence[Told]) -> Iterator[tuple[Terms, Cover | None]]:
    """By which terms and heads a page may have been written: a text may be by those of any other page."""
    if said.terms is not None:
        yield said.terms, said.cover
        return
    covers = {repr(one.cover): one.cover for one in others if one.cover is not None}
    terms = {
        repr(found): found for found in (*(one.terms for one in others), *_terms(run)) if found is not None
    }
    yield from product(terms.values(), [None, *covers.values()])


def _terms(run: LeftRun) -> Iterator[Terms]:
    """Those of the payouts in the folder, or in percent."""
    anyway = run.values is not None and bool(run.values.warning)
    yield Terms()
    for data in shared_out_in(run):
        told = {name: _text(data, name) for name in ("pot", "currency", "rule")}
        yield Terms(
            **told,
            anyway=anyway,
            absent=_text(data, "absent_rule") or "excluded",
            copies=_text(data, "copies_rule") or "each",
            min_share=_text(data, "min_share") or "0",
            step=_text(data, "round") or "0.01",
        )
    for rule, copies in product(RULES, COPIES_RULES):
        yield Terms(None, "", rule, anyway, copies=copies)
    yield Terms(copies="share")


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
    numbers = {"min_share": (agreed.min_share, used.min_share)}
    if used.pot is not None:
        said["currency"] = agreed.currency, used.currency
        numbers["step"] = agreed.step, used.step
        if agreed.pot is not None:
            numbers["pot"] = agreed.pot, used.pot
    said |= {name: two for name, two in numbers.items() if Decimal(two[0]) != Decimal(two[1])}
    return [f"{name} {now!r} instead of {was!r}" for name, (was, now) in said.items() if was != now]


def _text(data: Mapping[str, Any], name: str) -> str:
    return str(data.get(name, ""))
