"""`fedvalue store merge`: several stores in one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue._text import listed, plural
from fedvalue.cli._console import busy, complain, print_json, say
from fedvalue.cli._options import JsonFlag

__all__ = ["merge"]


def merge(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Store to add to.")],
    others: Annotated[
        list[Path], typer.Argument(metavar="OTHER...", help="Stores to add; they are not changed.")
    ],
    json: JsonFlag = False,
) -> None:
    """Add everything from other stores. If both know a coalition, the target keeps its numbers."""
    from fedvalue.store import UtilityStore

    for other in others:  # before the target is made
        UtilityStore(other, create=False).close()
    reports = {}
    with UtilityStore(target) as store, busy("merging"):
        for other in others:
            reports[other] = store.merge(other)
            if not json:
                say(f"{other}: {reports[other].line()}.")
    if json:
        print_json([{"store": str(other), **report.to_dict()} for other, report in reports.items()])
    conflicts = [conflict for report in reports.values() for conflict in report.conflicts]
    if conflicts:
        number = plural(len(conflicts), "coalition")
        complain(f"{number} had other metrics than in {target}, whose own were kept: {listed(conflicts, 5)}.")
        raise typer.Exit(1)
