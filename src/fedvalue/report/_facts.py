"""Everything that a report says, gathered once: pure data from values, trainings and the record of the run.

What cannot be shown is `Absent` and says why; nothing is made up to fill a place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from fedvalue._version import __version__
from fedvalue.audit import Audit, audit
from fedvalue.coalitions import full_mask
from fedvalue.errors import InputError
from fedvalue.payout import Payout, doubtful_orders, payout
from fedvalue.report._origin import Origin, origin_of
from fedvalue.report._trained import (
    Absent,
    Convergence,
    Growth,
    Synergy,
    converge,
    grow,
    pair_up,
)
from fedvalue.report._words import (
    PARTS,
    Ends,
    Method,
    bands_of,
    cost_lines,
    decimals_of,
    interval_note,
    method_of,
    ranked,
    verdict,
    without_error,
)
from fedvalue.store import History
from fedvalue.values import Values

__all__ = ["Client", "Facts", "Terms", "gather"]

_FORMAT = "fedvalue.report/1"
_MOST_CORRELATIONS = 300  # clients: beyond, the correlations of their values alone are megabytes
_DEFAULT_RULE = "floor"


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
    terms: Terms = field(default_factory=Terms)

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
            "terms": asdict(self.terms),  # with them, somebody else can write the same page
        }


def gather(
    values: Values,
    trainings: History | Absent | None = None,
    record: Mapping[str, Any] | None = None,
    terms: Terms | None = None,
    guarantee: Sequence[str] = (),
) -> Facts:
    """All facts of a run. `record` is what run.json holds, `guarantee` what the method promised in words.

    >>> facts = gather(Values([0.2, 0.6], ("a", "b"), "exact", 4, guarantee="exact"))
    >>> [(client.rank, client.name, client.paid) for client in facts.clients]
    [(1, 'b', '75.00'), (2, 'a', '25.00')]
    """
    _check(values)
    terms = terms or Terms()
    if trainings is None:
        trainings = Absent(
            "This needs the trainings behind the values. Name their store if there is one (--store, or store= in Python)."
        )
    utilities = {} if isinstance(trainings, Absent) else _means(trainings, values.n)
    looked = trainings if isinstance(trainings, Absent) else _audit(values, trainings)
    paid = _payout(values, terms)
    ends = _ends(values, utilities)
    absent = trainings if isinstance(trainings, Absent) else None
    return Facts(
        verdict=verdict(values, ends, looked),
        clients=_clients(values, paid),
        decimals=decimals_of(values),
        interval_note=interval_note(values),
        payout=paid,
        unit="%" if terms.pot is None else terms.currency,
        growth=absent or grow(utilities),
        synergy=absent or pair_up(values.n, *_by_seed(values, trainings, utilities)),
        convergence=absent or converge(values, utilities),
        audit=looked,
        method=method_of(values, guarantee),
        cost=cost_lines(values, None if isinstance(trainings, Absent) else trainings),
        origin=origin_of(values, record, None if isinstance(trainings, Absent) else trainings),
        values=values,
        version=__version__,
        terms=terms,
    )


def _check(values: Values) -> None:
    if values.n == 0:
        raise InputError("There are no clients in these values: there is nothing to report.")
    for what, numbers in (("value", values.mean), ("standard error", values.stderr)):
        bad = [] if numbers is None else np.flatnonzero(~np.isfinite(numbers)).tolist()
        if bad:
            raise InputError(
                f"Every {what} must be a finite number. That of {values.names[bad[0]]!r} is not. Value the clients again."
            )


def _means(trainings: History, n: int) -> dict[int, float]:
    """The utility of every coalition, in the order of training. Replicates that are missing are left out."""
    if any(not 0 <= mask <= full_mask(n) for mask in trainings.utilities):
        raise InputError(f"A trained coalition names clients beyond the {n} of these values.")
    means = {mask: float(np.mean(seen)) for mask, seen in trainings.utilities.items()}
    if not all(math.isfinite(utility) for utility in means.values()):
        raise InputError("Every utility must be a finite number. There is a training whose utility is not.")
    return means


def _by_seed(
    values: Values, trainings: History | Absent | None, means: Mapping[int, float]
) -> list[Mapping[int, float]]:
    """Utilities that can be compared with each other: those of one seed each, v(∅) among all of them."""
    if isinstance(trainings, Absent) or trainings is None or values.seeds == 1:
        return [means]
    tables: dict[int, dict[int, float]] = {}
    for mask, seeds in trainings.seeds.items():
        for seed, utility in zip(seeds, trainings.utilities[mask], strict=True):
            tables.setdefault(seed, {})[mask] = utility
    empty = {} if 0 not in means else {0: means[0]}
    return [{**table, **empty} for table in tables.values()]


def _audit(values: Values, trainings: History) -> Audit:
    return audit(values, trainings.utilities, trainings.prints, seeds=trainings.seeds)


def _payout(values: Values, terms: Terms) -> Payout | Absent:
    rule = terms.rule or _DEFAULT_RULE
    try:
        if terms.pot is None:
            return payout(values, 100, rule, currency="%", anyway=terms.anyway)
        return payout(values, terms.pot, rule, currency=terms.currency, anyway=terms.anyway)
    except InputError as error:
        if terms.chosen:
            raise
        return Absent(str(error))


def _ends(values: Values, utilities: Mapping[int, float]) -> Ends | None:
    """What the untrained model and all clients reach, in the metric itself and not its negative."""
    none, all_ = values.utility_of_none, values.utility_of_all
    if none is None or all_ is None:
        none, all_ = utilities.get(0), utilities.get(full_mask(values.n))
    if none is None or all_ is None:
        return None
    return Ends(values.sign * none, values.sign * all_)


def _clients(values: Values, paid: Payout | Absent) -> tuple[Client, ...]:
    interval = None if without_error(values) else values.interval(0.95)
    shares, bands = values.share, bands_of(values)
    adds_up = values.mean.sum() > 0  # parts of a loss would look like merits
    clients = []
    for i, name in enumerate(values.names):
        low, high = (None, None) if interval is None else (float(x) for x in interval[i])
        known = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
        share = float(shares[i]) if adds_up and math.isfinite(shares[i]) else None
        bounds = (low, high) if known else (None, None)
        amount, within, note = _paid(paid, i)
        parts = bands[i] if known else ()
        clients.append(Client(i, 0, name, float(values.mean[i]), *bounds, share, amount, within, note, parts))
    return tuple(replace(clients[i], rank=rank) for rank, i in enumerate(ranked(values), 1))


def _paid(paid: Payout | Absent, i: int) -> tuple[str | None, str | None, str]:
    if isinstance(paid, Absent):
        return None, None, ""
    line = paid.lines[i]
    within = None
    if line.low is not None and line.high is not None and line.low < line.high:
        within = f"{paid.text(line.low)} – {paid.text(line.high)}"
    return paid.text(line.amount), within, line.note


def _plain(part: Payout | Audit | Absent) -> dict[str, Any]:
    if isinstance(part, Absent):
        return asdict(part)
    plain = part.to_dict()
    for finding in plain.get("findings", ()):
        finding.pop("evidence", None)
    return plain
