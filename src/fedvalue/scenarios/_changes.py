"""What is done to clients after the rows are shared out: noise, flipped labels, free riders, copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._checks import number, whole
from fedvalue.scenarios._dataset import Dataset

__all__ = [
    "Change",
    "Party",
    "Setting",
    "feature_noise",
    "free_riders",
    "label_flip",
    "label_noise",
    "riders",
]


@dataclass(frozen=True)
class Party:
    """A client in the making; `role` and `of` say what was made of it (a copy is one `of` a client)."""

    name: str
    data: Dataset
    role: str = ""
    of: int | None = None


@dataclass(frozen=True)
class Setting:
    """What a change must know: the number of classes, its random numbers, and how many of the last
    clients are spared because they become free riders and copies."""

    classes: int
    rng: np.random.Generator
    spared: int = 0


Change: TypeAlias = Callable[..., list[Party]]


def label_noise(parties: Sequence[Party], setting: Setting, *, noise: float = 0.20) -> list[Party]:
    """(d) Client i has the fraction noise·i/(n−1) of its labels changed to another one, uniformly."""
    noise = number("noise", noise, 0, 1)
    changed = []
    for i, (party, rng) in enumerate(zip(parties, setting.rng.spawn(len(parties)), strict=True)):
        y = party.data.y.copy()
        rows = _some(len(y), noise * _ramp(i, len(parties)), rng)
        y[rows] = (y[rows] + rng.integers(1, setting.classes, len(rows))) % setting.classes
        changed.append(replace(party, data=Dataset(party.data.x, y)))
    return changed


def feature_noise(parties: Sequence[Party], setting: Setting, *, noise: float = 0.20) -> list[Party]:
    """(e) Client i has N(0,1) × noise·i/(n−1) added to its features."""
    noise = number("noise", noise, 0)
    changed = []
    for i, (party, rng) in enumerate(zip(parties, setting.rng.spawn(len(parties)), strict=True)):
        x = party.data.x
        scale = np.float32(noise * _ramp(i, len(parties)))
        x = x + scale * rng.standard_normal(x.shape, dtype=np.float32)
        changed.append(replace(party, data=Dataset(x, party.data.y)))
    return changed


def label_flip(
    parties: Sequence[Party], setting: Setting, *, flippers: int = 1, flip_fraction: float = 1.0
) -> list[Party]:
    """The last `flippers` clients call every class by the name of the next one (the last: the first)."""
    end = len(parties) - setting.spared
    count = whole("flippers", flippers, 0, end)
    fraction = number("flip_fraction", flip_fraction, 0, 1)
    changed = list(parties)
    streams = setting.rng.spawn(count)
    for k, i in enumerate(range(end - count, end)):
        y = parties[i].data.y.copy()
        rows = _some(len(y), fraction, streams[k])
        y[rows] = (y[rows] + 1) % setting.classes
        changed[i] = Party(
            _numbered("label-flipper", k, count), Dataset(parties[i].data.x, y), "label-flipper"
        )
    return changed


def free_riders(
    parties: Sequence[Party], setting: Setting, *, empty: int | None = None, copies: int | None = None
) -> list[Party]:
    """The last clients own nothing: first those without data, then exact copies of clients 0, 1, …

    By default 5 % of each, at least one. The other clients keep the rows that they would have had.
    """
    n = len(parties)
    without, same = riders(n, empty, copies)
    kept = list(parties[: n - without - same])
    nothing = Dataset(kept[0].data.x[:0], kept[0].data.y[:0])
    for k in range(without):
        kept.append(Party(_numbered("free-rider", k, without), nothing, "free-rider"))
    for k in range(same):
        kept.append(Party(f"copy-of-{parties[k].name}", parties[k].data, "copy", k))
    return kept


def riders(n: int, empty: int | None = None, copies: int | None = None) -> tuple[int, int]:
    """How many clients are without data, how many are copies."""
    usual = max(1, round(0.05 * n))
    without = usual if empty is None else whole("empty", empty, 0)
    same = usual if copies is None else whole("copies", copies, 0)
    if without + 2 * same > n or without + same >= n:
        raise ScenarioError(
            f"{without} clients without data and {same} copies need {max(without + 2 * same, without + 1)} "
            f"clients at least. Got {n}. Ask for more clients or fewer free riders (empty=, copies=)."
        )
    return without, same


def _ramp(i: int, n: int) -> float:
    return i / (n - 1) if n > 1 else 0.0


def _some(count: int, fraction: float, rng: np.random.Generator) -> NDArray[Any]:
    """Exactly that fraction of the rows, not only in expectation."""
    return rng.permutation(count)[: round(fraction * count)]


def _numbered(name: str, k: int, count: int) -> str:
    return name if count == 1 else f"{name}-{k}"
