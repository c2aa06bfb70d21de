"""The report as Markdown: the same facts in tables. Names are data, never markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fedvalue.payout import doubtful_orders
from fedvalue.report.run._facts import Client, Facts
from fedvalue.report.run._markup import called
from fedvalue.report.run._trained import Absent, strongest
from fedvalue.report.run._words import NAME, convergence_note, signed
from fedvalue.text import markdown_text, one_line

__all__ = ["as_markdown"]

_PAIRS, _COLUMNS = 12, 12  # pairs in a table, clients in the table of convergence


def as_markdown(facts: Facts) -> str:
    """The report as a text that reads well with or without a renderer."""
    parts = [
        f"# {facts.title}",
        *map(markdown_text, facts.verdict),
        "## Clients by value",
        _ranking(facts),
        _bullets(_notes(facts)),
        "## How utility grows with more clients",
        _growth(facts),
        "## Which clients complement or replace each other",
        *_pairs(facts),
        "## How the values settled",
        *_convergence(facts),
        _audit(facts),
        "## Method, guarantee and limits",
        markdown_text(f"{facts.method.name}: {facts.method.description}"),
        _bullets([*facts.method.guarantee, *facts.method.limits]),
        "## Cost",
        _bullets(facts.cost),
        "## To check and repeat this",
        *_origin(facts),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    marks = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, marks, *rows))


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {markdown_text(line)}" for line in lines)


def _name(name: str) -> str:
    return markdown_text(called(name, NAME))


def _ranking(facts: Facts) -> str:
    unit = "% of the pot" if facts.unit == "%" else facts.unit
    head = [
        "Client",
        "#",
        "Value",
        "95 % interval",
        "Share",
        f"Payout {markdown_text(unit)}".rstrip(),
        "Note",
    ]
    return _table(head, [_row(client, facts.decimals) for client in facts.clients])


def _row(client: Client, decimals: int) -> list[str]:
    known = client.low is not None and client.high is not None
    paid = "–" if client.paid is None else client.paid
    return [
        _name(client.name),
        str(client.rank),
        signed(client.value, decimals),
        f"{signed(client.low or 0.0, decimals)} to {signed(client.high or 0.0, decimals)}" if known else "–",
        "–" if client.share is None else f"{client.share:.1%}".replace("-", "−"),
        f"{paid} ({client.paid_range})" if client.paid_range else paid,
        client.note,
    ]


def _notes(facts: Facts) -> list[str]:
    if isinstance(facts.payout, Absent):
        return [facts.interval_note, f"No payout: {facts.payout.why}"]
    paid = facts.payout
    return [facts.interval_note, *paid.policy, paid.stability.statement, *doubtful_orders(paid)]


def _growth(facts: Facts) -> str:
    growth = facts.growth
    if isinstance(growth, Absent):
        return markdown_text(growth.why)
    rows = [
        [
            str(layer.size),
            f"{layer.coalitions:,}",
            *(f"{x:.{facts.decimals}f}" for x in (layer.lowest, layer.mean, layer.highest)),
        ]
        for layer in growth.layers
    ]
    return _table(["clients", "coalitions", "lowest", "mean", "highest"], rows, left=0)


def _pairs(facts: Facts) -> list[str]:
    synergy = facts.synergy
    if isinstance(synergy, Absent):
        return [markdown_text(synergy.why)]
    said = f"{len(synergy.pairs):,} of {synergy.possible:,} pairs are known."
    parts = [said]
    for title, pairs in zip(("complement", "replace"), strongest(synergy, _PAIRS), strict=True):
        rows = [
            [
                f"{_name(facts.names[pair.first])} and {_name(facts.names[pair.second])}",
                signed(pair.effect, facts.decimals),
                f"{pair.quadruples:,}",
            ]
            for pair in pairs
        ]
        if rows:
            parts.append(_table([f"{title} each other most", "effect", "sets behind it"], rows))
    return parts


def _convergence(facts: Facts) -> list[str]:
    found = facts.convergence
    if isinstance(found, Absent):
        return [markdown_text(found.why)]
    shown = facts.clients[:_COLUMNS]
    head = ["coalitions", *(_name(client.name) for client in shown)]
    rows = [
        [f"{count:,}", *(signed(values[client.index], facts.decimals) for client in shown)]
        for count, values in zip(found.counts, found.values, strict=True)
    ]
    return [markdown_text(convergence_note(found, facts.method.name)), _table(head, rows, left=0)]


def _audit(facts: Facts) -> str:
    if isinstance(facts.audit, Absent):
        return f"## Audit\n\n{markdown_text(facts.audit.why)}"
    return re.sub(r"^#", "##", facts.audit.to_markdown().rstrip(), flags=re.MULTILINE)


def _origin(facts: Facts) -> list[str]:
    origin = facts.origin
    rows = [[markdown_text(label), markdown_text(value)] for label, value in origin.rows]
    listed = _table(["what", "which"], rows, left=2)
    if origin.command is None:
        return ["How these values were run is not recorded beside them.", listed]
    return [f"    {one_line(origin.command)}", listed]
