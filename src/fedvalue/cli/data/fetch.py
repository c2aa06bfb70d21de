"""`fedvalue data fetch`: a data set from OpenML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli._console import say

__all__ = ["fetch"]


def fetch(
    name: Annotated[str, typer.Argument(help="mnist or adult.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder to write to. [default: the user's cache folder]")
    ] = None,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Keep the data even if it is not the known version.")
    ] = False,
) -> None:
    """Fetch a data set from OpenML and check that it is the known one."""
    from fedvalue.scenarios import fetch as fetch_data

    typer.echo(f"Fetching {name} from OpenML …", err=True)
    say(f"{name} is in {fetch_data(name, data_dir, unverified=unverified)}")
