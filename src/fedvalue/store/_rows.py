"""Rows of a store as outcomes, outcomes as rows, and what can be wrong with a row."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from fedvalue.errors import StoreError
from fedvalue.outcome import Outcome

__all__ = ["as_object", "metrics_text", "outcomes_of", "row_problem"]


def metrics_text(mask: int, outcome: Outcome) -> str:
    """The metrics as they are stored; only finite numbers are."""
    try:
        if all(math.isfinite(number) for number in outcome.metrics.values()):
            numbers = {name: float(number) for name, number in outcome.metrics.items()}
            return json.dumps(numbers, sort_keys=True)
    except (ArithmeticError, TypeError):
        pass
    raise StoreError(f"Only finite numbers are stored. Got {dict(outcome.metrics)} for coalition {mask:x}.")


def outcomes_of(rows: Iterable[tuple[str, str, float, str, str]]) -> dict[int, Outcome]:
    """Outcomes by coalition."""
    return {
        int(mask, 16): Outcome(as_object(metrics), seconds, backend, device)
        for mask, metrics, seconds, backend, device in rows
    }


def as_object(text: str) -> dict[str, Any]:
    """What a JSON object holds; anything else is a ValueError."""
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError(f"expected a JSON object, got {text[:40]!r}")
    return data


def row_problem(mask: str, metrics: str, n: int | None) -> str | None:
    """What is wrong with a row of a game of n clients; None where nothing is."""
    if n is None:
        return "its game is not registered"
    try:
        coalition = int(mask, 16)
        if coalition >> n:
            return f"the coalition names clients beyond the {n} of its game"
        if f"{coalition:x}" != mask:
            return "the coalition is not written as the store writes it"
        numbers = as_object(metrics).values()
        if not numbers or not all(math.isfinite(number) for number in numbers):
            return "a metric is missing or not finite"
    except (ArithmeticError, TypeError, ValueError):
        return "the coalition or its metrics cannot be read"
    return None
