"""`fedvalue benefits`: what the data of each client does for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue._text import one_line
from fedvalue.cli._console import say
from fedvalue.cli._options import JsonTarget, RunArgument
from fedvalue.cli._tables import new_table, print_table
from fedvalue.cli._targets import check_targets, write_result

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.values import Benefits

__all__ = ["benefits"]


def benefits(
    run: RunArgument,
    json: JsonTarget = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the tables.")] = False,
) -> None:
    """Show who benefits from whose data.

    What each client gives to the others and gains from them, for values of a run with --test by-client, which measures
    every model on rows of each client by itself.
    """
    from fedvalue.run import read_values
    from fedvalue.values import benefits_in

    check_targets(json)
    values = read_values(run)
    found = benefits_in(values)
    write_result(found.to_dict(), json)
    if json == "-":
        return
    if not quiet:
        say(
            f"What the data of each client (columns) does for the {values.metric} on each client's own rows (lines):"
        )
    print_table(_matrix(found))
    say()
    print_table(_sums(found))
    for line in () if quiet else found.statements():
        say(one_line(line))
    if json and not quiet:
        say(f"Written to {json}.")


def _matrix(found: Benefits) -> Table:
    from rich.text import Text

    names = [one_line(name) for name in found.names]
    # Columns are called by their numbers where two names would look the same.
    heads = names if len(set(names)) == len(names) else [str(j + 1) for j in range(len(names))]
    table = new_table("test rows of", "rows", *heads, right=("rows", *heads))
    reach = found.reach(found.stderr)
    for i, (owner, numbers) in enumerate(zip(found.owners, found.matrix, strict=True)):
        cells = [f"{number:+.4f}" for number in numbers]
        if reach is not None:
            cells = [f"{cell} ± {width:.4f}" for cell, width in zip(cells, reach[i], strict=True)]
        table.add_row(Text(one_line(owner)), f"{found.rows[i]}", *cells)
    return table


def _sums(found: Benefits) -> Table:
    from rich.text import Text

    heads = ["for itself", "gives", "gains", "balance"]
    reach = found.reach(found.balance_stderr)
    heads += [] if reach is None else ["± 95%"]
    table = new_table("client", *heads, right=heads)
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    sums = (found.kept, found.given, found.gained, found.balance)
    for j, name in enumerate(found.names):
        cells = [f"{of[j]:+.4f}" for of in sums] + ([] if reach is None else [f"{reach[j]:.4f}"])
        table.add_row(Text(one_line(name)), *cells)
    return table
