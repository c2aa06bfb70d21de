"""`fedvalue plan`: which method and budget the time allows, and what error to expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli._console import new_table, print_json, print_table, say
from fedvalue.text import count, duration, plural

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.advice import Advice, Choice

__all__ = ["plan"]


def plan(
    clients: Annotated[int, typer.Option(help="Number of clients.", show_default=False)],
    minutes: Annotated[float | None, typer.Option(help="Time that there is for all trainings.")] = None,
    cost: Annotated[
        float | None,
        typer.Option(
            help="Seconds per training, on average over coalitions; where several run at once, the time that they "
            "take together divided by their number. `fedvalue run --dry-run` measures it."
        ),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="Instead of --minutes: distinct coalitions to evaluate.")
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(help="Instead of --minutes: relative error to reach, such as 0.05 for 5 %."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only method and budget, on one line.")
    ] = False,
) -> None:
    """Recommend method and budget, with the error to expect.

    The errors were measured on federated games whose exact values are known: docs/choosing.md says on which, and
    when not to trust them. Nothing is trained.
    """
    from fedvalue.advice import advise

    found = advise(clients, minutes=minutes, budget=budget, target=target, cost=cost)
    if json:
        print_json(found.to_dict())
    elif quiet:
        say(f"{found.choice.method} {found.choice.coalitions}")
    else:
        _show(found)


def _show(found: Advice) -> None:
    choice = found.choice
    say(f"{plural(found.clients, 'client')}: {_what(choice, found.clients)}{_time(choice, ', about {}')}.")
    say(_error_line(found))
    for warning in found.warnings:
        say(f"Note: {warning}")
    say()
    print_table(_table(found))
    if found.others:
        say()
        rest = ", ".join(f"{other.method} {_percent(other.expected.error)}" for other in found.others)
        say(f"Other methods with this budget: {rest} %.")
    if found.choice.method != "exact":
        say(
            "Ranges hold four of five measured games. Skill: 1 is exact, 0 no better than the equal split, which pays "
            "everyone the same."
        )
    say(f"fedvalue run --clients {found.clients} {_options(choice)}")


def _what(choice: Choice, clients: int) -> str:
    everything = "2^" + str(clients) if clients > 40 else count(1 << clients)
    return f"{choice.method} with {count(choice.coalitions)} of {everything} coalitions"


def _options(choice: Choice) -> str:
    return "--exact" if choice.method == "exact" else f"--method {choice.method} --budget {choice.coalitions}"


def _error_line(found: Advice) -> str:
    from fedvalue.accuracy import expected
    from fedvalue.advice import BASELINE

    if found.choice.method == "exact":
        return "Exact values: no error besides the noise of training."
    error = found.choice.expected
    return (
        f"Expected relative error: {_percent(error.error)} %, in four of five games {_percent(error.low)} to "
        f"{_percent(error.high)} %, the more the clients differ. The equal split: "
        f"{_percent(expected(BASELINE, found.clients, 2).error)} %."
    )


def _table(found: Advice) -> Table:
    numbers = ("coalitions", "error %", "range", "skill", "range ")
    times = ("time",) if found.cost is not None else ()
    table = new_table("", "method", *times, *numbers, right=(*times, *numbers))
    shown: list[Choice] = []
    for name in ("half", "choice", "twice", "exact"):
        choice: Choice | None = getattr(found, name)
        if choice is None or choice in shown:
            continue
        shown.append(choice)
        of = choice.expected
        table.add_row(
            "this" if name == "choice" else name,
            choice.method,
            *((_time(choice, "{}"),) if found.cost is not None else ()),
            count(choice.coalitions),
            _percent(of.error),
            f"{_percent(of.low)} – {_percent(of.high)}" if of.error else "",
            f"{of.skill:+.2f}",
            f"{of.skill_low:+.2f} – {of.skill_high:+.2f}" if of.error else "",
        )
    return table


def _time(choice: Choice, form: str) -> str:
    return "" if choice.seconds is None else form.format(duration(choice.seconds))


def _percent(error: float) -> str:
    """Two digits that count: 0.25, 2.5, 25, 250.

    >>> _percent(0.0025), _percent(0.253), _percent(0.0)
    ('0.25', '25', '0')
    """
    percent = 100 * error
    if percent == 0:
        return "0"
    return f"{percent:.{2 if percent < 0.995 else 1 if percent < 9.95 else 0}f}"
