"""`fedvalue flower run`: a valuation in a deployment, from the signature to the values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedvalue._files import sealed
from fedvalue.cli._console import say
from fedvalue.cli._options import JsonTarget, QuietOption
from fedvalue.cli._pairs import app_settings
from fedvalue.cli._tables import print_values
from fedvalue.cli._targets import check_targets, write_result

__all__ = ["run"]


def run(
    folder: Annotated[Path, typer.Argument(help="Folder of the deployment.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting of the app for this run; may be repeated."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only say who is there and what a valuation would take; nothing is trained."
        ),
    ] = False,
    json: JsonTarget = None,
    quiet: QuietOption = False,
) -> None:
    """Sign the app of a deployment, run it, and wait for the values; exit code 1 where it failed."""
    from fedvalue.flower import plan_deployment, run_deployment

    check_targets(json)

    def tell(text: str) -> None:
        if not quiet:
            sys.stderr.write(text)

    if dry_run:
        plan = plan_deployment(folder, app_settings(settings or []))
        write_result(plan.to_dict(), json)
        for line in () if json == "-" else plan.lines():
            say(line)
        return
    values = run_deployment(folder, app_settings(settings or []), tell)
    write_result(sealed(values.to_dict()), json)
    if json != "-":
        print_values(values)
