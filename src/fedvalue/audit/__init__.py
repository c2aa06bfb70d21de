"""Audit: what the trained coalitions show about single clients. Evidence, not accusations."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from fedvalue._checks import between, checked_call, expect
from fedvalue._html import as_printed
from fedvalue._text import plural
from fedvalue.audit._findings import Case, Comparison, Finding, find
from fedvalue.audit._known import Known
from fedvalue.audit._outlook import counted, empty_statement, noise_statement, not_assessed, outlook, ranking
from fedvalue.audit._write import (
    absent_text,
    as_html,
    as_markdown,
    brief_lines,
    chance_text,
    change_text,
    coalition_text,
    evidence_rows,
    general_lines,
    summary,
)
from fedvalue.errors import InputError
from fedvalue.store import History, UtilityStore, read_history
from fedvalue.values import Values, expect_shapley

__all__ = [
    "Audit",
    "Comparison",
    "Finding",
    "absent_text",
    "audit",
    "brief_lines",
    "chance_text",
    "change_text",
    "coalition_text",
    "evidence_rows",
    "general_lines",
    "summary",
]

_FORMAT = "fedvalue.audit/1"
_NAMED = 6  # clients in a sentence


@dataclass(frozen=True)
class Audit:
    """Findings about clients, each with its evidence, and what can be said about all values together.

    `counted` says which luck the intervals hold that findings go by, `empty` what v(∅) is and how it was fixed.
    `level` bounds the chance that an audit of a run without such clients has any finding about them at all.
    `below_zero` are clients with a value below zero that are not called harmful, and what all reach without them: those of
    whom nothing can be concluded, and those with whom all together reach more (these have a p-value). `absent` are clients of whom nothing is known, and why.

    >>> import fedvalue as fv
    >>> table = [0.0, 1.0, 1.0, 1.5, 1.2, 1.7, 1.8, 2.1] * 2  # the last changes nothing
    >>> utilities = {mask: [utility] for mask, utility in enumerate(table)}
    >>> found = audit(fv.value(table, "exact"), utilities)
    >>> [(finding.kind, finding.clients) for finding in found.findings]
    [('no contribution', ('client-3',))]
    >>> found.verdict
    '1 finding. Not everything could be checked: see below.'
    """

    findings: tuple[Finding, ...]
    ranking: str
    noise: str
    outlook: str
    not_assessed: tuple[str, ...]
    level: float
    tests: Mapping[str, int]
    coalitions: int
    clients: int
    method: str
    game_id: str
    absent: Mapping[str, str] = field(default_factory=dict)
    counted: str = ""
    empty: str = ""
    below_zero: tuple[Finding, ...] = ()

    @property
    def verdict(self) -> str:
        """What the tests came to, and no more than that."""
        checked = "" if not self.not_assessed else " Not everything could be checked: see below."
        if self.findings:
            return f"{plural(len(self.findings), 'finding')}.{checked}"
        below = ", ".join(finding.clients[0] for finding in self.below_zero[:_NAMED])
        more = f" and {len(self.below_zero) - _NAMED} more" if len(self.below_zero) > _NAMED else ""
        if below:
            return f"No test singled out a client, but these are below zero: {below}{more}.{checked}"
        return f"No test singled out a client.{checked}"

    @property
    def rate(self) -> str:
        """The false-alarm rate in words."""
        return (
            f"False alarms: if no client is of the kinds tested for, at most {self.level:.0%} of such audits name "
            f"one, provided that the intervals of the values hold{self.counted} ({sum(self.tests.values()):,} tests, adjusted for their number)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"format": _FORMAT, **asdict(self), "rate": self.rate, "tests": dict(self.tests)}

    def __str__(self) -> str:
        """Findings, then what holds for all, sentence by sentence."""
        found = [
            f"{finding.statement} ({chance_text(finding)})" for finding in (*self.findings, *self.below_zero)
        ]
        return "\n".join([*([] if self.findings else [self.verdict]), *found, *general_lines(self)])

    def _repr_html_(self) -> str:
        """The findings as a table, as notebooks show them."""
        return as_html(self)

    _repr_pretty_ = as_printed

    def to_markdown(self) -> str:
        """The audit as a page: findings with their evidence, then what holds for all."""
        return as_markdown(self)


@checked_call
def audit(
    values: Values,
    utilities: Mapping[int, Sequence[float]] | None = None,
    prints: Mapping[int, Hashable] | None = None,
    level: float = 0.05,
    more: int | None = None,
    *,
    seeds: Mapping[int, Sequence[int]] | None = None,
    store: UtilityStore | str | PathLike[str] | None = None,
) -> Audit:
    """Looks for clients that add nothing, are interchangeable, do harm, or depend on one other client.

    `store` is the one that the values were made with. Instead of it, `utilities` are those of all trained
    coalitions by bitmask, one number per replicate, and `prints` whatever tells trained models apart better than
    their utility does, such as all their metrics. Of values over several seeds, `seeds` are the numbers of those that the
    utilities are of, in the same order, and the prints of a coalition are a tuple; two coalitions are compared within
    one seed. `more`: how many further trainings to look ahead to; as many
    again where nothing is said.

    >>> import tempfile
    >>> import fedvalue as fv
    >>> store = tempfile.mkdtemp() + "/store.db"
    >>> table = [0.0, 1.0, 1.0, 2.0, 0.0, 1.0, 1.0, 2.0]
    >>> found = audit(fv.value(table, "exact", store=store), store=store)
    >>> [(finding.kind, finding.clients) for finding in found.findings]
    [('no contribution', ('client-2',))]
    """
    expect("values", values, Values, "fv.Values", "fv.value and fv.run give them.")
    expect_shapley(values, "An audit")
    between("The level", level, 0, 1)
    if not np.isfinite(values.mean).all():
        raise InputError("Every value must be a finite number. Value the clients again.")
    if (utilities is None) == (store is None):
        raise InputError("An audit needs the trainings behind the values: give it their store, or utilities.")
    if utilities is None:
        history = _history(values, store)
        utilities, prints, seeds = history.utilities, history.prints, history.seeds
    expect("utilities", utilities, Mapping, "a dict from bitmasks to lists of numbers")
    known = Known.of(values.n, utilities, prints, seeds if values.seeds > 1 else None)
    case = Case.of(values, known)
    findings, below_zero, tests = find(case, level)
    return Audit(
        findings=findings,
        ranking=ranking(case),
        noise=noise_statement(case),
        outlook=outlook(values, more),
        not_assessed=not_assessed(case),
        level=level,
        tests=tests,
        coalitions=known.coalitions,
        clients=values.n,
        method=values.method,
        game_id=values.game_id,
        absent=dict(values.absent),
        counted=counted(values),
        empty=empty_statement(values),
        below_zero=below_zero,
    )


def _history(values: Values, store: UtilityStore | str | PathLike[str] | None) -> History:
    if isinstance(store, UtilityStore):
        return read_history(store, values)
    assert store is not None
    with UtilityStore(store, create=False) as opened:
        return read_history(opened, values)
