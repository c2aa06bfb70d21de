"""The rules of a federated training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from fedvalue._checks import checked_init, whole
from fedvalue.errors import InputError
from fedvalue.training._optimizers import check_optimizer, pairs_of, pairs_text
from fedvalue.training._schedule import SCHEDULES, share_of_rate

__all__ = ["Training"]

_CHOICES = {
    "algorithm": ("fedavg", "fedprox", "fedsgd"),
    "weights": ("rows", "equal", "clipped"),
    "schedule": SCHEDULES,
    "precision": ("float32", "bf16"),
}
_NUMBERS = ("rate", "momentum", "mu", "max_share", "weight_decay", "decay", "clip")
_WHOLE = {"rounds": 1, "epochs": 1, "batch": 1, "seed": 0, "warmup": 0, "decay_every": 0, "accumulate": 1}
# Rules of which identities, messages and records say nothing where they are as usual: what was stored before stays valid.
_LATER = (
    "weight_decay", "optimizer_options", "schedule", "warmup", "decay", "decay_every", "clip", "accumulate",
    "class_weights", "precision",
)  # fmt: skip
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

    `optimizer` is adam, sgd or another one of torch.optim by its name in lower case, with `weight_decay` and, as a dict or
    as name=value,name=value, its `optimizer_options`; every local training begins with a fresh one. The rate follows a
    `schedule` from round to round: constant, linear, cosine, or step (times `decay` after every `decay_every` rounds),
    after a rise through `warmup` rounds. Gradients of a model whose norm is above `clip` are cut to it. A step is made of
    `accumulate` minibatches of `batch` rows. `class_weights` are balanced (by the labels of each client) or
    {class: weight}. With `precision="bf16"` models are trained under autocast in bfloat16, and measured in float32.

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
    weight_decay: float = 0.0
    optimizer_options: str | Mapping[str, Any] = ""
    schedule: str = "constant"
    warmup: int = 0
    decay: float = 0.0
    decay_every: int = 0
    clip: float = 0.0
    accumulate: int = 1
    class_weights: str | Mapping[int, float] = ""
    precision: str = "float32"

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {allowed}. Got {getattr(self, name)!r}.")
        # Numbers of one type each: 1 and 1.0 are the same rules and must have the same identity.
        for name, least in _WHOLE.items():
            number = getattr(self, name)
            is_float = isinstance(number, (float, np.floating)) and number.is_integer()
            object.__setattr__(self, name, whole(name, int(number) if is_float else number, least))
        if self.seed >= 1 << 63:
            raise InputError(f"seed must be a whole number below 2^63. Got {self.seed}.")
        for name in _NUMBERS:
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
        self._check_steps()
        self._check_schedule()

    def _check_steps(self) -> None:
        """What a step is made of: optimiser, minibatches, weights of classes."""
        options = pairs_text("optimizer_options", self.optimizer_options)
        object.__setattr__(self, "optimizer_options", options)
        check_optimizer(self.optimizer, self.options_of_optimizer, self.weight_decay)
        if self.algorithm == "fedsgd" and (options or self.accumulate > 1):
            raise InputError(
                "fedsgd makes one step of plain SGD with all rows: optimizer_options and accumulate do not apply to it."
            )
        if self.weight_decay < 0 or self.clip < 0:
            raise InputError(
                f"weight_decay and clip must be at least 0. Got {self.weight_decay:g} and {self.clip:g}."
            )
        if self.class_weights != "balanced":
            object.__setattr__(self, "class_weights", pairs_text("class_weights", self.class_weights))
            weights = pairs_of(str(self.class_weights))
            if not all(c.isdecimal() and isinstance(w, (int, float)) and w > 0 for c, w in weights.items()):
                raise InputError(
                    "class_weights must be balanced or a positive number by class, such as {0: 1, 1: 5} "
                    f"(--class-weights 0=1,1=5). Got {self.class_weights!r}. Classes are numbered from 0, in the order in which "
                    "fedvalue data check lists them."
                )

    def _check_schedule(self) -> None:
        if self.schedule == "step" and not (0 < self.decay < 1 and self.decay_every):
            raise InputError(
                "The schedule step needs decay between 0 and 1 and decay_every, a number of rounds: decay=0.1, "
                f"decay_every=2. Got {self.decay:g} and {self.decay_every}."
            )
        if (self.decay or self.decay_every) and self.schedule != "step":
            raise InputError(
                f"decay and decay_every belong to the schedule step. Got them with {self.schedule}."
            )

    @property
    def options_of_optimizer(self) -> dict[str, Any]:
        """Its options by name."""
        return pairs_of(str(self.optimizer_options))

    @property
    def weight_of_class(self) -> dict[int, float]:
        """The weights of the classes that were given one; nothing where they are balanced."""
        if self.class_weights == "balanced":
            return {}
        return {int(c): float(weight) for c, weight in pairs_of(str(self.class_weights)).items()}

    def rate_in(self, t: int) -> float:
        """The rate of all steps of round t, the first of which is 1."""
        return self.rate * share_of_rate(
            t, self.rounds, self.schedule, self.warmup, self.decay, self.decay_every
        )

    def plain(self) -> dict[str, Any]:
        """All rules as plain data, without those that came later and are as usual."""
        return {n: r for n, r in asdict(self).items() if n not in _LATER or n in self.further}

    @property
    def further(self) -> dict[str, Any]:
        """Rules of steps that are not as usual."""
        return {
            f.name: r for f in fields(self) if f.name in _LATER and (r := getattr(self, f.name)) != f.default
        }

    def identity(self) -> dict[str, Any]:
        """Everything that changes the trained models, as plain data.

        Settings that have no effect are left out: FedSGD has no epochs, and only FedProx has μ.
        """
        rules = self.plain()
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
    if isinstance(number, _NUMBER) and not isinstance(number, bool) and math.isfinite(number):
        return float(number)
    raise InputError(f"{name} must be a finite number. Got {number!r}.")
