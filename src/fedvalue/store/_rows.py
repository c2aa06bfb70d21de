"""Rows of a store as outcomes, outcomes as rows, and what can be wrong with a row."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fedvalue.errors import StoreError
from fedvalue.outcome import LARGEST, Outcome

__all__ = [
    "COLUMNS",
    "UNSIGNED",
    "as_object",
    "checked",
    "checksum",
    "in_queries",
    "metrics_text",
    "outcome_of",
    "row_of",
    "row_problem",
]

COLUMNS = ("game_id", "mask", "replicate", "metrics", "backend", "device", "seconds", "created")
UNSIGNED = "none"  # in place of a checksum: the row is older than checksums

_KEYS_PER_QUERY = 500
_TYPES: dict[str, tuple[type, ...]] = {"replicate": (int,), "seconds": (int, float)}
_SHARES = ("accuracy", "balanced_accuracy", "f1", "auc")


def checksum(columns: Iterable[object]) -> str:
    """Eight bytes that tell an altered row from one that was written so. It has no key: it is against accidents.

    >>> checksum(["g", "3", 0, '{"utility": 0.5}']) == checksum(["g", "3", 0, '{"utility": 0.6}'])
    False
    """
    return hashlib.blake2b(json.dumps(list(columns)).encode(), digest_size=8).hexdigest()


def in_queries(masks: Sequence[int]) -> Iterator[list[str]]:
    """Coalitions as the store writes them, as many at a time as one query takes.

    >>> list(in_queries([3, 255]))
    [['3', 'ff']]
    """
    for start in range(0, len(masks), _KEYS_PER_QUERY):
        yield [f"{mask:x}" for mask in masks[start : start + _KEYS_PER_QUERY]]


def row_of(game_id: str, mask: int, replicate: int, outcome: Outcome, created: str) -> tuple[object, ...]:
    """An outcome as the columns of its row, the checksum last."""
    key, where = (game_id, f"{mask:x}", replicate), (outcome.backend, outcome.device)
    columns = (*key, metrics_text(mask, outcome), *where, float(outcome.seconds), created)
    return (*columns, checksum(columns))


def metrics_text(mask: int, outcome: Outcome) -> str:
    """The metrics as they are stored; only finite numbers are."""
    try:
        numbers = {name: float(number) for name, number in outcome.metrics.items()}
        if all(isinstance(n, str) for n in numbers) and _in_bounds(outcome.metrics.values()):
            return json.dumps(numbers, sort_keys=True)
    except (ArithmeticError, TypeError, ValueError):
        pass
    raise StoreError(
        f"Only finite numbers up to {LARGEST:g} are stored. Got {dict(outcome.metrics)} for coalition {mask:x}."
    )


def outcome_of(row: Sequence[Any]) -> tuple[int, Outcome]:
    """A row as a coalition and its outcome; a damaged or altered one is a ValueError that names it."""
    columns = checked(row)
    metrics = as_object(columns["metrics"])
    return int(columns["mask"], 16), Outcome(
        metrics, float(columns["seconds"]), columns["backend"], columns["device"]
    )


def checked(row: Sequence[Any]) -> dict[str, Any]:
    """The columns of a sound row by their names."""
    wrong = row_problem(row, None)
    if wrong:
        raise ValueError(f"{row[0]} / {row[1]} / {row[2]}: {wrong}")
    return dict(zip(COLUMNS, row, strict=False))


def as_object(text: str) -> dict[str, Any]:
    """What a JSON object holds; anything else is a ValueError."""
    data = json.loads(text) if isinstance(text, str) else None
    if not isinstance(data, dict):
        raise ValueError(f"expected a JSON object, got {str(text)[:40]!r}")
    return data


def row_problem(row: Sequence[Any], n: int | None) -> str | None:
    """What is wrong with a row (its columns and checksum) of a game of n clients, if n is known; None: nothing."""
    columns = dict(zip(COLUMNS, row, strict=False))
    for name, value in columns.items():
        if not isinstance(value, _TYPES.get(name, (str,))):
            return f"the {name} cannot be read: a {type(value).__name__} where another type belongs"
    if not math.isfinite(columns["seconds"]) or columns["seconds"] < 0 or columns["replicate"] < 0:
        return "its seconds or its replicate are not possible"
    try:
        coalition = int(columns["mask"], 16)
        if coalition < 0 or (n is not None and coalition >> n):
            return f"the coalition names clients beyond the {'ones' if n is None else n} of its game"
        if f"{coalition:x}" != columns["mask"]:
            return "the coalition is not written as the store writes it"
        metrics = as_object(columns["metrics"])
        if not metrics or not _in_bounds(metrics.values()):
            return "a metric is missing or not finite"
        impossible = _impossible(metrics)
        if impossible:
            return impossible
    except (ArithmeticError, TypeError, ValueError, RecursionError):
        return "the coalition or its metrics cannot be read"
    if row[-1] != UNSIGNED and row[-1] != checksum(row[:-1]):
        return "it was altered after it was stored: its checksum does not fit"
    return None


def _in_bounds(numbers: Iterable[Any]) -> bool:
    return all(not isinstance(x, bool | str) and -LARGEST <= float(x) <= LARGEST for x in numbers)


def _impossible(metrics: Mapping[str, float]) -> str | None:
    """Metrics of ours that cannot be: shares outside 0 to 1, and correct answers that do not go with the accuracy."""
    for name, correct in metrics.items():
        part, is_count, _ = name.rpartition("correct")
        if not is_count or name != f"{part}correct" or f"{part}accuracy" not in metrics:
            continue
        for share in _SHARES:
            if not 0 <= metrics.get(f"{part}{share}", 0.0) <= 1:
                return f"{part}{share} must be between 0 and 1. Got {metrics[f'{part}{share}']}"
        accuracy = metrics[f"{part}accuracy"]
        rows = correct / accuracy if accuracy else 0.0
        if correct != round(correct) or correct < 0 or (correct > 0) != (accuracy > 0):
            return f"{correct:g} correct answers do not go with an accuracy of {accuracy:g}"
        if abs(rows - round(rows)) > 1e-6 * max(1.0, rows):
            return f"{correct:g} correct answers do not go with an accuracy of {accuracy:g}"
    return None
