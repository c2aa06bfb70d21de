"""Everything that a report says, as pure data.

What cannot be shown is `Absent` and says why; nothing is made up to fill a place.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedvalue._text import count, one_line, plural, shortened
from fedvalue.audit import Audit
from fedvalue.outcome import UTILITY
from fedvalue.payout import AbsentRule, Payout, doubtful_orders
from fedvalue.report._clients import Client
from fedvalue.report._cover import Cover
from fedvalue.report._incidents import Incident
from fedvalue.report._intervals import PARTS
from fedvalue.report._method import Method
from fedvalue.report._origin import Origin
from fedvalue.report._parties import Group, groups_of, shared_line
from fedvalue.report._sensitivity import Sensitivity
from fedvalue.report._statement import Statement
from fedvalue.report._trained import Absent, Convergence, Growth, Synergy
from fedvalue.report._words import NAME
from fedvalue.values import Values

__all__ = ["Facts", "Terms"]

_FORMAT = "fedvalue.report/1"
_MOST_CORRELATIONS = 300  # clients: beyond, the correlations of their values alone are megabytes


@dataclass(frozen=True)
class Terms:
    """What is paid out and how. Without a pot, the payout is in percent of whatever the pot will be.

    `anyway`: also by values of a model that has learnt nothing. `absent` is the rule for absent clients, `copies` the one
    for interchangeable clients, `min_share` the smallest part of whoever is paid, and `step` what amounts are multiples of.
    """

    pot: str | None = None
    currency: str = ""
    rule: str | None = None
    anyway: bool = False
    absent: str | AbsentRule = "excluded"
    copies: str = "each"
    min_share: str = "0"
    step: str = "0.01"

    @property
    def chosen(self) -> bool:
        """Whether somebody asked for a payout, who must hear of it when it is impossible."""
        return self.pot is not None or self.rule is not None or self.absent != "excluded"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: `Terms(**data)` are the same, where an earlier period can still be read."""
        rule = self.absent.text if isinstance(self.absent, AbsentRule) else self.absent
        told = vars(self) | {"absent": rule}
        usual = {"min_share": "0", "step": "0.01"}  # pages of earlier releases do not tell them
        return {name: value for name, value in told.items() if (name, value) not in usual.items()}


@dataclass(frozen=True)
class Facts:
    """A whole report. `decimals` are those that values are shown with."""

    verdict: tuple[str, ...]
    clients: tuple[Client, ...]
    decimals: int
    interval_note: str
    payout: Payout | Absent
    unit: str
    growth: Growth | Absent
    synergy: Synergy | Absent
    convergence: Convergence | Absent
    audit: Audit | Absent
    method: Method
    cost: tuple[str, ...]
    origin: Origin
    values: Values
    version: str
    cover: Cover
    statements: tuple[Statement, ...]
    sensitivity: Sensitivity | Absent
    incidents: tuple[Incident, ...]
    rules: tuple[tuple[str, str], ...]
    agreement: str
    terms: Terms

    @property
    def title(self) -> str:
        """The heading of the report."""
        n = len(self.clients)
        if self.cover.consortium:
            return one_line(self.cover.consortium)
        return f"What the data of {n:,} client{'' if n == 1 else 's'} is worth"

    @property
    def subtitle(self) -> str:
        """What this is about, in a line."""
        n = plural(len(self.clients), "client")
        about = (
            f"What the data of {n} adds to the {shortened(self.values.metric, NAME)} of their common model"
        )
        return about if self.values.metric != UTILITY else f"What each of {n} adds"

    @property
    def heading(self) -> tuple[tuple[str, str], ...]:
        """Labels and texts for the head of the page: what is not its title already."""
        said = [row for row in self.cover.rows if row[0] != "Consortium"]
        if not self.cover.date and self.origin.until:
            said.append(("Trained until", self.origin.until[:10]))
        if not isinstance(self.payout, Absent) and self.unit != "%":
            said.append(("Pot", self.money(self.payout.text(self.payout.pot))))
        trained = f" with {plural(self.rows, 'row')}" if self.rows is not None else ""
        said.append(("Clients", f"{count(len(self.clients))}{trained}"))
        tested = f" on {plural(self.values.test_rows, 'test row')}" if self.values.test_rows else ""
        said.append(("Measured by", f"{shortened(self.values.metric, NAME)}{tested}"))
        return tuple(said)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Groups that are paid as one party."""
        return groups_of(self.values, self.payout)

    @property
    def shared(self) -> str:
        """What it means that copies share one part, where some do."""
        return shared_line(self.payout)

    @property
    def sum(self) -> float:
        """Of all values: what all clients together are worth."""
        return float(self.values.mean.sum())

    @property
    def rows(self) -> int | None:
        """How many rows all clients together trained on."""
        known = [client.rows for client in self.clients if client.rows is not None]
        return sum(known) if known else None

    def money(self, amount: str) -> str:
        """An amount with its unit."""
        return f"{amount}%" if self.unit == "%" else f"{amount} {one_line(self.unit)}".rstrip()

    @property
    def payout_unit(self) -> str:
        """What payouts are in, for the head of a table."""
        return "% of the pot" if self.unit == "%" else self.unit

    @property
    def payout_lines(self) -> list[str]:
        """How the payout follows from the values, and how certain it is."""
        if isinstance(self.payout, Absent):
            return []
        return [*self.payout.policy, self.payout.stability.statement, *doubtful_orders(self.payout)]

    @property
    def parts(self) -> dict[str, str]:
        """The parts of the error that intervals hold, in words."""
        known = {name for client in self.clients for name, _ in client.bands}
        return {name: text for name, text in PARTS.items() if name in known}

    @property
    def lower_is_better(self) -> bool:
        """Whether utilities are the negative of the metric."""
        return not self.values.higher_is_better

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. The coalitions behind the audit's findings are in `fedvalue audit --json`."""
        values = self.values.to_dict()
        if self.values.n > _MOST_CORRELATIONS:
            values.pop("correlation", None)
        parts = {"growth": self.growth, "synergy": self.synergy, "convergence": self.convergence}
        return {
            "format": _FORMAT,
            "fedvalue": self.version,
            "cover": asdict(self.cover),
            "verdict": list(self.verdict),
            "advice": self.values.advice(),
            "values": values,
            "payout": _plain(self.payout),
            "audit": _plain(self.audit),
            **{name: asdict(part) for name, part in parts.items()},
            "sensitivity": _plain(self.sensitivity),
            "incidents": [asdict(incident) for incident in self.incidents],
            "rows": [client.rows for client in sorted(self.clients, key=lambda client: client.index)],
            "cost": list(self.cost),
            "run": self.origin.record,
            "terms": self.terms.to_dict(),  # with them, somebody else can write the same page
        }


def _plain(part: Payout | Audit | Sensitivity | Absent) -> dict[str, Any]:
    if isinstance(part, Absent):
        return asdict(part)
    plain = part.to_dict()
    for finding in (*plain.get("findings", ()), *plain.get("below_zero", ())):
        finding.pop("evidence", None)
    return plain
