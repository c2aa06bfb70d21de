"""Utilities that are all the same, up to the rounding of numbers of their size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["is_constant", "lost_in_rounding"]

_HARMLESS = 1e-9  # what rounding may take from utilities without a word
_SAME = 1e-14  # of the utilities themselves: what is below is mostly the rounding of sums and means


def is_constant(observed: NDArray[np.float64], empty: float) -> bool:
    """Whether nothing can be learned from how utilities differ."""
    return bool(observed.std() <= _SAME * max(abs(observed.mean()), abs(empty)))


def lost_in_rounding(observed: NDArray[np.float64]) -> list[str]:
    """What to say where utilities that count as the same differ by more than a digit or two of rounding.

    >>> lost_in_rounding(np.array([1.0, 1.0])), len(lost_in_rounding(1e14 + np.array([0.0, 0.5])))
    ([], 1)
    """
    largest, apart = float(np.abs(observed).max()), float(np.ptp(observed))
    rounding = 4 * float(np.spacing(largest))
    if apart == 0 or apart <= rounding <= _HARMLESS:
        return []
    return [
        f"The utilities are about {largest:.2g} and differ by too little at that size, {apart:.2g}, for "
        "numbers of double precision: every client got the same. Subtract a constant from all utilities."
    ]
