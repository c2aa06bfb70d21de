"""The command `fedvalue`. To add a group of commands: a file here and a line below.

Other packages add commands, too: with an entry point in the group `fedvalue.commands` that names a function. They
print with what this room exports, and raise errors of `fedvalue.errors`.

Exit codes: 0 done; 1 something failed while running; 2 wrong usage or input; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from fedvalue._interrupt import INTERRUPTED, INTERRUPTED_CODE, raise_as_usual
from fedvalue._version import __version__
from fedvalue.cli import (
    agreement,
    audit,
    benefits,
    compare,
    data,
    flower,
    indices,
    methods,
    payout,
    period,
    plan,
    report,
    run,
    sign,
    store,
    value,
    verify,
    watch,
)
from fedvalue.cli._console import complain, print_json, say
from fedvalue.cli._plugins import OpenGroup
from fedvalue.cli._tables import new_table, print_table
from fedvalue.errors import FedvalueError, InputError

__all__ = ["app", "complain", "main", "new_table", "print_json", "print_table", "say"]


class _Commands(OpenGroup):
    """Turns what commands raise into one message on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            raise_as_usual()
            return super().invoke(ctx)
        except FedvalueError as error:
            complain(str(error))
            raise typer.Exit(2 if isinstance(error, InputError) else 1) from error
        except MemoryError as error:
            complain("There is not enough memory for this.")
            raise typer.Exit(1) from error
        except KeyboardInterrupt as error:
            complain(INTERRUPTED)
            raise typer.Exit(INTERRUPTED_CODE) from error


# typer 0.20 escapes brackets for rich also where help is plain: "\\[default: 4]".
typer.core.HAS_RICH = False

# Plain help and usage errors: they read the same on a terminal, in a pipe and in a log.
app = typer.Typer(
    name="fedvalue",
    cls=_Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("plan")(plan.plan)
app.command("run")(run.run)
app.command("methods")(methods.methods)
app.command("value")(value.value)
app.command("compare")(compare.compare)
app.command("payout")(payout.payout)
app.command("audit")(audit.audit)
app.command("benefits")(benefits.benefits)
app.command("indices")(indices.indices)
app.command("report")(report.report)
app.command("watch")(watch.watch)
app.command("verify")(verify.verify)
app.command("sign")(sign.sign)
app.add_typer(agreement.app, name="agreement")
app.add_typer(data.app, name="data")
app.add_typer(store.app, name="store")
app.add_typer(flower.app, name="flower")
app.add_typer(period.app, name="period")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedvalue {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What is each data provider in a federated-learning consortium worth?"""


def main() -> None:
    """Runs the command line."""
    # Threads that wait for each other sleep instead of spinning. Where other programs use the cores, too,
    # spinning makes trainings of small models up to thirty times slower. Read when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # Results are printed on stdout, and so is what Ray says of its workers, which we say ourselves. Read when Ray is
    # imported: a pattern of lines to leave out.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # an old encoding shows ? for ±, and does not end the program
            stream.reconfigure(errors="replace")
    app(prog_name="fedvalue")
