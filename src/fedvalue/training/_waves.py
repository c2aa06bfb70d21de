"""Which trials are trained together: as many as fit into memory, and into the time after which work is stored.

A wave is stored when it is over, so a killed process loses at most one. How long a unit of work takes is not known
before some of it is done: the first round tells, and then every wave. Waves begin short and grow to their bound:
whenever a run is killed, it has kept about half of what it had done, and a long run has the long waves that train
fastest.

Models that are trained as one stack make every step together, and a step takes time however few they are. Each wave has all steps
of the later rounds to make, so it must last many times as long as these would take by themselves.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from fedvalue.coalitions import Trial

__all__ = ["CHECKPOINT_SECONDS", "Pace", "waves"]

CHECKPOINT_SECONDS = 20.0
_FIRST_SECONDS = 0.5
# A process that takes up an accelerator is busy for seconds before it trains: what a kill costs in any case. Waves that
# are much shorter than that save little and leave the device half empty.
_FIRST_ON_ACCELERATORS = 3.0
# How often the steps of a wave for a few models must fit into it. That time is not known, but less than that of the first
# round, which has a model for each client: on a CPU about a third of it, on an accelerator nearly all.
_STEPS_ON_CPU, _STEPS_ON_ACCELERATORS = 8.0, 20.0
# By how much the first wave on an accelerator may exceed the bound by the speed of the first round (see Pace).
_FASTER_IN_STACKS = 3.0
_GROWTH = 2.0
_LITTLE_MORE = 1.25  # what is left and takes hardly longer than one wave is not cut in two


class Pace:
    """How much work a wave may hold so that it lasts about as long as it should, and at most about `bound` seconds.

    Without a bound waves last up to 20 seconds, or longer where shorter ones would mostly repeat steps.

    On an accelerator the first round, with a row or so for each client, takes up to ten times as long for the same
    work as a stack of thousands. So the first wave there may be three times as long as the bound by that measure: it is
    mostly shorter than the bound, and longer only with models so large that a few of them fill the device.

    >>> pace = Pace(20.0)
    >>> pace.share()  # nothing is known yet: one coalition
    0.0
    >>> pace.began(10, seconds=0.1)
    >>> pace.share()
    50.0
    >>> pace.took(50, seconds=0.5)
    >>> pace.share()
    100.0
    """

    def __init__(self, bound: float | None = None, device: str = "cpu") -> None:
        self.bound = CHECKPOINT_SECONDS if bound is None else bound
        self._may_stretch = bound is None
        self._on_cpu = device == "cpu"
        self.seconds = min(_FIRST_SECONDS if self._on_cpu else _FIRST_ON_ACCELERATORS, self.bound)
        self._speed: float | None = None
        self._waves = 0

    def share(self) -> float:
        """The work of the next wave."""
        if math.isinf(self.bound):
            return math.inf
        if self._speed is None:
            return 0.0
        seconds = self.seconds if self._on_cpu or self._waves else _FASTER_IN_STACKS * self.bound
        return seconds / self._speed if self._speed else math.inf

    def began(self, work: float, seconds: float, later_rounds: int = 0) -> None:
        """Tells what the first round took, and how many later ones a stack has to make step by step."""
        if work > 0:
            self._speed = seconds / work
        steps = _STEPS_ON_CPU if self._on_cpu else _STEPS_ON_ACCELERATORS
        worthwhile = steps * later_rounds * seconds
        if self._may_stretch:
            self.bound = max(self.bound, worthwhile)
        self.seconds = min(max(self.seconds, worthwhile), self.bound)

    def took(self, work: float, seconds: float) -> None:
        """Tells what a wave took; the next one may be longer."""
        if work > 0:
            self._speed = seconds / work
        self._waves += 1
        self.seconds = min(_GROWTH * self.seconds, self.bound)


def waves(
    trials: Sequence[Trial],
    rows: int,
    work: Mapping[Trial, float] | None = None,
    share: Callable[[], float] = lambda: math.inf,
) -> Iterator[list[Trial]]:
    """Trials in the groups in which they are trained: about `rows` local trainings in each.

    Those of one seed follow each other: rows of one client share its samples only if they see them in the same order.
    `share` is asked before each group how much `work` it may hold. One trial is always a wave.

    >>> list(waves([(0b111, 0), (0b001, 1), (0b001, 0), (0b010, 0)], rows=3))
    [[(1, 0), (2, 0)], [(7, 0)], [(1, 1)]]
    """
    weights = work or dict.fromkeys(trials, 0.0)
    waiting = deque(sorted(trials, key=lambda trial: (trial[1], trial[0].bit_count(), trial[0])))
    left = sum(weights[trial] for trial in waiting)
    while waiting:
        limit = share()
        limit = math.inf if left <= _LITTLE_MORE * limit else limit
        wave: list[Trial] = []
        held, done = 0, 0.0
        while waiting:
            trial = waiting[0]
            size = trial[0].bit_count()
            if wave and (held + size > rows or done + weights[trial] > limit):
                break
            wave.append(waiting.popleft())
            held += size
            done += weights[trial]
        left -= done
        yield wave
