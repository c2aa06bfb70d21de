"""`fedvalue period verify`: whether closed periods are what they were when they were closed."""

from __future__ import annotations

from typing import Annotated

import typer

from fedvalue._text import plural
from fedvalue.cli._console import busy, print_problems
from fedvalue.cli._options import JsonFlag, PeriodsArgument

__all__ = ["verify"]


def verify(
    folder: PeriodsArgument,
    seal: Annotated[str | None, typer.Option(metavar="SEAL", help="Seal of the last period that you have kept: it must be one of these.")] = None,
    json: JsonFlag = False,
) -> None:  # fmt: skip
    """Check closed periods: seals, files, store, and payouts computed again; exit code 1 if something does not fit."""
    from fedvalue.periods import Periods

    periods = Periods(folder)
    with busy("verifying"):
        problems = periods.verify()
        closed = () if problems else periods.closed
    if seal is not None and not problems and seal not in [period.seal for period in closed]:
        problems = [f"No closed period has the seal {seal}: what was closed then is not what is here."]
    sound = "" if problems else f"{plural(len(closed), 'period')}, the last with the seal {closed[-1].seal}"
    print_problems(folder, problems, sound, json)
