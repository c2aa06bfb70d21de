"""The trainer contract: where trainings run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.training import Learner, Trace, Training

__all__ = ["Closing", "Located", "Staged", "Trainer"]


class Trainer(Protocol):
    """Trains coalitions, yielding each as it finishes, and records the run of all clients."""

    def train(
        self, scenario: Scenario, learner: Learner, training: Training, masks: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]: ...

    def trace(self, scenario: Scenario, learner: Learner, training: Training) -> Trace: ...


# What only some trainers can do.


@runtime_checkable
class Staged(Protocol):
    """A trainer that says what it is doing between two finished coalitions, to whoever sets `stage`."""

    stage: Callable[[str], None]


@runtime_checkable
class Closing(Protocol):
    """A trainer that has started something which must be ended."""

    def close(self) -> None: ...


@runtime_checkable
class Located(Protocol):
    """A trainer that trains elsewhere than in this process: on which `device`, and `where`, in words."""

    device: str

    @property
    def where(self) -> str: ...
