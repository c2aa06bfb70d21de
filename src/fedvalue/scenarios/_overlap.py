"""Do two clients hold the same rows? From hashes that tell nothing to who does not know the consortium's secret.

Every client makes a `sketch` of its rows, with a secret that the clients share and whoever compares does not have:

    exact  a keyed hash of every row (HMAC-SHA256 of its features, cut to 64 bits)
    near   three times 128 bits of every row: on which side of random planes, drawn from the secret, it lies. Rows that are
           alike have almost the same bits (Charikar 2002). Once the columns are as they are, which noise moves little; once
           each is brought to its own mean and spread, which other units do not move at all; once to its own median and
           spread about it, which a few rows far off do not move.

A row that a client has twice counts once. What is by chance is learnt from the clients themselves: how often rows repeat
within one, and how near its own rows come to each other. Only what goes far beyond that is called a copy. Where one client
has more repeats than the other explains, the other is believed: nobody hides a copy by doubling rows.

>>> rows = np.random.default_rng(0).normal(size=(300, 6))
>>> parts = {"a": rows[:100], "b": rows[100:200], "copy": rows[:100] * 3 + 1}
>>> found = compare_rows([sketch(Dataset(x, np.zeros(100)), "a long secret text", name) for name, x in parts.items()])
>>> [(pair.first, pair.second, pair.kind) for pair in found.suspicious]
[('a', 'copy', 'near copies')]
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import checked_call, expect
from fedvalue._files import write_file
from fedvalue._text import plain_table, plural
from fedvalue.errors import InputError
from fedvalue.scenarios._dataset import Dataset
from fedvalue.scenarios._features import flat_rows

__all__ = ["OVERLAP_COLUMNS", "Overlap", "Pair", "Sketch", "compare_rows", "read_sketch", "sketch"]

_FORMAT = "fedvalue.sketch/2"
_VIEWS = 3
_BITS = 128  # for each view
_BYTES = _VIEWS * _BITS // 8
_LEAST_SECRET = 16  # bytes
_FEWEST = 20  # rows: of fewer, chance says too little
_COMPARED = 2_000  # rows of each client whose nearest are looked for
_OWN = 0.01  # of the rows of a client are as near to another of its own: nearer than that is near
_MORE = 0.05  # of the rows, beyond what is by chance
_SEEN = 3  # repeats more than were seen may be usual (95%, as of a Poisson count)
_LARGER = 20  # times its own rows: how far repeats within a client tell of a larger one
_LEVEL = 0.001  # of a false alarm, over all pairs


@dataclass(frozen=True, eq=False)
class Sketch:
    """What a client publishes: hashes of its rows, in the order of the hashes. `key` tells sketches of different secrets apart."""

    name: str
    exact: NDArray[np.uint64]
    near: NDArray[np.uint8]
    columns: int
    key: str

    def __len__(self) -> int:
        return len(self.exact)

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes an .npz file."""
        about = np.array([_FORMAT, self.name, self.key, str(self.columns)])
        with write_file(Path(path)) as file:
            np.savez_compressed(file, about=about, exact=self.exact, near=self.near)
        return Path(path)


@dataclass(frozen=True)
class Pair:
    """Two clients: how many rows of either are in the other, exactly and nearly, as fractions; `by_chance` is what honest
    clients have, `kind` what it looks like: "same rows", "near copies", or nothing.
    """

    first: str
    second: str
    exact: tuple[float, float]
    exact_by_chance: float
    near: tuple[float, float]
    near_by_chance: float
    kind: str


@dataclass(frozen=True)
class Overlap:
    """All pairs of clients, and what could not be compared."""

    pairs: tuple[Pair, ...]
    not_compared: tuple[str, ...]

    @property
    def suspicious(self) -> tuple[Pair, ...]:
        """The pairs that have more in common than chance explains."""
        return tuple(pair for pair in self.pairs if pair.kind)

    def rows(self) -> list[list[str]]:
        """The pairs as cells of a table, the largest overlap first."""
        ordered = sorted(self.pairs, key=lambda pair: -max(*pair.exact, *pair.near))
        return [
            [p.first, p.second, *(f"{x:.1%}" for x in (*p.exact, *p.near)), p.kind or "–"] for p in ordered
        ]

    def lines(self) -> list[str]:
        """What was found, in sentences."""
        said = [
            f"{p.first} and {p.second}: {p.kind}. {p.exact[0]:.0%} of the rows of {p.first} are in {p.second} and {p.exact[1]:.0%} "
            f"the other way round ({p.exact_by_chance:.0%} by chance); nearly, {p.near[0]:.0%} and {p.near[1]:.0%} "
            f"({p.near_by_chance:.0%} by chance)."
            for p in self.suspicious
        ]
        return [
            *(said or ["No two clients have more rows in common than chance explains."]),
            *self.not_compared,
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"format": "fedvalue.overlap/1", **asdict(self)}

    def __str__(self) -> str:
        """A plain table, and what it says."""
        return "\n".join([plain_table(list(OVERLAP_COLUMNS), self.rows()), *self.lines()])


