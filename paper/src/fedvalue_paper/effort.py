"""How far an experiment is: work in estimated seconds, so that the time left can be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fedvalue.coalitions import members
from fedvalue.training import Training
from fedvalue_paper.grid import GameSpec, games_of, runs_of
from fedvalue_paper.spec import Experiment

__all__ = ["Meter", "Silent", "Watch", "seconds_per_sample", "work_of", "work_of_game"]

# Roughly the seconds that a sample costs in one epoch: for the time left only, where proportions matter.
_SECONDS = {"cnn": 1e-4, "lstm": 1e-4, "least-squares": 1e-8, "xgboost": 1e-6}
_USUAL_SECONDS, _USUAL_SAMPLES = 4e-6, 2000
_SECONDS_OF_RUN = {"surrogate": 0.1, "surrogate-adaptive": 0.2, "gtg": 0.2}


class Watch(Protocol):
    """Who wants to know how far the experiment is. Work is in estimated seconds."""

    def game(self, number: int, games: int, label: str) -> None: ...
    def stage(self, text: str) -> None: ...
    def advance(self, work: float) -> None: ...


class Silent:
    """Watches nothing."""

    def game(self, number: int, games: int, label: str) -> None:
        """A game begins."""

    def stage(self, text: str) -> None:
        """Something is being done."""

    def advance(self, work: float) -> None:
        """Something was done."""


def work_of(experiment: Experiment) -> float:
    """About how many seconds the experiment has before it, if nothing of it is done."""
    return sum(work_of_game(experiment, spec) for spec in games_of(experiment))


class Meter:
    """Tells a watch how much of a game's work is done; never more than all of it."""

    def __init__(self, watch: Watch, work: float) -> None:
        self.watch = watch
        self.left = work
        self.sizes: Sequence[int] = ()
        self.per_sample = 0.0

    def trained(self, mask: int) -> None:
        """A coalition was trained."""
        self._done(self.per_sample * sum(self.sizes[i] for i in members(mask)))

    def ran(self, method: str) -> None:
        """A run is finished."""
        self._done(_SECONDS_OF_RUN.get(method, 0.005))

    def finish(self) -> None:
        """All that was left needed no work."""
        self._done(self.left)

    def _done(self, work: float) -> None:
        step = min(work, self.left)
        self.left -= step
        self.watch.advance(step)


def work_of_game(experiment: Experiment, spec: GameSpec) -> float:
    """The same for one game."""
    runs = list(runs_of(experiment, spec.n))
    itself = sum(_SECONDS_OF_RUN.get(run.method, 0.005) for run in runs)
    if "table" in spec.settings:
        return itself
    samples = spec.get("samples") or _USUAL_SAMPLES
    if spec.n <= experiment.exact_up_to:
        coalitions = float(1 << spec.n)
    else:
        coalitions = float(sum(run.budget or 1 for run in runs))
    return itself + coalitions * spec.n / 2 * samples * seconds_per_sample(spec)


def seconds_per_sample(spec: GameSpec) -> float:
    """About what a sample costs in a whole training."""
    rules = Training(**spec.training)
    return rules.rounds * rules.epochs * _SECONDS.get(spec.get("model", "mlp"), _USUAL_SECONDS)
