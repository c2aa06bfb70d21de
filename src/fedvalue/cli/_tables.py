"""Tables of the command line: drawn on a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

from fedvalue.cli._console import say

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.values import Values

__all__ = ["new_table", "print_table", "print_values"]

_ROOMY = 90  # columns; narrower terminals get tables without extra space
_UNLIMITED = 100_000  # columns: a row in a pipe is one line, however long


def new_table(*headings: str, right: Collection[str] = (), wrap: Collection[str] = ()) -> Table:
    """An empty table in the style of the command line.

    The columns in `right` are numbers, those in `wrap` are prose. A line break in a heading is used on
    narrow terminals only.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        justify: Literal["left", "right"] = "right" if heading in right else "left"
        table.add_column(heading, justify=justify, no_wrap=heading not in wrap)
    return table


def print_values(values: Values) -> None:
    """The table of values, with bars of signs that the encoding of the output has."""
    print_table(values.table(unicode="utf" in (sys.stdout.encoding or "").lower()))


def print_table(table: Table) -> None:
    """Draws the table on a terminal; elsewhere one plain line per row, never folded."""
    from rich.console import Console

    console = Console(highlight=False)
    narrow = console.is_terminal and console.width < _ROOMY
    if not narrow:
        for column in table.columns:
            column.header = str(column.header).replace("\n", " ")
    elif not table.show_edge:
        table.padding = 0
    unlimited = Console(width=_UNLIMITED, highlight=False)
    if console.is_terminal:
        if table.columns[-1].header == "" and unlimited.measure(table).maximum > console.width:
            table.columns.pop()  # a bar: the numbers beside it say more
        if all(column.no_wrap for column in table.columns):
            # Cut-off numbers are worse than lines that the terminal wraps.
            console.width = max(console.width, unlimited.measure(table).maximum)
        console.print(table)
        return
    table.box = None
    table.pad_edge = False
    table.padding = (0, 2, 0, 0)
    with unlimited.capture() as captured:
        unlimited.print(table)
    for line in captured.get().splitlines():
        say(line.rstrip())
