"""Losses that models are trained by: by name, or a function of one's own, and what a store recognises it by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol, cast, runtime_checkable

from fedvalue._checks import as_key, checked_init, did_you_mean
from fedvalue._imports import own_object
from fedvalue.errors import InputError
from fedvalue.scenarios import CLASSIFICATION, OWN, REGRESSION, Scenario
from fedvalue.store import FileNames, fingerprint
from fedvalue.training import Learner

__all__ = ["LOSSES", "Losing", "Loss", "LossLike", "as_loss", "losing"]

LOSSES: Mapping[str, tuple[str, ...]] = {
    "cross-entropy": (CLASSIFICATION, OWN),
    "focal": (CLASSIFICATION, OWN),
    "bce": (CLASSIFICATION, REGRESSION, OWN),
    "mse": (REGRESSION, OWN),
    "mae": (REGRESSION, OWN),
    "huber": (REGRESSION, OWN),
}
"""Losses by name, and the tasks that they are for."""

_USUAL = {CLASSIFICATION: "cross-entropy", REGRESSION: "mse"}
_EXPECTED = "a function (outputs, labels) → loss of every sample, or a fedvalue.Loss"


@checked_init
@dataclass(frozen=True)
class Loss:
    """A loss of your own: `function(outputs, labels)` gives the loss of every sample of a minibatch, as a tensor.

    Outputs are what the model says of the minibatch, in float32 and with gradients; labels are as in the scenario, targets
    of a regression on its `target_scale` (`Scale()`: as they are). Where the function returns one number for all, the mean,
    it is right as well, but models are then trained one after the other: minibatches of a stack are filled up.

    A store recognises the function by its source text and what that refers to, and the content of `files`, which it may
    read. `key` replaces all that by a text of yours: change it when the loss changes.

    >>> Loss("absolute", lambda outputs, labels: (outputs.squeeze(-1) - labels).abs()).name
    'absolute'
    """

    name: str
    function: Callable[[Any, Any], Any]
    _: KW_ONLY
    key: str | None = None
    files: FileNames | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip() or not self.name.isprintable():
            raise InputError(f"The name of a loss must be a line of text. Got {self.name!r}.")
        if self.name in LOSSES:
            raise InputError(f"{self.name!r} is a built-in loss. Give yours another name.")
        if not callable(self.function):
            raise InputError(f"The loss {self.name!r} must be {_EXPECTED}. Got {self.function!r}.")
        as_key(self.key)

    @property
    def identity(self) -> str:
        """What a store recognises it by."""
        return self._recognised[0]

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the function refers to and a store could not see change."""
        return self._recognised[1]

    @property
    def _recognised(self) -> tuple[str, tuple[str, ...]]:
        if self.key is not None:
            return fingerprint("key", self.key)
        return fingerprint(self.function, files=self.files, seeded=("torch",))


LossLike = str | Loss | Callable[[Any, Any], Any]
"""A loss by name, by package.module:function, as a function, or as it is."""


@runtime_checkable
class Losing(Protocol):
    """A learner that can be trained by another loss: None is the usual one of the task."""

    loss: str | Loss | None


def as_loss(loss: LossLike) -> str | Loss:
    """The name of a built-in loss, or a loss of one's own.

    >>> as_loss("huber")
    'huber'
    """
    if isinstance(loss, str) and ":" not in loss:
        if loss not in LOSSES:
            raise InputError(
                f"Unknown loss {loss!r}. {did_you_mean(loss, LOSSES)}Losses: {', '.join(LOSSES)}, or package.module:function."
            )
        return loss
    if isinstance(loss, str):
        loss = cast(LossLike, own_object(loss, "loss", _EXPECTED))
    if isinstance(loss, Loss):
        return loss
    name = getattr(loss, "__name__", type(loss).__name__)
    if not callable(loss) or name == "<lambda>":
        hint = ", which has no name: give it one by Loss('name', function)" if callable(loss) else ""
        raise InputError(f"A loss is given by name or as {_EXPECTED}. Got {loss!r}{hint}.")
    return Loss(name, loss)


def losing(learner: Learner, loss: LossLike | None, scenario: Scenario) -> Learner:
    """The learner, trained by this loss; None leaves it as it is. The usual loss of the task is no other one."""
    given = learner.loss if loss is None and isinstance(learner, Losing) else loss
    if given is None:
        return learner
    if not isinstance(learner, Losing):
        raise InputError(
            f"A {type(learner).__name__} is not trained by steps along a loss: leave the loss out, or choose a torch model."
        )
    chosen = as_loss(given)
    if isinstance(chosen, str) and scenario.task not in LOSSES[chosen]:
        fitting = ", ".join(name for name, tasks in LOSSES.items() if scenario.task in tasks)
        raise InputError(f"The loss {chosen!r} is not for a {scenario.task}. Losses for it: {fitting}.")
    if chosen == "bce" and scenario.task == REGRESSION and not scenario.scale.is_plain:
        raise InputError(
            "The loss 'bce' needs targets from 0 to 1 as they are: say target_scale=Scale() in the scenario."
        )
    twin = copy(learner)
    twin.loss = None if chosen == _USUAL.get(scenario.task) else chosen
    return cast(Learner, twin)
