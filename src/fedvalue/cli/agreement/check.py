"""`fedvalue agreement check`: whether everybody has signed, and the same."""

from __future__ import annotations

import typer

from fedvalue.cli._console import complain, print_json, say
from fedvalue.cli._options import AgreementArgument, JsonFlag

__all__ = ["check"]


def check(file: AgreementArgument, json: JsonFlag = False) -> None:
    """Check the signatures; exit code 1 and a list if one is missing or does not fit."""
    from fedvalue.agreement import read_agreement

    agreement = read_agreement(file)
    problems = agreement.problems()
    if json:
        print_json({"hash": agreement.hash, "stands": not problems, "problems": problems})
    else:
        say(
            "\n".join(problems)
            or f"{agreement.hash}: {len(agreement.signatures)} signatures fit, none is missing."
        )
    if problems:
        complain(f"{file} does not stand.")
        raise typer.Exit(1)
