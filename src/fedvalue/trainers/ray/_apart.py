"""A copy of this process, in which Ray may end the process that uses it.

Where a node loses its own processes (its raylet, its agents, the head's server), Ray ends the driver from C++, at once
and without an exception. So the driver is a child of ours, which hands on every outcome as a line of JSON. It
is forked: data and model are there, whatever they are. What is left to do here is to notice its end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from fedvalue import errors
from fedvalue.errors import FedvalueError, FedvalueWarning, UtilityError

__all__ = ["Apart", "can_fork"]

Send = Callable[[dict[str, Any]], None]
_OF_GRPC = (
    "grpc",
    "event_engine",
    "gcs_client",
    "resolver-exec",
    "default-exec",
    "client.poll",
    "timer_manager",
)
_PATIENCE = 15.0  # for a child that was asked to end


def can_fork() -> bool:
    """Only Linux does so without a danger for what the system's libraries hold; and gRPC, which Ray talks by, must not
    have been used before, for it has threads that a child lacks.
    """
    if sys.platform != "linux":
        return False
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if (task / "comm").read_text().startswith(_OF_GRPC):
                return False
    return True


class Apart:
    """A child that answers requests with `answer(request, send)`, one at a time, and calls `done` at its end."""

    def __init__(self, answer: Callable[[Any, Send], None], done: Callable[[], None]) -> None:
        (asked, ask), (told, tell) = os.pipe(), os.pipe()
        parent = os.getpid()
        with warnings.catch_warnings():
            # Other threads of this process are not in the child, and it uses nothing that they could hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            os.close(ask)
            os.close(told)
            _serve(asked, tell, parent, answer, done)
        os.close(asked)
        os.close(tell)
        self._ask, self._told = os.fdopen(ask, "w"), os.fdopen(told)
        self.ended: int | None = None

    def messages(self, request: Any) -> Iterator[dict[str, Any]]:
        """What the child says, until it is finished. Its errors and warnings are raised and given here."""
        try:
            print(json.dumps(request), file=self._ask, flush=True)
        except BrokenPipeError:
            raise self._died() from None
        for line in self._told:
            message: dict[str, Any] = json.loads(line)
            if "warning" in message:
                warnings.warn(message["warning"], FedvalueWarning, stacklevel=2)
            elif "error" in message:
                raise _error(message)
            elif "finished" in message:
                return
            else:
                yield message
        raise self._died()

    def close(self, at_once: bool = False) -> None:
        """Ends the child, and with it all processes that it has started."""
        if self.ended is not None:
            return
        with suppress(BrokenPipeError):
            self._ask.close()
        deadline = time.monotonic() + (0 if at_once else _PATIENCE)
        while self.ended is None and time.monotonic() < deadline:
            self._look()
            time.sleep(0.02)
        with suppress(ProcessLookupError, PermissionError):  # nobody may be left
            os.killpg(self.pid, signal.SIGKILL)
        while self.ended is None:
            self._look()
            time.sleep(0.02)
        self._told.close()

    def _look(self) -> None:
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # somebody else has waited for it
            pid, status = self.pid, 0
        if pid:
            self.ended = os.waitstatus_to_exitcode(status)

    def _died(self) -> FedvalueError:
        self.close()
        return FedvalueError(
            "Ray ended in the middle of the run: one of its own processes on this machine died, was killed, or ran out "
            "of memory. What was finished is kept: run the same again."
        )


def _error(message: dict[str, Any]) -> FedvalueError:
    kind = getattr(errors, message["error"], FedvalueError)
    if kind is UtilityError:
        return UtilityError(message["text"], tuple(message["coalition"]))
    made: FedvalueError = kind(message["text"])
    return made


def _serve(
    asked: int, tell: int, parent: int, answer: Callable[[Any, Send], None], done: Callable[[], None]
) -> NoReturn:
    """What the child does. It never returns: what the parent does at its end is not to be done twice."""
    try:
        os.setsid()  # Ctrl-C is the parent's
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):  # Ray prints pages where something of it dies
            os.dup2(nowhere, standard)
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        to = os.fdopen(tell, "w")

        def send(message: dict[str, Any]) -> None:
            print(json.dumps(message), file=to, flush=True)

        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FedvalueWarning)
        warnings.showwarning = lambda message, *_: send({"warning": str(message)})
        for line in os.fdopen(asked):
            try:
                answer(json.loads(line), send)
                send({"finished": True})
            except FedvalueError as error:
                kind = type(error).__name__
                coalition = getattr(error, "coalition", ())
                send({"error": kind, "text": str(error), "coalition": list(coalition)})
            except Exception as error:
                send({"error": "FedvalueError", "text": f"Ray failed: {type(error).__name__}: {error}"})
        done()
    finally:
        os._exit(0)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(0, signal.SIGKILL)
