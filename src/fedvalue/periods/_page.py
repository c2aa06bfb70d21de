"""The history as one page that works offline: values over the periods, money, members, and what had to be trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from fedvalue._text import minute, plural
from fedvalue._version import __version__
from fedvalue.periods._balances import Line
from fedvalue.periods._entry import Member, Period
from fedvalue.report import page_environment, style_sheet

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["page"]

_HEIGHT, _MARGIN = 84, 8  # of a chart, in pixels


class Dot(NamedTuple):
    """One value in a chart: places across in per cent, down in pixels."""

    across: float
    down: float
    top: float | None
    bottom: float | None
    label: str


class Chart(NamedTuple):
    """The values of one client over all periods; a line joins periods that follow each other."""

    name: str
    dots: list[Dot]
    lines: list[tuple[Dot, Dot]]
    zero: float
    said: str


class Table(NamedTuple):
    """A period in money: columns in which there is anything, a row for each client, and the sums."""

    period: Period
    headings: list[str]
    rows: list[tuple[str, float, list[str]]]
    totals: list[str]


_COLUMNS: tuple[tuple[str, Callable[[Line], Decimal]], ...] = (
    ("Earned", lambda line: line.earned),
    ("Held against debts", lambda line: line.held),
    ("Into escrow", lambda line: line.to_escrow),
    ("Released", lambda line: line.released),
    ("Paid", lambda line: line.paid),
    ("New debt", lambda line: line.owes),
    ("Debt carried over", lambda line: line.after.debt),
    ("In escrow", lambda line: line.after.escrow),
)
_ALWAYS = ("Earned", "Paid")


def page(closed: Sequence[Period]) -> str:
    """The page. The same periods give the same bytes."""
    names = list(dict.fromkeys(member.name for period in closed for member in period.members))
    return _environment().get_template("history.html.j2").render(
        closed=closed,
        tables=[table for period in reversed(closed) for table in _in_money(period)],
        names=names,
        minute=minute,
        charts=_charts(closed, names),
        height=_HEIGHT,
        verdict=list(_verdict(closed)),
        style=style_sheet(),
        version=__version__,
        title=f"{plural(len(closed), 'period')}, {closed[0].name} to {closed[-1].name}" if closed else "No period is closed",
    )  # fmt: skip


def _verdict(closed: Sequence[Period]) -> Sequence[str]:
    if not closed:
        return ["Nothing is written down yet."]
    last = closed[-1]
    best = max(last.members, key=lambda member: member.value)
    found = [
        f"{last.name}: {plural(len(last.members), 'client')}; {best.name} is worth most ({best.value:+.4f} {last.metric})."
    ]
    below = [member.name for member in last.members if member.value < 0]
    found += (
        [f"Below zero: {', '.join(below[:6])}{f' and {len(below) - 6} more' if len(below) > 6 else ''}."]
        if below
        else []
    )
    changes = [
        f"{member.name} {_DID.get(member.status, member.status)}"
        for member in last.members
        if member.status != "stayed"
    ]
    changes += [f"{name} left" for name in last.left]
    changes += [f"{name} was absent" for name in last.absent]
    found += [f"Since the period before: {', '.join(changes)}."] if changes and len(closed) > 1 else []
    found.append(
        f"{plural(last.trained, 'training')} for it; {last.known or 'none'} known from earlier periods or runs."
    )
    if last.money is not None:
        total = sum((line.paid for line in last.money.settlement.lines), Decimal(0))
        found.append(f"Paid out: {total:,f} {last.money.currency}".rstrip() + ".")
    return found


_DID = {"changed": "has other rows than before"}


def _in_money(period: Period) -> Iterator[Table]:
    if period.money is None:
        return
    lines = period.money.settlement.lines
    used = [(title, of) for title, of in _COLUMNS if title in _ALWAYS or any(of(line) for line in lines)]
    rows = [
        (line.name, line.share, [f"{of(line):,f}" if of(line) else "–" for _, of in used]) for line in lines
    ]
    yield Table(
        period,
        [title for title, _ in used],
        rows,
        [f"{sum((of(line) for line in lines), Decimal(0)):,f}" for _, of in used],
    )


def _charts(closed: Sequence[Period], names: Sequence[str]) -> list[Chart]:
    ends = [0.0]
    for period in closed:
        for member in period.members:
            ends += [end for end in (member.value, member.low, member.high) if end is not None]
    low, high = min(ends), max(ends)
    span = (high - low) or 1.0

    def down(value: float) -> float:
        return round(_MARGIN + (high - value) / span * (_HEIGHT - 2 * _MARGIN), 1)

    charts = []
    for name in names:
        by_period = [next((m for m in period.members if m.name == name), None) for period in closed]
        dots: list[Dot | None] = [
            None if member is None else _dot(k, len(closed), member, closed[k], down)
            for k, member in enumerate(by_period)
        ]
        here = [dot for dot in dots if dot is not None]
        lines = [(a, b) for a, b in pairwise(dots) if a is not None and b is not None]
        charts.append(Chart(name, here, lines, down(0.0), "; ".join(dot.label for dot in here)))
    return charts


def _dot(k: int, count: int, member: Member, period: Period, down: Callable[[float], float]) -> Dot:
    across = round(100 * (k + 0.5) / count, 2)
    interval = member.low is not None and member.high is not None
    label = f"{period.name}: {member.value:+.4f}"
    if member.low is None or member.high is None:
        return Dot(across, down(member.value), None, None, label)
    label += f" ({member.low:+.4f} to {member.high:+.4f})" if interval else ""
    return Dot(across, down(member.value), down(member.high), down(member.low), label)


@cache
def _environment() -> Environment:
    return page_environment("fedvalue.periods")
