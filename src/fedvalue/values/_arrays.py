"""The arrays that values hold, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedvalue._checks import as_array
from fedvalue.errors import InputError

__all__ = ["square", "vector"]


def square(matrix: ArrayLike, n: int, what: str) -> NDArray[np.float64]:
    """A finite number for every two names."""
    table: NDArray[np.float64] = as_array(matrix, what, np.float64)
    if table.shape != (n, n):
        raise InputError(f"{what} must be a square matrix over {n} names. Got shape {table.shape}.")
    if not np.isfinite(table).all():
        raise InputError(f"{what} must hold finite numbers. There is one that is not.")
    return table


def vector(values: ArrayLike, n: int, what: str) -> NDArray[np.float64]:
    """A number per name."""
    numbers: NDArray[np.float64] = as_array(values, what, np.float64)
    if numbers.shape != (n,):
        raise InputError(f"{what} must hold one number per name ({n}). Got shape {numbers.shape}.")
    return numbers
