"""The registry of trainers: where coalitions are trained. Modules are imported when one is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from inspect import signature
from typing import Any, cast

from fedvalue._checks import did_you_mean
from fedvalue.errors import InputError
from fedvalue.trainers._base import (
    Apart,
    Claim,
    ClaimTrials,
    Closing,
    Located,
    Reseeding,
    Sharing,
    Staged,
    Trainer,
    is_meant,
    of_seed,
    takes_claims,
    train_trials,
    with_seed,
)
from fedvalue.trainers._local import LocalTrainer, choose_device
from fedvalue.trainers._speed import seconds_per_pass

__all__ = [
    "TRAINERS",
    "Apart",
    "Claim",
    "ClaimTrials",
    "Closing",
    "LocalTrainer",
    "Located",
    "Reseeding",
    "Sharing",
    "Staged",
    "Trainer",
    "choose_device",
    "make_trainer",
    "is_meant",
    "of_seed",
    "seconds_per_pass",
    "takes_claims",
    "train_trials",
    "with_seed",
]

TRAINERS: dict[str, str] = {
    "local": "fedvalue.trainers._local:LocalTrainer",
    "flower": "fedvalue.flower:FlowerTrainer",
    "ray": "fedvalue.trainers.ray:RayTrainer",
}


def make_trainer(
    trainer: str | Trainer, options: Mapping[str, Any] | None = None, also: Iterable[str] = ()
) -> Trainer:
    """A trainer by name, with its options, or as it is. `also`: what else a mistyped option may have meant."""
    options = options or {}
    if not isinstance(trainer, str):
        if options:
            raise InputError(
                f"The options {', '.join(options)} go with the name of a trainer. Got a "
                f"{type(trainer).__name__}, which already exists: pass them to its constructor."
            )
        if not hasattr(trainer, "train"):
            raise InputError(f"A trainer is given by name or has a method train. Got {trainer!r}.")
        return trainer
    if trainer not in TRAINERS:
        hint = did_you_mean(trainer, TRAINERS)
        raise InputError(f"Unknown trainer {trainer!r}. {hint}Trainers: {', '.join(TRAINERS)}.")
    module, name = TRAINERS[trainer].split(":")
    made = getattr(import_module(module), name)
    known = [p for p in signature(made).parameters if p not in ("self", "args", "kwargs")]
    for option in options:
        if option not in known:
            raise InputError(
                f"There is no argument {option!r}. {did_you_mean(option, [*known, *also])}The options of the trainer "
                f"{trainer!r}: {', '.join(known)}."
            )
    return cast(Trainer, made(**options))
