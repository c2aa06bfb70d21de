"""What it means to train a coalition: the rules, and FedAvg over a learner's stacks.

All coalitions of a wave advance together, round by round. Every coalition starts from the same seeded
model, and a client's minibatch order in a round depends on its data alone, whatever the coalition: v(S∪i)
and v(S) share their random numbers, so that their difference loses most of its noise. Round 1 starts from
the same model everywhere, so a client's first local training is one training, shared by all coalitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedvalue.coalition import members
from fedvalue.errors import InputError
from fedvalue.learners.base import Session, Stack
from fedvalue.scenarios.base import Scenario

__all__ = [
    "Training",
    "canonical_masks",
    "data_weights",
    "first_round",
    "later_rounds",
    "recorded_rounds",
    "waves",
]

_CHOICES = {"algorithm": ("fedavg", "fedprox", "fedsgd"), "optimizer": ("adam", "sgd")}
_NUMBER = (int, float, np.integer, np.floating)


@dataclass(frozen=True)
class Training:
    """The rules of a federated training; part of a game's identity.

    `fedavg`: `rounds` × `epochs` of minibatches at each client, models averaged by data size (McMahan et
    al. 2017). `fedprox` adds μ/2·‖θ − θ_global‖² to the local loss (Li et al. 2020). `fedsgd` makes one
    full-batch step of plain SGD per round.

    >>> Training(rounds=2).identity()["rounds"]
    2
    """

    rounds: int = 4
    epochs: int = 4
    batch: int = 64
    optimizer: str = "adam"
    rate: float = 1e-3
    momentum: float = 0.0
    algorithm: str = "fedavg"
    mu: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {allowed}. Got {getattr(self, name)!r}.")
        # Numbers of one type each: 1 and 1.0 are the same rules and must have the same identity.
        for name, least in {"rounds": 1, "epochs": 1, "batch": 1, "seed": 0}.items():
            object.__setattr__(self, name, _whole(name, getattr(self, name), least))
        for name in ("rate", "momentum", "mu"):
            object.__setattr__(self, name, _finite(name, getattr(self, name)))
        if self.rate <= 0 or self.mu < 0 or not 0 <= self.momentum < 1:
            raise InputError(
                "rate must be positive, mu at least 0 and momentum in [0, 1). "
                f"Got {self.rate}, {self.mu}, {self.momentum}."
            )
        if self.mu and self.algorithm != "fedprox":
            raise InputError(f"mu belongs to fedprox. Got mu={self.mu} with {self.algorithm}.")
        if self.momentum and self.optimizer != "sgd":
            raise InputError(f"momentum belongs to sgd. Got momentum={self.momentum} with {self.optimizer}.")

    def identity(self) -> dict[str, Any]:
        """Everything that changes the trained models, as plain data.

        Settings that have no effect are left out: FedSGD has no epochs, and FedProx without μ is FedAvg.
        """
        rules = asdict(self)
        if self.algorithm == "fedsgd":
            for unused in ("epochs", "batch", "optimizer", "momentum"):
                del rules[unused]
        if not self.mu:
            del rules["mu"]
            rules["algorithm"] = "fedavg" if self.algorithm == "fedprox" else self.algorithm
        return rules

    def replicate(self, index: int) -> Training:
        """The same rules with the random numbers of the given repetition; 0 is this one."""
        if index == 0:
            return self
        fields = asdict(self) | {"seed": int(np.random.SeedSequence([self.seed, index]).generate_state(1)[0])}
        return Training(**fields)


def _whole(name: str, number: Any, least: int) -> int:
    if isinstance(number, _NUMBER) and float(number).is_integer() and least <= number < 1 << 63:
        return int(number)
    raise InputError(f"{name} must be a whole number of at least {least}. Got {number!r}.")


def _finite(name: str, number: Any) -> float:
    if isinstance(number, _NUMBER) and math.isfinite(number):
        return float(number)
    raise InputError(f"{name} must be a finite number. Got {number!r}.")


def canonical_masks(scenario: Scenario, masks: Sequence[int]) -> dict[int, int]:
    """For each coalition, the one that is trained for it.

    A client without data changes nothing, and of clients with equal data it does not matter which takes
    part: such coalitions are the same training, and so have exactly the same utility.
    """
    alike: dict[str, list[int]] = {}
    for i, data in enumerate(scenario.clients):
        if len(data.y):
            alike.setdefault(data.fingerprint, []).append(i)
    groups = [(sum(1 << i for i in group), group) for group in alike.values()]
    return {
        mask: sum(1 << i for bits, group in groups for i in group[: (mask & bits).bit_count()])
        for mask in masks
    }


def data_weights(scenario: Scenario, coalitions: Sequence[tuple[int, ...]]) -> list[float]:
    """w_i^S = |D_i| / Σ_{j∈S} |D_j| for every client of every coalition, in that order."""
    sizes = [len(data) for data in scenario.clients]
    totals = [sum(sizes[i] for i in clients) for clients in coalitions]
    return [sizes[i] / total for clients, total in zip(coalitions, totals, strict=True) for i in clients]


def waves(coalitions: Sequence[int], rows: int) -> Iterator[list[int]]:
    """Coalitions in the groups in which they are trained: about `rows` local trainings in each."""
    wave: list[int] = []
    held = 0
    for mask in sorted(coalitions, key=lambda mask: (mask.bit_count(), mask)):
        if wave and held + mask.bit_count() > rows:
            yield wave
            wave, held = [], 0
        wave.append(mask)
        held += mask.bit_count()
    if wave:
        yield wave


def first_round(session: Session, clients: Sequence[int]) -> Stack:
    """One local training per client, from the initial model: row r belongs to clients[r]."""
    initial = session.initial()
    return session.local(session.take(initial, [0] * len(clients)), clients, 1)


def later_rounds(
    session: Session,
    scenario: Scenario,
    rounds: int,
    wave: Sequence[int],
    first: Stack,
    row_of_client: dict[int, int],
    stage: Callable[[str], None] = lambda text: None,
) -> Stack:
    """The final models of the wave's coalitions, whose round-1 local models are rows of `first`.

    `stage` is told which round begins.
    """
    coalitions = [members(mask) for mask in wave]
    owners = [i for clients in coalitions for i in clients]
    coalition_of_row = [c for c, clients in enumerate(coalitions) for _ in clients]
    weights = data_weights(scenario, coalitions)
    local = session.take(first, [row_of_client[i] for i in owners])
    models = session.average(local, coalition_of_row, weights)
    for t in range(2, rounds + 1):
        stage(f"round {t}/{rounds}")
        local = session.local(session.take(models, coalition_of_row), owners, t)
        models = session.average(local, coalition_of_row, weights)
    return models


def recorded_rounds(
    session: Session, scenario: Scenario, rounds: int
) -> tuple[tuple[int, ...], list[Stack], list[Stack], Stack]:
    """The run of all clients that have data: who they are, the model before and their models after every
    round, and the model at the end.
    """
    clients = tuple(i for i, data in enumerate(scenario.clients) if len(data))
    weights = data_weights(scenario, [clients])
    model, starts, local_models = session.initial(), [], []
    for t in range(1, rounds + 1):
        trained = session.local(session.take(model, [0] * len(clients)), clients, t)
        starts.append(model)
        local_models.append(trained)
        model = session.average(trained, [0] * len(clients), weights)
    return clients, starts, local_models, model
