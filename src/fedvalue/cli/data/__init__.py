"""`fedvalue data`: scenarios, and folders of your own. One file per command."""

from __future__ import annotations

import typer

from fedvalue.cli.data import check, fetch, ls, overlap, show

__all__ = ["app"]

app = typer.Typer(help="Scenarios: who the clients are, and where their data is.", no_args_is_help=True)
app.command("check")(check.check)
app.command("ls")(ls.ls)
app.command("fetch")(fetch.fetch)
app.command("show")(show.show)
app.command("sketch")(overlap.sketch)
app.command("overlap")(overlap.overlap)
