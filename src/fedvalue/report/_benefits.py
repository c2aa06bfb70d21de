"""Who benefits from whose data: a map of the matrix with its numbers, and a table of givers and takers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.report._facts import Facts
from fedvalue.report._pairs import MOST_IN_MAP, NUMBERS_UP_TO, READABLE, SHADES, Cell, shade
from fedvalue.report._templates import html, markdown
from fedvalue.report._words import called, fixed, signed
from fedvalue.values import Benefits

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["benefits", "benefits_text", "has_benefits"]


class Sums(NamedTuple):
    """One client: what its data does for itself and for others, what theirs does for it, and the difference."""

    name: str
    kept: str
    given: str
    gained: str
    balance: str
    reach: str


def has_benefits(facts: Facts) -> bool:
    """Whether the values were measured on rows of each client by itself."""
    return facts.values.benefits is not None


def benefits(facts: Facts) -> Markup:
    """Lines are clients whose rows were tested, columns those whose data it is, both in the order of the clients."""
    found = facts.values.benefits
    assert found is not None
    n = len(found.names)
    strongest = float(np.abs(found.matrix).max())
    height = 30 if n <= NUMBERS_UP_TO else 20
    return html(
        "benefits",
        facts,
        found=found,
        cells=_cells(found, strongest, facts.decimals, height) if n <= MOST_IN_MAP else None,
        columns=[round(100 / n * (k + 0.5), 2) for k in range(n)],
        numbers={name: k for k, name in enumerate(found.names, 1)},
        width=round(100 / n, 2),
        height=height,
        widest=max(22, 3.8 * n + 14),
        shades=SHADES,
        ends=(signed(-strongest, facts.decimals), signed(strongest, facts.decimals)),
        sums=_sums(facts, found),
        texts=_texts(found, facts.decimals),
    )


def benefits_text(facts: Facts) -> str:
    """The same as tables, for Markdown."""
    found = facts.values.benefits
    assert found is not None
    return markdown("benefits", facts, found=found, sums=_sums(facts, found))


def _sums(facts: Facts, found: Benefits) -> list[Sums]:
    """Givers first."""
    reach, decimals = found.reach(found.balance_stderr), facts.decimals
    return [
        Sums(
            found.names[j],
            signed(float(found.kept[j]), decimals),
            signed(float(found.given[j]), decimals),
            signed(float(found.gained[j]), decimals),
            signed(float(found.balance[j]), decimals),
            "–" if reach is None else fixed(float(reach[j]), decimals),
        )
        for j in np.argsort(-found.balance, kind="stable")
    ]


def _texts(found: Benefits, decimals: int) -> list[list[str]]:
    reach = found.reach(found.stderr)
    texts = [[signed(float(number), decimals) for number in row] for row in found.matrix]
    if reach is None:
        return texts
    return [
        [f"{text} ± {fixed(float(width), decimals)}" for text, width in zip(row, widths, strict=True)]
        for row, widths in zip(texts, reach, strict=True)
    ]


def _cells(found: Benefits, strongest: float, decimals: int, height: int) -> list[Cell]:
    n = len(found.names)
    readable = n <= NUMBERS_UP_TO and (strongest == 0 or READABLE[0] <= strongest < READABLE[1])
    reach = found.reach(found.stderr)
    cells = []
    for i, owner in enumerate(found.owners):
        for j, name in enumerate(found.names):
            number = float(found.matrix[i, j])
            width = "" if reach is None else f" ± {fixed(float(reach[i, j]), decimals)}"
            title = f"the data of {called(name)} for {called(owner)}: {signed(number, decimals)}{width}"
            place = round(100 / n * j, 2), 18 + height * i
            cells.append(Cell(*place, shade(number, strongest), title, signed(number, 3) if readable else ""))
    return cells
