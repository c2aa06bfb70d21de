"""Which trials make up a task: neighbours that share a seed and clients, as many as take about twenty seconds.

What a coalition costs is not known before some are trained. The first tasks have a single one, the cheapest; every
task that comes back says how long a unit of work takes, and the next ones are cut to that measure: as large as
they may be, because large stacks train faster, and longer than twenty seconds where a single coalition takes long. At the end of a long run they are smaller, so that all workers finish
at about the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fedvalue.coalitions import Trial

__all__ = ["ALONE", "TASK_SECONDS", "Chunk", "Chunks", "next_share"]

TASK_SECONDS = 20.0  # what a worker that dies may lose, and how long finished work waits for the store
_FEW = 4  # coalitions for each worker that are shared out at once, whatever they cost
_STEPS = 8.0  # times as long as a single coalition lasts a task in which all make their steps together
ALONE = 5.0  # times as long takes a unit of work of a single coalition: nothing of it is shared or stacked


@dataclass(frozen=True)
class Chunk:
    """Trials of one task. `crashes` counts the workers that died of it, `halvings` how often it was too
    large for the memory of one.
    """

    trials: tuple[Trial, ...]
    work: float
    crashes: int = 0
    halvings: int = 0

    def halves(self) -> tuple[Chunk, Chunk]:
        """Both halves, to be trained with half the memory."""
        middle = len(self.trials) // 2
        part = replace(self, work=self.work / 2, halvings=self.halvings + 1)
        return replace(part, trials=self.trials[:middle]), replace(part, trials=self.trials[middle:])

    def without(self, done: Iterable[Trial]) -> Chunk:
        """What is left of it."""
        left = tuple(trial for trial in self.trials if trial not in set(done))
        return replace(self, trials=left, work=self.work * len(left) / max(1, len(self.trials)))


def next_share(
    left: float, whole: float, workers: int, seconds_per_work: float, seconds: float = TASK_SECONDS
) -> float:
    """How much of the work that is left the next task should take: the whole, in turns of all workers.

    >>> next_share(34, 34, workers=2, seconds_per_work=1.0)  # one turn of 17 s
    17.0
    >>> next_share(300, 400, workers=2, seconds_per_work=1.0)  # one of ten turns
    20.0
    >>> next_share(40, 400, workers=2, seconds_per_work=1.0)  # the last one, for whoever is free first
    10.0
    """
    turns = max(1, round(whole * seconds_per_work / (workers * seconds)))
    share = whole / (workers * turns)
    return share / 2 if turns > 1 and left <= whole / turns else share


class Chunks:
    """Trials that wait to be trained, in an order in which neighbours share a seed and clients."""

    def __init__(self, work: Mapping[Trial, float], seconds: float | None = None) -> None:
        self.work = work
        self.seconds = TASK_SECONDS if seconds is None else seconds
        self._may_stretch = seconds is None
        # Seed by seed, as numbers: those with the same last clients follow each other, and differ in the first ones. The
        # largest come first: after those with all clients, a worker has every first round that later ones need.
        self.waiting = deque(sorted(work, key=lambda trial: (trial[1], -trial[0])))
        self.all = self.left = float(sum(work.values()))
        self.again: deque[Chunk] = deque()

    def __bool__(self) -> bool:
        return bool(self.waiting or self.again)

    def put_back(self, chunks: Sequence[Chunk]) -> None:
        """Chunks that have to be tried again; they come next."""
        self.again.extendleft(chunk for chunk in chunks if chunk.trials)

    def take(self, workers: int, seconds_per_work: float | None) -> Chunk:
        """The next task."""
        if self.again:
            return self.again.popleft()
        if seconds_per_work is not None:
            share = next_share(self.left, self.all, workers, seconds_per_work, self.seconds)
        elif len(self.work) <= _FEW * workers:
            share = self.all / workers
        else:
            return self._cheapest()
        trials: list[Trial] = []
        held = 0.0
        # A coalition that would overshoot by more than half of it is left to the next task.
        while self.waiting and (not trials or held + self.work[self.waiting[0]] / 2 <= share):
            trials.append(self.waiting.popleft())
            held += self.work[trials[-1]]
        self.left -= held
        return Chunk(tuple(trials), held)

    def steps_took(self, seconds: float) -> None:
        """Tells how long a single coalition of a stack took, mostly for steps that any task has to make."""
        if self._may_stretch:
            self.seconds = max(self.seconds, _STEPS * seconds)

    def _cheapest(self) -> Chunk:
        """A single coalition to learn from what they cost; nobody at all would not tell."""
        trial = min(self.waiting, key=lambda trial: (trial[0] == 0, self.work[trial]))
        self.waiting.remove(trial)
        self.left -= self.work[trial]
        return Chunk((trial,), self.work[trial])

    def drop(self) -> None:
        """Forgets whatever waits: the run is lost."""
        self.waiting.clear()
        self.again.clear()
