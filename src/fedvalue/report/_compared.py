"""What all clients reach with and without one of them, from trainings that can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from fedvalue.coalitions import full_mask
from fedvalue.report._trained import Absent
from fedvalue.store import History
from fedvalue.values import Values

__all__ = ["Pairing", "Without", "without_each"]


@dataclass(frozen=True)
class Pairing:
    """The metric of two coalitions, as means over the trainings that have the same seeds."""

    first: float
    second: float
    trainings: int


@dataclass(frozen=True)
class Without:
    """Of one client: all clients and all others; the untrained model and this client alone. None: not trained."""

    last: Pairing | None
    alone: Pairing | None


def without_each(values: Values, trainings: History | Absent) -> tuple[Without, ...]:
    """Of every client, what the store holds.

    >>> history = History({0: [0.0], 1: [0.6], 2: [0.5], 3: [0.9]}, {}, 0.0, (), "", "")
    >>> without_each(Values([0.5, 0.4], ("a", "b"), "exact", 4), history)[0].last
    Pairing(first=0.9, second=0.5, trainings=1)
    """
    if isinstance(trainings, Absent):
        return tuple(Without(None, None) for _ in range(values.n))
    everyone = full_mask(values.n)
    return tuple(
        Without(
            _paired(values, trainings, everyone, everyone ^ 1 << i), _paired(values, trainings, 0, 1 << i)
        )
        for i in range(values.n)
    )


def _paired(values: Values, trainings: History, first: int, second: int) -> Pairing | None:
    """Two coalitions by trainings with the same seeds; what an untrained model reaches is the same for all seeds."""
    if not {first, second} <= trainings.utilities.keys():
        return None
    one, other = _by_seed(trainings, first), _by_seed(trainings, second)
    if first == 0:
        start = fmean(one.values()) if values.utility_of_none is None else values.utility_of_none
        one = dict.fromkeys(other, start)
    shared = sorted(one.keys() & other.keys())
    if not shared:
        return None
    sign = values.sign
    return Pairing(sign * fmean(one[k] for k in shared), sign * fmean(other[k] for k in shared), len(shared))


def _by_seed(trainings: History, mask: int) -> dict[int, float]:
    found = trainings.utilities[mask]
    return dict(zip(trainings.seeds.get(mask, range(len(found))), found, strict=True))
