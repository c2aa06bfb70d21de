"""What single test rows say about a model, packed."""

from __future__ import annotations

import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedvalue._checks import as_array
from fedvalue.errors import InputError

__all__ = ["BLOCKS", "MOST_ROWS", "PerRow", "blocks_of", "pseudo_values"]

BLOCKS = 64
"""Into so many blocks test rows are put where there is not one number for each: enough for a variance within a tenth."""

MOST_ROWS = 16_384
"""More test rows than these are put into blocks, too."""

_LEFT_OUT = (
    16  # blocks of rows, one after the other; each is a further call of the user's function for every model
)

_HEAD = struct.Struct("<dd")  # centre and unit of what follows
_HALF = np.dtype("<f2")


class PerRow(NamedTuple):
    """Numbers whose mean is a metric of one model: one for every test row, or for every block of rows.

    What differs between them is what another sample of test rows would change: the variance of the metric is theirs,
    divided by their number. For a metric that is not a mean over rows (AUC, F1) they hold by how much each block moves
    it. `rows` is how many test rows stand behind them; 0 where that is not known.

    Packed, by `kind`: a bit each where all are 0 or 1 ("bits"), else two bytes each, in units of the largest distance
    from their mean ("half"). "fixed" is a number that does not depend on test rows. "error" holds a standard error,
    where nothing else is known: of such, each is taken to err for itself.

    >>> right = PerRow.of([1, 0, 1, 1, 0, 1, 1, 1, 1])
    >>> right.kind, right.length, len(right.data), right.array().tolist()[:3]
    ('bits', 9, 2, [1.0, 0.0, 1.0])
    >>> PerRow.of([0.5, 1.5, 4.0]).array().tolist()
    [0.5, 1.5, 4.0]
    """

    kind: str
    length: int
    data: bytes
    rows: int = 0

    @classmethod
    def of(cls, numbers: ArrayLike, rows: int | None = None) -> PerRow:
        """Packs a vector of finite numbers, one for each test row unless `rows` says how many those are.

        Very many are put into blocks first.
        """
        array: NDArray[np.float64] = as_array(numbers, "What test rows say", np.float64)
        if array.ndim != 1 or not array.size or not np.isfinite(array).all():
            raise InputError(
                f"What test rows say must be a vector of finite numbers, one per row. Got shape {array.shape}."
            )
        rows = array.size if rows is None else rows
        return cls.of_models(_in_blocks(array)[None] if array.size > MOST_ROWS else array[None], rows)[0]

    @classmethod
    def of_models(cls, table: NDArray[Any], rows: int) -> list[PerRow]:
        """Packs what `rows` test rows say about many models: a row of finite numbers for each."""
        length = table.shape[1]
        if table.dtype == np.bool_:
            return [cls("bits", length, bits.tobytes(), rows) for bits in np.packbits(table, axis=1)]
        table = np.ascontiguousarray(table)  # means of one model are added up as those of many are
        mean = table.mean(1)
        unit = np.abs(table - mean[:, None]).max(1)
        unit[unit == 0] = 1.0
        halves = ((table - mean[:, None]) / unit[:, None]).astype(_HALF, order="C")
        heads = np.column_stack([mean, unit]).astype("<f8")
        packed = np.concatenate([heads.view(np.uint8), halves.view(np.uint8)], axis=1)
        are_bits = ((table == 0) | (table == 1)).all(1).tolist()
        return [
            cls("bits", length, np.packbits(numbers.astype(bool)).tobytes(), rows)
            if is_bits
            else cls("half", length, data.tobytes(), rows)
            for numbers, data, is_bits in zip(table, packed, are_bits, strict=True)
        ]

    @classmethod
    def fixed(cls, number: float) -> PerRow:
        """What no test row changes."""
        return cls("fixed", 1, struct.pack("<d", number))

    @classmethod
    def error(cls, stderr: float) -> PerRow:
        """A standard error in place of rows."""
        return cls("error", 1, struct.pack("<d", stderr))

    @property
    def varies(self) -> bool:
        """Whether there is a number for each row or block."""
        return self.kind in ("bits", "half")

    @property
    def number(self) -> float:
        """The one number of the kinds that have one."""
        return float(struct.unpack("<d", self.data)[0])

    def array(self, start: int = 0, stop: int | None = None) -> NDArray[np.float64]:
        """The numbers from `start`, a multiple of 8, to `stop`, unpacked."""
        stop = self.length if stop is None else min(stop, self.length)
        if self.kind == "bits":
            data = np.frombuffer(self.data, np.uint8)[start // 8 : -(-stop // 8)]
            return np.unpackbits(data, count=stop - start).astype(np.float64)
        if self.kind == "half":
            centre, unit = _HEAD.unpack_from(self.data)
            halves = np.frombuffer(self.data, _HALF, offset=_HEAD.size)[start:stop]
            numbers: NDArray[np.float64] = centre + unit * halves.astype(np.float64)
            return numbers
        return np.full(1, self.number)

    @property
    def mean(self) -> float:
        """The metric that the numbers are of; an error has none."""
        return float(self.array().mean())

    @property
    def stderr(self) -> float:
        """How far another sample of as many test rows would move the metric, as a standard deviation."""
        if not self.varies:
            return self.number if self.kind == "error" else 0.0
        return math.sqrt(self.array().var(ddof=1) / self.length) if self.length > 1 else math.nan

    def problem(self) -> str | None:
        """What is wrong with it, where it comes from a file or another process."""
        if (
            not isinstance(self.data, bytes)
            or not isinstance(self.length, int)
            or not isinstance(self.rows, int)
        ):
            return "what test rows said cannot be read"
        sizes = {"bits": -(-self.length // 8), "half": _HEAD.size + 2 * self.length, "fixed": 8, "error": 8}
        if self.length < 1 or self.rows < 0 or len(self.data) != sizes.get(self.kind, -1):
            return f"what test rows said is not {self.length} numbers of the kind {self.kind!r}"
        numbers = self.array()
        if not np.isfinite(numbers).all() or (self.kind == "error" and numbers[0] < 0):
            return "what test rows said is not finite"
        return None

    def to_plain(self) -> list[Any]:
        """As JSON has it."""
        return [self.kind, self.length, b64encode(self.data).decode(), self.rows]

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> PerRow:
        """From what `to_plain` gave.

        >>> PerRow.from_plain(PerRow.of([0.5, 1.5, 4.0]).to_plain()) == PerRow.of([0.5, 1.5, 4.0])
        True
        """
        kind, length, data, rows = plain
        return cls(kind, length, b64decode(data), rows)


@lru_cache(maxsize=64)
def blocks_of(rows: int) -> NDArray[np.int64]:
    """The numbers of the rows in each block (rows of the table), filled up with `rows` where a block is smaller.

    Who is in which block is drawn once for all: a file that is sorted by label does no harm, and every model is looked at
    in the same blocks. Sizes differ by one at most.
    """
    count = min(BLOCKS, rows)
    drawn = np.random.default_rng(rows).permutation(rows)
    table = np.append(drawn, np.full(-rows % count, rows)).reshape(-1, count).T
    table = np.ascontiguousarray(table)
    table.flags.writeable = False
    return table


def _in_blocks(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers of blocks with the same mean, and the same variance of it, also where blocks differ in size."""
    table, mean = blocks_of(numbers.size), numbers.mean()
    moved = np.append(numbers - mean, 0.0)[table].sum(1)
    blocks: NDArray[np.float64] = mean + moved * len(table) / numbers.size
    return blocks


def pseudo_values(
    number: float, samples: int, score: Callable[[NDArray[np.intp]], float | None]
) -> NDArray[np.float64] | None:
    """The pseudo-values of a jackknife over blocks of equal size, around a number that so many test rows gave.

    `score` computes it from some of the rows; None where it cannot, for example because no row of a class is left.
    Blocks are of equal size, because the number may be a sum; so a few rows are never left out, which is made up for.

    >>> rows = np.array([1.0, 2.0, 3.0, 6.0])
    >>> pseudo_values(3.0, 4, lambda kept: float(rows[kept].mean())).round(9).tolist()
    [6.0, 1.0, 2.0, 3.0]
    """
    count = min(_LEFT_OUT, samples)
    if count < 2:
        return None
    size = samples // count
    drawn = np.random.default_rng(samples).permutation(samples)
    without = []
    for start in range(0, count * size, size):
        kept = np.ones(samples, dtype=bool)
        kept[drawn[start : start + size]] = False
        found = score(np.flatnonzero(kept))
        if found is None:
            return None
        without.append(found)
    moved: NDArray[np.float64] = np.mean(without) - np.array(without)
    return number + count * (samples - size) / samples * math.sqrt(samples / (count * size)) * moved
