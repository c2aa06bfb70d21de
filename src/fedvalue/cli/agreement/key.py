"""`fedvalue agreement key`: a key pair to sign with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli._console import say

__all__ = ["key"]


def key(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where the private key goes.", show_default=False)
    ],
) -> None:
    """Make a key pair: the private key, and FILE.pub for the others.

    The same as `ssh-keygen -t ed25519 -N "" -f FILE`.
    """
    from fedvalue.agreement import make_key

    public = make_key(file)
    say(f"Written to {file} and {public}. Keep the first to yourself, and send the second to the operator.")
