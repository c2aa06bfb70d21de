"""Tables with bars for notebooks: HTML that stands by itself, in which whatever comes from outside is text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from fedvalue._text import one_line

__all__ = ["as_printed", "block", "paragraphs", "table"]

_MOST = 100  # rows; a page of a notebook is no place for more
_BAR = 160  # pixels
_CELL = "padding:2px 10px;border:none"


def table(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[float] = (),
    whiskers: Sequence[tuple[float, float]] = (),
) -> str:
    """A table whose first column is text and whose others are numbers; with `numbers`, a bar from zero ends each row.

    `whiskers` are intervals, drawn over the bars.

    >>> "&lt;b&gt;" in table("Values", ["client"], [["<b>"]])
    True
    """
    low, high = _range(numbers, whiskers)
    cut = rows[:_MOST]
    bars = [
        _bar(number, whiskers[row] if whiskers else None, low, high)
        for row, number in enumerate(numbers[:_MOST])
    ]
    body = "".join(_row("td", cells, bars[row] if bars else None) for row, cells in enumerate(cut))
    more = f"<p>{len(rows) - _MOST:,} more.</p>" if len(rows) > _MOST else ""
    return (
        f'<table style="border-collapse:collapse;font-variant-numeric:tabular-nums">'
        f'<caption style="text-align:left;font-weight:bold;caption-side:top">{_text(title)}</caption>'
        f"<thead>{_row('th', head, '' if bars else None)}</thead><tbody>{body}</tbody></table>{more}"
    )


def paragraphs(texts: Sequence[str], *, strong: bool = False) -> str:
    """Sentences below or above a table; nothing where there are none."""
    weight = "font-weight:bold;" if strong else ""
    return "".join(
        f'<p style="{weight}margin:4px 0;max-width:70em">{_text(text)}</p>' for text in texts if text
    )


def block(*parts: str) -> str:
    """What belongs together."""
    return f"<div>{''.join(parts)}</div>"


def as_printed(thing: object, printer: Any, cycle: bool) -> None:
    """As `_repr_pretty_` of a class: IPython shows, and a notebook keeps, what `print` shows, and not all that is in it."""
    printer.text(type(thing).__name__ if cycle else str(thing))


def _row(tag: str, cells: Sequence[str], bar: str | None) -> str:
    aligned = ("left", *("right" for _ in cells[1:]))
    shown = "".join(
        f'<{tag} style="text-align:{side};{_CELL}">{_text(cell)}</{tag}>'
        for cell, side in zip(cells, aligned, strict=True)
    )
    last = "" if bar is None else f'<{tag} style="{_CELL}">{bar}</{tag}>'
    return f"<tr>{shown}{last}</tr>"


def _range(numbers: Sequence[float], whiskers: Sequence[tuple[float, float]]) -> tuple[float, float]:
    bounds = [0.0, *numbers, *(end for pair in whiskers for end in pair)]
    finite = [number for number in bounds if abs(number) < float("inf")]
    return min(finite), max(finite)


def _bar(number: float, whisker: tuple[float, float] | None, low: float, high: float) -> str:
    """From zero to the number, green or, below zero, red."""
    scale = _BAR / ((high - low) or 1.0)

    def mark(start: float, end: float, style: str) -> str:
        if not abs(end - start) < float("inf"):  # not a number, or without bounds
            return ""
        left, width = (min(start, end) - low) * scale, abs(end - start) * scale
        return f'<div style="position:absolute;left:{left:.1f}px;width:{max(width, 1):.1f}px;{style}"></div>'

    colour = "#c0504d" if number < 0 else "#4f9d69"
    filled = mark(0.0, number, f"top:2px;height:10px;background:{colour}") if number else ""
    range_ = "" if whisker is None else mark(*whisker, "top:6px;height:2px;background:#888")
    zero = mark(0.0, 0.0, "top:0;height:14px;background:#bbb")
    return f'<div style="position:relative;width:{_BAR}px;height:14px">{filled}{range_}{zero}</div>'


def _text(text: str) -> str:
    return escape(one_line(text))
