"""`fedvalue report`: a run as one page for people, as Markdown or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli._console import busy, say, write_file
from fedvalue.cli._read import (
    VALUES_FILE,
    check_targets,
    find_store,
    find_trainings,
    read_record,
    read_values,
)
from fedvalue.cli.payout import rule_names
from fedvalue.cli.value import guarantee_lines
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.report.run import Absent, Facts, Terms
    from fedvalue.trainings import Trainings

__all__ = ["report", "write_report"]

_MOST_COALITIONS = 1 << 17  # beyond, reading them takes minutes and gigabytes


def _format_names(incomplete: str) -> list[str]:
    from fedvalue.report.run import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


def report(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="Folder that `fedvalue run --out` wrote, or a values.json.",
            show_default=False,
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="File to write; - prints it. [default: report.html beside the values]"
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            autocompletion=_format_names, help="html, md or png. [default: what --out ends in, or html]"
        ),
    ] = None,
    pot: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="What is shared out. [default: payouts in percent]"),
    ] = None,
    currency: Annotated[str, typer.Option(help="Named with the amounts, such as EUR.")] = "",
    rule: Annotated[
        str | None,
        typer.Option(
            autocompletion=rule_names, help="Rule of payout, as in `fedvalue payout`. [default: floor]"
        ),
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="File with the trainings. [default: that of the run]")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing.")] = False,
) -> None:
    """Write a report of a run: one file that works offline.

    The verdict, the clients with value, interval, share and payout, how utility grows, which clients complement
    each other, how the values settled, the audit, the method and its limits, the cost, and how to repeat it.
    docs/report.md says what each part means.
    """
    from fedvalue.report.run import Terms

    if currency and pot is None:
        raise InputError("A currency needs an amount: add --pot.")
    kind = _format(out, format)
    target = out if out is not None else str(_beside(run, kind))
    check_targets(target)
    with busy("writing the report", quiet):
        write_report(run, target, kind, Terms(pot, currency, rule), store)
    if not quiet and target != "-":
        say(f"Written to {target}.")


def write_report(
    run: Path, target: str, kind: str = "html", terms: Terms | None = None, store: Path | None = None
) -> None:
    """The report of the run in a folder, as a file or on stdout."""
    from fedvalue.report.run import FORMATS

    content = FORMATS[kind](_facts(run, terms, store))
    if target == "-":
        typer.echo(content, nl=False)
        return
    with write_file(Path(target)) as file:
        file.write(content)


def _beside(run: Path, kind: str) -> Path:
    """A values.json of a name of its own does not take the place of the run's own report."""
    if run.is_dir():
        return run / f"report.{kind}"
    return run.with_name(f"report.{kind}" if run.name == VALUES_FILE else f"{run.stem}-report.{kind}")


def _format(out: str | None, format: str | None) -> str:
    from fedvalue.report.run import FORMATS

    kind = format or (Path(out).suffix.lstrip(".").lower() if out not in (None, "-") else "") or "html"
    kind = {"htm": "html", "markdown": "md"}.get(kind, kind)
    if kind not in FORMATS:
        raise InputError(
            f"A report is written as {', '.join(FORMATS)}. Got {kind!r}. Choose one with --format."
        )
    return kind


def _facts(run: Path, terms: Terms | None, store: Path | None) -> Facts:
    from fedvalue.report.run import Absent, gather

    values, record = read_values(run), read_record(run)
    if record is not None and any(record.get(key) != getattr(values, key) for key in ("game_id", "method")):
        record = None  # of another run: its command would give other values
    trainings: Trainings | Absent | None = None
    if store is not None or find_store(run, None).is_file():
        try:
            trainings = find_trainings(values, run, store, _MOST_COALITIONS)
        except InputError as error:
            if store is not None or run.is_dir():
                raise
            trainings = Absent(str(error))  # values alone, and a store that only happens to be beside them
        trainings = trainings or Absent(
            f"More than {_MOST_COALITIONS:,} coalitions were trained, too many to look at one by one in a report."
        )
    budget = (record or {}).get("budget")
    return gather(values, trainings, record, terms, guarantee_lines(values, budget))
