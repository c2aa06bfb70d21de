"""What single test rows say about a model, packed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedvalue._checks import as_array
from fedvalue.errors import InputError

__all__ = ["PerRow"]

_TYPES = {"half": np.float16, "single": np.float32}
_IN_HALF = (1e-2, 6e4)  # the largest number; otherwise two bytes lose too much


class PerRow(NamedTuple):
    """Numbers whose mean is a metric of one model: one for every test row, or for every block of rows.

    What differs between them is what another sample of test rows would change: the variance of the metric is theirs,
    divided by their number. For a metric that is not a mean over rows (AUC, F1) they are the pseudo-values of a
    jackknife over blocks. Packed: a bit each where all are 0 or 1, else two bytes, or four where two are not enough.

    >>> right = PerRow.of([1, 0, 1, 1, 0, 1, 1, 1, 1])
    >>> right.kind, right.length, len(right.data), right.array().tolist()[:3]
    ('bits', 9, 2, [1.0, 0.0, 1.0])
    """

    kind: str
    length: int
    data: bytes

    @classmethod
    def of(cls, numbers: ArrayLike) -> PerRow:
        """Packs a vector of finite numbers."""
        array: NDArray[np.float64] = as_array(numbers, "What test rows say", np.float64)
        if array.ndim != 1 or not array.size or not np.isfinite(array).all():
            raise InputError(
                f"What test rows say must be a vector of finite numbers, one per row. Got shape {array.shape}."
            )
        if np.isin(array, (0.0, 1.0)).all():
            return cls("bits", array.size, np.packbits(array.astype(bool)).tobytes())
        kind = "half" if _IN_HALF[0] <= np.abs(array).max() <= _IN_HALF[1] else "single"
        return cls(kind, array.size, array.astype(_TYPES[kind]).tobytes())

    def array(self) -> NDArray[np.float64]:
        """The numbers, unpacked."""
        if self.kind == "bits":
            return np.unpackbits(np.frombuffer(self.data, np.uint8), count=self.length).astype(np.float64)
        return np.frombuffer(self.data, _TYPES[self.kind]).astype(np.float64)
