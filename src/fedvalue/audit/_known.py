"""The trained coalitions, arranged for comparisons: with and without a client, one client or another."""

from __future__ import annotations

from bisect import bisect_left
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

    @classmethod
    def of(
        cls, n: int, utilities: Mapping[int, Sequence[float]], prints: Mapping[int, Hashable] | None = None
    ) -> Known:
        """Coalitions with all their replicates; those with fewer than the others are left out."""
        for mask, found in utilities.items():
            whole("A coalition", mask, 0)
            expect(
                "The utilities of a coalition", found, (list, tuple, np.ndarray), "a list, one per replicate"
            )
        replicates = max((len(seen) for seen in utilities.values()), default=0)
        masks = tuple(sorted(mask for mask, seen in utilities.items() if len(seen) == replicates))
        if not masks or replicates == 0:
            raise InputError("There are no trained coalitions to look at.")
        runs = as_array([list(utilities[mask]) for mask in masks], "The utilities", np.float64)
        if not np.isfinite(runs).all():
            raise InputError("Every utility must be a finite number. There is one that is not.")
        if masks[0] < 0 or masks[-1] > full_mask(n):
            raise InputError(f"A coalition names clients beyond the {n} of these values.")
        seen: dict[Hashable, int] = {}
        kinds = None
        if prints is not None:
            kinds = np.array([seen.setdefault(prints[mask], len(seen)) for mask in masks], dtype=np.intp)
        inside = membership(masks, n)
        signs = np.random.default_rng(0).integers(0, 1 << 63, n, dtype=np.uint64)
        hashes = np.zeros(len(masks), dtype=np.uint64)
        for i in range(n):
            hashes ^= np.where(inside[:, i], signs[i], np.uint64(0))
        return cls(n, masks, runs, kinds, inside, signs, hashes, np.argsort(hashes))

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
        """Whether all coalitions are known."""
        return len(self.masks) == 1 << self.n

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
