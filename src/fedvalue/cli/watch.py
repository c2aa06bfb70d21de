"""`fedvalue watch`: a page that shows a run as it goes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli._console import say

__all__ = ["watch"]


def watch(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="STORE_OR_DIR", help="A store, the folder of a run, or a folder with several."
        ),
    ],
    host: Annotated[
        str,
        typer.Option(
            help="Address to serve on; beyond this machine only with a token, which the printed address has."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to serve on; 0: any that is free.")
    ] = 8765,
    token: Annotated[
        bool,
        typer.Option("--token", help="Ask for a token on this machine, too: others have accounts on it."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the address alone.")] = False,
) -> None:
    """Show a run as it goes, in a browser, until Ctrl-C.

    Trainings done and planned, time left, values whose intervals settle, what dominates the error, failures, nodes of a
    federation. It only reads: it cannot disturb the run, and works on a copy of the store, too.
    """
    # Values are computed beside the run, on one thread that lets others go first. Read when NumPy is imported.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    with suppress(AttributeError, OSError):  # Windows has no nice
        os.nice(5)
    from fedvalue.watch import Watcher, WatchServer

    with Watcher(target) as watcher, WatchServer(watcher, host, port, token) as server:
        say(server.address if quiet else f"Open {server.address}   (Ctrl-C ends it.)")
        with suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)
