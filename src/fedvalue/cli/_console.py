"""What commands print, and where: results on stdout, everything else on stderr."""

from __future__ import annotations

import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import typer

from fedvalue._files import json_text
from fedvalue._text import plural
from fedvalue.errors import FedvalueWarning

__all__ = [
    "busy",
    "complain",
    "notes",
    "on_terminal",
    "print_json",
    "print_problems",
    "say",
    "warn",
]


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


def print_json(data: Any) -> None:
    """The data as JSON on stdout."""
    say(json_text(data))


def print_problems(path: Path, problems: Sequence[str], sound: str, json: bool) -> None:
    """What was found wrong with a file or folder, or that what is there is sound; ends with exit code 1 if it is not."""
    if json:
        print_json({"sound": not problems, "problems": list(problems)})
    else:
        say("\n".join(problems) or f"No problems: {sound}.")
    if problems:
        complain(f"{path} has {plural(len(problems), 'problem')}; restore it from a copy.")
        raise typer.Exit(1)


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
