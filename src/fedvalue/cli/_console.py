"""What commands print, and where: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TextIO

import typer

from fedvalue.errors import InputError
from fedvalue.text import count, plural

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "busy",
    "complain",
    "count",
    "new_table",
    "on_terminal",
    "plural",
    "print_json",
    "print_table",
    "say",
    "write_file",
    "write_json",
]

_ROOMY = 90  # columns; narrower terminals get tables without extra space
_UNLIMITED = 100_000  # columns: a row in a pipe is one line, however long


def say(text: str = "") -> None:
    """A line of the result; on a terminal it wraps between words, in a pipe it does not."""
    typer.echo(_wrapped(text, sys.stdout))


def complain(text: str) -> None:
    """A line on stderr that says what went wrong."""
    typer.echo(_wrapped(f"Error: {text}", sys.stderr), err=True)


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
    say(_json_text(data))


def write_json(data: Any, target: str) -> None:
    """The data as JSON in a file, or on stdout for `-`."""
    if target == "-":
        print_json(data)
        return
    with write_file(Path(target)) as file:
        file.write(_json_text(data).encode() + b"\n")


@contextmanager
def write_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name when it is complete, and not before."""
    special = path.exists() and not path.is_file()  # /dev/stdout, a pipe: written to, never replaced
    draft = path if special else path.with_name(f".{path.name[:64]}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            yield file
        if not special:
            draft.replace(path)
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from error
    finally:
        if not special:
            draft.unlink(missing_ok=True)


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


def _json_text(data: Any) -> str:
    return json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(data: Any) -> Any:
    """JSON knows neither nan nor infinity: null."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data
