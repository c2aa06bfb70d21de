"""The learner contract: what is trained, always as a stack of many models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.training._rules import Training

__all__ = [
    "AveragingSession",
    "Doubtful",
    "Drawing",
    "Guessing",
    "Hindered",
    "Learner",
    "Pooling",
    "Reseeding",
    "Ruled",
    "Seedless",
    "Separable",
    "Session",
    "Stack",
    "StartingLearner",
    "Stepping",
    "Telling",
    "Weighed",
]

Stack: TypeAlias = Any
"""Some models, in rows. Only the session that made a stack knows what is in it."""


class Session(Protocol):
    """A learner at work on one scenario under one set of rules, its data where it computes."""

    device: str
    rows: int  # how many local trainings to hold at once: a bound on memory, never on the result

    def initial(self) -> Stack:
        """A stack of one: the seeded model that every coalition starts from."""
        ...

    def take(self, stack: Stack, rows: Sequence[int]) -> Stack:
        """The given rows, in that order, repeated where they are named again."""
        ...

    def local(self, stack: Stack, owners: Sequence[int], t: int) -> Stack:
        """Every row trained in round t on the data of its owner, a client number."""
        ...

    def average(self, stack: Stack, groups: Sequence[int], weights: Sequence[float]) -> Stack:
        """One model per group number 0, 1, …: the weighted average of the group's rows."""
        ...

    def evaluate(self, stack: Stack) -> list[dict[str, float]]:
        """All metrics of every model on the test set."""
        ...


class AveragingSession(Session, Protocol):
    """A session whose models are sums of updates: what the gradient methods need besides."""

    def step(self, models: Stack, before: Stack, after: Stack, weights: NDArray[np.float64]) -> Stack:
        """models[r] + Σ_i weights[r, i]·(after[i] − before); `models` may be a stack of one, like `before`."""
        ...

    def loss_drops(self, before: Stack, after: Stack) -> list[float]:
        """⟨∇ℓ(before), before − after[i]⟩ for every row i, where ℓ is the loss on the test set."""
        ...


class Learner(Protocol):
    """Something that can be trained federatedly. `averages` says that its models are sums of updates:
    its sessions are averaging ones.

    >>> import numpy as np
    >>> import fedvalue as fv
    >>> class Mean:
    ...     # A model that is one number: the mean of the labels.
    ...     averages = False
    ...     def identity(self):
    ...         return {"model": "mean"}
    ...     def session(self, scenario, training, device, memory):
    ...         return MeanSession(scenario, device)
    >>> class MeanSession:
    ...     rows = 64
    ...     def __init__(self, scenario, device):
    ...         self.scenario, self.device = scenario, device
    ...     def initial(self):
    ...         return np.zeros(1)
    ...     def take(self, stack, rows):
    ...         return stack[list(rows)]
    ...     def local(self, stack, owners, t):
    ...         return np.array([self.scenario.clients[i].y.mean() for i in owners])
    ...     def average(self, stack, groups, weights):
    ...         return np.bincount(groups, np.asarray(weights) * stack)
    ...     def evaluate(self, stack):
    ...         labels = self.scenario.test.y
    ...         return [{"mse": float(np.mean((labels - mean) ** 2))} for mean in stack]
    >>> scenario = fv.load_scenario("synthetic", clients=3, samples=20)
    >>> game = fv.FederatedGame(scenario, Mean(), metric="mse")
    >>> fv.value(game, "exact", noise=False).evaluations
    8
    """

    averages: bool

    def identity(self) -> Mapping[str, Any]:
        """What changes the trained models, as plain data."""
        ...

    def session(self, scenario: Scenario, training: Training, device: str, memory: int | None) -> Session:
        """Takes the data to the device. `memory` in bytes bounds what a wave may use."""
        ...


@runtime_checkable
class Doubtful(Protocol):
    """A learner that names what it refers to and cannot look into: changes in there go unnoticed."""

    @property
    def doubts(self) -> tuple[str, ...]: ...


@runtime_checkable
class Drawing(Protocol):
    """A session whose models begin at random: it can draw further ones."""

    def drawn(self, seeds: Sequence[int | None]) -> Stack:
        """Untrained models, a row for each seed; None is the one that every coalition starts from."""
        ...


@runtime_checkable
class Reseeding(Protocol):
    """A session that can train rows with several seeds side by side; `reseeds`: whether it really can.

    Where models begin at random, it is a `Drawing` one as well.
    """

    @property
    def reseeds(self) -> bool: ...

    def reseeded(self, stack: Stack, owners: Sequence[int], seeds: Sequence[int | None], t: int) -> Stack:
        """As `local`, every row with the random numbers of its seed; None is the seed of the session's rules.

        A row becomes what it would become in a session whose rules have this seed.
        """
        ...


@runtime_checkable
class Guessing(Protocol):
    """A session whose untrained model has no answer: what a guess reaches instead, in the metrics where it is known."""

    def guesses(self) -> Mapping[str, float]: ...


@runtime_checkable
class Stepping(Protocol):
    """A session that may train rows step by step `together`: a step then takes time however few they are."""

    together: bool


@runtime_checkable
class Hindered(Protocol):
    """A session that had to train models one after the other would say why in a `note`; there is none where it can do more."""

    note: str


@runtime_checkable
class Telling(Protocol):
    """A session that can also tell what single test rows said about a model."""

    def outcomes(self, stack: Stack) -> list[Outcome]:
        """What `evaluate` gives, as outcomes with their `rows`; who trains adds time and place."""
        ...


@runtime_checkable
class Weighed(Protocol):
    """A session that can say what models take."""

    rows: int

    def memory(self, rows: int) -> int:
        """An upper estimate of the bytes that so many local trainings side by side take."""
        ...


@runtime_checkable
class Pooling(Protocol):
    """A learner that is fitted to rows put together: what its trainings took says nothing of a federation."""

    pools_rows: bool


@runtime_checkable
class Ruled(Protocol):
    """A learner to which only some rules of training apply: those named, and the seed."""

    rules: tuple[str, ...]


@runtime_checkable
class Separable(Protocol):
    """A learner whose models know nothing of clients outside their coalition, but for what it names.

    A training then depends on the data of the members in their order, on what identifies the game without its clients,
    and on `beyond`. Nothing else: not on names, nor on the numbers of clients. Games with other members can then share
    outcomes.
    """

    def beyond(self, scenario: Scenario, training: Training) -> Mapping[str, Any] | None:
        """What a training takes from all clients, members or not, as plain data; None: that cannot be told."""
        ...


@runtime_checkable
class Seedless(Protocol):
    """A learner on which the seed has no effect. `draws`: whether it draws random numbers all the same, of its own."""

    draws: bool


@runtime_checkable
class StartingLearner(Protocol):
    """A learner whose first model does not follow from its identity and the seed: its weights may come from a file."""

    def start(self, scenario: Scenario, seed: int) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """What identifies that model, as plain data (nothing where it does follow), and what cannot be looked into."""
        ...
