"""Everything that a report says, as pure data.

What cannot be shown is `Absent` and says why; nothing is made up to fill a place.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedvalue.audit import Audit
from fedvalue.payout import Payout, doubtful_orders
from fedvalue.report._intervals import PARTS
from fedvalue.report._method import Method
from fedvalue.report._origin import Origin
from fedvalue.report._trained import Absent, Convergence, Growth, Synergy
from fedvalue.values import Values

__all__ = ["Client", "Facts", "Terms"]

_FORMAT = "fedvalue.report/1"
_MOST_CORRELATIONS = 300  # clients: beyond, the correlations of their values alone are megabytes


@dataclass(frozen=True)
class Terms:
    """What is paid out and how. Without a pot, the payout is in percent of whatever the pot will be.

    `anyway`: also by values of a model that has learnt nothing.
    """

    pot: str | None = None
    currency: str = ""
    rule: str | None = None
    anyway: bool = False

    @property
    def chosen(self) -> bool:
        """Whether somebody asked for a payout, who must hear of it when it is impossible."""
        return self.pot is not None or self.rule is not None


@dataclass(frozen=True)
class Client:
    """One client, by rank. None where there is no such number: `low`, `high` without an interval, `share` where
    the values add up to nothing or less, `paid` where nobody is paid. `bands` are how far the interval reaches to either
    side by its first part alone, by the first two, and by all three: coalitions, training, test.
    """

    index: int
    rank: int
    name: str
    value: float
    low: float | None
    high: float | None
    share: float | None
    paid: str | None
    paid_range: str | None
    note: str
    bands: tuple[tuple[str, float], ...] = ()


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

    @property
    def title(self) -> str:
        """The heading of the report."""
        n = len(self.clients)
        return f"What the data of {n:,} client{'' if n == 1 else 's'} is worth"

    @property
    def subtitle(self) -> str:
        """What was valued and how, in a line."""
        return " · ".join([*self.origin.told, f"metric {self.values.metric}", f"method {self.method.name}"])

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
            "verdict": list(self.verdict),
            "advice": self.values.advice(),
            "values": values,
            "payout": _plain(self.payout),
            "audit": _plain(self.audit),
            **{name: asdict(part) for name, part in parts.items()},
            "cost": list(self.cost),
            "run": self.origin.record,
        }


def _plain(part: Payout | Audit | Absent) -> dict[str, Any]:
    if isinstance(part, Absent):
        return asdict(part)
    plain = part.to_dict()
    for finding in plain.get("findings", ()):
        finding.pop("evidence", None)
    return plain
