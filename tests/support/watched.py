"""Runs for those who watch: one that can be held at any training, and what its page says."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fedvalue as fv
from fedvalue.run import Evaluation
from fedvalue.watch import Watcher, WatchServer

__all__ = ["HOSTILE", "HeldRun", "served"]

HOSTILE = (
    "</bdi></table><script>document.title='taken'</script>",
    "<img src=x onerror=alert(1)>",
    '" onmouseover="alert(2)',
    "\u202egnp.exe\x00\x1b[31m",
    "{{ 7919 * 7907 }}{% raw %}&amp;",
    "N" * 300,
)
"""Names that would take over a page which does not escape them, or tear it apart."""


class HeldRun:
    """A run in a thread of its own that waits after so many outcomes, until it is let go."""

    def __init__(self, out: Path, hold_after: int, **job: Any) -> None:
        self.out, self.values = out, None
        self._hold_after, self._seen = hold_after, 0
        self._held, self._go = threading.Event(), threading.Event()
        self._job = {"scenario": "synthetic", "clients": 4, "samples": 20, "model": "least-squares", **job}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> HeldRun:
        self._thread.start()
        assert self._held.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> fv.Values:
        """Lets it go, and waits for its values."""
        self._go.set()
        self._thread.join(60)
        assert self.values is not None
        return self.values

    def _run(self) -> None:
        self.values = fv.run(out=self.out, on_outcome=self._on_outcome, **self._job).values

    def _on_outcome(self, evaluation: Evaluation) -> None:
        self._seen += 1
        time.sleep(0.02)  # outcomes that come at once are stored together, the last ones after the hold
        if self._seen == self._hold_after:
            self._held.set()
            self._go.wait(60)


@contextmanager
def served(target: Path, **options: Any) -> Iterator[WatchServer]:
    """The page of a target, served to this machine or as told."""
    with Watcher(target) as watcher, WatchServer(watcher, **options) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


def table_run(path: Path, names: Sequence[str], utilities: Sequence[float]) -> fv.Values:
    """A table valued with a store, by clients of these names."""
    return fv.value(fv.TableGame(utilities, names), method="exact", store=path)
