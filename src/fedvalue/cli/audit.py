"""`fedvalue audit`: what the trained coalitions show about single clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue._text import count, one_line
from fedvalue.cli._console import busy, say
from fedvalue.cli._options import JsonTarget, RunArgument, StoreOption
from fedvalue.cli._tables import new_table, print_table
from fedvalue.cli._targets import check_targets, write_result

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.audit import Audit, Finding
    from fedvalue.what_if import WhatIf

__all__ = ["audit"]


def audit(
    run: RunArgument,
    store: StoreOption = None,
    level: Annotated[
        float, typer.Option(help="Probability of a false finding if there is nothing to find.")
    ] = 0.05,
    more: Annotated[
        int | None,
        typer.Option(
            min=0, help="Number of further trainings to forecast for. [default: as many as were made]"
        ),
    ] = None,
    what_if: Annotated[
        bool,
        typer.Option(
            "--what-if",
            help="Also say what clients would be worth copied, in two parts, or merged with another.",
        ),
    ] = False,
    json: JsonTarget = None,
    md: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Write the findings as Markdown; - prints only Markdown."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the findings, one line each.")] = False,
) -> None:
    """Show what stands out about single clients, with evidence.

    Looks for clients that contribute nothing, are interchangeable, do harm, or depend on one other client, and
    says whether the ranking is more than training noise. Evidence, not accusations: docs/audit.md says what each
    finding means and does not mean.
    """
    from fedvalue.audit import audit as look
    from fedvalue.run import find_history, read_values
    from fedvalue.what_if import what_if as ask

    check_targets(json, md)
    values = read_values(run)
    with busy("looking", quiet):
        history = find_history(values, run, store)
        found = look(values, history.utilities, history.prints, level, more, seeds=history.seeds)
        changes = ask(values, history.utilities, seeds=history.seeds) if what_if else None
    plain, page = found.to_dict(), found.to_markdown()
    if changes is not None:
        plain, page = {**plain, "what_if": changes.to_dict()}, f"{page}\n{changes.to_markdown()}"
    written = {target: data for target, data in ((json, plain), (md, page)) if target}
    for target, data in written.items():
        write_result(data, target)
    if "-" in written:
        return
    _show(found, quiet)
    if changes is not None:
        _show_changes(changes)
    if written and not quiet:
        say(f"Written to {' and '.join(written)}.")


def _show(found: Audit, quiet: bool) -> None:
    from fedvalue.audit import brief_lines, general_lines, summary

    if quiet:
        for line in brief_lines(found):
            say(one_line(line))
        return
    say(one_line(summary(found)))
    if not found.findings:
        say(one_line(found.verdict))
    for finding in (*found.findings, *found.below_zero):
        _show_finding(finding, found.clients)
    say()
    for line in general_lines(found):
        say(one_line(line))


def _show_finding(finding: Finding, clients: int) -> None:
    from fedvalue.audit import chance_text

    say()
    who = f": {', '.join(finding.clients)}" if finding.clients else ""
    say(one_line(f"{finding.kind.upper()}{who} ({chance_text(finding)})"))
    say(one_line(finding.statement))
    if finding.compared > len(finding.evidence):
        say(f"{len(finding.evidence)} of {count(finding.compared)} comparisons:")
    if finding.evidence:
        print_table(_evidence(finding, clients))


def _show_changes(changes: WhatIf) -> None:
    from rich.text import Text

    from fedvalue.what_if import HEAD

    say()
    table = new_table(*HEAD, right=HEAD[2:])
    for row in changes.rows():
        table.add_row(Text(one_line(row[0])), *row[1:])
    print_table(table)
    for line in changes.assumptions:
        say(one_line(line))


def _evidence(finding: Finding, clients: int) -> Table:
    from rich.text import Text

    from fedvalue.audit import evidence_rows

    head = ("coalition", "utility", "compared", "", "difference")
    table = new_table(*head, right=("utility", "", "difference"))
    for column in (0, 2):
        table.columns[column].no_wrap, table.columns[column].overflow = False, "fold"
    for row in evidence_rows(finding, clients):
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table
