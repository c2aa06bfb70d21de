"""Partitions: who gets which rows. Pure functions of the labels; what is done to rows is in `_changes`.

The paper's settings (Sec. V-A): `same` (a), `distribution` (b), `size` (c), `label-noise` (d),
`feature-noise` (e). Beyond it: `dirichlet`, `label-flip`, `free-riders` and `demo`.

A partition is written as one name, or as rows and changes joined by +: `size+label-flip`,
`dirichlet+free-riders`. A change alone works on the rows that the scenario has by default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._changes import Change, feature_noise, free_riders, label_flip, label_noise
from fedvalue.scenarios._checks import number, unknown, whole

__all__ = [
    "PARTITIONS",
    "Partition",
    "by_owner",
    "dirichlet",
    "distribution",
    "parse",
    "same",
    "shares",
    "size",
    "subset",
]

Rows: TypeAlias = "NDArray[np.int64]"
_ATTEMPTS = 200  # draws of a Dirichlet partition before it is called hopeless


def same(labels: ArrayLike, n: int, rng: np.random.Generator) -> list[Rows]:
    """(a) Same size, same distribution: the rows of each class are dealt out in turn.

    >>> [len(part) for part in same([0, 1, 0, 1], 2, np.random.default_rng(0))]
    [2, 2]
    """
    y = _labels(labels, n)
    return _deal(y, np.arange(len(y)) % n, n, rng)


def size(labels: ArrayLike, n: int, rng: np.random.Generator) -> list[Rows]:
    """(c) Sizes 1 : 2 : … : n, same distribution.

    >>> [len(part) for part in size([0, 1] * 30, 3, np.random.default_rng(0))]
    [10, 20, 30]
    """
    y = _labels(labels, n)
    sizes = shares(len(y), np.arange(1, n + 1))
    if sizes.min() == 0:
        raise ScenarioError(
            f"Sizes 1:2:…:{n} need at least {n * (n + 1) // 2} rows for {n} clients. Got {len(y)}. "
            "Ask for more rows, fewer clients, or the partition same."
        )
    return _deal(y, _interleaved(sizes), n, rng)


def distribution(
    labels: ArrayLike, n: int, rng: np.random.Generator, *, sorted_share: float = 0.8
) -> list[Rows]:
    """(b) Same size, different distribution: a block of the rows sorted by label, the rest even.

    `sorted_share` of each client's rows (the paper: 80 %) come from its block.

    >>> parts = distribution([0, 1] * 50, 2, np.random.default_rng(0))
    >>> [int(np.sum(part % 2)) for part in parts]
    [5, 45]
    """
    y = _labels(labels, n)
    share = number("sorted_share", sorted_share, 0, 1)
    mixed = subset(y, round((1 - share) * len(y)), rng)
    even = _deal(y[mixed], np.arange(len(mixed)) % n, n, rng)
    rest = np.setdiff1d(np.arange(len(y)), mixed)
    rest = rng.permutation(rest)
    rest = rest[np.argsort(y[rest], kind="stable")]
    blocks = shares(len(y), np.ones(n)) - [len(part) for part in even]
    cut = np.split(rest, np.cumsum(blocks)[:-1])
    return [np.sort(np.concatenate([mixed[e], block])) for e, block in zip(even, cut, strict=True)]


def dirichlet(
    labels: ArrayLike, n: int, rng: np.random.Generator, *, alpha: float = 0.5, least: int = 1
) -> list[Rows]:
    """Each class is shared out in proportions drawn from Dirichlet(α); every client has `least` rows.

    A small α gives clients with few classes, a large one approaches `same`. Hsu et al. 2019.

    >>> sum(len(part) for part in dirichlet([0, 1] * 50, 4, np.random.default_rng(0), alpha=1.0))
    100
    """
    y = _labels(labels, n)
    alpha = number("alpha", alpha, 0, above=True)
    least = whole("least", least, 0)
    classes = [np.flatnonzero(y == label) for label in np.unique(y)]
    for _ in range(_ATTEMPTS):
        pieces: list[list[Rows]] = [[] for _ in range(n)]
        for rows in classes:
            ends = np.cumsum(rng.dirichlet(np.full(n, alpha)))[:-1]
            for mine, piece in zip(
                pieces, np.split(rng.permutation(rows), np.rint(ends * len(rows)).astype(int)), strict=True
            ):
                mine.append(piece)
        parts = [np.sort(np.concatenate(mine)) for mine in pieces]
        if min(map(len, parts)) >= least:
            return parts
    raise ScenarioError(
        f"Dirichlet({alpha:g}) did not give each of {n} clients {least} rows in {_ATTEMPTS} draws. "
        "Use a larger alpha, fewer clients, more samples, or least=0 to allow clients without data."
    )


def by_owner(
    owners: ArrayLike, n: int, rng: np.random.Generator, *, each: int | None = None, kind: str = "owner"
) -> tuple[list[Rows], list[list[Any]]]:
    """The rows of owners (writers, users) drawn at random, `each` for a client, or all dealt out.

    >>> parts, owned = by_owner([7, 7, 8, 9], 3, np.random.default_rng(0), each=1)
    >>> sorted(owned), sorted(map(len, parts))
    ([[7], [8], [9]], [1, 1, 2])
    """
    of = np.asarray(owners)
    present = np.unique(of)
    wanted = n if each is None else n * each
    if wanted > len(present):
        raise ScenarioError(
            f"{n} clients need {wanted} {kind}s. The data has {len(present)}. Ask for fewer clients."
        )
    drawn = rng.permutation(present)
    groups = [drawn[i::n] for i in range(n)] if each is None else np.split(drawn[:wanted], n)
    return [np.flatnonzero(np.isin(of, group)) for group in groups], [g.tolist() for g in groups]


def shares(total: int, weights: ArrayLike) -> Rows:
    """`total` divided in proportion to the weights: whole numbers that add up (largest remainder).

    >>> shares(10, [1, 1, 1]).tolist()
    [4, 3, 3]
    """
    w = np.asarray(weights, dtype=np.float64)
    ideal = total * w / w.sum()
    counts: Rows = np.floor(ideal + 1e-9).astype(np.int64)
    left = total - int(counts.sum())
    counts[np.argsort(counts - ideal, kind="stable")[:left]] += 1
    return counts


def subset(labels: ArrayLike, count: int, rng: np.random.Generator) -> Rows:
    """`count` rows drawn at random with the proportions of the labels kept.

    >>> len(subset([0, 0, 1, 1, 1], 3, np.random.default_rng(0)))
    3
    """
    y = np.asarray(labels)
    if count > len(y):
        raise ScenarioError(f"{count} rows were asked for. There are {len(y)}.")
    if count == len(y):
        return np.arange(len(y))
    return _deal(y, _interleaved([count, len(y) - count]), 2, rng)[0]


def _labels(labels: ArrayLike, n: int) -> NDArray[Any]:
    y = np.asarray(labels)
    if len(y) < n:
        raise ScenarioError(f"{n} clients need at least {n} rows. Got {len(y)}. Ask for fewer clients.")
    return y


def _deal(y: NDArray[Any], owner: Rows, n: int, rng: np.random.Generator) -> list[Rows]:
    """Row k of the rows grouped by label goes to owner[k]. Targets have no groups: a random order."""
    order = rng.permutation(len(y))
    if y.dtype.kind != "f":
        order = order[np.argsort(y[order], kind="stable")]
    return [np.sort(order[owner == i]) for i in range(n)]


def _interleaved(sizes: Sequence[int] | Rows) -> Rows:
    """Each i as often as sizes[i] says, all of them spread evenly over the sequence."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    place = np.concatenate([(np.arange(s) + 0.5) / max(s, 1) for s in sizes])
    return owner[np.lexsort((owner, place))]


