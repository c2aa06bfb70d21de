"""`fedvalue flower init`: a Flower app for a federation that is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli._console import say

__all__ = ["init"]


def init(
    folder: Annotated[Path, typer.Argument(help="Folder for the app; new, or without these files.")],
    clients: Annotated[int, typer.Option(min=1, help="SuperNodes that take part.")] = 4,
) -> None:
    """Write a Flower app that values the clients of your federation."""
    from fedvalue.flower import write_app

    for path in write_app(folder, {"clients": clients}):
        say(str(path))
    say("Say in valuation/client_app.py where a client's rows are, and in pyproject.toml what to run. Then:")
    say(f"flwr run {folder} NAME-OF-YOUR-SUPERLINK --stream")
