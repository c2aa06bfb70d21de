"""What commands print, and where: results on stdout, everything else on stderr."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import typer

from fedvalue._files import json_text, write_file
from fedvalue.errors import FedvalueWarning, InputError

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "busy",
    "check_targets",
    "complain",
    "new_table",
    "notes",
    "on_terminal",
    "print_json",
    "print_table",
    "say",
    "warn",
    "write_result",
]

_ROOMY = 90  # columns; narrower terminals get tables without extra space
_UNLIMITED = 100_000  # columns: a row in a pipe is one line, however long


def say(text: str = "") -> None:
    """A line of the result; on a terminal it wraps between words, in a pipe it does not."""
    typer.echo(_wrapped(text, sys.stdout))


def complain(text: str) -> None:
    """A line on stderr that says what went wrong."""
    typer.echo(_wrapped(f"Error: {text}", sys.stderr), err=True)


def warn(text: str) -> None:
    """A line on stderr that has to be seen, whatever becomes of the result."""
    typer.echo(_wrapped(f"Warning: {text}", sys.stderr), err=True)


def on_terminal() -> bool:
    """Whether a person sees what is printed."""
    return sys.stdout.isatty()


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


def print_json(data: Any) -> None:
    """The data as JSON on stdout."""
    say(json_text(data))


def check_targets(*targets: str | None) -> None:
    """Refuses what cannot be written before anything is computed; only one result can go to stdout."""
    given = [target for target in targets if target is not None]
    if given.count("-") > 1:
        raise InputError("Only one format can be printed; give the others a file name.")
    for target in given:
        if target != "-" and not Path(target).absolute().parent.is_dir():
            raise InputError(f"Cannot write {target}: there is no such folder.")
        if target != "-" and not os.access(Path(target).absolute().parent, os.W_OK):
            raise InputError(f"Cannot write {target}: its folder cannot be written to.")


def write_result(data: Mapping[str, Any] | str, target: str | None) -> None:
    """Text as it is, or other data as JSON: in a file, on stdout for `-`, nowhere for None."""
    if target is None:
        return
    text = data if isinstance(data, str) else json_text(data) + "\n"
    if target == "-":
        typer.echo(text, nl=False)
        return
    with write_file(Path(target)) as file:
        file.write(text.encode())


@contextmanager
def notes() -> Iterator[None]:
    """For commands that run a user's own code: modules in the current folder can be imported, and warnings of
    fedvalue itself are shown as notes, each once.
    """
    here = str(Path.cwd())
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.append(here)  # at the end: a file in the folder must not take the place of a library
    shown: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", FedvalueWarning)
        usual = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
            if not issubclass(category, FedvalueWarning):
                usual(message, category, *rest, **named)
            elif str(message) not in shown:
                shown.add(str(message))
                typer.echo(f"Note: {message}", err=True)

        warnings.showwarning = note
        try:
            yield
        finally:
            if added and here in sys.path:
                sys.path.remove(here)


@contextmanager
def busy(text: str, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr while something runs; the function given changes its text."""
    if quiet or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as status:
        yield lambda text: status.update(text)


def _wrapped(text: str, stream: TextIO) -> str:
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
