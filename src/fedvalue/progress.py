"""What a person sees while coalitions are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["show_progress"]

Report = Callable[[int, int], None]


@contextmanager
def show_progress(progress: bool | Report) -> Iterator[Report]:
    """A function of (done, total): the given one, one that draws a bar on the terminal, or none at all.

    The bar goes to stderr, disappears when done, and is not drawn where stderr is no terminal.
    """
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress:
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),  # coalitions finish in groups: something moves in between
        TextColumn("coalitions"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    # Long enough to see several groups, so that the time left does not jump with each.
    shown = Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal, speed_estimate_period=120
    )
    with shown as bar:
        yield _Bar(bar)


class _Bar:
    """Moves a bar, and says beside it what is being done between two finished coalitions."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.task = bar.add_task("", total=None)

    def __call__(self, done: int, total: int) -> None:
        self.bar.update(self.task, completed=done, total=total)

    def stage(self, text: str) -> None:
        self.bar.update(self.task, description=text)
