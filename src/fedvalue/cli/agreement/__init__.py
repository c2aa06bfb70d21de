"""`fedvalue agreement`: write down what a run will be, sign it, and look at it. One file per command."""

from __future__ import annotations

import typer

from fedvalue.cli.agreement import check, key, new, show, sign

__all__ = ["app"]

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Write down what a run will be before it begins, and sign it.",
)
app.command("key")(key.key)
app.command("new")(new.new)
app.command("sign")(sign.sign)
app.command("show")(show.show)
app.command("check")(check.check)
