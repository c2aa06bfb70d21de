"""The trainer contract: where trainings run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from fedvalue.errors import InputError
from fedvalue.learners.base import AveragingSession, Learner, Stack
from fedvalue.outcome import Outcome
from fedvalue.scenarios.base import Scenario
from fedvalue.training import Training

__all__ = ["Trace", "Trainer", "need_updates"]


@dataclass(frozen=True)
class Trace:
    """One recorded FedAvg run of all clients: what the gradient methods look at.

    `starts[t]` is the global model before round t+1 (a stack of one), `locals[t]` the clients' models after
    it (row r belongs to `clients[r]`); `end` is the final model. Clients without data have no row.
    """

    session: AveragingSession
    clients: tuple[int, ...]
    starts: tuple[Stack, ...]
    locals: tuple[Stack, ...]
    end: Stack
    seconds: float


class Trainer(Protocol):
    """Trains coalitions, yielding each as it finishes, and records the run of all clients."""

    def train(
        self, scenario: Scenario, learner: Learner, training: Training, masks: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]: ...

    def trace(self, scenario: Scenario, learner: Learner, training: Training) -> Trace: ...


def need_updates(learner: Learner) -> None:
    """Refuses a learner whose runs cannot be recorded for the gradient methods."""
    if not learner.averages:
        raise InputError(
            "Gradient methods do not apply to this model: its clients send no updates that could be "
            "averaged. Use a sampling method such as ipss."
        )
