"""Where trainings run, as the command line says it: --backend and the options that go with one."""

from __future__ import annotations

from typing import Any

from fedvalue.errors import InputError

__all__ = ["BACKENDS", "backend_options", "where"]

BACKENDS = ("local", "ray")


def backend_options(backend: str, **given: Any) -> dict[str, Any]:
    """Options of the trainer; those that were not given are left to it.

    >>> backend_options("ray", workers=4, address=None)
    {'workers': 4}
    """
    if backend not in BACKENDS:
        raise InputError(f"The backend must be {' or '.join(BACKENDS)}. Got {backend!r}.")
    options = {name: value for name, value in given.items() if value is not None}
    if options and backend != "ray":
        named = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise InputError(f"{named} says how Ray is used. Add --backend ray, or leave it out.")
    return options


def where(trainer: Any, device: str) -> str:
    """What the heading says about it.

    >>> where(object(), "cpu")
    'cpu'
    """
    if not hasattr(trainer, "workers"):
        return device
    at = f" at {trainer.address}" if trainer.address else ""
    workers = (
        f" with {trainer.workers} worker{'' if trainer.workers == 1 else 's'}" if trainer.workers else ""
    )
    return f"{trainer.device}, by Ray{at}{workers}"
