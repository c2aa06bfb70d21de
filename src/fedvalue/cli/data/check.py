"""`fedvalue data check`: what fedvalue makes of a folder, before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue._text import count, one_line, plural
from fedvalue.cli._console import complain, print_json, say
from fedvalue.cli._options import JsonFlag
from fedvalue.cli._pairs import scenario_options
from fedvalue.cli._tables import new_table, print_table

if TYPE_CHECKING:
    from fedvalue.scenarios import DataReport

__all__ = ["check"]


def check(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with a file per client and a test set.")
    ],
    label: Annotated[str | None, typer.Option(help="Column to predict.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="KEY=VALUE",
            help="As for a run: drop=id,note decimal=comma; one of a kind, repeatable.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Check a folder of your own: rows, columns, what is done to them, what is suspicious, what is refused.

    Exit code 1 if something is refused.
    """
    from fedvalue.scenarios import check_folder

    options = scenario_options(option or (), ("folder", "label"))
    report = check_folder(folder, label=label, **options)
    if json:
        print_json(report.to_dict())
    else:
        _print(report)
    if report.refused:
        raise typer.Exit(1)


def _print(report: DataReport) -> None:
    from rich.text import Text

    if report.parties:
        table = new_table(
            "client",
            "rows",
            "missing",
            "labels",
            "suspicious",
            right=("rows", "missing", "suspicious"),
            wrap=("labels",),
        )
        for party in report.parties:
            name = f"({party.name})" if party.is_test else party.name
            odd = str(len(party.findings)) if party.findings else "–"
            table.add_row(Text(name), count(party.rows), count(party.missing), Text(party.labels), odd)
        print_table(table)
        say()
    if report.columns:
        table = new_table(
            "column", "kind", "features", "what is done", right=("features",), wrap=("what is done",)
        )
        for column in report.columns:
            done = Text(one_line("; ".join(column.done)) or "–")
            table.add_row(Text(one_line(column.name)), column.kind, count(column.features), done)
        print_table(table)
        say()
    if report.task:
        say(one_line(f"{plural(report.features, 'feature')}; {report.predicts}."))
    for what in report.done:
        say(one_line(f"{what[:1].upper()}{what[1:]}."))
    for what in report.suspicious:
        say(one_line(f"Suspicious: {what}."))
    for what in report.refused:
        complain(one_line(what))
    if not report.refused:
        say("Nothing is refused." if report.suspicious else "Nothing is refused, and nothing is suspicious.")
