"""Options of scenarios and partitions: right type, right range, known name; else one clear error."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from fedvalue import _checks
from fedvalue.errors import ScenarioError

__all__ = ["flag", "number", "stream", "unknown", "whole"]


whole = partial(_checks.whole, error=ScenarioError)


def number(name: str, value: Any, least: float, most: float = math.inf, *, above: bool = False) -> float:
    """The value as a finite number within its bounds; `above`: `least` itself is excluded."""
    fine = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not fine or value < least or value > most or (above and value == least):
        low = f"above {least:g}" if above else f"at least {least:g}"
        high = "" if most == math.inf else f" and at most {most:g}"
        raise ScenarioError(f"{name} must be a number {low}{high}. Got {value!r}.")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """The value as true or false."""
    if not isinstance(value, (bool, np.bool_)):
        raise ScenarioError(f"{name} must be true or false. Got {value!r}.")
    return bool(value)


def unknown(kind: str, name: Any, known: Iterable[str], where: str = "") -> ScenarioError:
    """The error for a name that does not exist, with the nearest that do."""
    names = list(known)
    hint = _checks.did_you_mean(name, names)
    return ScenarioError(
        f"Unknown {kind}{where} {name!r}. {hint}{kind.capitalize()}s: {', '.join(names) or 'none'}."
    )


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Random numbers of their own for each purpose: one choice more does not shift all others."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])