OVERLAP_COLUMNS = ("client", "other", "same", "same (other)", "near", "near (other)", "looks like")
"""The columns of `Overlap.rows`."""


@checked_call
def sketch(data: Dataset, secret: str | bytes, name: str) -> Sketch:
    """The sketch of a client's rows; labels are no part of it, so that a copy with other labels is one, too."""
    expect("data", data, Dataset, "an fv.Dataset")
    if not data.here:
        raise InputError("These rows are elsewhere. Whoever holds them makes their sketch.")
    key = secret.encode() if isinstance(secret, str) else bytes(secret)
    if len(key) < _LEAST_SECRET:
        raise InputError(f"The secret must have at least {_LEAST_SECRET} bytes. Got {len(key)}.")
    rows = flat_rows(data.x) + np.float32(0)  # −0 is 0
    hashes = np.array(
        [int.from_bytes(hmac.digest(key, row.tobytes(), "sha256")[:8], "big") for row in rows], np.uint64
    )
    order = np.argsort(hashes, kind="stable")
    about = hmac.digest(key, b"fedvalue sketch", "sha256")
    bits = _bits(rows.astype(np.float64), key)
    return Sketch(name, hashes[order], bits[order], rows.shape[1], about[:8].hex())


def _bits(rows: NDArray[np.float64], key: bytes) -> NDArray[np.uint8]:
    if not len(rows):
        return np.zeros((0, _BYTES), np.uint8)
    mean, middle = rows.mean(0), np.median(rows, axis=0)
    wide = _known(rows.std(0), mean)
    # Of a column that is nearly always the same, the spread about the median is zero: that of all rows stands for it.
    narrow = 1.4826 * np.median(np.abs(rows - middle), axis=0)
    narrow = np.where(np.isfinite(_known(narrow, middle)), narrow, wide)
    seed = int.from_bytes(hashlib.sha256(key + b"planes").digest()[:16], "big")
    planes = np.random.default_rng(seed).standard_normal((_VIEWS, rows.shape[1], _BITS))
    # Bounded, so that no single outlying column decides on which side a row is.
    views = (rows - middle, np.tanh((rows - mean) / wide / 2), np.tanh((rows - middle) / narrow / 2))
    sides = [view @ of_view > 0 for view, of_view in zip(views, planes, strict=True)]
    return np.packbits(np.concatenate(sides, axis=1), axis=1)


