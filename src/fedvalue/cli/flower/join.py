"""`fedvalue flower join`: another client of a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli._console import say

__all__ = ["join"]


def join(
    folder: Annotated[Path, typer.Argument(help="Folder of the deployment.")],
    name: Annotated[str, typer.Argument(help="Name of the new client.")],
) -> None:
    """Write a folder for another client of a deployment. The others keep their numbers."""
    from fedvalue.flower import join as write_client

    mine = write_client(folder, name)
    say(f"{mine} is to be given to {name}. Nothing in there is secret.")
    say(
        f"When its public keys have come: fedvalue flower register {folder} NAME node.key.pub --signs signing.pub"
    )
