"""The report as one page that needs nothing else: no script, no request, no font. Its charts are inline SVG."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fedvalue.report._benefits import benefits, has_benefits
from fedvalue.report._charts import convergence, growth, pairs, ranking
from fedvalue.report._facts import Facts
from fedvalue.report._templates import html, style_sheet

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["SECTIONS", "Section", "as_html"]


class Section(NamedTuple):
    """A part of the page with a heading: `body` makes it of the facts, where they have what it `needs`."""

    key: str
    title: str
    body: Callable[[Facts], Markup]
    needs: Callable[[Facts], bool] = lambda facts: True


SECTIONS = (
    Section("clients", "Clients by value", ranking),
    Section("benefits", "Who benefits from whose data", benefits, has_benefits),
    Section("growth", "How utility grows with more clients", growth),
    Section("pairs", "Which clients complement or replace each other", pairs),
    Section("convergence", "How the values settled", convergence),
    Section("audit", "Audit", partial(html, "audit")),
    Section("method", "Method, guarantee and limits", partial(html, "method")),
    Section("cost", "Cost", partial(html, "cost")),
    Section(
        "disclosure",
        "What left each client",
        partial(html, "disclosure"),
        lambda facts: facts.values.disclosure is not None,
    ),
    Section("origin", "How to check and repeat this", partial(html, "origin")),
)
"""What the page consists of, in its order. A further chart is a function of the facts and a line here."""


def as_html(facts: Facts) -> str:
    """The page. The same facts give the same bytes."""
    shown = [section for section in SECTIONS if section.needs(facts)]
    return str(html("page", facts, sections=shown, style=style_sheet(), data=_script_text(facts.to_dict())))


def _script_text(data: Any) -> Markup:
    """JSON that can stand in a script element: nothing in it ends the element, and all of it is ASCII.

    >>> print(_script_text({"a": "</script>", "b": float("nan")}))
    {"a":"\\u003c/script\\u003e","b":null}
    """
    from markupsafe import Markup

    text = json.dumps(_finite(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data
