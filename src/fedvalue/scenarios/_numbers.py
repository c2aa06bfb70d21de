"""Numbers in the types that are trained on; what a training could stumble over is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import ScenarioError

__all__ = ["IGNORED", "class_numbers", "finite", "float32", "labels_in", "whole_numbers"]

IGNORED = -100
"""The label of a place that does not count, such as padding behind a text; torch's own losses leave it out, too."""


def float32(values: NDArray[Any]) -> NDArray[np.float32]:
    return values.astype(np.float32, copy=False)


def finite(values: NDArray[Any], what: str) -> NDArray[Any]:
    if values.dtype.kind not in "fiub":
        raise ScenarioError(f"Only numbers can be used. Got {values.dtype} in {what}.")
    with np.errstate(over="ignore"):
        numbers = float32(values) if values.dtype.kind == "f" else values
    good = np.isfinite(numbers)
    if not good.all():
        row = int(np.argwhere(~good)[0][0])
        raise ScenarioError(
            f"Only finite numbers can be used. {int((~good).sum())} entries of {what} are not (NaN, "
            f"infinite or beyond float32), the first in row {row}: {values[row].ravel()[:8]}. "
            "Fill or remove these rows."
        )
    return numbers


def whole_numbers(values: NDArray[Any], count: int, what: str) -> NDArray[np.int64]:
    with np.errstate(invalid="ignore"):  # what does not fit is refused below
        whole = values.astype(np.int64)
    bad = np.flatnonzero((whole != values) | (whole < 0) | (whole >= count))
    if bad.size:
        raise ScenarioError(
            f"Expected whole numbers from 0 to {count - 1} as {what}. Got {values.ravel()[bad[0]]}."
        )
    return whole


def class_numbers(values: NDArray[Any], classes: int, what: str) -> NDArray[np.int64]:
    """Class numbers; where a row has several, those that do not count may be among them."""
    if values.ndim == 1:
        return whole_numbers(values, classes, what)
    counts = values != IGNORED
    labels = np.full(values.shape, IGNORED, np.int64)
    labels[counts] = whole_numbers(values[counts], classes, what)
    return labels


def labels_in(y: NDArray[Any]) -> NDArray[Any]:
    """All labels or targets that count, one after the other."""
    return y if y.ndim == 1 else y[y != IGNORED] if y.dtype.kind == "i" else y.ravel()
