"""A tool, and the thread in which it is told: a run does not wait for a server that is slow or gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread

from fedvalue._text import listed, plural
from fedvalue.adapters.tracking._tools import Tool

__all__ = ["Line", "Message"]

_NAMED = 12  # in a sentence
_AFTER_FAILURE = 5.0  # seconds for a tool that has failed to close its run


@dataclass(frozen=True)
class Message:
    """Something that a tool is told, and what a user would miss without it: outcomes, and other things by name."""

    tell: Callable[[Tool], None]
    outcomes: int = 0
    others: tuple[str, ...] = ()


class Line:
    """Tells a tool one thing after the other, in a thread of its own, until it fails. `error` is what it failed with."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.error: Exception | None = None
        self._untold: deque[Message] = deque()
        self._ahead: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A tool that never answers must not keep the program from ending.
        Thread(target=self._work, name=f"tracking by {self.name}", daemon=True).start()

    @property
    def name(self) -> str:
        """What users call the tool."""
        return type(self.tool).__name__

    @property
    def said(self) -> str:
        """What it failed with, in a line."""
        return f"{type(self.error).__name__}: {' '.join(str(self.error).split())[:300]}"

    @property
    def untold(self) -> str:
        """What it was not told, in words."""
        waiting = list(self._untold)
        outcomes = sum(message.outcomes for message in waiting)
        others = dict.fromkeys(other for message in waiting for other in message.others)
        return listed([*([plural(outcomes, "outcome")] if outcomes else []), *others], _NAMED)

    def tell(self, message: Message) -> None:
        """Has the tool told as soon as it has taken everything before."""
        self._untold.append(message)
        self._ahead.put(lambda: self._try(message))

    def wait(self, seconds: float) -> None:
        """Until all is told; a tool that has not taken it in that time has failed."""
        done = Event()
        self._ahead.put(done.set)
        if self.error is None and not done.wait(seconds) and self.error is None:
            self.error = TimeoutError(f"no answer within {seconds:g} s")

    def end(self, failed: bool, seconds: float) -> None:
        """Has the tool close its run, as failed where it was not told everything, and waits for that."""
        if self.error is None:
            self.tell(Message(lambda tool: tool.end(failed), others=("how the run ended",)))
            self.wait(seconds)
        if self.error is not None:
            done = Event()
            self._ahead.put(self._end_after_failure)
            self._ahead.put(done.set)
            done.wait(min(seconds, _AFTER_FAILURE))
        self.stop()

    def stop(self) -> None:
        """Ends the thread, once the tool has answered."""
        self._ahead.put(None)

    def _end_after_failure(self) -> None:
        with suppress(Exception):  # there was a warning
            self.tool.end(True)

    def _try(self, message: Message) -> None:
        if self.error is not None:
            return
        try:
            message.tell(self.tool)
        except Exception as error:
            self.error = self.error or error
        else:
            self._untold.popleft()

    def _work(self) -> None:
        while (do := self._ahead.get()) is not None:
            do()
