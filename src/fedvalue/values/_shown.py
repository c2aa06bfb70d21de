"""Values as tables: plain text, rich, HTML, pandas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fedvalue._extras import need
from fedvalue._html import block, paragraphs
from fedvalue._html import table as as_html
from fedvalue._text import bars_around_zero, one_line, plain_table
from fedvalue.indices import SHAPLEY

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.table import Table

    from fedvalue.values._values import Values

__all__ = ["frame", "heading", "html", "table", "text"]

_BAR_WIDTH = 24
_HEAD = ("client", "value", "± 95%", "share")


def frame(values: Values, level: float) -> DataFrame:
    """See `Values.to_frame`."""
    pandas = need("pandas", "A frame")
    unknown = np.full((values.n, 2), np.nan)
    interval = values.interval(level)
    low, high = (unknown if interval is None else interval).T
    return pandas.DataFrame(
        {
            "client": list(values.names),
            "value": values.mean,
            "stderr": unknown[:, 0] if values.stderr is None else values.stderr,
            "low": low,
            "high": high,
            "share": values.share,
            "method": values.method,
            "guarantee": values.guarantee,
            **({} if values.index == SHAPLEY else {"index": values.index}),
        }
    )


def heading(values: Values) -> str:
    """What stands over a table of them: a table alone must not pass other values off as Shapley's."""
    return f"{'Data value' if values.index == SHAPLEY else values.title} by {values.method}"


def text(values: Values) -> str:
    """A plain table, as `print` shows it."""
    title = f"{heading(values)}{f' ({values.promise})' if values.promise else ''}"
    lines = [title, plain_table(_HEAD, _cells(values, 0.95)), _absent(values)]
    return "\n".join(filter(None, lines))


def html(values: Values) -> str:
    """See `Values._repr_html_`."""
    interval = values.interval()
    whiskers = () if interval is None else [(float(low), float(high)) for low, high in interval]
    title = f"{heading(values)}{f' ({values.promise})' if values.promise else ''}"
    shown = as_html("", _HEAD, _cells(values, 0.95), values.mean.tolist(), whiskers)
    return block(paragraphs([title, values.warning], strong=True), shown, paragraphs([_absent(values)]))


def table(values: Values, level: float, unicode: bool) -> Table:
    """See `Values.table`."""
    from rich.table import Table
    from rich.text import Text

    caption = Text(_absent(values)) if values.absent else None
    shown = Table(title=heading(values), title_justify="left", caption=caption, caption_justify="left")
    shown.add_column("client", overflow="fold")
    for column in ("value", f"± {level:.0%}", "share"):
        shown.add_column(column, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    bars = bars_around_zero(values.mean.tolist(), _BAR_WIDTH, unicode)
    for (name, *numbers), mean, bar in zip(_cells(values, level), values.mean, bars, strict=True):
        shown.add_row(Text(name), *numbers, Text(bar, style="red" if mean < 0 else "green"))
    return shown


def _absent(values: Values) -> str:
    """Who has no value, and why."""
    if not values.absent:
        return ""
    return (
        f"Absent: {'; '.join(f'{one_line(name)} ({one_line(why)})' for name, why in values.absent.items())}."
    )


def _cells(values: Values, level: float) -> list[tuple[str, str, str, str]]:
    """Name, value, half the interval and share of every client, as text."""
    interval = values.interval(level)
    largest = float(np.abs(values.mean).max(initial=0.0)) or 1.0
    decimals = min(max(4, 2 - math.floor(math.log10(largest))), 12)  # small values keep their digits
    return [
        (
            name,
            f"{mean:+.{decimals}f}",
            "–" if interval is None else f"{(interval[i, 1] - interval[i, 0]) / 2:.{decimals}f}",
            "–" if np.isnan(share) else f"{share:.1%}",
        )
        for i, (name, mean, share) in enumerate(zip(values.names, values.mean, values.share, strict=True))
    ]
