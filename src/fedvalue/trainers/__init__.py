"""The registry of trainers: where coalitions are trained. Modules are imported when one is made."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any, cast

from fedvalue.errors import InputError
from fedvalue.trainers.base import Trainer

__all__ = ["TRAINERS", "make_trainer"]

TRAINERS: dict[str, str] = {
    "local": "fedvalue.trainers.local:LocalTrainer",
    "flower": "fedvalue.trainers.flower:FlowerTrainer",
    "ray": "fedvalue.trainers.ray:RayTrainer",
}


def make_trainer(trainer: str | Trainer, **options: Any) -> Trainer:
    """A trainer by name, with its options, or as it is."""
    if not isinstance(trainer, str):
        if options:
            raise InputError(
                f"The options {', '.join(options)} go with the name of a trainer. Got a "
                f"{type(trainer).__name__}, which was made before: give them there."
            )
        return trainer
    if trainer not in TRAINERS:
        near = get_close_matches(trainer, TRAINERS, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise InputError(f"Unknown trainer {trainer!r}. {hint}Trainers: {', '.join(TRAINERS)}.")
    module, name = TRAINERS[trainer].split(":")
    return cast(Trainer, getattr(import_module(module), name)(**options))
