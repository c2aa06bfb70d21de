"""`fedvalue payout`: values into money, by a written policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue._files import sealed
from fedvalue._text import one_line
from fedvalue.cli._console import say, warn
from fedvalue.cli._options import (
    AbsentOption,
    AnywayOption,
    CopiesOption,
    CurrencyOption,
    JsonTarget,
    MinShareOption,
    RunArgument,
    StepOption,
    StoreOption,
    complete,
)
from fedvalue.cli._tables import new_table, print_table
from fedvalue.cli._targets import check_targets, write_result

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.payout import Payout

__all__ = ["payout"]


def payout(
    values: RunArgument,
    pot: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Amount to share out. [default: the one that was agreed]"),
    ] = None,
    currency: CurrencyOption = None,
    rule: Annotated[
        str | None,
        typer.Option(
            autocompletion=complete("rule"),
            help="proportional (refuses negative values), floor (pays them 0), shift (the lowest becomes 0) or "
            "threshold (pays only clients whose whole interval is above 0). [default: as agreed, else floor]",
        ),
    ] = None,
    min_share: MinShareOption = None,
    round_to: StepOption = None,
    json: JsonTarget = None,
    csv: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write the payout as CSV; - prints only CSV.")
    ] = None,
    md: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write the payout as Markdown; - prints only Markdown.")
    ] = None,
    copies: CopiesOption = None,
    store: StoreOption = None,
    absent: AbsentOption = None,
    anyway: AnywayOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the table.")] = False,
) -> None:
    """Share a pot out by the clients' values, to the cent.

    The amounts add up to the pot exactly, follow a written policy, and each comes with the range it could move
    in, given the intervals of the values. Under an agreement, what is not said is as agreed.
    """
    from fedvalue.run import payout_of_run, read_values

    check_targets(json, csv, md)
    said = {"pot": pot, "currency": currency, "rule": rule, "min_share": min_share, "step": round_to}
    said |= {"absent": absent, "copies": copies}
    found, remark = payout_of_run(read_values(values), values, said, store, anyway)
    if remark:
        warn(remark)
    formats = ((json, sealed(found.to_dict())), (csv, found.to_csv()), (md, found.to_markdown()))
    written = {target: data for target, data in formats if target}
    for target, data in written.items():
        write_result(data, target)
    if "-" in written:
        return
    print_table(_table(found))
    for line in () if quiet else _remarks(found):
        say(line)
    if written and not quiet:
        say(f"Written to {' and '.join(written)}.")


def _table(payout: Payout) -> Table:
    from rich.text import Text

    from fedvalue.payout import payout_rows

    head, rows = payout_rows(payout)
    table = new_table(*head, right=[name for name in head[1:] if name != "note"])
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for name, *cells in rows:
        table.add_row(Text(name), *cells, end_section=len(table.rows) == len(rows) - 2)  # the total is apart
    return table


def _remarks(payout: Payout) -> list[str]:
    from fedvalue.payout import doubtful_orders

    return [*payout.policy, one_line(payout.stability.statement), *doubtful_orders(payout)]
