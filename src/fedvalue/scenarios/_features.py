"""Features of rows: one array, several arrays in a tuple, or several by name; rows first in each of them.

What holds for arrays here holds for tensors as well: learners keep features in the same form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import as_array
from fedvalue.errors import ScenarioError

__all__ = ["Features", "as_features", "bytes_in", "flat_rows", "leaves", "mapped", "rows_joined", "shape_of"]

Features: TypeAlias = Any
"""An array, a tuple of arrays, or a dict of arrays by name."""


def as_features(given: Any) -> Features:
    """What was given as features; a tuple of arrays and a mapping stay apart, all else is one table.

    >>> as_features({"ids": [[1, 2]], "mask": [[True, False]]})["mask"].shape
    (1, 2)
    """
    if isinstance(given, Mapping):
        if not given or not all(isinstance(name, str) for name in given):
            raise ScenarioError(
                f"Features by name need at least one array, and texts as names. Got {list(given)[:6]}."
            )
        return {name: _array(values, f"The features {name!r}") for name, values in sorted(given.items())}
    if isinstance(given, tuple) and given and all(hasattr(values, "__array__") for values in given):
        return tuple(_array(values, f"The features {place}") for place, values in enumerate(given))
    return _array(given, "The features")


def _array(values: Any, what: str) -> NDArray[Any]:
    array: NDArray[Any] = as_array(values, f"{what} of a dataset", error=ScenarioError)
    return array


def mapped(change: Callable[[Any], Any], features: Features) -> Features:
    """Features of the same form, each array or tensor changed.

    >>> mapped(len, (np.zeros((3, 2)), np.zeros((3, 5))))
    (3, 3)
    """
    if isinstance(features, Mapping):
        return {name: change(leaf) for name, leaf in features.items()}
    return tuple(map(change, features)) if isinstance(features, tuple) else change(features)


def leaves(features: Features) -> list[tuple[str, Any]]:
    """The arrays or tensors, each with its name: nothing where there is one only."""
    if isinstance(features, Mapping):
        return list(features.items())
    return (
        [(str(k), leaf) for k, leaf in enumerate(features)]
        if isinstance(features, tuple)
        else [("", features)]
    )


def rows_joined(parts: Sequence[Features]) -> Features:
    """The rows of all parts, one part after the other."""
    first = parts[0]
    if isinstance(first, Mapping):
        return {name: np.concatenate([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple):
        return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return np.concatenate(parts)


def bytes_in(features: Features) -> int:
    """What the arrays take in memory."""
    return sum(leaf.nbytes for _, leaf in leaves(features))


def shape_of(features: Features) -> Any:
    """The shape of one row, as plain data: numbers, or such lists in a list or dict.

    >>> shape_of({"ids": np.zeros((3, 2)), "age": np.zeros(3)})
    {'ids': [2], 'age': []}
    """
    shapes = mapped(lambda array: list(array.shape[1:]), features)
    return list(shapes) if isinstance(shapes, tuple) else shapes


def flat_rows(features: Features) -> NDArray[np.float32]:
    """A row of numbers for every row, whatever its features are."""
    flat = [leaf.reshape(len(leaf), math.prod(leaf.shape[1:])) for _, leaf in leaves(features)]
    return np.ascontiguousarray(np.concatenate(flat, axis=1), np.float32)
