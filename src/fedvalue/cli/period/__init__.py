"""`fedvalue period`: a consortium over time. One file per command."""

from __future__ import annotations

import typer

from fedvalue.cli.period import close, show, verify

__all__ = ["app"]

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Value a consortium period by period: members come and go.",
)
# What it does not know itself are options of `fedvalue run`.
app.command("close", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(close.close)
app.command("show")(show.show)
app.command("verify")(verify.verify)
