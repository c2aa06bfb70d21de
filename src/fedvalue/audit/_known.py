"""The trained coalitions, arranged for comparisons: with and without a client, one client or another."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import as_array, expect, whole
from fedvalue.coalitions import full_mask, membership
from fedvalue.errors import InputError

__all__ = ["Array", "Known", "Rows"]

Array: TypeAlias = "NDArray[np.float64]"
Rows: TypeAlias = "NDArray[np.intp]"

_EQUAL = 1e-9  # of the spread of all utilities: less is floating-point arithmetic


@dataclass(frozen=True, eq=False)
class Known:
    """`runs` has a row per coalition (ascending masks) and a column per replicate; `prints` tell models apart.

    Where coalitions were trained with different seeds there is a row per training, and only trainings with the same
    seed are compared: what differs between seeds is luck.

    Coalitions are found by hashes: the hash of S∪{i} is that of S, xor a number that belongs to i. That makes
    every comparison one vectorised lookup, whatever the number of clients.
    """

    n: int
    masks: tuple[int, ...]
    runs: Array
    prints: Rows | None
    inside: NDArray[np.bool_]
    signs: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    order: Rows
    seeds: Rows

    @classmethod
    def of(
        cls,
        n: int,
        utilities: Mapping[int, Sequence[float]],
        prints: Mapping[int, Hashable] | None = None,
        seeds: Mapping[int, Sequence[int]] | None = None,
    ) -> Known:
        """Coalitions with all their replicates; those with fewer than the others are left out.

        With `seeds`, the numbers of the seeds behind `utilities` in the same order, every training counts.
        """
        for mask, found in utilities.items():
            whole("A coalition", mask, 0)
            expect(
                "The utilities of a coalition", found, (list, tuple, np.ndarray), "a list, one per replicate"
            )
        if seeds is not None and len({tuple(seeds[mask]) for mask in utilities if mask}) > 1:
            return cls._of_seeds(n, utilities, prints, seeds)
        replicates = max((len(seen) for seen in utilities.values()), default=0)
        if (
            seeds is not None and 0 < len(utilities.get(0, ())) < replicates
        ):  # v(∅) does not depend on the seed
            utilities = {**utilities, 0: [float(np.mean(utilities[0]))] * replicates}
        masks = tuple(sorted(mask for mask, seen in utilities.items() if len(seen) == replicates))
        if not masks or replicates == 0:
            raise InputError("There are no trained coalitions to look at.")
        runs = as_array([list(utilities[mask]) for mask in masks], "The utilities", np.float64)
        if not np.isfinite(runs).all():
            raise InputError("Every utility must be a finite number. There is one that is not.")
        if masks[0] < 0 or masks[-1] > full_mask(n):
            raise InputError(f"A coalition names clients beyond the {n} of these values.")
        kinds = None if prints is None else _numbered([prints[mask] for mask in masks])
        return cls._arranged(n, masks, runs, kinds, np.zeros(len(masks), dtype=np.intp))

    @classmethod
    def _of_seeds(
        cls,
        n: int,
        utilities: Mapping[int, Sequence[float]],
        prints: Mapping[int, Hashable] | None,
        seeds: Mapping[int, Sequence[int]],
    ) -> Known:
        """A row for every training; prints are those of single trainings, in the order of the seeds."""
        trials = sorted((mask, seed, k) for mask in utilities for k, seed in enumerate(seeds[mask]))
        runs = as_array([[utilities[mask][k]] for mask, _, k in trials], "The utilities", np.float64)
        if not np.isfinite(runs).all():
            raise InputError("Every utility must be a finite number. There is one that is not.")
        kinds = None
        if prints is not None:
            kinds = _numbered([_print_of(prints[mask], k) for mask, _, k in trials])
        masks = tuple(mask for mask, _, _ in trials)
        if masks[0] < 0 or masks[-1] > full_mask(n):
            raise InputError(f"A coalition names clients beyond the {n} of these values.")
        return cls._arranged(n, masks, runs, kinds, np.array([seed for _, seed, _ in trials], dtype=np.intp))

    @classmethod
    def _arranged(cls, n: int, masks: tuple[int, ...], runs: Array, kinds: Rows | None, seeds: Rows) -> Known:
        inside = membership(masks, n)
        drawn = np.random.default_rng(0)
        signs = drawn.integers(0, 1 << 63, n, dtype=np.uint64)
        hashes = drawn.integers(0, 1 << 63, int(seeds.max()) + 1, dtype=np.uint64)[seeds]
        for i in range(n):
            hashes ^= np.where(inside[:, i], signs[i], np.uint64(0))
        return cls(n, masks, runs, kinds, inside, signs, hashes, np.argsort(hashes), seeds)

    @cached_property
    def mean(self) -> Array:
        """The utility of every coalition."""
        mean: Array = self.runs.mean(axis=1)
        return mean

    @cached_property
    def size(self) -> Rows:
        """How many clients are in every coalition."""
        size: Rows = self.inside.sum(axis=1)
        return size

    @property
    def replicates(self) -> int:
        """How often every coalition was trained."""
        return int(self.runs.shape[1])

    @property
    def complete(self) -> bool:
        """Whether all coalitions are known, in rows of their own."""
        return len(self.masks) == 1 << self.n and not self.seeds.any()

    @cached_property
    def coalitions(self) -> int:
        """How many coalitions are known."""
        return len(set(self.masks))

    def rows(self, mask: int) -> list[int]:
        """Where a coalition stands: one row for every seed that it was trained with."""
        return list(range(bisect_left(self.masks, mask), bisect_right(self.masks, mask)))

    @cached_property
    def spread(self) -> float:
        """Between the best and the worst coalition."""
        return float(np.ptp(self.mean))

    @cached_property
    def _sorted(self) -> NDArray[np.uint64]:
        return self.hashes[self.order]

    def row(self, mask: int) -> int | None:
        """Where a coalition stands, if it is known."""
        at = bisect_left(self.masks, mask)
        return at if at < len(self.masks) and self.masks[at] == mask else None

    def steps(self, i: int) -> tuple[Rows, Rows]:
        """Rows of all known pairs: without client i, and the same with it."""
        rows = np.flatnonzero(~self.inside[:, i])
        return self._found(rows, self.signs[i])

    def swaps(self, i: int, j: int) -> tuple[Rows, Rows]:
        """Rows of all known pairs: with i and without j, and the same with j in its place."""
        rows = np.flatnonzero(self.inside[:, i] & ~self.inside[:, j])
        return self._found(rows, self.signs[i] ^ self.signs[j])

    def same(self, left: Rows, right: Rows) -> NDArray[np.bool_]:
        """Where two coalitions have the same outcome in every replicate, as if the model were the same."""
        apart = np.abs(self.runs[left] - self.runs[right]).max(axis=1, initial=0.0)
        same: NDArray[np.bool_] = apart <= _EQUAL * max(self.spread, 1e-300)
        return same if self.prints is None else same & (self.prints[left] == self.prints[right])

    def _found(self, rows: Rows, change: np.uint64) -> tuple[Rows, Rows]:
        wanted = self.hashes[rows] ^ change
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self.masks) - 1)
        partner = self.order[at]
        there = self.hashes[partner] == wanted
        return rows[there], partner[there]


def _numbered(prints: Sequence[Hashable]) -> Rows:
    """The same number for the same print."""
    seen: dict[Hashable, int] = {}
    return np.array([seen.setdefault(one, len(seen)) for one in prints], dtype=np.intp)


def _print_of(prints: Hashable, k: int) -> Hashable:
    expect("The prints of a coalition", prints, tuple, "a tuple, one for each seed")
    of_seeds: tuple[Hashable, ...] = prints  # type: ignore[assignment]
    return of_seeds[k]
