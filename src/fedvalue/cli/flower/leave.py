"""`fedvalue flower leave`: a client that is in the consortium no more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli._console import say

__all__ = ["leave"]


def leave(
    folder: Annotated[Path, typer.Argument(help="Folder of the deployment.")],
    name: Annotated[str, typer.Argument(help="Name of the client, as in roster.json.")],
) -> None:
    """Let a client's node in no more. Nobody waits for it, it is not called absent, and the others keep their numbers."""
    from fedvalue.flower import leave as let_go

    say(
        f"{let_go(folder, name)} has left. If it comes back, it needs another node.key: `fedvalue flower register`."
    )
