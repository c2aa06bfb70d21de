"""`fedvalue compare`: several methods on one game, against its exact values and the equal split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue._text import count
from fedvalue.cli._console import busy, notes, print_json, say
from fedvalue.cli._options import (
    ArrayOption,
    BudgetOption,
    IndexOption,
    JsonFlag,
    NegateOption,
    QuietOption,
    TableOption,
)
from fedvalue.cli._pairs import names
from fedvalue.cli._tables import new_table, print_table

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.run import Benchmark, Score

__all__ = ["compare"]


def compare(
    table: TableOption,
    methods: Annotated[
        str, typer.Option(help="Names separated by commas (your own as package.module:plan), or all.")
    ] = "all",
    budget: BudgetOption = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs per method, with consecutive seeds.")] = 1,
    index: IndexOption = "shapley",
    array: ArrayOption = None,
    negate: NegateOption = False,
    json: JsonFlag = False,
    quiet: QuietOption = False,
) -> None:
    """Compare methods with the exact values of a game.

    The equal split, which pays everyone the same, is always among them: a method that does not beat it
    has learned nothing. With --index, methods that give other values than Shapley's are compared with the exact ones of that kind.
    """
    from fedvalue.games import read_table
    from fedvalue.run import benchmark

    with notes():
        game = read_table(table, array, negate)
        with busy("comparing", quiet) as now:
            chosen = names(methods)
            found = benchmark(
                game,
                None if chosen == ["all"] else chosen,
                budget,
                range(seed, seed + seeds),
                on_stage=now,
                index=index,
            )
    if json:
        print_json(found.to_dict())
        return
    print_table(_table(found.scores))
    if quiet:
        return
    for remark in _remarks(found):
        say(remark)
    none = [game([0], row)[0] for row in range(game.seeds)]
    mean = (
        f"; over several seeds from the mean of its rows, {sum(none) / len(none):.4f}"
        if len(none) > 1
        else ""
    )
    say(f"Values are counted from v(∅), no clients: {none[0]:.4f}{mean}.")


def _table(scores: Sequence[Score]) -> Table:
    expected = ("expected\nerror %",) if any(row.expected_error is not None for row in scores) else ()
    numbers = (
        "coalitions", "relative\nerror %", *expected, "skill", "Kendall\nτ", "payout\nerror %", "seconds"
    )  # fmt: skip
    table = new_table("method", *numbers, "guarantee", right=numbers)
    for row in scores:
        sd = row.relative_error_sd
        of_mean = math.nan if row.expected_error is None else 100 * row.expected_error
        table.add_row(
            row.method,
            count(round(row.evaluations)),
            _number(100 * row.relative_error, ".1f") + ("" if sd is None else f" ± {100 * sd:.1f}"),
            *(_number(of_mean, ".1f") for _ in expected),
            _number(row.skill, "+.2f"),
            _number(row.kendall, "+.2f"),
            _number(row.payout_error, ".1f"),
            _number(row.seconds, ".2f"),
            row.guarantee,
        )
    return table


def _number(number: float, form: str) -> str:
    return "–" if math.isnan(number) else format(number, form)


def _remarks(found: Benchmark) -> list[str]:
    from fedvalue.indices import SHAPLEY, title_of

    runs = "one seed" if found.seeds == 1 else f"{found.seeds} seeds: mean ± standard deviation"
    remarks = [f"Not run: {name}. {reason}" for name, reason in found.not_run.items()]
    remarks.append(f"Budget {count(found.budget)} of {count(1 << found.clients)} coalitions, {runs}.")
    if found.index != SHAPLEY:
        remarks.append(
            f"Exact values and errors are those of {title_of(found.index)}. Skill: what is better than the same for everyone."
        )
    if not found.has_truth:
        return [*remarks, "There are too many clients to compute exact values, so no errors are shown."]
    expected = []
    if any(row.expected_error is not None for row in found.scores):
        expected.append(
            "The table has a row for every seed. Exact values, relative error and skill are those of the first; expected "
            "error: the same against the exact values of the mean over all rows, which another seed would not change."
        )
    return [
        *remarks,
        *expected,
        "Relative error: ‖estimate − exact‖ / ‖exact‖. Skill: 1 is exact, 0 is no better than the equal split.",
        "Payout error: the largest error of any client, in percent of the pot.",
    ]
