"""The clients of a report, by rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedvalue.payout import Payout
from fedvalue.report._intervals import bands_of, without_error
from fedvalue.report._parties import paid_with
from fedvalue.report._trained import Absent
from fedvalue.report._words import ranked
from fedvalue.values import Values

__all__ = ["Client", "clients_of"]


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
    rows: int | None = None
    paid_with: str = ""


def clients_of(values: Values, paid: Payout | Absent, rows: Sequence[int] | None) -> tuple[Client, ...]:
    """Every client with its value, its part and its payout, the highest value first."""
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
        clients.append(
            Client(
                i,
                0,
                name,
                float(values.mean[i]),
                *bounds,
                share,
                amount,
                within,
                note,
                parts,
                rows[i] if rows else None,
                paid_with(values, name, paid),
            )
        )
    return tuple(replace(clients[i], rank=rank) for rank, i in enumerate(ranked(values), 1))


def _paid(paid: Payout | Absent, i: int) -> tuple[str | None, str | None, str]:
    if isinstance(paid, Absent):
        return None, None, ""
    line = paid.lines[i]
    within = None
    if line.low is not None and line.high is not None and line.low < line.high:
        within = f"{paid.text(line.low)} – {paid.text(line.high)}"
    return paid.text(line.amount), within, line.note
