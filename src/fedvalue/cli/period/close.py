"""`fedvalue period close`: values the members of a period, pays out its pot, and writes both down for good."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from fedvalue.cli import run as run_command
from fedvalue.cli._config import used_config
from fedvalue.cli._console import notes, say
from fedvalue.cli._jobs import job_of
from fedvalue.cli._options import (
    AnywayOption,
    CopiesOption,
    JsonTarget,
    PeriodsArgument,
    QuietOption,
    complete,
)
from fedvalue.cli._targets import check_targets, write_result
from fedvalue.cli.period.show import print_period
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.run import Job

__all__ = ["close"]


def close(
    ctx: typer.Context,
    folder: PeriodsArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the period, such as 2026-Q1.", show_default=False)],
    pot: Annotated[str | None, typer.Option(metavar="AMOUNT", help="Amount to share out. [default: none, values only]")] = None,
    currency: Annotated[str, typer.Option(help="Currency shown with the amounts, such as EUR.")] = "",
    rule: Annotated[str, typer.Option(autocompletion=complete("rule"), help="Rule of payout, see `fedvalue payout`.")] = "floor",
    min_share: Annotated[str, typer.Option(metavar="X", help="Smallest part of the pot for every client that the rule pays.")] = "0",
    round_to: Annotated[str, typer.Option("--round", metavar="STEP", help="Smallest step: amounts are multiples of it.")] = "0.01",
    debts: Annotated[str, typer.Option(metavar="forgive|carry", help="What becomes of a value below zero: it is forgiven, or carried over and held against what the client earns later.")] = "forgive",
    escrow: Annotated[list[str] | None, typer.Option(metavar="CLIENT", help="Hold back what this client earns; repeatable.")] = None,
    release: Annotated[list[str] | None, typer.Option(metavar="CLIENT", help="Pay out what was held back for this client; repeatable.")] = None,
    renamed: Annotated[list[str] | None, typer.Option(metavar="OLD=NEW", help="A client has another name than before; repeatable.")] = None,
    same: Annotated[list[str] | None, typer.Option(metavar="CLIENT", help="This client is the same as before, although its rows or its key are others: its account goes on; repeatable.")] = None,
    new_terms: Annotated[bool, typer.Option("--new-terms", help="Rules, model, test set, metric, method, budget, seeds or groups are others than before: what depends on them is trained again.")] = False,
    federation: Annotated[Path | None, typer.Option(metavar="DIR", help="Instead of run options: the folder that a valuation in a Flower federation left.")] = None,
    anyway: AnywayOption = False,
    copies: CopiesOption = None,
    json: JsonTarget = None,
    quiet: QuietOption = False,
) -> None:  # fmt: skip
    """Close a period: value its members, share out the pot, carry balances over.

    What to run is said as to `fedvalue run`: in the table [run] of fedvalue.toml, or by its options after NAME. Coalitions
    whose members are the same as before are not trained again. A period that a federation has valued is closed with --federation.
    """
    from fedvalue.periods import Periods

    quiet = quiet or json == "-"
    check_targets(json)
    if federation is not None and ctx.args:
        raise InputError(
            f"What a federation ran is in its folder. Leave {ctx.args[0]!r} out, or leave --federation out."
        )
    with notes():
        job = _job(list(ctx.args), quiet) if federation is None else federation
        period = Periods(folder).close(
            name,
            job,
            pot=pot,
            currency=currency,
            rule=rule,
            min_share=min_share,
            step=round_to,
            debts=debts,
            escrow=escrow or (),
            release=release or (),
            renamed=_pairs(renamed or []),
            same=same or (),
            new_terms=new_terms,
            anyway=anyway,
            copies=copies,
            progress=not quiet,
        )
    write_result(period.to_plain(), json)
    if json != "-":
        print_period(period)
    if not quiet:
        say(f"{period.trained:,} trainings were made, {period.known:,} were known.")
        for line in period.money.settlement.policy if period.money else ():
            say(line)
        say(
            f"Closed: {folder / name}, {folder / 'history.html'}. Seal, for whoever wants to check later: {period.seal}"
        )


def _job(arguments: list[str], quiet: bool) -> Job:
    """What to run, by the options of `fedvalue run`."""
    runs = typer.Typer(add_completion=False, rich_markup_mode=None)
    runs.command("run")(run_command.run)
    asked = cast(typer.Context, typer.main.get_command(runs).make_context("run", arguments))
    if asked.params["dry_run"] or asked.params["json"]:
        raise InputError("--dry-run and the JSON of a run are options of `fedvalue run` alone.")
    job = job_of(asked)
    if not quiet and used_config(asked):
        say(used_config(asked))
    return job


def _pairs(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not equals or not old.strip() or not new.strip():
            raise InputError(f"--renamed is written as OLD=NEW. Got {text!r}.")
        found[old.strip()] = new.strip()
    return found
