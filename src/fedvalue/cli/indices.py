"""`fedvalue indices`: what clients are worth by other solution concepts, from the trainings of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue._text import one_line
from fedvalue.cli._console import say
from fedvalue.cli._options import ArrayOption, JsonTarget, NegateOption, QuietOption, StoreOption
from fedvalue.cli._tables import new_table, print_table
from fedvalue.cli._targets import check_targets, write_result
from fedvalue.errors import InputError

__all__ = ["indices"]


def indices(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN",
            help="Folder that `fedvalue run --out` wrote, or a values.json.",
            show_default=False,
        ),
    ] = None,
    index: Annotated[
        list[str] | None,
        typer.Option(
            help="banzhaf, beta(A,B), sizes(W0,W1,…), leave-one-out, weighted(NAME=W,…), least-core or nucleolus; repeatable. [default: "
            "all but sizes and weighted]"
        ),
    ] = None,
    store: StoreOption = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Instead of a run: a file with the utilities of all 2^n coalitions, as for `fedvalue value`."
        ),
    ] = None,
    array: ArrayOption = None,
    negate: NegateOption = False,
    json: JsonTarget = None,
    quiet: QuietOption = False,
) -> None:
    """Compare Shapley values with other solution concepts.

    Shown are the values of all clients, then their places and Kendall's τ with the order by Shapley values. Nothing is trained. Where all coalitions that count are in the store, the values are exact; elsewhere the surrogate estimates those
    that are sums of utilities, with intervals.
    """
    from rich.text import Text

    from fedvalue.games import read_table
    from fedvalue.run import find_history, read_values, value
    from fedvalue.what_if import USUAL_INDICES, other_indices

    check_targets(json)
    which = index or USUAL_INDICES
    if run is not None and table is None:
        values = read_values(run)
        history = find_history(values, run, store)
        found = other_indices(values, which, history.utilities, seeds=history.seeds)
    elif table is not None and run is None and store is None:
        game = read_table(table, array, negate)
        rows = [game(range(1 << game.n), seed) for seed in range(game.seeds)]
        found = other_indices(value(game, "exact"), which, dict(enumerate(zip(*rows, strict=True))))
    else:
        raise InputError("This needs a run, with its store, or a table of utilities (--table): one of them.")
    write_result(found.to_dict(), json)
    if json == "-":
        return
    for head, lines in ((found.head, found.rows()), (found.place_head, found.place_rows())):
        shown = new_table(*head, right=head[1:])
        for line in lines:
            shown.add_row(Text(one_line(line[0])), *line[1:])
        print_table(shown)
        say("")
    for remark in () if quiet else found.remarks:
        say(one_line(remark))
    if json and not quiet:
        say(f"Written to {json}.")
