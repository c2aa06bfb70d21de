"""In what a job differs from what was agreed, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["differences"]

_MISSING = object()


def differences(agreed: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Every part of plain data that is another one, with both.

    >>> list(differences({"training": {"rounds": 4}, "seed": 0}, {"training": {"rounds": 3}, "seed": 0}))
    ['training.rounds: agreed 4, now 3']
    """
    for name in dict.fromkeys([*agreed, *now]):
        one, other = agreed.get(name, _MISSING), now.get(name, _MISSING)
        where = f"{path}{name}"
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from differences(one, other, f"{where}.")
        elif one is _MISSING or other is _MISSING or one != other or type(one) is not type(other):
            yield f"{where}: agreed {_shown(one)}, now {_shown(other)}"


def _shown(value: object) -> str:
    if value is _MISSING:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
