"""`fedvalue report`: a run as one page for people, or as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue._text import plural
from fedvalue.cli._console import busy, say, warn
from fedvalue.cli._options import (
    AbsentOption,
    AnywayOption,
    ConsortiumOption,
    CopiesOption,
    CurrencyOption,
    DateOption,
    MinShareOption,
    OperatorOption,
    PeriodOption,
    RunArgument,
    StepOption,
    StoreOption,
    complete,
)
from fedvalue.cli._targets import check_targets, write_result
from fedvalue.errors import InputError

__all__ = ["report"]


def report(
    run: RunArgument,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="File to write; - prints it. [default: report.html beside the values]"
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            autocompletion=complete("format"), help="html or md. [default: by the ending of --out, else html]"
        ),
    ] = None,
    pot: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Amount to share out. [default: payouts in percent]"),
    ] = None,
    currency: CurrencyOption = None,
    rule: Annotated[
        str | None,
        typer.Option(
            autocompletion=complete("rule"),
            help="Payout rule, as in `fedvalue payout`. [default: as agreed, else floor]",
        ),
    ] = None,
    min_share: MinShareOption = None,
    round_to: StepOption = None,
    absent: AbsentOption = None,
    copies: CopiesOption = None,
    anyway: AnywayOption = False,
    consortium: ConsortiumOption = None,
    period: PeriodOption = None,
    date: DateOption = None,
    operator: OperatorOption = None,
    statements: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for a page per client, without the amounts of others."),
    ] = None,
    store: StoreOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing.")] = False,
) -> None:
    """Write a report of a run: one file that works offline.

    Who gets what and why, what the amounts depend on, incidents, the audit, how utility grows, which clients complement
    each other; an annex with the rules, the method and its limits, the cost, how to repeat it, and room for signatures.
    docs/report.md says what each part means. Under an agreement, what is not said of the payout is as agreed.
    """
    from fedvalue.report import FORMATS, Cover, kind_of, write_statements
    from fedvalue.run import VALUES_FILE, facts_of_run, read_values, refuse_signed

    if currency and pot is None:
        raise InputError("A currency needs an amount: add --pot.")
    kind = kind_of(format or ("" if out in (None, "-") else Path(str(out)).suffix))
    # A values.json of a name of its own does not take the place of the run's own report.
    stem = "report" if run.is_dir() or run.name == VALUES_FILE else f"{run.stem}-report"
    target = str((run if run.is_dir() else run.parent) / f"{stem}.{kind}") if out is None else out
    check_targets(target)
    if statements is not None:
        refuse_signed(statements)
    with busy("writing the report", quiet):
        said = {"pot": pot, "currency": currency, "rule": rule, "min_share": min_share, "step": round_to}
        said |= {"absent": absent, "copies": copies}
        cover = Cover.of(consortium, period, date, operator)
        facts, remark = facts_of_run(read_values(run), run, said, store, anyway, cover)
        if remark:
            warn(remark)
        write_result(FORMATS[kind](facts), target)
        pages = [] if statements is None else write_statements(facts, statements, kind)
    if not quiet and target != "-":
        also = f", and {plural(len(pages), 'statement')} to {statements}" if pages else ""
        say(f"Written to {target}{also}.")
