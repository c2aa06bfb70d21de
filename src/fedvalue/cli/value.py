"""`fedvalue value`: what each client is worth, by one method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedvalue._files import sealed
from fedvalue._text import count
from fedvalue.cli._console import notes, say
from fedvalue.cli._options import (
    ArrayOption,
    BudgetOption,
    IndexOption,
    JsonTarget,
    MethodOptions,
    NegateOption,
    QuietOption,
    TableOption,
    complete,
)
from fedvalue.cli._pairs import method_options
from fedvalue.cli._tables import print_values
from fedvalue.cli._targets import check_targets, write_result
from fedvalue.errors import MethodError

__all__ = ["value"]


def value(
    table: TableOption,
    method: Annotated[
        str | None,
        typer.Option(
            autocompletion=complete("method"),
            help="See `fedvalue methods`, or package.module:plan. [default: surrogate, or exact if the budget "
            "covers all coalitions]",
        ),
    ] = None,
    budget: BudgetOption = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Of a table with several rows: how many of them the trainings are spread over; 1: the values of the first. [default: as "
            "suits method and budget]",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for everything random.")] = 0,
    option: MethodOptions = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=CLIENT,CLIENT",
            help="Clients that join as one: values are then Owen values; repeatable.",
        ),
    ] = None,
    index: IndexOption = "shapley",
    array: ArrayOption = None,
    negate: NegateOption = False,
    store: Annotated[
        Path | None, typer.Option(help="File that keeps every evaluation; created if it does not exist.")
    ] = None,
    json: JsonTarget = None,
    quiet: QuietOption = False,
) -> None:
    """Value the clients of a game by one method."""
    import fedvalue as fv
    from fedvalue.estimators import guarantee_lines
    from fedvalue.games import read_table
    from fedvalue.run import usual_method
    from fedvalue.weights import read_groups

    check_targets(json)
    with notes():
        game = read_table(table, array, negate)
        chosen = method or usual_method(game, budget, seeds)
        options: dict[str, Any] = method_options(chosen, option or ())
        if seeds is not None:
            if "seeds" in options:
                raise MethodError(
                    "The number of seeds was given twice. Leave it out of the options of the method."
                )
            options["seeds"] = seeds
        values = fv.value(
            game,
            chosen,
            budget,
            seed,
            store,
            progress=not quiet,
            groups=read_groups(group or ()),
            index=index,
            **options,
        )
    write_result(sealed(values.to_dict()), json)
    if json == "-" or (json and quiet):
        return
    print_values(values)
    if quiet:
        return
    if method is None:
        say(
            f"Method: {values.method}, the default for {values.n} clients and this budget; see `fedvalue methods`."
        )
    if values.utility_of_none is not None:
        everyone = (
            "" if values.utility_of_all is None else f"All clients together: {values.utility_of_all:.4f}; "
        )
        say(f"{everyone}v(∅), no clients: {values.utility_of_none:.4f}.")
    spread = f", spread over {values.seeds} seeds" if values.seeds > 1 else ""
    what = "trainings" if spread else f"of {count(1 << values.n)} coalitions"
    say(f"Cost: {count(values.evaluations)} {what}{spread}, {values.seconds:.2f} s.")
    for line in (*values.advice(), *guarantee_lines(values, budget)):
        say(line)
    if json:
        say(f"Written to {json}.")
