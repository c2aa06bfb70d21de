"""`fedvalue verify`: whether what a run has left is what it should be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli._console import busy, complain, say
from fedvalue.cli._options import JsonTarget, RunArgument, StoreOption, complete
from fedvalue.cli._targets import check_targets, write_result

__all__ = ["verify"]


def verify(
    run: RunArgument,
    agreement: Annotated[
        Path | None, typer.Option(help="Your own copy of what was agreed. [default: the copy in the folder]")
    ] = None,
    retrain: Annotated[
        int, typer.Option(metavar="K", min=0, help="Train this many random coalitions again, and compare.")
    ] = 0,
    seed: Annotated[
        int | None, typer.Option(help="Which coalitions are drawn. [default: one that nobody can foresee]")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="With --retrain: where the data is here. [default: as the run says]")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            autocompletion=complete("method"),
            help="Also compute the values by another method. If the run used a method of its own: that one, package.module:name.",
        ),
    ] = None,
    signed_by: Annotated[
        Path | None,
        typer.Option(
            metavar="KEY.pub",
            help="Public key of whoever must have signed. [default: the agreement's operator]",
        ),
    ] = None,
    store: StoreOption = None,
    json: JsonTarget = None,
    out: Annotated[
        Path | None, typer.Option(help="Write a page to keep: .html, or .md.", show_default=False)
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only what is wrong or was not checked.")
    ] = False,
) -> None:
    """Check what a run has left; exit code 1 if something is wrong.

    Exit code 2 if that cannot be known.

    Looks at its files alone: checksums and signatures; whether all rows of the store that the values rest on are there, unaltered
    and in their order; values, payouts and reports, computed again from the store. docs/dispute.md says what that proves.
    """
    from fedvalue.agreement import read_public_line
    from fedvalue.evidence import verify as check

    check_targets(json, None if out is None else str(out))
    key = None if signed_by is None else read_public_line(signed_by)
    with busy("verifying", quiet):
        found = check(
            run,
            agreement,
            store=store,
            method=method,
            retrain=retrain,
            data_dir=data_dir,
            seed=seed,
            signed_by=key,
        )
    write_result(found.to_dict(), json)
    if out is not None:
        found.save(out)
    for each, line in zip(found.checks, found.lines(), strict=True):
        if json != "-" and (not quiet or each.state != "sound"):
            say(line)
    if json != "-":
        say(found.statement)
    if found.wrong:
        complain(f"{run} is not what it should be.")
        raise typer.Exit(1)
    if not found.sound:
        complain(f"{run} could not be checked: see what is NOT CHECKED.")
        raise typer.Exit(2)
