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
from fedvalue.errors import InputError

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
    from fedvalue.agreement import PayoutTerms
    from fedvalue.payout import payout as share_out
    from fedvalue.run import (
        find_history,
        not_as_agreed,
        read_values,
        terms_agreed_for,
    )
    from fedvalue.what_if import copies_by

    check_targets(json, csv, md)
    valued = read_values(values)
    agreed = terms_agreed_for(valued, values) or PayoutTerms()
    pot = agreed.pot if pot is None else pot
    if pot is None:
        raise InputError(
            "How much is to be shared out? Give --pot AMOUNT: no agreement beside the values names a pot."
        )
    once = copies_by(copies or agreed.copies, valued, lambda: find_history(valued, values, store))
    found = share_out(
        valued,
        pot,
        agreed.rule if rule is None else rule,
        agreed.min_share if min_share is None else min_share,
        agreed.step if round_to is None else round_to,
        agreed.currency if currency is None else currency,
        absent=agreed.absent if absent is None else absent,
        anyway=anyway,
        copies=once,
    )
    if remark := not_as_agreed(valued, values, found):
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

    unit = one_line(f" {payout.currency}") if payout.currency else ""
    ranges = any(line.low is not None for line in payout.lines)
    numbers = ["value", "± 95%", "share", f"payout{unit}", *(["range\n95%"] if ranges else [])]
    if all(line.half_width is None for line in payout.lines):
        numbers.remove("± 95%")
    notes = ["note"] if payout.absent or any(line.note for line in payout.lines) else []
    table = new_table("client", *numbers, *notes, right=numbers)
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for line in payout.lines:
        cells = {
            "value": f"{line.value:+.4f}",
            "± 95%": "–" if line.half_width is None else f"{line.half_width:.4f}",
            "share": f"{line.share:.1%}",
            f"payout{unit}": payout.text(line.amount),
            "range\n95%": payout.range(line),
            "note": line.note,
        }
        table.add_row(Text(one_line(line.name)), *(cells[key] for key in (*numbers, *notes)))
    for one in payout.absent:
        cells = {"value": "absent", f"payout{unit}": payout.text(one.amount), "note": one.note}
        table.add_row(Text(one_line(one.name)), *(cells.get(key, "") for key in (*numbers, *notes)))
    if payout.held:
        cells = {f"payout{unit}": payout.text(payout.held), "note": "in escrow"}
        table.add_row("set aside", *(cells.get(key, "") for key in (*numbers, *notes)))
    total = {f"payout{unit}": payout.text(payout.pot)}
    table.add_section()
    table.add_row("total", *(total.get(key, "") for key in (*numbers, *notes)))
    return table


def _remarks(payout: Payout) -> list[str]:
    from fedvalue.payout import doubtful_orders

    return [*payout.policy, one_line(payout.stability.statement), *doubtful_orders(payout)]
