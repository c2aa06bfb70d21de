"""`fedvalue audit`: what the trained coalitions show about single clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli._console import busy, count, new_table, plural, print_table, say, write_file, write_json
from fedvalue.cli._read import check_targets, find_trainings, read_values

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.audit import Audit, Finding

__all__ = ["audit"]


def audit(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="Folder that `fedvalue run --out` wrote, or a values.json together with --store.",
            show_default=False,
        ),
    ],
    store: Annotated[
        Path | None, typer.Option(help="File with the trainings. [default: that of the run]")
    ] = None,
    level: Annotated[
        float, typer.Option(help="Chance of any false finding where there is nothing to be found.")
    ] = 0.05,
    more: Annotated[
        int | None, typer.Option(min=0, help="Further trainings to look ahead to. [default: as many again]")
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write it as JSON; - prints JSON only.")
    ] = None,
    md: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write it as Markdown; - prints that only.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the findings, one line each.")] = False,
) -> None:
    """Show what stands out about single clients, with evidence.

    Looks for clients that contribute nothing, are interchangeable, do harm, or depend on one other client, and
    says whether the ranking is more than training noise. Evidence, not accusations: docs/audit.md says what each
    finding means and does not mean.
    """
    from fedvalue.audit import audit as look

    check_targets(json, md)
    values = read_values(run)
    with busy("looking", quiet):
        trained = find_trainings(values, run, store)
        found = look(values, trained.utilities, trained.prints, level=level, more=more)
    if json is not None:
        write_json(found.to_dict(), json)
    if md == "-":
        typer.echo(found.to_markdown(), nl=False)
    elif md is not None:
        with write_file(Path(md)) as file:
            file.write(found.to_markdown().encode())
    written = [target for target in (json, md) if target is not None]
    if "-" in written:
        return
    _show(found, quiet)
    if written and not quiet:
        say(f"Written to {' and '.join(written)}.")


def _show(found: Audit, quiet: bool) -> None:
    from fedvalue.audit import general_lines
    from fedvalue.text import one_line

    if quiet:
        for finding in found.findings:
            say(one_line(f"{finding.kind}: {', '.join(finding.clients)}"))
        return
    say(
        f"{plural(found.clients, 'client')}, {plural(found.coalitions, 'trained coalition')}, values by "
        f"{one_line(found.method)}: {plural(len(found.findings), 'finding') if found.findings else 'no findings'}."
    )
    for finding in found.findings:
        _show_finding(finding, found.clients)
    say()
    for line in general_lines(found):
        say(one_line(line))


def _show_finding(finding: Finding, clients: int) -> None:
    from fedvalue.audit import chance_text
    from fedvalue.text import one_line

    say()
    who = f": {', '.join(finding.clients)}" if finding.clients else ""
    say(one_line(f"{finding.kind.upper()}{who} ({chance_text(finding)})"))
    say(one_line(finding.statement))
    if finding.compared > len(finding.evidence):
        say(f"{len(finding.evidence)} of {count(finding.compared)} comparisons:")
    print_table(_evidence(finding, clients))


def _evidence(finding: Finding, clients: int) -> Table:
    from rich.text import Text

    from fedvalue.audit import change_text, coalition_text
    from fedvalue.text import one_line

    table = new_table(
        "coalition", "utility", "compared", "", "difference", right=("utility", "", "difference")
    )
    for column in (0, 2):
        table.columns[column].no_wrap, table.columns[column].overflow = False, "fold"
    for row in finding.evidence:
        a, b = row.first_utility, row.second_utility
        first, change = one_line(coalition_text(row.first, clients)), one_line(change_text(row, clients))
        table.add_row(Text(first), f"{a:.4f}", Text(change), f"{b:.4f}", f"{b - a:+.4f}")
    return table
