"""A table of utilities that remembers which coalitions it was asked for: what peers run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "CountingTable", "Run"]

Array = NDArray[np.float64]


class CountingTable:
    """A table of utilities that remembers which coalitions were looked up."""

    def __init__(self, utilities: Array) -> None:
        self.utilities = utilities
        self.n = len(utilities).bit_length() - 1
        self.seen: set[int] = set()
        self._bits = 1 << np.arange(self.n)

    def rows(self, coalitions: NDArray[np.bool_]) -> Array:
        """Utilities of coalitions given as rows of booleans: what shapiq calls a game."""
        masks = np.atleast_2d(coalitions) @ self._bits
        self.seen.update(masks.tolist())
        return self.utilities[masks]

    def members(self, clients: Sequence[int]) -> float:
        """Utility of one coalition given by its clients."""
        mask = int(self._bits[np.array(clients, dtype=int)].sum())
        self.seen.add(mask)
        return float(self.utilities[mask])


Run = Callable[[CountingTable, int, int], Array]
"""Values from a game, a parameter and a seed."""
