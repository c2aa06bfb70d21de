"""Markup by hand: elements whose attributes are escaped, text that is never markup, numbers that are short."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from fedvalue.text import one_line, shortened

__all__ = [
    "Scale",
    "bullets",
    "called",
    "core_range",
    "element",
    "folded",
    "json_text",
    "named",
    "paragraphs",
    "percent",
    "shown",
    "table",
    "ticks",
]

_CORE = (0.025, 0.975)


def shown(text: str) -> str:
    """Text from anywhere, as text: no line breaks, no control characters, no markup.

    >>> shown("<b>a</b>\\n&")
    '&lt;b&gt;a&lt;/b&gt; &amp;'
    """
    return escape(one_line(text), quote=True)


def called(name: str, most: int) -> str:
    """The name of a client in a text: on one line, shortened, and a word for none.

    >>> called("clinic", 4), called(" ", 4)
    ('cli…', '(no name)')
    """
    return shortened(name, most) if one_line(name).strip() else "(no name)"


def named(name: str, most: int) -> str:
    """The name of a client: kept apart from text in the other direction, shortened, in full where one points at it."""
    short = called(name, most)
    whole = {} if short == one_line(name) else {"title": shortened(name, 400)}
    return element("bdi", shown(short), **whole)


def element(name: str, inside: str = "", **attributes: Any) -> str:
    """An element around markup. None leaves an attribute out; class_ and data_x are class and data-x.

    >>> element("td", shown("1 < 2"), class_="n", title='"')
    '<td class="n" title="&quot;">1 &lt; 2</td>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{inside}</{name}>"


def table(
    caption: str, head: Iterable[str], rows: Iterable[Iterable[str]], numbers: Iterable[int] = ()
) -> str:
    """A plain table of markup; the first cell of a row is its heading, the columns in `numbers` are numbers."""
    right = set(numbers)

    def cell(place: int, inside: str) -> str:
        kind = "num" if place in right else None
        return (
            element("th", inside, scope="row", class_=kind)
            if place == 0
            else element("td", inside, class_=kind)
        )

    heading = "".join(
        element("th", text, scope="col", class_="num" if place in right else None)
        for place, text in enumerate(head)
    )
    body = "".join(element("tr", "".join(cell(k, text) for k, text in enumerate(row))) for row in rows)
    inside = element("caption", caption) + element("thead", element("tr", heading)) + element("tbody", body)
    # Wide tables scroll by themselves, with the keyboard too; the page does not.
    return element(
        "div", element("table", inside), class_="scroll", tabindex="0", role="region", aria_label=caption
    )


def paragraphs(lines: Sequence[str]) -> str:
    """Each text as a paragraph."""
    return "".join(element("p", shown(line)) for line in lines)


def bullets(lines: Sequence[str]) -> str:
    """Texts as a list."""
    return element("ul", "".join(element("li", shown(line)) for line in lines))


def folded(summary: str, inside: str) -> str:
    """Markup that opens at a click, without a script."""
    return element("details", element("summary", shown(summary)) + inside)


def json_text(data: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element, and all of it is ASCII.

    >>> json_text({"a": "</script>", "b": float("nan")})
    '{"a":"\\\\u003c/script\\\\u003e","b":null}'
    """
    text = json.dumps(_finite(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data


class Scale:
    """Numbers to places between 0 and `length`, straight or by their logarithms.

    >>> Scale(0.0, 10.0)(2.5), Scale(1.0, 100.0, log=True)(10.0)
    (25.0, 50.0)
    """

    def __init__(self, low: float, high: float, length: float = 100.0, log: bool = False) -> None:
        self.of = math.log if log else float
        self.low, self.high = self.of(low), self.of(high)
        self.length = length

    def __call__(self, number: float) -> float:
        width = self.high - self.low
        return round(self.length * (self.of(number) - self.low) / width, 2) if width else self.length / 2


def percent(place: float) -> str:
    """A place across, in percent of whatever width there is.

    >>> percent(12.5), percent(40.0)
    ('12.5%', '40%')
    """
    return f"{place:g}%"


def core_range(numbers: Sequence[float], inside: Sequence[float]) -> tuple[float, float]:
    """From the lowest to the highest number, unless a few far ones would squeeze all others: then without those.

    >>> core_range([0.0, 1.0, 2.0], [0.0]), core_range([0.0, 1.0] * 50 + [-99.0], [0.0])
    ((0.0, 2.0), (0.0, 1.0))
    """
    whole = min(*numbers, *inside), max(*numbers, *inside)
    low, high = (float(x) for x in np.quantile(numbers, _CORE))
    core = min(low, *inside, high), max(low, *inside, high)
    return core if core[1] - core[0] < (whole[1] - whole[0]) / 2 else whole


def ticks(low: float, high: float, most: int, whole: bool = False) -> list[float]:
    """Round numbers within a range, at most so many.

    >>> ticks(0.0, 1.0, 5), ticks(0, 10, 6, whole=True)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])
    """
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    steps = (step * power for step in (1, 2, 2.5, 5, 10, 20, 25, 50, 100))
    fitting = (step for step in steps if not whole or (step >= 1 and step == int(step)))
    step = next(step for step in fitting if math.floor(high / step) - math.ceil(low / step) < most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]