def _known(spread: NDArray[np.float64], centre: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spreads of columns; infinite for a constant one, which says nothing."""
    return np.where(spread > 1e-9 * (1 + np.abs(centre)), spread, np.inf)


def read_sketch(path: str | PathLike[str]) -> Sketch:
    """A sketch that was saved."""
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            about, exact, near = file["about"], file["exact"], file["near"]
        kind, name, key, columns = map(str, about)
        shaped = exact.dtype == np.uint64 and near.dtype == np.uint8 and near.shape == (len(exact), _BYTES)
        if kind != _FORMAT or not shaped:
            raise ValueError("not a sketch")
        return Sketch(name, exact, near, int(columns), key)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise InputError(f"{path} is not a sketch that `fedvalue data sketch` wrote.") from error


@checked_call
def compare_rows(sketches: Sequence[Sketch]) -> Overlap:
    """Compares every two clients; nothing but their sketches is needed, and not the secret."""
    names = [one.name for one in sketches]
    if len(sketches) < 2 or len(set(names)) < len(names):
        raise InputError(f"Two or more clients with different names can be compared. Got {names}.")
    if len({(one.key, one.columns) for one in sketches}) > 1:
        raise InputError(
            "These sketches cannot be compared: they were made with different secrets, or of rows with different columns."
        )
    usable = [one for one in sketches if len(one) >= _FEWEST]
    told = [
        f"{one.name} was not compared: it has {plural(len(one), 'row')}, and at least {_FEWEST} are needed."
        for one in sketches
        if len(one) < _FEWEST
    ]
    repeats = {one.name: _repeats(one) for one in usable}
    usable = [_once(one) for one in usable]
    pairs = list(combinations(usable, 2))
    exact = {(a.name, b.name): (_same(a, b), _same(b, a)) for a, b in pairs}
    own = {one.name: _own_distances(one) for one in usable}
    near = {(a.name, b.name): _near(a, b, own[a.name], own[b.name]) for a, b in pairs}
    found = []
    for a, b in pairs:
        of_pair = (a.name, b.name)
        others = [other for other in exact if other != of_pair]
        same_chance = max(_believed(repeats[a.name], repeats[b.name]), _usual([exact[o] for o in others]))
        near_chance = max(
            same_chance,  # the same rows are near, too
            _OWN * max(1.0, len(a) / len(b), len(b) / len(a)),
            _usual([near[o] for o in others]),
        )
        kind = ""
        counted = len(own[a.name][0]), len(own[b.name][0])
        if _too_many(near[of_pair], counted, near_chance, len(pairs)):
            kind = "near copies"
        if _too_many(exact[of_pair], (len(a), len(b)), same_chance, len(pairs)):
            kind = "same rows"
        found.append(Pair(*of_pair, exact[of_pair], same_chance, near[of_pair], min(near_chance, 1.0), kind))
    return Overlap(tuple(found), tuple(told))


def _same(one: Sketch, other: Sketch) -> float:
    """Which part of the rows of one are in the other."""
    return float(np.isin(one.exact, other.exact).mean())


def _once(one: Sketch) -> Sketch:
    """The sketch with every row once."""
    exact, first = np.unique(one.exact, return_index=True)
    return replace(one, exact=exact, near=one.near[first])


@dataclass(frozen=True)
class _Repeats:
    """How many rows a client has, and how many of them more than once."""

    rows: int
    repeated: int

    def among(self, rows: int) -> float:
        """Which part of other rows of the same kind would be among so many, by how often they repeat here, or less."""
        share = min((self.repeated + _SEEN) / self.rows, 1.0)
        return float(1 - (1 - share) ** min(rows / self.rows, _LARGER))


def _repeats(one: Sketch) -> _Repeats:
    _, counts = np.unique(one.exact, return_counts=True)
    return _Repeats(len(one), int(counts[counts > 1].sum()))


def _believed(one: _Repeats, other: _Repeats) -> float:
    """Which part of the rows two clients may share by chance, by the one with fewer repeats."""
    return max(min(one.among(rows), other.among(rows)) for rows in (one.rows, other.rows))


def _usual(shares: Sequence[tuple[float, float]]) -> float:
    """What other pairs of clients have in common; nothing where there are too few to tell."""
    return float(np.median([max(pair) for pair in shares])) if len(shares) > 1 else 0.0


def _some(rows: int) -> NDArray[np.intp]:
    """Rows to compare: all, or as many as fit; hashes are in an order of their own, so these are drawn at random."""
    return np.linspace(0, rows - 1, min(rows, _COMPARED)).round().astype(np.intp)


def _signs(bits: NDArray[np.uint8]) -> NDArray[np.float32]:
    return 2 * np.unpackbits(bits, axis=1).astype(np.float32) - 1


def _nearest(
    one: NDArray[np.uint8], other: NDArray[np.uint8], itself: NDArray[np.intp] | None
) -> NDArray[np.float64]:
    """By how many bits every row differs from the nearest of the other; with `itself`, the row there is left out."""
    apart = (_BITS - _signs(one) @ _signs(other).T) / 2
    if itself is not None:
        apart[np.arange(len(one)), itself] = np.inf
    nearest: NDArray[np.float64] = apart.min(1).astype(np.float64)
    return nearest


def _views(one: Sketch) -> list[NDArray[np.uint8]]:
    """The bits of some rows, view by view; rows whose bits are all the same count once."""
    _, first = np.unique(one.near, axis=0, return_index=True)
    bits = one.near[np.sort(first)]  # in the order of the hashes, which is one of their own
    return np.split(bits[_some(len(bits))], _VIEWS, axis=1)


def _own_distances(one: Sketch) -> list[NDArray[np.float64]]:
    """How near every row comes to another of the same client, view by view."""
    return [_nearest(bits, bits, np.arange(len(bits))) for bits in _views(one)]


def _near(
    a: Sketch, b: Sketch, own_a: Sequence[NDArray[np.float64]], own_b: Sequence[NDArray[np.float64]]
) -> tuple[float, float]:
    """Which part of the rows of either are nearer to one of the other than rows of a client come to each other.

    In the view in which more of them are.
    """
    if min(len(own_a[0]), len(own_b[0])) < _FEWEST:
        return 0.0, 0.0
    found = []
    for bits_a, bits_b, of_a, of_b in zip(_views(a), _views(b), own_a, own_b, strict=True):
        limit = min(float(np.quantile(of_a, _OWN)), float(np.quantile(of_b, _OWN)))
        there = float((_nearest(bits_a, bits_b, None) < limit).mean())
        back = float((_nearest(bits_b, bits_a, None) < limit).mean())
        found.append((there, back))
    return max(found, key=max)


def _too_many(shares: tuple[float, float], rows: tuple[int, int], by_chance: float, pairs: int) -> bool:
    """Whether far more rows are shared than chance explains, in either direction."""
    from scipy.special import betainc

    for share, count in zip(shares, rows, strict=True):
        seen = min(count, _COMPARED)
        matches = round(share * seen)
        chance = min((by_chance * seen + 1) / (seen + 2), 1.0)
        p = float(betainc(matches, seen - matches + 1, chance)) if matches else 1.0
        if share > by_chance + _MORE and p < _LEVEL / (4 * pairs):
            return True
    return False
