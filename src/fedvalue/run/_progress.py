"""A bar on the terminal while coalitions are evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fedvalue.run._notebook import in_notebook, notebook_bar
from fedvalue.run._observers import Evaluation, Observer

__all__ = ["progress_bar"]


@contextmanager
def progress_bar() -> Iterator[Observer]:
    """An observer that draws a bar on stderr, which disappears when done; none is drawn outside a terminal.

    In a notebook the bar is below the cell.
    """
    if in_notebook():
        with notebook_bar() as observer:
            yield observer
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
        task = bar.add_task("", total=None)

        def on_ask(known: int, asked: int) -> None:
            bar.update(task, completed=known, total=asked)

        def on_outcome(evaluation: Evaluation) -> None:
            bar.update(task, completed=evaluation.done, total=evaluation.total)

        def on_stage(text: str) -> None:
            bar.update(task, description=text)

        yield Observer(on_stage, on_outcome, on_ask=on_ask)
