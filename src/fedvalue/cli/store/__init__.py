"""`fedvalue store`: look into, export, check and merge stores of evaluated coalitions. One file per command."""

from __future__ import annotations

import typer

from fedvalue.cli.store import export, ls, merge, rename, show, verify

__all__ = ["app"]

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Look into, export, check and merge stores."
)
app.command("ls")(ls.ls)
app.command("show")(show.show)
app.command("export")(export.export)
app.command("rename")(rename.rename)
app.command("verify")(verify.verify)
app.command("merge")(merge.merge)
