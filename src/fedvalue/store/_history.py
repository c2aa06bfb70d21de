"""What a store knows about the game that values are of: every trained coalition, in the order of its training."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedvalue._text import count, plural
from fedvalue.errors import InputError, StoreError
from fedvalue.outcome import empty_rule, of_model, plain_metric
from fedvalue.store._sqlite import UtilityStore
from fedvalue.store._until import StoreUntil
from fedvalue.values import Values
from fedvalue.yardsticks import OVER_SEEDS

__all__ = ["History", "read_history"]

_MOST_REPLICATES = 10_000


@dataclass(frozen=True)
class History:
    """Utilities by coalition, one for each replicate or seed, the coalition that was finished first in front.

    In the same order, `prints` hold all metrics, which tell models apart, and `seeds` the numbers of replicates or seeds.
    `seconds` is what these trainings took together, `computed_by` on what, `first` and `last` when they were stored.
    `measured` are the metrics that all trainings have, whose names and numbers the prints then are; `untrained` is all
    that is known of ∅, by whatever rule, and `without_data` are the other coalitions in which nobody has any.
    `other_seeds` counts, by coalition, the trainings with seeds that these values do not rest on (those that tell how much is
    luck, say), and `other_seconds` is what they took.
    """

    utilities: Mapping[int, Sequence[float]]
    prints: Mapping[int, tuple[Hashable, ...]]
    seconds: float
    computed_by: tuple[str, ...]
    first: str
    last: str
    seeds: Mapping[int, Sequence[int]] = field(default_factory=dict)
    measured: tuple[str, ...] = ()
    untrained: Mapping[str, float] = field(default_factory=dict)
    without_data: frozenset[int] = frozenset()
    other_seeds: Mapping[int, int] = field(default_factory=dict)
    other_seconds: float = 0.0

    @property
    def made(self) -> str:
        """How much there is with all seeds, in words."""
        others = sum(self.other_seeds.values())
        trainings = plural(sum(map(len, self.utilities.values())) + others, "training")
        text = f"{trainings} of {plural(len(self.utilities.keys() | self.other_seeds.keys()), 'coalition')}"
        return f"{text}, {count(others)} of them with other seeds" if others else text

    def numbers(self, metric: str) -> dict[int, dict[int, float]]:
        """Another metric of every training, by coalition and by the number of replicate or seed."""
        if metric not in self.measured:
            raise InputError(
                f"Not all trainings have the metric {metric!r}. They have: {', '.join(self.measured)}."
            )
        found: dict[int, dict[int, float]] = {}
        for mask, prints in self.prints.items():
            numbers = [dict(pairs)[metric] for pairs in prints]  # type: ignore[call-overload]
            found[mask] = dict(zip(self.seeds[mask], numbers, strict=True))
        return found


def read_history(store: UtilityStore | StoreUntil, values: Values) -> History:
    """All trainings of the game of these values that have the metric which they count.

    Coalitions that were stored in the same moment stand in an order that depends on nothing else than themselves.
    Values of some of a game's clients (`values.clients`) have the history of the coalitions among those.
    """
    if values.replicates > _MOST_REPLICATES:
        raise InputError(
            f"The values have {values.replicates} replicates. At most {_MOST_REPLICATES} are read."
        )
    # Trainings with further seeds say something of expected values, and nothing of those of one seed.
    numbers = range(_MOST_REPLICATES if values.seeds > 1 else values.replicates)
    stored = list(store.rows(values.game_id))
    rows = [row for row in stored if row["replicate"] in numbers]
    if not rows:
        raise InputError(
            f"{store.path} holds no trainings of the game {values.game_id or '(none)'} that these values are of. Name "
            "the store of that run with --store."
        )
    usable = [row for row in rows if values.stored_as in row["metrics"]]
    if not usable:
        known = dict.fromkeys(map(plain_metric, of_model(rows[0]["metrics"])))
        raise InputError(
            f"The trainings in {store.path} have no metric {values.metric!r}. They have: {', '.join(known)}."
        )
    try:
        others = [row for row in stored if row["replicate"] not in numbers]
        return _with_others(_arranged(sorted(usable, key=_when), values), others, values.clients)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise StoreError(
            f"The trainings in {store.path} cannot be used: {error}. `fedvalue store verify` lists what is wrong."
        ) from error


def _with_others(found: History, rows: Sequence[Mapping[str, Any]], clients: Sequence[int] | None) -> History:
    among = [(mask, row) for row in rows if (mask := _among(int(row["mask"], 16), clients)) is not None]
    seconds = sum(float(row["seconds"]) for _, row in among)
    return replace(found, other_seeds=Counter(mask for mask, _ in among), other_seconds=seconds)


def _when(row: Mapping[str, Any]) -> tuple[int, str, int, str]:
    return row["replicate"], row["created"], zlib.crc32(row["mask"].encode()), row["mask"]


def _arranged(rows: Sequence[Mapping[str, Any]], values: Values) -> History:
    utilities, prints = dict[int, list[float]](), dict[int, tuple[Hashable, ...]]()
    seeds = dict[int, list[int]]()
    # A metric that only some trainings have says nothing about how two of them differ.
    shared = sorted(set.intersection(*(set(row["metrics"]) for row in rows)))
    used, without_data = [], set[int]()
    untrained = {row["replicate"]: of_model(row["metrics"]) for row in rows if int(row["mask"], 16) == 0}
    for row in rows:
        mask, metrics = _among(int(row["mask"], 16), values.clients), row["metrics"]
        if mask is not None:
            used.append(row)
            utility = values.sign * float(metrics[values.stored_as])
            ruled = values.empty is not None and (
                mask == 0
                if values.empty.rule == OVER_SEEDS
                else _without_data(metrics, untrained.get(row["replicate"]))
            )
            if ruled:
                # Nobody in this coalition has data. The store may know v(∅) by other rules; the values count from theirs.
                utility = utility if values.utility_of_none is None else values.utility_of_none
                without_data |= {mask} - {0}
            utilities.setdefault(mask, []).append(utility)
            prints[mask] = (*prints.get(mask, ()), tuple((name, metrics[name]) for name in shared))
            seeds.setdefault(mask, []).append(row["replicate"])
    if not used:
        raise InputError(
            "No training is of these clients alone. The store holds coalitions with others only."
        )
    computed_by = dict.fromkeys(" on ".join(filter(None, (row["backend"], row["device"]))) for row in used)
    created = [row["created"] for row in used]
    seconds = sum(float(row["seconds"]) for row in used)
    named = tuple(text for text in computed_by if text)
    untrained_metrics: Mapping[str, float] = next(
        (row["metrics"] for row in rows if int(row["mask"], 16) == 0), {}
    )
    times = min(created), max(created)
    return History(
        utilities,
        prints,
        seconds,
        named,
        *times,
        seeds,
        tuple(shared),
        untrained_metrics,
        frozenset(without_data),
    )


def _without_data(metrics: Mapping[str, float], untrained: Mapping[str, float] | None) -> bool:
    return any(map(empty_rule, metrics)) or of_model(metrics) == untrained


def _among(mask: int, clients: Sequence[int] | None) -> int | None:
    """The coalition with clients numbered as in the values; None where others are in it.

    >>> _among(0b101, (0, 2)), _among(0b111, (0, 2))
    (3, None)
    """
    if clients is None:
        return mask
    if mask & ~sum(1 << i for i in clients):
        return None
    return sum(1 << place for place, i in enumerate(clients) if mask >> i & 1)
