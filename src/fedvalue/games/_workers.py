"""Calls of a user's function in worker processes: side by side, bounded in time, ended when they must be.

The parent gives each worker one call at a time over a pipe and takes numbers and texts back, as JSON. A worker
that crashes, is killed or overruns its time costs the attempt that it was at; another one takes its place.

Workers are started for each batch of coalitions that a method asks for, which takes some hundredths of a second.
They see the function and its data as they are then, and what it changes stays with them. With `fork`, the default
on Linux, they are copies of this process: closures and lambdas work, large arrays are shared, nothing is pickled.
But threads do not survive a fork, and GCC's OpenMP waits for its own for ever; so a forked worker computes with
one thread, and `jobs` is the parallelism. CUDA does not survive it either. With `spawn` a worker is a fresh
Python: the function must be importable, threads and CUDA are as usual.

A worker leads a process group of its own, which ends with it: what a function started ends when its time is up,
and the terminal's Ctrl-C reaches the parent alone, which ends them all. When the parent is gone, they end
themselves.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from fedvalue._extras import limited_threads
from fedvalue.coalitions import members
from fedvalue.errors import GameError, UtilityError
from fedvalue.games._calls import Agenda, Call, Failure, Replied, Reply, Said, call, failure
from fedvalue.per_row import PerRow

__all__ = ["calls_in_workers"]

_LOOK_SECONDS = 1.0  # a death that closes no pipe, because a grandchild holds it open, is noticed this late
_LEAVE_SECONDS = 2.0  # for a worker without work to end by itself
_READY = b"ready"
_LEAVE = b"leave"


def calls_in_workers(
    fn: Callable[..., Any],
    batch: bool,
    agenda: Agenda,
    replicate: int,
    jobs: int,
    timeout: float | None,
    start: str,
) -> Generator[Replied, None, None]:
    """Makes the calls in up to `jobs` processes and yields each as it ends; at most one per process is under way.

    A call may take as many times `timeout` seconds as it says itself. Global random numbers are seeded before each
    call by its first coalition, the replicate and the attempt: which worker makes it does not matter, and
    copies of one process do not all draw the same. `start` is a start method of multiprocessing.
    """
    if multiprocessing.current_process().daemon:
        raise GameError(
            "This process is daemonic (like the workers of multiprocessing.Pool) and cannot start others: use jobs=1 and "
            "no timeout in it."
        )
    threads = 1 if start == "fork" else max(1, _cores() // jobs)
    crew = _Crew((fn, batch, replicate, threads), jobs, timeout, start)
    atexit.register(crew.end)  # before multiprocessing waits for its processes, which would be for ever
    try:
        yield from crew.replies(agenda)
        crew.dismiss()
    finally:
        crew.end()
        atexit.unregister(crew.end)


class _Crew:
    """The workers of one evaluation."""

    def __init__(self, work: tuple[Any, ...], jobs: int, timeout: float | None, start: str) -> None:
        self.context = multiprocessing.get_context(start)
        self.work = work
        self.jobs = jobs
        self.timeout = timeout
        self.start = start
        # A fork has the function as it is; of other workers, the first that begins shows that they find it.
        self.importable = start == "fork"
        self.workers: list[_Worker] = []

    def replies(self, agenda: Agenda) -> Iterator[Replied]:
        while True:
            self._hand_out(agenda)
            busy = [worker for worker in self.workers if worker.call is not None]
            if not busy:
                return
            nearest = min(worker.deadline for worker in busy) - time.monotonic()
            wait([worker.pipe for worker in busy], min(max(nearest, 0.0), _LOOK_SECONDS))
            for worker in busy:
                replied = self._news(worker)
                if replied is not None:
                    yield replied

    def dismiss(self) -> None:
        """Lets the workers end by themselves, so that nothing of theirs is cut off."""
        for worker in self.workers:
            with suppress(OSError):
                worker.pipe.send_bytes(_LEAVE)
        ends = time.monotonic() + _LEAVE_SECONDS
        for worker in self.workers:
            worker.process.join(max(0.0, ends - time.monotonic()))

    def end(self) -> None:
        for worker in self.workers:
            worker.end()
        self.workers.clear()

    def _hand_out(self, agenda: Agenda) -> None:
        for worker in self.workers:
            if worker.call is None and not worker.process.is_alive():  # died between two calls
                worker.end()
        self.workers = [worker for worker in self.workers if not worker.pipe.closed]
        idle = [worker for worker in self.workers if worker.call is None]
        while idle or len(self.workers) < self.jobs:
            due = agenda.next()
            if due is None:
                return
            if not idle:
                idle.append(self._hire(due))
            idle.pop().give(due, self.timeout)

    def _hire(self, due: Call) -> _Worker:
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=_work, args=(theirs, *self.work), name="fedvalue-worker")  # type: ignore[attr-defined]
        self.workers.append(_Worker(process, ours))  # first: an interruption must find it
        try:
            with warnings.catch_warnings():  # Python 3.12 warns of what the head of this file says
                warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
                process.start()
        except OSError as error:
            raise UtilityError(
                f"A worker process could not be started: {error}. Use fewer than jobs={self.jobs}.",
                members(due.masks[0]),
            ) from error
        except Exception as error:  # pickle raises whatever the objects in its way raise
            if self.start == "fork":
                raise
            raise GameError(f"{_IMPORTABLE.format(self.start)} {type(error).__name__}: {error}") from error
        finally:
            theirs.close()
        return self.workers[-1]

    def _news(self, worker: _Worker) -> Replied | None:
        """What a worker has sent, or how it ended; None where it goes on."""
        assert worker.call is not None
        done, ended = worker.call, ""
        try:
            if worker.pipe.poll():
                received = worker.pipe.recv_bytes()
                if received == _READY:
                    self.importable = True
                    worker.begin(self.timeout)
                    return None
                worker.call = None
                reply, seconds = _decoded(received)
                return done, reply, seconds
        except (EOFError, OSError):  # closed in the middle of a message, or of nothing
            worker.process.join(_LOOK_SECONDS)
            ended = "its worker process closed the connection"
        if not worker.process.is_alive():
            ended = _cause_of_death(worker.process.exitcode)
        elif time.monotonic() >= worker.deadline:
            ended = f"it took longer than the timeout of {self.timeout:g} s and was ended"
        if not ended:
            return None
        worker.end()
        if not self.importable:
            raise GameError(f"{_IMPORTABLE.format(self.start)} A worker could not begin: {ended}.")
        return done, Failure(ended), float("inf")


_IMPORTABLE = (
    "With start={!r} the function is sent to new processes: it must be defined at the top of a module, not be a "
    "lambda or inside another function, and a script must start its work under `if __name__ == '__main__':`."
)


class _Worker:
    """A process, the pipe to it, and the call that it is at."""

    def __init__(self, process: BaseProcess, pipe: Connection) -> None:
        self.process = process
        self.pipe = pipe
        self.call: Call | None = None
        self.ready = False
        self.deadline = float("inf")

    def give(self, due: Call, timeout: float | None) -> None:
        self.call = due
        with suppress(OSError):  # it has just died, which is noticed when its answer is awaited
            self.pipe.send_bytes(json.dumps([due.masks, due.attempt]).encode())
        if self.ready:
            self.begin(timeout)

    def begin(self, timeout: float | None) -> None:
        """From now on the time counts: what a process takes to start does not."""
        assert self.call is not None
        self.ready = True
        limit = float("inf") if timeout is None else timeout * self.call.timeouts
        self.deadline = time.monotonic() + limit

    def end(self) -> None:
        """Ends the process and what it started, unless it has ended."""
        if self.pipe.closed:
            return
        if self.process.pid is not None:  # none where it could not be started
            self.process.kill()
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            self.process.join()
        self.pipe.close()


def _cause_of_death(exitcode: int | None) -> str:
    if exitcode is None or exitcode >= 0:
        return f"its worker process ended with exit code {exitcode} before it returned"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = f"signal {-exitcode}"
    hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"its worker process was ended by {name}{hint}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _encoded(reply: Reply, seconds: float) -> bytes:
    def plain(found: Said | Failure) -> object:
        if isinstance(found, Failure):
            return [found.reason, found.where, found.hopeless]
        return {"utility": found.utility, "rows": None if found.rows is None else found.rows.to_plain()}

    found = plain(reply) if isinstance(reply, Failure) else {"each": [plain(item) for item in reply]}
    return json.dumps([found, seconds]).encode()


def _decoded(message: bytes) -> tuple[Reply, float]:
    def read(found: Any) -> Said | Failure:
        if isinstance(found, list):
            return Failure(found[0], found[1], None, found[2])
        rows = found["rows"]
        return Said(float(found["utility"]), None if rows is None else PerRow.from_plain(rows))

    found, seconds = json.loads(message)
    if isinstance(found, dict):
        return [read(item) for item in found["each"]], seconds
    return Failure(found[0], found[1], None, found[2]), seconds


# In the worker


def _work(pipe: Connection, fn: Callable[..., Any], batch: bool, replicate: int, threads: int) -> None:
    """Answers calls until there are no more, or the parent is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _limit_threads(threads)
    with suppress(EOFError, OSError):  # nobody listens any more
        pipe.send_bytes(_READY)
        while (message := pipe.recv_bytes()) != _LEAVE:
            masks, attempt = json.loads(message)
            _seed(masks[0], replicate, attempt)
            pipe.send_bytes(_answer(fn, batch, masks))


def _answer(fn: Callable[..., Any], batch: bool, masks: list[int]) -> bytes:
    began = time.perf_counter()
    try:
        reply = call(fn, batch, [members(mask) for mask in masks])
    except BaseException as error:  # sys.exit() in a function ends no run
        reply = failure(error)
    seconds = time.perf_counter() - began
    for stream in (sys.stdout, sys.stderr):  # now, should the end be a sudden one
        with suppress(Exception):
            stream.flush()
    return _encoded(reply, seconds)


def _end_with_parent() -> None:
    """Ends this process and what it started as soon as the parent is gone."""
    parent, born_of = multiprocessing.parent_process(), os.getppid()
    # Copies of the pipe that tells may be held elsewhere; whose child this is cannot be.
    while parent is not None and parent.is_alive() and os.getppid() == born_of:
        parent.join(_LOOK_SECONDS)
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _limit_threads(threads: int) -> None:
    """For libraries that are loaded, and by the environment for those that a function loads later."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    limited_threads(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def _seed(mask: int, replicate: int, attempt: int) -> None:
    seed = int(np.random.SeedSequence([mask, replicate, attempt]).generate_state(1)[0])
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - functions that still draw from the global generator
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
