"""`fedvalue data fetch`: a data set from the web."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli._console import say

__all__ = ["fetch"]


def fetch(
    name: Annotated[
        str, typer.Argument(help="mnist, adult, femnist (the writers of MNIST's digits) or all.")
    ],
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder to write to. [default: the user's cache folder]")
    ] = None,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Keep the data even if it is not the known version.")
    ] = False,
) -> None:
    """Fetch a data set from OpenML or QMNIST and check that it is the known one."""
    from fedvalue.scenarios import FETCHERS, where
    from fedvalue.scenarios import fetch as fetch_data

    for each in FETCHERS if name == "all" else (name,):
        if each in FETCHERS:
            typer.echo(f"Fetching {each} from {FETCHERS[each].source} …", err=True)
        say(f"{each} is in {fetch_data(each, data_dir, unverified=unverified)}")
        if where(each, data_dir) is None:  # only writers can be without their digits
            say("These are the writers only. The digits are still missing: fedvalue data fetch mnist")
