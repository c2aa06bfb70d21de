"""`fedvalue plan`: which method and budget the time allows, and what error to expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue._text import count, duration, percent
from fedvalue.cli._console import print_json, say
from fedvalue.cli._tables import new_table, print_table

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.advice import Advice

__all__ = ["plan"]


def plan(
    clients: Annotated[int, typer.Option(help="Number of clients.", show_default=False)],
    minutes: Annotated[float | None, typer.Option(help="Time available for all trainings.")] = None,
    cost: Annotated[
        float | None,
        typer.Option(
            help="Average seconds per training; if several run at once, the time they take together "
            "divided by their number. `fedvalue run --dry-run` measures it."
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(help="Instead of --minutes: trainings; with --seeds 1, distinct coalitions."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(help="Instead of --minutes: relative error to reach, such as 0.05 for 5 %."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="1: the exact values of one seed are wanted. [default: the values to be expected over seeds]"
        ),
    ] = None,
    test_rows: Annotated[
        int | None, typer.Option(help="Number of test rows, whose luck is then in the error.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only method and budget, on one line.")
    ] = False,
) -> None:
    """Recommend a method and a budget, with the error to expect.

    The errors were measured on federated games that were trained with all coalitions and many seeds: docs/choosing.md
    says on which, and when not to trust them. Nothing is trained.
    """
    from fedvalue.advice import advise

    advice = advise(
        clients, minutes=minutes, budget=budget, target=target, cost=cost, seeds=seeds, test_rows=test_rows
    )
    if json:
        print_json(advice.to_dict())
        return
    if quiet:
        say(f"{advice.choice.method} {advice.choice.budget}")
        return
    for line in str(advice).splitlines():
        say(line)
    say()
    print_table(_table(advice))
    if advice.choice.method != "exact":
        say()
        say(
            "Ranges hold four of five measured games. Skill: 1 is exact, 0 is no better than paying everyone the same."
        )
    say(advice.command)


def _table(advice: Advice) -> Table:
    counts = ("coalitions",) if advice.of_one_seed else ("trainings", "seeds")
    parts = () if advice.of_one_seed else ("coalitions", "training", "test rows")
    numbers = (*counts, "error %", "range", *parts, "skill", "range ")
    times = ("time",) if advice.cost is not None else ()
    table = new_table("", "method", *times, *numbers, right=(*times, *numbers))
    for name, choice in advice.rows().items():
        of = choice.expected
        table.add_row(
            name,
            choice.method,
            *(() if choice.seconds is None else (duration(choice.seconds),)),
            *(
                (count(choice.budget),)
                if advice.of_one_seed
                else (count(choice.trainings), count(choice.seeds))
            ),
            percent(of.error),
            f"{percent(of.low)} – {percent(of.high)}" if of.error else "",
            *("–" if part is None else percent(part) for part in of.parts.values()),
            f"{of.skill:+.2f}",
            f"{of.skill_low:+.2f} – {of.skill_high:+.2f}" if of.error else "",
        )
    return table
