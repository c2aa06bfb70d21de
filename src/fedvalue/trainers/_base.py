"""The trainer contract: where trainings run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Protocol, TypeAlias, cast, runtime_checkable

from fedvalue.coalitions import Trial, by_seed
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.training import Learner, Trace, Training
from fedvalue.values import Disclosed

__all__ = [
    "Apart",
    "Claim",
    "ClaimTrials",
    "Closing",
    "Located",
    "Reseeding",
    "Sharing",
    "Staged",
    "Trainer",
    "of_seed",
    "takes_claims",
    "train_trials",
    "with_seed",
]

Claim: TypeAlias = Callable[[Sequence[int]], Sequence[int]]
"""Of coalitions that are to be begun, those that no other process is at: they are left to this one."""

ClaimTrials: TypeAlias = Callable[[Sequence[Trial]], Sequence[Trial]]
"""The same for trials."""


class Trainer(Protocol):
    """Trains coalitions, yielding each as it finishes, and records the run of all clients.

    >>> import fedvalue as fv
    >>> from fedvalue.trainers import LocalTrainer
    >>> class Noted:
    ...     # Trains in this process, and notes what it trained.
    ...     def __init__(self):
    ...         self.here, self.trained = LocalTrainer("cpu"), []
    ...     def train(self, scenario, learner, training, masks):
    ...         for mask, outcome in self.here.train(scenario, learner, training, masks):
    ...             self.trained.append(mask)
    ...             yield mask, outcome
    ...     def trace(self, scenario, learner, training):
    ...         return self.here.trace(scenario, learner, training)
    >>> trainer = Noted()
    >>> scenario = fv.load_scenario("synthetic", clients=2, samples=20)
    >>> game = fv.FederatedGame(scenario, trainer=trainer)
    >>> values = fv.value(game, "exact-cc")
    >>> sorted(trainer.trained)
    [0, 1, 2, 3]
    """

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
class Reseeding(Protocol):
    """A trainer that trains with several seeds in one go; others are called for one seed after the other.

    The seed with the number k is that of `training.replicate(k)`, and so is what becomes of the trial.
    """

    def train_trials(
        self,
        scenario: Scenario,
        learner: Learner,
        training: Training,
        trials: Sequence[Trial],
        claim: ClaimTrials = list,
    ) -> Iterator[tuple[Trial, Outcome]]: ...


@runtime_checkable
class Staged(Protocol):
    """A trainer that says what it is doing between two finished coalitions, to whoever sets `stage`."""

    stage: Callable[[str], None]


@runtime_checkable
class Closing(Protocol):
    """A trainer that has started something which must be ended."""

    def close(self) -> None: ...


@runtime_checkable
class Apart(Protocol):
    """A trainer whose clients are at different places: it counts what came from each."""

    def sent(self, names: Sequence[str], algorithm: str) -> list[Disclosed]: ...


@runtime_checkable
class Located(Protocol):
    """A trainer that trains elsewhere than in this process: on which `device`, and `where`, in words."""

    device: str

    @property
    def where(self) -> str: ...


def train_trials(
    trainer: Trainer,
    scenario: Scenario,
    learner: Learner,
    training: Training,
    trials: Sequence[Trial],
    claim: ClaimTrials = list,
) -> Iterator[tuple[Trial, Outcome]]:
    """Has any trainer train with several seeds: in one go if it can, else one seed after the other.

    `claim` is asked by a trainer that does so, and otherwise before each seed.
    """
    if is_meant(trainer, "train_trials", "train") and any(seed for _, seed in trials):
        yield from cast(Reseeding, trainer).train_trials(scenario, learner, training, trials, claim)
        return
    for seed, masks in by_seed(trials).items():
        rules, claim_masks = training.replicate(seed), of_seed(claim, seed)
        found = (
            cast(Sharing, trainer).train(scenario, learner, rules, masks, claim_masks)
            if takes_claims(trainer.train)
            else trainer.train(scenario, learner, rules, claim_masks(masks))
        )
        for mask, outcome in found:
            yield (mask, seed), outcome


def is_meant(thing: object, several: str, plain: str) -> bool:
    """Whether something has the method for `several` seeds, and no newer `plain` one: who overrides that alone means all.

    >>> class Base:
    ...     def train(self): ...
    ...     def train_trials(self): ...
    >>> is_meant(Base(), "train_trials", "train")
    True
    >>> class Watched(Base):
    ...     def train(self): ...
    >>> is_meant(Watched(), "train_trials", "train")
    False
    """
    places = [getattr(thing, "__dict__", {}), *(vars(kind) for kind in type(thing).__mro__)]
    return next((name for place in places for name in (several, plain) if name in place), plain) == several


def of_seed(claim: ClaimTrials, seed: int) -> Claim:
    """The claim for coalitions that are trained with one seed.

    >>> of_seed(lambda trials: trials[1:], 3)([0b01, 0b10])
    [2]
    """
    return lambda masks: [mask for mask, _ in claim([(mask, seed) for mask in masks])]


def with_seed(claim: Claim, seed: int) -> ClaimTrials:
    """The other way round: the claim for trials that all have one seed."""
    return lambda trials: [(mask, seed) for mask in claim([mask for mask, _ in trials])]


def takes_claims(method: Callable[..., object]) -> bool:
    """Whether a method (`train` of a trainer, `evaluate` of a game) has the argument `claim`.

    >>> takes_claims(lambda masks, claim=list: None), takes_claims(lambda masks: None)
    (True, False)
    """
    return "claim" in signature(method).parameters
