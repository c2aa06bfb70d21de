"""The report as one page that needs nothing else: no script, no request, no font. Its charts are inline SVG."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from fedvalue.report._facts import Facts
from fedvalue.report._sections import SECTIONS, Section
from fedvalue.report._templates import html, style_sheet

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["SECTIONS", "Section", "as_html", "script_text"]


def as_html(facts: Facts) -> str:
    """The page. The same facts give the same bytes."""
    shown = [section for section in SECTIONS if section.needs(facts)]
    main = [section for section in shown if not section.annex]
    annex = [section for section in shown if section.annex]
    data = script_text(facts.to_dict())
    return str(html("page", facts, main=main, annex=annex, style=style_sheet(), data=data))


def script_text(data: Any) -> Markup:
    """JSON that can stand in a script element: nothing in it ends the element, and all of it is ASCII.

    >>> print(script_text({"a": "</script>", "b": float("nan")}))
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
