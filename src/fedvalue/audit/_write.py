"""The audit in words, as Markdown and as HTML. Names are data, never markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedvalue._html import block, paragraphs, table
from fedvalue._text import markdown_text, plural

if TYPE_CHECKING:
    from fedvalue.audit import Audit, Comparison, Finding

__all__ = [
    "absent_text",
    "as_html",
    "as_markdown",
    "chance_text",
    "brief_lines",
    "change_text",
    "coalition_text",
    "evidence_rows",
    "general_lines",
    "summary",
]

_NAMED = 3  # clients of a coalition; more are counted


def coalition_text(clients: Sequence[str], all_clients: int) -> str:
    """A coalition in a few words.

    >>> coalition_text((), 5), coalition_text(("a", "b"), 5), coalition_text(list("abcd"), 5)
    ('no clients', 'a, b', 'a, b and 2 more')
    """
    if not clients:
        return "no clients"
    if len(clients) == all_clients > 1:
        return "all clients"
    if len(clients) <= _NAMED:
        return ", ".join(clients)
    return f"{', '.join(clients[: _NAMED - 1])} and {len(clients) - _NAMED + 1} more"


def change_text(comparison: Comparison, all_clients: int) -> str:
    """What makes the second coalition out of the first, and with which seed, where there were several.

    >>> from fedvalue.audit import Comparison
    >>> change_text(Comparison(("a",), 0.5, ("a", "b"), 0.6, seed=2), 5)
    'with b (seed 2)'
    """
    added = [name for name in comparison.second if name not in comparison.first]
    gone = [name for name in comparison.first if name not in comparison.second]
    text = f"with {coalition_text(added, all_clients)}"
    text += f" instead of {coalition_text(gone, all_clients)}" if gone else ""
    return text if comparison.seed is None else f"{text} (seed {comparison.seed})"


def chance_text(finding: Finding) -> str:
    """How surely it was found.

    >>> from fedvalue.audit import Finding
    >>> chance_text(Finding("harmful", ("a",), "…", (), 0, 0.0123))
    'p = 0.012, adjusted for all tests'
    """
    if finding.kind == "below zero" and finding.p_value is None:
        return "not shown to be more than chance"
    if finding.p_value is None:
        return "by arithmetic"
    value = f"= {finding.p_value:.2g}" if finding.p_value >= 1e-4 else "< 0.0001"
    return f"p {value}, adjusted for all tests"


def summary(audit: Audit) -> str:
    """What was looked at and how much was found, in one sentence."""
    found = plural(len(audit.findings), "finding") if audit.findings else "no findings"
    trained = plural(audit.coalitions, "trained coalition")
    return f"{plural(audit.clients, 'client')}, {trained}, values by {audit.method}: {found}."


def brief_lines(audit: Audit) -> list[str]:
    """The findings alone, a line each: what it is, and of whom."""
    lines = []
    for finding in (*audit.findings, *audit.below_zero):
        # What was noticed about data begins with the name of the client whose it is.
        about = finding.statement if finding.kind == "suspicious data" else "all clients"
        lines.append(f"{finding.kind}: {', '.join(finding.clients) or about}")
    return lines


def evidence_rows(finding: Finding, all_clients: int) -> list[list[str]]:
    """A row for each comparison: coalition, utility, what is compared with it, utility, difference."""
    return [_cells(comparison, all_clients) for comparison in finding.evidence]


def general_lines(audit: Audit) -> list[str]:
    """What holds for all values together, sentence by sentence."""
    missing = [absent_text(name, why) for name, why in audit.absent.items()]
    empty = [audit.empty] if audit.empty else []
    return [*missing, audit.ranking, audit.noise, audit.outlook, *audit.not_assessed, *empty, audit.rate]


def absent_text(name: str, why: str) -> str:
    """A client that has no value.

    >>> absent_text("Como", "did not answer")
    'Not valued: Como (did not answer). Nothing is known of what its data adds.'
    """
    return f"Not valued: {name} ({why}). Nothing is known of what its data adds."


def as_html(audit: Audit) -> str:
    """Findings with their evidence, then what holds for all, for notebooks."""
    parts = [paragraphs([f"Audit: {audit.verdict}"], strong=True)]
    for finding in (*audit.findings, *audit.below_zero):
        parts.append(paragraphs([f"{finding.statement} ({chance_text(finding)})"]))
        if finding.evidence:
            head = ["coalition", "utility", "compared", "utility", "difference"]
            rows = evidence_rows(finding, audit.clients)
            changes = [one.second_utility - one.first_utility for one in finding.evidence]
            parts.append(table("", head, rows, changes))
    return block(*parts, paragraphs(general_lines(audit)))


def as_markdown(audit: Audit) -> str:
    """Findings first, then what holds for all."""
    parts = ["# Audit"]
    if not audit.findings:
        parts.append(markdown_text(audit.verdict))
    for finding in (*audit.findings, *audit.below_zero):
        parts += _finding(finding, audit.clients)
    lines = "\n".join(f"- {markdown_text(line)}" for line in general_lines(audit))
    origin = f"{audit.coalitions:,} coalitions of {audit.clients} clients; values by {markdown_text(audit.method)}."
    return "\n\n".join([*parts, "## In general", lines, origin]) + "\n"


def _finding(finding: Finding, clients: int) -> list[str]:
    who = ", ".join(map(markdown_text, finding.clients))
    rows = ["| coalition | utility | compared | utility | difference |", "| --- | ---: | --- | ---: | ---: |"]
    rows += [f"| {' | '.join(map(markdown_text, row))} |" for row in evidence_rows(finding, clients)]
    compared = [f"{len(finding.evidence)} of {finding.compared:,} comparisons:", "\n".join(rows)]
    return [
        f"## {finding.kind.capitalize()}{': ' if who else ''}{who}",
        f"{markdown_text(finding.statement)} ({chance_text(finding).replace('<', '&lt;')})",
        *(compared if finding.evidence else ()),
    ]


def _cells(comparison: Comparison, clients: int) -> list[str]:
    first, change = coalition_text(comparison.first, clients), change_text(comparison, clients)
    a, b = comparison.first_utility, comparison.second_utility
    return [first, f"{a:.4f}", change, f"{b:.4f}", f"{b - a:+.4f}"]
