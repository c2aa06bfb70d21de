"""What is given from outside: numbers within their bounds, and names that were meant."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from fedvalue.errors import InputError

__all__ = ["did_you_mean", "positive", "whole"]


def whole(
    name: str, value: Any, least: int, most: int | None = None, error: type[InputError] = InputError
) -> int:
    """The value as an integer within its bounds; integers of NumPy count, true and false do not.

    >>> whole("budget", 32, 1)
    32
    >>> whole("budget", 2.5, 1)
    Traceback (most recent call last):
    fedvalue.errors.InputError: budget must be a whole number of at least 1. Got 2.5.
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most:,}"
        raise error(f"{name} must be a whole number {bounds}. Got {value!r}.")
    return int(value)


def positive(name: str, value: Any, unit: str, error: type[InputError] = InputError) -> float:
    """The value as a number above zero; infinity is one.

    >>> positive("checkpoint", 20, "seconds")
    20.0
    >>> positive("checkpoint", 0, "seconds")
    Traceback (most recent call last):
    fedvalue.errors.InputError: checkpoint must be a positive number of seconds. Got 0.
    """
    if not isinstance(value, Real) or isinstance(value, bool) or not float(value) > 0:
        raise error(f"{name} must be a positive number of {unit}. Got {value!r}.")
    return float(value)


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A question that names what is spelled most alike, with a space behind it; nothing where nothing is.

    >>> did_you_mean("surogate", ["surrogate", "exact"]), did_you_mean("zzz", ["surrogate", "exact"])
    ("Did you mean 'surrogate'? ", '')
    """
    from difflib import get_close_matches  # in the rare case: importing fedvalue stays quick

    near = get_close_matches(str(name), list(known), n=3, cutoff=0.5)
    return f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
