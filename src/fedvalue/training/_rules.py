"""The rules of a federated training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from fedvalue._checks import checked_init, whole
from fedvalue.errors import InputError

__all__ = ["Training"]

_CHOICES = {
    "algorithm": ("fedavg", "fedprox", "fedsgd"),
    "optimizer": ("adam", "sgd"),
    "weights": ("rows", "equal", "clipped"),
}
_NUMBER = (int, float, np.integer, np.floating)


@checked_init
@dataclass(frozen=True)
class Training:
    """The rules of a federated training; part of a game's identity.

    `fedavg`: `rounds` × `epochs` of minibatches at each client, models averaged by data size (McMahan et
    al. 2017). `fedprox` adds μ/2·‖θ − θ_global‖² to the local loss (Li et al. 2020) and needs `mu`. `fedsgd` makes one
    full-batch step of plain SGD per round.

    `weights` says what counts of a client when models are averaged: the `rows` that it claims, `equal` for all who have
    data, or its rows `clipped` so that of all clients together none has more than `max_share`.

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
    weights: str = "rows"
    max_share: float = 0.0

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {allowed}. Got {getattr(self, name)!r}.")
        # Numbers of one type each: 1 and 1.0 are the same rules and must have the same identity.
        for name, least in {"rounds": 1, "epochs": 1, "batch": 1, "seed": 0}.items():
            number = getattr(self, name)
            is_float = isinstance(number, (float, np.floating)) and number.is_integer()
            object.__setattr__(self, name, whole(name, int(number) if is_float else number, least))
        if self.seed >= 1 << 63:
            raise InputError(f"seed must be a whole number below 2^63. Got {self.seed}.")
        for name in ("rate", "momentum", "mu", "max_share"):
            object.__setattr__(self, name, _finite(name, getattr(self, name)))
        if self.rate <= 0 or self.mu < 0 or not 0 <= self.momentum < 1:
            raise InputError(
                "rate must be positive, mu at least 0 and momentum in [0, 1). "
                f"Got {self.rate}, {self.mu}, {self.momentum}."
            )
        if self.weights == "clipped" and not 0 < self.max_share < 1:
            raise InputError(
                "Clipped weights need max_share, the most that one client may have of all weight, between 0 and 1, such "
                f"as 0.4. Got {self.max_share:g}."
            )
        if self.max_share and self.weights != "clipped":
            raise InputError(
                f"max_share belongs to clipped weights. Got {self.max_share:g} with {self.weights}."
            )
        if self.mu and self.algorithm != "fedprox":
            raise InputError(f"mu belongs to fedprox. Got mu={self.mu} with {self.algorithm}.")
        if self.algorithm == "fedprox" and not self.mu:
            raise InputError(
                "fedprox needs mu above 0, such as 0.01 (--mu 0.01): how strongly clients are held to the common model. "
                "Without it, it would be fedavg."
            )
        if self.momentum and self.optimizer != "sgd":
            raise InputError(f"momentum belongs to sgd. Got momentum={self.momentum} with {self.optimizer}.")

    def identity(self) -> dict[str, Any]:
        """Everything that changes the trained models, as plain data.

        Settings that have no effect are left out: FedSGD has no epochs, and only FedProx has μ.
        """
        rules = asdict(self)
        if self.algorithm == "fedsgd":
            for unused in ("epochs", "batch", "optimizer", "momentum"):
                del rules[unused]
        if not self.mu:
            del rules["mu"]
        if self.weights == "rows":
            del rules["weights"]
        if not self.max_share:
            del rules["max_share"]
        return rules

    def allow_only(self, names: Sequence[str], what: str, hint: str) -> None:
        """Refuses rules that would be without effect: those that are neither among `names` nor as usual."""
        others = [
            self.algorithm if rule.name == "algorithm" else rule.name
            for rule in fields(self)
            if rule.name not in (*names, "seed") and getattr(self, rule.name) != rule.default
        ]
        if others:
            verb = "does" if len(others) == 1 else "do"
            raise InputError(f"{' and '.join(others)} {verb} not apply to {what}. {hint}")

    def replicate(self, index: int) -> Training:
        """The same rules with the random numbers of the given repetition; 0 is this one."""
        if index == 0:
            return self
        fields = asdict(self) | {"seed": int(np.random.SeedSequence([self.seed, index]).generate_state(1)[0])}
        return Training(**fields)


def _finite(name: str, number: Any) -> float:
    if isinstance(number, _NUMBER) and math.isfinite(number):
        return float(number)
    raise InputError(f"{name} must be a finite number. Got {number!r}.")
