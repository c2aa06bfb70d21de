"""The tasks of one call of the Ray trainer: handed out, received, tried again, given up.

A worker that dies has its task tried again; one that runs out of memory gets halves of it. What a task could
not do is named at the end, when all others are finished.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedvalue._text import plural
from fedvalue._version import __version__
from fedvalue.coalitions import Trial, members
from fedvalue.errors import FedvalueError, FedvalueWarning, UtilityError
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.trainers.ray._chunks import ALONE, Chunk, Chunks
from fedvalue.trainers.ray._cluster import Cluster
from fedvalue.trainers.ray._task import FATAL, MEMORY, TaskReport, TaskRules, train_chunk

__all__ = ["RayRun", "SharedGame"]

_ATTEMPTS = 3  # at a task whose worker died
_NAMED = 4  # coalitions in an error; more are counted


@dataclass
class SharedGame:
    """Data and model in the object store, and how long a unit of work took last."""

    key: tuple[object, ...]
    reference: Any
    seconds_per_work: float | None = None


@dataclass
class RayRun:
    """One call: `chunks` that wait, tasks that are `flying`, trials that `failed` and why."""

    cluster: Cluster
    game: SharedGame
    chunks: Chunks
    rules: TaskRules
    workers: int
    needs: tuple[float, float]  # CPUs and GPUs of a task
    stage: Callable[[str], None]
    flying: dict[Any, Chunk] = field(default_factory=dict)
    failed: dict[Trial, str] = field(default_factory=dict)
    fatal: FedvalueError | None = None
    trained: int = 0

    def outcomes(self) -> Iterator[tuple[Trial, Outcome]]:
        """What the tasks came to, as they finish."""
        # Workers that die are our business: Ray would start the same task again, without a word.
        options = {"num_cpus": self.needs[0], "num_gpus": self.needs[1], "max_retries": 0}
        remote = self.cluster.ray.remote(**options)(train_chunk)
        while self.chunks or self.flying:
            while self.chunks and len(self.flying) < self.workers:
                chunk = self.chunks.take(self.workers, self.game.seconds_per_work)
                rules = replace(self.rules, parts=self.rules.parts << chunk.halvings)
                self.flying[remote.remote(__version__, [self.game.reference], rules, chunk.trials)] = chunk
            self.stage(f"Ray: {len(self.flying)} of {self.workers} workers busy")
            for reference in self.cluster.finished(list(self.flying), *self.needs):
                yield from self._received(reference)

    def cancel(self) -> None:
        """Takes back what is in flight, but not by force: that makes it likelier that Ray 2.60 aborts the driver."""
        for reference in self.flying if self.cluster.ray.is_initialized() else ():
            self.cluster.ray.cancel(reference)

    def complain(self, scenario: Scenario, asked: Mapping[Trial, Sequence[Trial]]) -> None:
        """Raises what went wrong, if anything did."""
        if self.fatal is not None:
            raise self.fatal
        if not self.failed:
            return
        coalitions = [mask for trial in self.failed for mask, _ in asked[trial]]
        named = [_named(scenario, mask) for mask in coalitions[:_NAMED]]
        more = f" and {len(coalitions) - _NAMED} more" if len(coalitions) > _NAMED else ""
        reasons = list(dict.fromkeys(self.failed.values()))
        others = "All others were trained and are kept" if self.trained else "No other was trained"
        raise UtilityError(
            f"{plural(len(coalitions), 'coalition')} could not be trained: {', '.join(named)}{more}. "
            f"{' '.join(reasons[:3])} {others}: fix this and run the same again.",
            members(coalitions[0]),
        )

    def _received(self, reference: Any) -> Iterator[tuple[Trial, Outcome]]:
        """The outcomes of a finished task; what it could not do is tried again, or given up."""
        errors = self.cluster.ray.exceptions
        chunk = self.flying.pop(reference)
        try:
            report: TaskReport = self.cluster.ray.get(reference)
        except errors.OutOfMemoryError:
            report = TaskReport([], MEMORY, "Ray ended a worker whose machine was running out of memory")
        except errors.RayTaskError as error:  # our own function catches everything: its code is not there
            self._stop(_not_installed(error))
            return
        except errors.RayError as error:
            self._crashed(chunk, type(error).__name__)
            return
        if report.outcomes:
            self.trained += len(report.outcomes)
            seconds = sum(outcome.seconds for _, outcome in report.outcomes)
            pace = seconds / chunk.work * len(chunk.trials) / len(report.outcomes)
            alone = len(chunk.trials) == 1
            self.game.seconds_per_work = pace / ALONE if alone else pace
            if alone and report.together:
                self.chunks.steps_took(seconds)
            yield from report.outcomes
        if report.kind:
            self._not_done(chunk.without({trial for trial, _ in report.outcomes}), report)

    def _not_done(self, chunk: Chunk, report: TaskReport) -> None:
        if report.kind == FATAL:
            self._stop(FedvalueError(report.reason))
        elif report.kind == MEMORY and len(chunk.trials) > 1:
            _note(f"{report.reason}: {len(chunk.trials)} coalitions are tried again in halves.")
            self.chunks.put_back(chunk.halves())
        elif report.kind == MEMORY:
            self._give_up(
                chunk,
                f"{report.reason}, training a single coalition. Allow fewer tasks on a machine "
                "(--workers, or more --cpus-per-task), take a smaller batch or a machine with more memory.",
            )
        else:
            self._give_up(chunk, f"{report.reason.rstrip('.')}.")

    def _crashed(self, chunk: Chunk, how: str) -> None:
        chunk = replace(chunk, crashes=chunk.crashes + 1)
        if chunk.crashes < _ATTEMPTS:
            _note(
                f"A worker died ({how}): {plural(len(chunk.trials), 'coalition')} of it will be trained again."
            )
            self.chunks.put_back([chunk])
            return
        reason = (
            f"Their workers died {_ATTEMPTS} times ({how}): killed from outside, out of memory, or crashed by the "
            "code of the model."
        )
        self._give_up(chunk, reason)
        if not self.trained:  # what is left would fare no better
            self.chunks.drop()

    def _give_up(self, chunk: Chunk, reason: str) -> None:
        self.failed.update(dict.fromkeys(chunk.trials, reason))

    def _stop(self, error: FedvalueError) -> None:
        self.fatal = self.fatal or error
        self.chunks.drop()


def _note(text: str) -> None:
    warnings.warn(text, FedvalueWarning, stacklevel=2)


def _not_installed(error: Exception) -> FedvalueError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return FedvalueError(
        f"A worker could not load fedvalue: {lines[-1] if lines else type(error).__name__}. fedvalue "
        f"{__version__} must be installed on every machine of the cluster."
    )


def _named(scenario: Scenario, mask: int) -> str:
    who = [scenario.names[i] for i in members(mask)]
    return f"{{{', '.join(who[:6])}{', …' if len(who) > 6 else ''}}}"
