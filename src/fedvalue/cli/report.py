"""`fedvalue report`: a run as one page for people, or as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from fedvalue.report import Absent
    from fedvalue.store import History
    from fedvalue.values import Values

__all__ = ["report"]

_MOST_COALITIONS = 1 << 17  # beyond, reading them takes minutes and gigabytes


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
    from fedvalue.agreement import PayoutTerms
    from fedvalue.report import FORMATS, Absent, Cover, Terms, facts_of, kind_of, write_statements
    from fedvalue.run import (
        VALUES_FILE,
        not_as_agreed,
        read_record,
        read_values,
        refuse_signed,
        terms_agreed_for,
    )

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
        values, record = read_values(run), read_record(run)
        if record is not None and any(
            record.get(key) != getattr(values, key) for key in ("game_id", "method")
        ):
            record = None  # of another run: its command would give other values
        budget = (record or {}).get("budget")
        history = _history(values, run, store)
        agreed = terms_agreed_for(values, run) or PayoutTerms()
        terms = Terms(
            pot,
            ("" if pot is None else agreed.currency) if currency is None else currency,
            agreed.rule if rule is None and agreed.rule != PayoutTerms().rule else rule,
            anyway,
            agreed.absent if absent is None else absent,
            copies or agreed.copies,
            agreed.min_share if min_share is None else min_share,
            agreed.step if round_to is None else round_to,
        )
        cover = Cover.of(consortium, period, date, operator)
        facts = facts_of(values, history, record, terms, budget, cover)
        if not isinstance(facts.payout, Absent) and (
            remark := not_as_agreed(values, run, facts.payout, pot is None)
        ):
            warn(remark)
        write_result(FORMATS[kind](facts), target)
        pages = [] if statements is None else write_statements(facts, statements, kind)
    if not quiet and target != "-":
        also = f", and {plural(len(pages), 'statement')} to {statements}" if pages else ""
        say(f"Written to {target}{also}.")


def _history(values: Values, run: Path, store: Path | None) -> History | Absent | None:
    from fedvalue.report import Absent
    from fedvalue.run import find_history, find_store

    if store is None and not find_store(run, None).is_file():
        return None
    try:
        found = find_history(values, run, store, _MOST_COALITIONS)
    except InputError as error:
        if store is not None or run.is_dir():
            raise
        return Absent(str(error))  # values alone, and a store that only happens to be beside them
    return found or Absent(
        f"More than {_MOST_COALITIONS:,} coalitions were trained, too many to look at one by one in a report."
    )
