"""`fedvalue audit`: what the trained coalitions show about single clients."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli._console import busy, count, new_table, plural, print_table, say, write_file, write_json
from fedvalue.cli._read import check_targets, read_values
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.audit import Audit, Finding
    from fedvalue.values import Values

__all__ = ["audit", "read_trainings"]

_STORE = "store.db"


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
        Path | None, typer.Option(help="File with the trainings. [default: store.db in the folder]")
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
        found = look(values, *read_trainings(values, run, store), level=level, more=more)
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


def read_trainings(
    values: Values, run: Path, store: Path | None
) -> tuple[dict[int, list[float]], dict[int, Hashable]]:
    """Utilities of every coalition, one for each replicate, and all metrics, which tell models apart."""
    from fedvalue.outcome import LOWER_IS_BETTER, UTILITY
    from fedvalue.store import UtilityStore

    path = store or (run if run.is_dir() else run.parent) / _STORE
    if not path.is_file():
        raise InputError(f"There is no store {path}, and the audit looks at trainings. Name it with --store.")
    metric, replicates = values.details.get("metric", UTILITY), values.details.get("replicates", 1)
    if not isinstance(metric, str) or not isinstance(replicates, int) or not 1 <= replicates <= 10_000:
        raise InputError(
            f"{run} names no usable metric and number of replicates. Got {metric!r}, {replicates!r}."
        )
    sign = -1.0 if metric.rsplit("/", 1)[-1] in LOWER_IS_BETTER else 1.0
    utilities: dict[int, list[float]] = {}
    prints: dict[int, tuple[Hashable, ...]] = {}
    with UtilityStore(path, create=False) as opened:
        for replicate in range(replicates):
            for mask, outcome in opened.read(values.game_id, None, replicate).items():
                if metric not in outcome.metrics:
                    known = ", ".join(outcome.metrics)
                    raise InputError(
                        f"The trainings in {path} have no metric {metric!r}. They have: {known}."
                    )
                utilities.setdefault(mask, []).append(sign * outcome.metrics[metric])
                prints[mask] = (*prints.get(mask, ()), *sorted(outcome.metrics.items()))
    if not utilities:
        raise InputError(
            f"{path} holds no trainings of the game {values.game_id or '(none)'} that these values are of. Name "
            "the store of that run with --store."
        )
    return utilities, dict(prints)


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
