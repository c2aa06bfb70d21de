"""Text that comes from outside, such as the names of clients: shown as it is, never run or rendered."""

from __future__ import annotations

import re

__all__ = ["csv_text", "markdown_text", "one_line"]

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
_MARKUP = re.compile(r"([\\`*_\[\]#~|]|:(?=//)|(?<=www)\.)")  # the last two: bare addresses become links
_JOINER = "\u200d"  # holds emoji of several signs together


def one_line(text: str) -> str:
    """Without line breaks and control characters, which would tear tables apart or reach the terminal.

    >>> one_line("a\\nb\\x1b[31m")
    'a b [31m'
    """
    return "".join(c if c.isprintable() or c == _JOINER else " " for c in text)


def markdown_text(text: str) -> str:
    """Text that Markdown and the HTML made of it show as it is, on one line.

    >>> print(markdown_text("a|b <b>"))
    a\\|b &lt;b&gt;
    """
    shown = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\1", shown)


def csv_text(text: str) -> str:
    """Text that a spreadsheet does not run: what begins like a formula gets an apostrophe in front.

    >>> csv_text("=1+1"), csv_text("clinic")
    ("'=1+1", 'clinic')
    """
    return f"'{text}" if _FORMULA.match(text) else text