@dataclass(frozen=True)
class Partition:
    """A partition and what it needs: `classes` (labels that are classes), `numbers` (no token ids).

    One of `rows` (who gets which) and `change` (what is done to them); or `means`, a longer spelling,
    with `options` that replace the defaults.
    """

    name: str
    description: str
    rows: Callable[..., list[Rows]] | None = None
    change: Change | None = None
    needs: tuple[str, ...] = ()
    means: str = ""
    options: dict[str, Any] = field(default_factory=dict)


_PARTITIONS = (
    Partition("same", "same size, same distribution (paper, a)", same),
    Partition("distribution", "same size, 80 % from a label-sorted block (paper, b)", distribution),
    Partition("size", "sizes 1:2:…:n, same distribution (paper, c)", size),
    Partition("dirichlet", "class proportions from Dirichlet(alpha)", dirichlet, needs=("classes",)),
    Partition("label-noise", "0 to 20 % wrong labels (paper, d)", change=label_noise, needs=("classes",)),
    Partition(
        "feature-noise", "noise N(0,1) × 0 to 0.20 (paper, e)", change=feature_noise, needs=("numbers",)
    ),
    Partition("label-flip", "some clients flip their labels", change=label_flip, needs=("classes",)),
    Partition("free-riders", "some clients without data, some copies", change=free_riders),
    Partition(
        "demo", "a free rider, a copy and a label-flipper among honest clients", needs=("classes",),
        means="same+label-flip+free-riders", options={"flippers": 1, "empty": 1, "copies": 1},
    ),
)  # fmt: skip

PARTITIONS: dict[str, Partition] = {partition.name: partition for partition in _PARTITIONS}


def parse(
    spec: str, default_rows: str, accepted: Sequence[str]
) -> tuple[str, list[Partition], dict[str, Any]]:
    """The name of the rows, the changes in the order they are applied, and options that a name implies.

    >>> rows, changes, _ = parse("size+label-flip", "same", tuple(PARTITIONS))
    >>> rows, [change.name for change in changes]
    ('size', ['label-flip'])
    """
    rows, changes, implied = [], [], {}
    for name in (part.strip() for part in str(spec).split("+")):
        if name not in accepted:
            raise unknown("partition", name, accepted)
        known = PARTITIONS.get(name)
        if known is not None and known.means:
            inner = parse(known.means, default_rows, [*accepted, *known.means.split("+")])
            rows.append(inner[0])
            changes += inner[1]
            implied.update(known.options)
        elif known is not None and known.change is not None:
            changes.append(known)
        else:
            rows.append(name)
    if len(rows) > 1 or len({change.name for change in changes}) < len(changes):
        raise ScenarioError(
            f"A partition is one way to share out the rows and different changes joined by +, such as "
            f"'size+label-flip'. Got {spec!r}."
        )
    # One order whatever was written: a copy copies what its original has become.
    order = list(PARTITIONS)
    changes.sort(key=lambda change: order.index(change.name))
    return (rows or [default_rows])[0], changes, implied
