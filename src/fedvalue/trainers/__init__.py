"""The registry of trainers: where coalitions are trained. Modules are imported when one is made."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from fedvalue._checks import did_you_mean
from fedvalue.errors import InputError
from fedvalue.trainers._base import Claim, Closing, Located, Sharing, Staged, Trainer, takes_claims
from fedvalue.trainers._local import LocalTrainer, choose_device
from fedvalue.trainers._speed import seconds_per_pass

__all__ = [
    "TRAINERS",
    "Claim",
    "Closing",
    "LocalTrainer",
    "Located",
    "Sharing",
    "Staged",
    "Trainer",
    "choose_device",
    "make_trainer",
    "seconds_per_pass",
    "takes_claims",
]

TRAINERS: dict[str, str] = {
    "local": "fedvalue.trainers._local:LocalTrainer",
    "flower": "fedvalue.flower:FlowerTrainer",
    "ray": "fedvalue.trainers.ray:RayTrainer",
}


def make_trainer(trainer: str | Trainer, **options: Any) -> Trainer:
    """A trainer by name, with its options, or as it is."""
    if not isinstance(trainer, str):
        if options:
            raise InputError(
                f"The options {', '.join(options)} go with the name of a trainer. Got a "
                f"{type(trainer).__name__}, which already exists: pass them to its constructor."
            )
        return trainer
    if trainer not in TRAINERS:
        hint = did_you_mean(trainer, TRAINERS)
        raise InputError(f"Unknown trainer {trainer!r}. {hint}Trainers: {', '.join(TRAINERS)}.")
    module, name = TRAINERS[trainer].split(":")
    return cast(Trainer, getattr(import_module(module), name)(**options))
