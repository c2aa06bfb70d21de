"""The trainer contract: where trainings run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Protocol, TypeAlias, runtime_checkable

from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.training import Learner, Trace, Training

__all__ = ["Claim", "Closing", "Located", "Sharing", "Staged", "Trainer", "takes_claims"]

Claim: TypeAlias = Callable[[Sequence[int]], Sequence[int]]
"""Of coalitions that are to be begun, those that no other process is at: they are left to this one."""


class Trainer(Protocol):
    """Trains coalitions, yielding each as it finishes, and records the run of all clients."""

    def train(
        self, scenario: Scenario, learner: Learner, training: Training, masks: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]: ...

    def trace(self, scenario: Scenario, learner: Learner, training: Training) -> Trace: ...


# What only some trainers can do.


class Sharing(Protocol):
    """A trainer that asks before it begins on coalitions, so that several processes can share the work."""

    def train(
        self,
        scenario: Scenario,
        learner: Learner,
        training: Training,
        masks: Sequence[int],
        claim: Claim = list,
    ) -> Iterator[tuple[int, Outcome]]: ...


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


def takes_claims(method: Callable[..., object]) -> bool:
    """Whether a method (`train` of a trainer, `evaluate` of a game) has the argument `claim`.

    >>> takes_claims(lambda masks, claim=list: None), takes_claims(lambda masks: None)
    (True, False)
    """
    return "claim" in signature(method).parameters
