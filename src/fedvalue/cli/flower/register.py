"""`fedvalue flower register`: a client's public key, which decides its name and place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli._console import say

__all__ = ["register"]


def register(
    folder: Annotated[Path, typer.Argument(help="Folder of the deployment.")],
    name: Annotated[str, typer.Argument(help="Name of the client, as in roster.json.")],
    key: Annotated[Path, typer.Argument(help="The client's node.key.pub.")],
    signs: Annotated[
        Path | None,
        typer.Option(
            metavar="KEY.pub", help="The client's key for signing: its replies must be signed then."
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="The client has a new key; the old one is not valid any more.")
    ] = False,
) -> None:
    """Let a client's node in, and bind name and place to its key."""
    from fedvalue.flower import register as bind

    fingerprint = bind(folder, name, key, replace, signs)
    if signs is not None:
        say(f"What {name} sends must be signed with the key in {signs}.")
    say(f"{name} is known by the key {fingerprint}. Compare that with the client over the telephone.")
