"""Looks at a target while somebody is watching: one thread for what is stored, one for values, neither ever in a hurry.

A look costs milliseconds and is made only when a file has changed. Values are computed in a thread of their own, which rests
seven times as long as it worked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from types import TracebackType

from fedvalue.errors import FedvalueError
from fedvalue.values import Values
from fedvalue.watch._page import Settling, notices, sections
from fedvalue.watch._places import check_target, signature
from fedvalue.watch._rules import Rules
from fedvalue.watch._snapshot import RunNow, Snapshot, snapshot
from fedvalue.watch._so_far import SoFar, so_far

__all__ = ["Watcher"]

_PERIOD = 0.4  # seconds between two looks at whether a file has changed
_ANYWAY = 5.0  # and between two looks at everything: a process may be gone, a claim may have run out
_RESTS = 7  # times as long as a look or a fit took: both together take a quarter of a core at most
_MOST_POINTS = 400  # of the chart of intervals


class Watcher:
    """What is to be shown now, for any number of viewers; use it in a `with` block."""

    def __init__(self, target: str | PathLike[str]) -> None:
        self.target = check_target(target)
        self._changed = threading.Condition()
        self._version, self._parts = 0, dict[str, str]()
        self._viewers = 0
        self._stopped = threading.Event()
        self._to_value = threading.Event()
        self._looking = threading.Lock()
        self._seen: tuple[object, ...] = ()
        self._looked = -_ANYWAY
        self._now = Snapshot(())
        self._so_far: dict[str, SoFar] = {}
        self._rules: dict[str, Rules | None] = {}
        self._settling: dict[str, list[tuple[int, float]]] = {}
        self._threads = [
            threading.Thread(target=work, name=f"fedvalue-watch-{work.__name__.strip('_')}", daemon=True)
            for work in (self._keep_looking, self._keep_valuing)
        ]

    def __enter__(self) -> Watcher:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._to_value.set()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(10)

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def parts(self) -> tuple[int, dict[str, str]]:
        """The sections as they are now, and their version."""
        self._look()
        with self._changed:
            return self._version, self._parts

    def wait(self, version: int, seconds: float) -> tuple[int, dict[str, str]]:
        """The sections as soon as they are of another version; after so long, as they are."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != version or self.is_stopped, seconds)
            return self._version, self._parts

    @contextmanager
    def viewer(self) -> Iterator[None]:
        """Somebody is watching meanwhile."""
        with self._changed:
            self._viewers += 1
        try:
            yield
        finally:
            with self._changed:
                self._viewers -= 1

    def _keep_looking(self) -> None:
        pause = _PERIOD
        while not self._stopped.wait(pause):
            began = time.monotonic()
            if self._viewers:
                self._look()
            pause = max(_PERIOD, _RESTS * (time.monotonic() - began))

    def _look(self) -> None:
        """Reads what has changed, and tells viewers."""
        with self._looking:
            try:
                self._read()
            except (
                Exception
            ) as error:  # whatever is wrong there, the page must not stand still and say nothing
                said = f"This page cannot be brought up to date: {type(error).__name__}: {error}."
                self._tell({**self._parts, **notices(Snapshot(self._now.runs, (said,)))})
        self._to_value.set()

    def _read(self) -> None:
        seen, now = signature(self.target), time.monotonic()
        if seen == self._seen and now - self._looked < _ANYWAY:
            return
        self._now = self._snapshot()
        self._seen, self._looked = seen, now
        for run in self._now.runs:
            if run.began and self._rules.setdefault(run.key, run.rules) != run.rules:
                # Begun again by another metric or in other groups: what was computed before is not of this run.
                self._rules[run.key] = run.rules
                self._so_far.pop(run.key, None)
                self._settling.pop(run.key, None)
            if run.values is not None and run.key in self._settling:
                self._note_reach(run.key, run.values, run.values.evaluations)
        self._publish()

    def _snapshot(self) -> Snapshot:
        try:
            return snapshot(self.target)
        except (
            FedvalueError,
            OSError,
        ) as error:  # the folder was removed, or a copy of the store is being renewed
            return Snapshot(self._now.runs, (str(error),))

    def _publish(self) -> None:
        settling: dict[str, Settling] = dict(self._settling)
        self._tell(sections(self._now, self._so_far, settling))

    def _tell(self, parts: dict[str, str]) -> None:
        with self._changed:
            if parts != self._parts:
                self._version, self._parts = self._version + 1, parts
                self._changed.notify_all()

    def _keep_valuing(self) -> None:
        while not self.is_stopped:
            self._to_value.wait()
            self._to_value.clear()
            for run in self._now.runs:
                if self.is_stopped:
                    return
                if not self._is_due(run):
                    continue
                began = time.monotonic()
                self._take_in(run, _so_far(run))
                if self._stopped.wait(_RESTS * (time.monotonic() - began)):
                    return
                self._to_value.set()  # more may have been stored meanwhile

    def _is_due(self, run: RunNow) -> bool:
        known = self._so_far.get(run.key)
        return run.values is None and run.outcomes > 0 and (known is None or known.outcomes != run.outcomes)

    def _take_in(self, run: RunNow, found: SoFar) -> None:
        with self._looking:
            if any(now.key == run.key and now.began != run.began for now in self._now.runs):
                return  # it was begun again meanwhile
            self._so_far[run.key] = found
            if found.values is not None:
                self._note_reach(run.key, found.values, found.outcomes)
            self._publish()

    def _note_reach(self, key: str, values: Values, trainings: int) -> None:
        """How far the widest interval reaches by now, for the chart."""
        interval = values.interval()
        points = self._settling.setdefault(key, [])
        if interval is None:
            return
        point = trainings, float((interval[:, 1] - interval[:, 0]).max()) / 2
        if points[-1:] != [point]:
            points.append(point)
        if len(points) > _MOST_POINTS:
            del points[1::2]  # every other one: the chart keeps its shape


def _so_far(run: RunNow) -> SoFar:
    try:
        return so_far(run)
    except Exception as error:  # its file may hold anything; the values of other runs are still to come
        return SoFar(run.outcomes, None, f"No values from what is stored: {type(error).__name__}: {error}.")
