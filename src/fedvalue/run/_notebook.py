"""Progress in a notebook: one line that is written over, and is gone at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from fedvalue._text import duration
from fedvalue.run._observers import Evaluation, Observer

__all__ = ["in_notebook", "notebook_bar"]

_WRITTEN_SECONDS = 0.2  # at most so often: every line travels to a browser
_WIDTH = 200  # pixels


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook, which shows HTML."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def notebook_bar() -> Iterator[Observer]:
    """An observer that draws a bar below the cell."""
    shown = _Line()

    def on_ask(known: int, asked: int) -> None:
        shown.update(known, asked)

    def on_outcome(evaluation: Evaluation) -> None:
        shown.update(evaluation.done, evaluation.total)

    try:
        yield Observer(shown.say, on_outcome, on_ask=on_ask)
    finally:
        shown.end()


class _Line:
    """What is done, of how much, for how long, and what is going on."""

    def __init__(self) -> None:
        display: Any = sys.modules["IPython"].display.display

        self.began = time.monotonic()
        self.written = 0.0
        self.done, self.total, self.stage = 0, 0, ""
        self.handle: Any = display({"text/plain": ""}, raw=True, display_id=True)

    def update(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        self.write()

    def say(self, stage: str) -> None:
        self.stage = stage
        self.write()

    def write(self) -> None:
        now = time.monotonic()
        if now - self.written < _WRITTEN_SECONDS:
            return
        self.written = now
        part = min(self.done / self.total, 1.0) if self.total else 0.0
        text = f"{self.done:,} of {self.total:,} coalitions, {duration(now - self.began)}"
        html = (
            f'<div><span style="display:inline-block;width:{_WIDTH}px;height:8px;background:#ddd">'
            f'<span style="display:block;width:{part * _WIDTH:.0f}px;height:8px;background:#4f9d69"></span></span> '
            f"{escape(text)} {escape(self.stage)}</div>"
        )
        self.handle.update({"text/html": html, "text/plain": f"{text} {self.stage}"}, raw=True)

    def end(self) -> None:
        self.handle.update({"text/plain": ""}, raw=True)
