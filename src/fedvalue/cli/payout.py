"""`fedvalue payout`: values into money, by a written policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli._console import new_table, print_table, say, write_file, write_json
from fedvalue.cli._read import check_targets, read_values

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.payout import Payout

__all__ = ["payout", "rule_names"]


def rule_names(incomplete: str) -> list[str]:
    """Names for the shell to complete."""
    from fedvalue.payout import RULES

    return [name for name in RULES if name.startswith(incomplete)]


def payout(
    values: Annotated[
        Path,
        typer.Argument(metavar="VALUES", help="values.json, or the folder of a run.", show_default=False),
    ],
    pot: Annotated[str, typer.Option(metavar="AMOUNT", help="What is shared out.", show_default=False)],
    currency: Annotated[str, typer.Option(help="Named with the amounts, such as EUR.")] = "",
    rule: Annotated[
        str,
        typer.Option(
            autocompletion=rule_names,
            help="proportional (refuses negative values), floor (pays them 0), shift (the lowest becomes 0) or "
            "threshold (pays only what is above 0 with its whole interval).",
        ),
    ] = "floor",
    min_share: Annotated[
        str, typer.Option(metavar="X", help="Least part of the pot for everyone whom the rule pays.")
    ] = "0",
    round_to: Annotated[
        str, typer.Option("--round", metavar="STEP", help="Amounts are multiples of this.")
    ] = "0.01",
    json: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write it as JSON; - prints JSON only.")
    ] = None,
    csv: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write it as CSV; - prints CSV only.")
    ] = None,
    md: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write an invoice in Markdown; - prints that only.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the table.")] = False,
) -> None:
    """Share a pot out by the clients' values, to the cent.

    The amounts add up to the pot exactly, follow a written policy, and come with how far they would move
    within the intervals of the values.
    """
    from fedvalue.payout import payout as share_out

    check_targets(json, csv, md)
    found = share_out(read_values(values), pot, rule, min_share, round_to, currency)
    if json is not None:
        write_json(found.to_dict(), json)
    for target, text in ((csv, found.to_csv), (md, found.to_markdown)):
        if target == "-":
            typer.echo(text(), nl=False)
        elif target is not None:
            with write_file(Path(target)) as file:
                file.write(text().encode())
    written = [target for target in (json, csv, md) if target is not None]
    if "-" in written:
        return
    print_table(_table(found))
    if quiet:
        return
    for line in _remarks(found):
        say(line)
    if written:
        say(f"Written to {' and '.join(written)}.")


def _table(payout: Payout) -> Table:
    from rich.text import Text

    from fedvalue.text import one_line

    unit = one_line(f" {payout.currency}") if payout.currency else ""
    ranges = any(line.low is not None for line in payout.lines)
    numbers = ["value", "± 95%", "share", f"payout{unit}", *(["range\n95%"] if ranges else [])]
    if all(line.half_width is None for line in payout.lines):
        numbers.remove("± 95%")
    notes = ["note"] if any(line.note for line in payout.lines) else []
    table = new_table("client", *numbers, *notes, right=numbers)
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for line in payout.lines:
        cells = {
            "value": f"{line.value:+.4f}",
            "± 95%": "–" if line.half_width is None else f"{line.half_width:.4f}",
            "share": f"{line.share:.1%}",
            f"payout{unit}": payout.text(line.amount),
            "range\n95%": ""
            if line.low is None or line.high is None
            else f"{payout.text(line.low)} – {payout.text(line.high)}",
            "note": line.note,
        }
        table.add_row(Text(one_line(line.name)), *(cells[key] for key in (*numbers, *notes)))
    total = {f"payout{unit}": payout.text(payout.pot)}
    table.add_section()
    table.add_row("total", *(total.get(key, "") for key in (*numbers, *notes)))
    return table


def _remarks(payout: Payout) -> list[str]:
    from fedvalue.payout import doubtful_orders
    from fedvalue.text import one_line

    return [*payout.policy, one_line(payout.stability.statement), *doubtful_orders(payout)]
