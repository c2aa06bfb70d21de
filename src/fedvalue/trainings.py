"""What a store knows about the game that values are of: every trained coalition, in the order of its training."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedvalue.errors import InputError, StoreError
from fedvalue.outcome import LOWER_IS_BETTER, UTILITY
from fedvalue.store import UtilityStore
from fedvalue.values import Values

__all__ = ["Trainings", "read_trainings", "sign_of"]

_MOST_REPLICATES = 10_000


@dataclass(frozen=True)
class Trainings:
    """Utilities by coalition, one for each replicate, the coalition that was finished first in front.

    `prints` hold all metrics, which tell models apart. `seconds` is what all trainings took together,
    `computed_by` on what, `first` and `last` when they were stored.
    """

    utilities: Mapping[int, Sequence[float]]
    prints: Mapping[int, Hashable]
    seconds: float
    computed_by: tuple[str, ...]
    first: str
    last: str


def read_trainings(store: UtilityStore, values: Values) -> Trainings:
    """All trainings of the game of these values, by the metric that they count.

    Coalitions that were stored in the same moment stand in an order that depends on nothing else than themselves.
    """
    metric, replicates = values.details.get("metric", UTILITY), values.details.get("replicates", 1)
    if (
        not isinstance(metric, str)
        or not isinstance(replicates, int)
        or not 1 <= replicates <= _MOST_REPLICATES
    ):
        raise InputError(
            f"The values name no usable metric and number of replicates. Got {metric!r}, {replicates!r}."
        )
    rows = [row for row in store.rows(values.game_id) if row["replicate"] in range(replicates)]
    if not rows:
        raise InputError(
            f"{store.path} holds no trainings of the game {values.game_id or '(none)'} that these values are of. Name "
            "the store of that run with --store."
        )
    other = next((row["metrics"] for row in rows if metric not in row["metrics"]), None)
    if other is not None:
        raise InputError(
            f"The trainings in {store.path} have no metric {metric!r}. They have: {', '.join(other)}."
        )
    try:
        return _arranged(sorted(rows, key=_when), metric)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise StoreError(
            f"The trainings in {store.path} cannot be used: {error}. `fedvalue store verify` lists what is wrong."
        ) from error


def _when(row: Mapping[str, Any]) -> tuple[int, str, int, str]:
    return row["replicate"], row["created"], zlib.crc32(row["mask"].encode()), row["mask"]


def _arranged(rows: Sequence[Mapping[str, Any]], metric: str) -> Trainings:
    sign, utilities, prints = sign_of(metric), dict[int, list[float]](), dict[int, tuple[Hashable, ...]]()
    for row in rows:
        mask, metrics = int(row["mask"], 16), row["metrics"]
        utilities.setdefault(mask, []).append(sign * float(metrics[metric]))
        prints[mask] = (*prints.get(mask, ()), *sorted(metrics.items()))
    computed_by = dict.fromkeys(" on ".join(filter(None, (row["backend"], row["device"]))) for row in rows)
    created = [row["created"] for row in rows]
    seconds = sum(float(row["seconds"]) for row in rows)
    named = tuple(text for text in computed_by if text)
    return Trainings(utilities, prints, seconds, named, min(created), max(created))


def sign_of(metric: str) -> float:
    """-1 for a metric of which less is better: its negative is the utility.

    >>> sign_of("loss"), sign_of("accuracy")
    (-1.0, 1.0)
    """
    return -1.0 if metric.rsplit("/", 1)[-1] in LOWER_IS_BETTER else 1.0
