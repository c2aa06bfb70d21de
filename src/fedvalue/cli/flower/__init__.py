"""`fedvalue flower`: valuations in a real federation. One file per command."""

from __future__ import annotations

import typer

from fedvalue.cli.flower import demo, deploy, init, join, leave, register, run

__all__ = ["app"]

app = typer.Typer(help="Value the clients of a Flower federation; see docs/flower.md.", no_args_is_help=True)
app.command("init")(init.init)
app.command("demo")(demo.demo)
app.command("deploy")(deploy.deploy)
app.command("register")(register.register)
app.command("join")(join.join)
app.command("leave")(leave.leave)
app.command("run")(run.run)
