"""`fedvalue period show`: the closed periods side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue._text import minute, one_line
from fedvalue.cli._console import say
from fedvalue.cli._options import PeriodsArgument
from fedvalue.cli._tables import new_table, print_table
from fedvalue.cli._targets import check_targets, write_result

if TYPE_CHECKING:
    from fedvalue.periods import Period

__all__ = ["print_period", "show"]


def show(
    folder: PeriodsArgument,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A period. [default: all, a line for each]")] = None,
    json: Annotated[str | None, typer.Option(metavar="PATH", help="Write all periods as JSON; - prints only JSON.")] = None,
    csv: Annotated[str | None, typer.Option(metavar="PATH", help="Write a row per period and client as CSV; - prints only CSV.")] = None,
) -> None:  # fmt: skip
    """Show closed periods, and write their page (history.html) anew."""
    from fedvalue.errors import InputError
    from fedvalue.periods import Periods, as_csv, as_plain

    check_targets(json, csv)
    periods = Periods(folder)
    closed = periods.closed
    if not closed:
        raise InputError(f"{folder} holds no closed period. `fedvalue period close` makes one.")
    chosen = [period for period in closed if period.name == name]
    if name is not None and not chosen:
        raise InputError(
            f"There is no closed period {name!r}. There are: {', '.join(p.name for p in closed)}."
        )
    periods.write_history()
    write_result(as_plain(closed), json)
    write_result(as_csv(closed), csv)
    if "-" in (json, csv):
        return
    for period in chosen:
        print_period(period)
    if name is None:
        _print_all(closed)
    say(f"The page: {folder / 'history.html'}")


def print_period(period: Period) -> None:
    """A table of one period: members with their values, and what everybody earned, is paid and carries over."""
    from rich.text import Text

    money = period.money
    amounts = () if money is None else ("earned", "held", "to_escrow", "released", "paid")
    lines = {} if money is None else {line.name: line for line in money.settlement.lines}
    used = [a for a in amounts if a in ("earned", "paid") or any(getattr(line, a) for line in lines.values())]
    carried = [a for a in ("debt", "escrow") if any(getattr(x, a) for x in period.balances.accounts.values())]
    numbers = ["value", *(a.replace("_", " ") for a in used), *(f"{a} carried" for a in carried)]
    table = new_table("client", *numbers, "", right=numbers)
    members = {member.name: member for member in period.members}
    for client in dict.fromkeys([*members, *lines]):
        member, line = members.get(client), lines.get(client)
        cells = ["" if member is None else f"{member.value:+.4f}"]
        cells += ["" if line is None else f"{getattr(line, amount):,f}" for amount in used]
        cells += [f"{getattr(period.balances.of(client), amount):,f}" for amount in carried]
        table.add_row(
            Text(one_line(client)), *cells, "not in this period" if member is None else member.status
        )
    print_table(table)


def _print_all(closed: tuple[Period, ...]) -> None:
    numbers = ["clients", "trained", "known", "paid"]
    table = new_table("period", "closed", *numbers, "changes", right=numbers)
    for period in closed:
        paid = "" if period.money is None else f"{sum(x.paid for x in period.money.settlement.lines):,f}"
        changes = [
            f"{m.name} {m.status}" for m in period.members if m.status != "stayed" and period.number > 1
        ]
        said = "; ".join(
            [
                *changes,
                *(f"{name} left" for name in period.left),
                *(f"{name} absent" for name in period.absent),
            ]
        )
        counts = (str(len(period.members)), f"{period.trained:,}", f"{period.known:,}", paid)
        table.add_row(period.name, minute(period.closed), *counts, one_line(said))
    print_table(table)
