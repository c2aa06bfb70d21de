"""`fedvalue value`: what each client is worth, by one method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli._console import count, print_table, say, write_json
from fedvalue.cli.methods import method_names

if TYPE_CHECKING:
    from fedvalue.values import Values

__all__ = ["TableOption", "guarantee_lines", "value"]

TableOption = Annotated[
    Path,
    typer.Option(
        help="File with the utilities of all 2^n coalitions, indexed by bitmask: .npz, .npy, .json."
    ),
]
ArrayOption = Annotated[
    str | None, typer.Option(help="Array of the .npz to use. [default: utility, utilities or accuracy]")
]
NegateOption = Annotated[bool, typer.Option("--negate", help="Use −v: for losses, where less is better.")]
BudgetOption = Annotated[
    int | None,
    typer.Option(help="Distinct coalitions to evaluate at most. [default: n·ln n, at least 32]"),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Only the result: no progress, no remarks.")]

_GUARANTEES = {
    "exact": "Exact: these are the Shapley values of the game.",
    "unbiased": "Unbiased: right on average over seeds; a single run deviates, more budget narrows it.",
    "biased": "Biased: an approximation with a systematic error that no number of seeds averages out.",
}


def value(
    table: TableOption,
    method: Annotated[
        str | None,
        typer.Option(
            autocompletion=method_names,
            help="See `fedvalue methods`. [default: surrogate, or exact where the budget covers all coalitions]",
        ),
    ] = None,
    budget: BudgetOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.")] = 0,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Option of the method; repeatable.")
    ] = None,
    array: ArrayOption = None,
    negate: NegateOption = False,
    store: Annotated[
        Path | None, typer.Option(help="File that keeps every evaluation; made if it is not there.")
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write the values as JSON; - prints JSON only.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Value the clients of a game by one method."""
    import fedvalue as fv
    from fedvalue.cli._options import parse_options
    from fedvalue.cli._table import read_game
    from fedvalue.run import default_method

    if json not in (None, "-") and not Path(str(json)).absolute().parent.is_dir():
        raise fv.InputError(f"Cannot write {json}: there is no such folder.")  # before anything is run
    if method is None:
        game = read_game(table, array, negate)
        options = parse_options(default_method(game.n, budget), option or [])
    else:
        options = parse_options(method, option or [])
        game = read_game(table, array, negate)
    values = fv.value(game, method, budget, seed, store, progress=not quiet, **options)
    if json is not None:
        write_json(values.to_dict(), json)
    if json == "-" or (json and quiet):
        return
    print_table(values.table())
    if quiet:
        return
    if method is None:
        say(
            f"Method: {values.method}, the default for {values.n} clients and this budget; see `fedvalue methods`."
        )
    for remark in _remarks(values, budget):
        say(remark)
    if json:
        say(f"Written to {json}.")


def _remarks(values: Values, budget: int | None) -> list[str]:
    cost = f"Cost: {count(values.evaluations)} of {count(1 << values.n)} coalitions, {values.seconds:.2f} s."
    return [cost, *guarantee_lines(values, budget)]


def guarantee_lines(values: Values, budget: int | None) -> list[str]:
    """How far these values can be trusted, in words."""
    everything = values.evaluations == 1 << values.n
    remarks = [_GUARANTEES.get(values.guarantee, "What the method guarantees is not recorded.")]
    empty = values.details.get("empty_strata", 0)
    if empty and values.guarantee != "exact":
        strata = values.details.get("strata", empty)
        remarks[-1] = (
            f"Not unbiased at this budget: {empty} of {strata} strata had no sample and borrowed from others."
        )
    if everything and budget is not None and values.guarantee == "exact":
        remarks.append("The budget covers all coalitions, so nothing had to be estimated.")
    elif values.stderr is None and values.guarantee != "exact":
        remarks.append("No ±: there is no valid standard error for this method at this budget.")
    return remarks
