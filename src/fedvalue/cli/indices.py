"""`fedvalue indices`: what clients are worth by other solution concepts, from the trainings of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from fedvalue._text import one_line
from fedvalue.cli._console import say
from fedvalue.cli._options import JsonTarget, QuietOption, RunArgument, StoreOption
from fedvalue.cli._tables import new_table, print_table
from fedvalue.cli._targets import check_targets, write_result

__all__ = ["indices"]


def indices(
    run: RunArgument,
    index: Annotated[
        list[str] | None,
        typer.Option(
            help="banzhaf, beta(A,B), leave-one-out, weighted(NAME=W,…), least-core or nucleolus; repeatable. [default: all but "
            "weighted]"
        ),
    ] = None,
    store: StoreOption = None,
    json: JsonTarget = None,
    quiet: QuietOption = False,
) -> None:
    """Compare Shapley values with other solution concepts.

    Nothing is trained. Where all coalitions that count are in the store, the values are exact; elsewhere the surrogate estimates those
    that are sums of utilities, with intervals.
    """
    from rich.text import Text

    from fedvalue.run import find_history, read_values
    from fedvalue.what_if import USUAL_INDICES, other_indices

    check_targets(json)
    values = read_values(run)
    history = find_history(values, run, store)
    found = other_indices(values, index or USUAL_INDICES, history.utilities, seeds=history.seeds)
    write_result(found.to_dict(), json)
    if json == "-":
        return
    table = new_table(*found.head, right=found.head[1:])
    for row in found.rows():
        table.add_row(Text(one_line(row[0])), *row[1:])
    print_table(table)
    for line in () if quiet else found.remarks:
        say(one_line(line))
    if json and not quiet:
        say(f"Written to {json}.")
