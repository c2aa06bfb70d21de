"""`fedvalue agreement new`: the terms of a run, to be signed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedvalue._text import listed
from fedvalue.cli._console import busy, notes, say
from fedvalue.cli._options import ABSENT, AgreementArgument, complete
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.agreement import Agreement
    from fedvalue.flower import FederationPlan

__all__ = ["new"]

_NAMED = 8


def new(
    ctx: typer.Context,
    file: AgreementArgument,
    operator: Annotated[
        str, typer.Option(metavar="NAME=KEY.pub", help="Who runs the valuation.", show_default=False)
    ],
    run_options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- RUN-OPTIONS", help="Options of `fedvalue run` that make the job, after two dashes."
        ),
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=KEY.pub", help="A client and its public key; repeatable."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="plan.json",
            help="Instead of run options: what a dry run of a federation left; members sign with their registered keys.",
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="What the agreement is called.")] = "",
    rule: Annotated[
        str, typer.Option(autocompletion=complete("rule"), help="Payout rule, as in `fedvalue payout`.")
    ] = "floor",
    pot: Annotated[
        str | None, typer.Option(metavar="AMOUNT", help="Amount to share out. [default: left open]")
    ] = None,
    currency: Annotated[str, typer.Option(help="Currency of the pot.")] = "",
    min_share: Annotated[
        str, typer.Option(metavar="X", help="Smallest part of the pot for every client that the rule pays.")
    ] = "0",
    absent: Annotated[str, typer.Option(metavar="RULE", help=ABSENT)] = "excluded",
    copies: Annotated[
        str,
        typer.Option(
            metavar="each|share", help="Whether interchangeable clients are each paid, or share one part."
        ),
    ] = "each",
    round_to: Annotated[str, typer.Option("--round", metavar="STEP", help="Smallest step.")] = "0.01",
) -> None:
    """Write down what a run will be: data, model, rules, metric, method, seeds, payout, and who takes part.

    For a federation, make a dry run first and give its --plan. The data is read, and nothing is trained. Clients without a key are named and do not sign.
    """
    from fedvalue.agreement import Party, PayoutTerms, read_public_line
    from fedvalue.cli._jobs import job_of

    if file.exists():
        raise InputError(
            f"{file} exists already, and an agreement is never overwritten. Choose another name."
        )
    name, key = _named(operator, "--operator")
    keys = dict(_named(one, "--member") for one in member or ())
    terms = PayoutTerms(rule, min_share, round_to, currency, pot, absent, copies)
    if plan is not None:
        if run_options:
            raise InputError(
                f"A plan says what will be run. Leave {run_options[0]!r} out, or leave --plan out."
            )
        lines = {who: read_public_line(Path(path)) for who, path in keys.items()}
        _written(file, _plan_in(plan).agree(Party(name, read_public_line(Path(key))), lines, terms, title))
        return
    with notes(), _command(ctx, "run").make_context("fedvalue run", list(run_options or ())) as options:
        job = job_of(options)
        with busy("reading the data"):
            lines = {who: read_public_line(Path(path)) for who, path in keys.items()}
            agreement = job.agree(Party(name, read_public_line(Path(key))), lines, terms, title)
    _written(file, agreement)


def _plan_in(file: Path) -> FederationPlan:
    from fedvalue.flower import FederationPlan

    try:
        return FederationPlan.from_dict(json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"Cannot read the plan {file}: {error.strerror}.") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{file} is not a plan that `fedvalue flower run --dry-run` left.") from error


def _written(file: Path, agreement: Agreement) -> None:
    agreement.save(file)
    say(f"Written to {file}: {agreement.hash}. To be signed by {listed(list(agreement.unsigned), _NAMED)}.")


def _named(text: str, option: str) -> tuple[str, str]:
    name, given, path = text.rpartition("=")
    if not given or not name or not path:
        raise InputError(f"{option} must be a name and the file of a public key: NAME=KEY.pub. Got {text!r}.")
    return name, path


def _command(ctx: typer.Context, name: str) -> Any:
    root: Any = ctx.find_root().command
    return root.commands[name]
