"""Whether what is written down fits together: seals, files, and money computed again from the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from fedvalue.errors import FedvalueError
from fedvalue.periods._balances import Balances
from fedvalue.periods._close import Terms, settled
from fedvalue.periods._entry import Period
from fedvalue.periods._folder import PREPROCESSING_FILE, SEALED, altered, read_closed
from fedvalue.periods._history import history_problems
from fedvalue.periods._store import history_of, store_problems
from fedvalue.run import read_values

__all__ = ["problems"]


def problems(folder: Path) -> list[str]:
    """Every sentence about something that does not fit."""
    try:
        closed = read_closed(folder)
    except FedvalueError as error:
        return [str(error)]
    if not closed:
        return [f"{folder} holds no closed period."]
    found = []
    before = Balances()
    for period in closed:
        found += [f"{period.name}: {what}" for what in _of_period(folder, period, before)]
        before = period.balances
    kept = closed[-1].preprocessing
    if kept is not None:
        found += list(altered(folder / PREPROCESSING_FILE, kept))
    found += [*store_problems(folder, closed), *history_problems(folder, closed)]
    return list(dict.fromkeys(found))


def _of_period(folder: Path, period: Period, before: Balances) -> Iterator[str]:
    for name, digest in period.files.items():
        yield from altered(folder / period.name / name, digest)
    for name in SEALED:
        if name not in period.files and (folder / period.name / name).exists():
            yield f"{name} was put there after the period was closed"
    try:
        values = read_values(folder / period.name)
    except FedvalueError as error:
        yield str(error)
        return
    written = {member.name: member.value for member in period.members}
    if written != dict(zip(values.names, values.mean.tolist(), strict=True)):
        yield "its values are not those of its run"
    before = before.renamed(_names(period))
    if period.money is None:
        if period.balances != before:
            yield "its balances changed without a payout"
        return
    money = period.money
    terms = Terms(
        money.settlement.pot, money.currency, money.rule, money.min_share, money.step, money.debts, money.escrow,
        money.release, money.anyway, money.copies,
    )  # fmt: skip
    try:
        again = settled(values, terms, before, lambda: history_of(folder, period.name, values))
    except FedvalueError as error:
        yield f"its payout cannot be computed again: {error}"
        return
    if again != money:
        yield "its payout is not what its values and terms give"


def _names(period: Period) -> Mapping[str, str]:
    return {member.was: member.name for member in period.members if member.was is not None}
