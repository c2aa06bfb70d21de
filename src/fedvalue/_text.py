"""Text for people: what comes from outside is shown as it is, never run or rendered; numbers can be read.

What comes from outside are the names of clients above all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf, log10

__all__ = [
    "bars",
    "bars_around_zero",
    "count",
    "csv_text",
    "duration",
    "is_one_line",
    "listed",
    "markdown_text",
    "minute",
    "one_line",
    "percent",
    "plain_table",
    "plot_text",
    "plural",
    "shortened",
    "size",
]

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
_MARKUP = re.compile(r"([\\`*_\[\]#~|]|:(?=//)|(?<=www)\.)")  # the last two: bare addresses become links
_JOINER = "\u200d"  # holds emoji of several signs together
_YEAR = 31_557_600
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:-=+*#%@"
_WIDEST = 24  # bars shown one by one; more are shown in groups


def one_line(text: str) -> str:
    """Without line breaks and control characters, which would tear tables apart or reach the terminal.

    >>> one_line("a\\nb\\x1b[31m")
    'a b [31m'
    """
    return "".join(c if c.isprintable() or c == _JOINER else " " for c in text)


def is_one_line(name: str) -> bool:
    """Whether a name can stand in a table as it is: not empty, and nothing in it that is not seen.

    >>> is_one_line("Clinic 3"), is_one_line(""), is_one_line("a\\nb"), is_one_line("\\u202eyob")
    (True, False, False, False)
    """
    return bool(name.strip()) and name == name.strip() and one_line(name) == name


def markdown_text(text: str) -> str:
    """Text that Markdown and the HTML made of it show as it is, on one line.

    >>> print(markdown_text("a|b <b>"))
    a\\|b &lt;b&gt;
    """
    shown = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\1", shown)


def plot_text(text: str) -> str:
    """Text in which a picture of matplotlib sees no formula.

    >>> print(plot_text("US$ and $x$"))
    US\\$ and \\$x\\$
    """
    return one_line(text).replace("$", r"\$")


def csv_text(text: str) -> str:
    """Text that a spreadsheet does not run: what begins like a formula gets an apostrophe in front.

    >>> csv_text("=1+1"), csv_text("clinic")
    ("'=1+1", 'clinic')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def shortened(text: str, most: int) -> str:
    """At most so many characters, on one line; what is cut off shows as an ellipsis.

    >>> shortened("clinic", 6), shortened("clinics", 6)
    ('clinic', 'clini…')
    """
    shown = one_line(text)
    return shown if len(shown) <= most else f"{shown[: most - 1].rstrip()}…"


def listed(words: Sequence[str], most: int) -> str:
    """The first of many words, and that there are more.

    >>> listed(["a", "b"], 2), listed(["a", "b", "c"], 2)
    ('a, b', 'a, b, …')
    """
    return ", ".join(words[:most]) + (", …" if len(words) > most else "")


def count(number: int) -> str:
    """A count for people: thousands apart, and powers where digits say nothing.

    >>> count(1024), count(2**100), count(2**100 - 1)
    ('1,024', '2^100', 'over 10^30')
    """
    if number >= 10**12 and number & (number - 1) == 0:
        return f"2^{number.bit_length() - 1}"
    if number >= 10**18:
        return f"over 10^{len(str(number)) - 1}"
    return f"{number:,}"


def plural(number: int, what: str) -> str:
    """A number of things.

    >>> plural(1, "client"), plural(2048, "client")
    ('1 client', '2,048 clients')
    """
    return f"{count(number)} {what}{'' if number == 1 else 's'}"


def percent(fraction: float) -> str:
    """A fraction in per cent, with two digits that count: 0.25, 2.5, 25, 250.

    >>> percent(0.0025), percent(0.253), percent(0.0)
    ('0.25', '25', '0')
    """
    number = 100 * fraction
    if number == 0:
        return "0"
    return f"{number:.{2 if number < 0.995 else 1 if number < 9.95 else 0}f}"


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(0.04), duration(75), duration(7_000), duration(1e9), duration(3e24)
    ('0.04 s', '1.2 min', '1.9 h', '32 years', '10^17 years')
    """
    if seconds < 60:
        decimals = 2 if seconds < 1 else 1 if seconds < 10 else 0
        return f"{seconds:.{decimals}f} s"
    if seconds >= 10_000 * _YEAR:
        return f"10^{log10(seconds / _YEAR):.0f} years"
    scales = ((60, 60, "min"), (48, 3600, "h"), (730, 86_400, "days"), (inf, _YEAR, "years"))
    number, name = next((seconds / length, name) for most, length, name in scales if seconds / length < most)
    return f"{number:.1f} {name}" if number < 10 else f"{number:,.0f} {name}"


def minute(moment: str) -> str:
    """A moment as stores keep it, without seconds.

    >>> minute("2026-03-01T09:30:12.5+00:00")
    '2026-03-01 09:30'
    """
    return moment[:16].replace("T", " ")


def size(count: float) -> str:
    """Bytes for people.

    >>> size(4_000_000_000), size(1_536)
    ('4.0 GB', '2 kB')
    """
    for scale, name in ((1e9, "GB"), (1e6, "MB")):
        if count >= scale:
            return f"{count / scale:.1f} {name}" if count < 10 * scale else f"{count / scale:,.0f} {name}"
    return f"{count / 1000:.0f} kB"


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their longest cell, the first to the left, the others to the right.

    >>> print(plain_table(["client", "value"], [["a", "+0.5"]]))
    client  value
    a        +0.5
    """
    lines = [[one_line(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[j]) for line in lines) for j in range(len(header))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        ).rstrip()
        for line in lines
    )


def bars(counts: Sequence[int], unicode: bool = True) -> str:
    """A small bar per class, the largest of the row full; what is there is never invisible.

    >>> bars([0, 1, 50, 100])
    ' ▁▄█'
    """
    signs = _BLOCKS if unicode else _ASCII
    group = -(-len(counts) // _WIDEST)
    sums = [sum(counts[i : i + group]) for i in range(0, len(counts), group)]
    largest = max(sums) or 1
    top = len(signs) - 1
    return "".join(signs[max(1, round(top * size / largest)) if size else 0] for size in sums)


def bars_around_zero(numbers: Sequence[float], width: int, unicode: bool = True) -> list[str]:
    """A bar per number, on one scale; where some are negative, these go left from an axis and the others right.

    >>> bars_around_zero([2.0, 1.0, 0.0], 4)
    ['████', '██', '']
    >>> bars_around_zero([2.0, -1.0, 0.0], 6, unicode=False)
    ['  |####', '##|', '  |']
    """
    block, axis = ("█", "│") if unicode else ("#", "|")
    span = max((0.0, *numbers)) - min((0.0, *numbers)) or 1.0
    cells = [max(1, round(width * abs(number) / span)) if number else 0 for number in numbers]
    left = max((many for many, number in zip(cells, numbers, strict=True) if number < 0), default=0)
    if not left:
        return [block * many for many in cells]
    return [
        f"{block * many:>{left}}{axis}" if number < 0 else f"{'':{left}}{axis}{block * many}"
        for many, number in zip(cells, numbers, strict=True)
    ]
