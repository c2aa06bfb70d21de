"""The list of sections: what the page and its Markdown twin consist of, in their order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fedvalue.report._benefits import benefits, benefits_text, has_benefits
from fedvalue.report._charts import convergence, growth, ranking
from fedvalue.report._facts import Facts
from fedvalue.report._pairs import pairs
from fedvalue.report._templates import audit_text, html, markdown

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["SECTIONS", "Section"]


class Section(NamedTuple):
    """A part of the report with a heading: `body` makes it of the facts for the page, `text` for Markdown, if it is in there.

    Sections of the `annex` come last, after a heading of their own: those who check need them, those who pay do not. A
    section is left out where the facts do not have what it `needs`.
    """

    key: str
    title: str
    body: Callable[[Facts], Markup]
    text: Callable[[Facts], str] | None = None
    annex: bool = False
    needs: Callable[[Facts], bool] = lambda facts: True


def _of(
    key: str, title: str, body: Callable[[Facts], Markup] | None = None, *, annex: bool = False
) -> Section:
    """A section whose templates have its name."""
    return Section(key, title, body or partial(html, key), partial(markdown, key), annex)


def _has_disclosure(facts: Facts) -> bool:
    """Whether it is known what left the clients."""
    return facts.values.disclosure is not None


SECTIONS = (
    _of("clients", "Who gets what", ranking),
    _of("statements", "A statement for each client"),
    _of("sensitivity", "What the amounts depend on"),
    _of("incidents", "Incidents"),
    Section("audit", "Audit", partial(html, "audit"), audit_text),
    Section("benefits", "Who benefits from whose data", benefits, benefits_text, needs=has_benefits),
    _of("growth", "How utility grows with more clients", growth),
    _of("pairs", "Which clients complement or replace each other", pairs),
    _of("rules", "The rules that were run", annex=True),
    _of("method", "Method, guarantee and limits", annex=True),
    _of("convergence", "How the values settled", convergence, annex=True),
    _of("cost", "Cost", annex=True),
    _of("disclosure", "What left each client", annex=True)._replace(needs=_has_disclosure),
    _of("origin", "How to check and repeat this", annex=True),
    _of("terms", "Words of this report", annex=True),
    _of("signatures", "Signatures", annex=True),
)
"""What the report consists of, in its order. A further part is a function of the facts, or a template, and a line here."""
