"""Stacks of models as NumPy arrays, in which they travel: one array per parameter, a row per model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fedvalue.training import Stack

__all__ = [
    "LARGEST",
    "Arrays",
    "bytes_of",
    "finite_rows",
    "from_arrays",
    "is_sound",
    "joined",
    "missing_row",
    "row_digest",
    "rows_of",
    "sound_rows",
    "to_arrays",
]

Arrays = dict[str, NDArray[Any]]

LARGEST = 1e18  # of a parameter: from larger ones no other client could train, and would be blamed for it


def to_arrays(stack: Stack) -> Arrays:
    """The stack as NumPy arrays, on the CPU."""
    return {name: t.detach().cpu().numpy() if hasattr(t, "detach") else t for name, t in stack.items()}


def from_arrays(arrays: Arrays, like: Stack) -> Stack:
    """The arrays as what `like` is made of: torch tensors where they are some, on the same device."""
    first = next(iter(like.values()))
    if not hasattr(first, "detach"):
        return arrays
    import torch

    return {name: torch.from_numpy(array).to(first.device) for name, array in arrays.items()}


def joined(stacks: Sequence[Stack]) -> Stack:
    """The rows of all these stacks as one."""
    parts = [to_arrays(stack) for stack in stacks]
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return from_arrays(rows, like=stacks[0])


def rows_of(arrays: Arrays) -> int:
    """How many models."""
    return len(next(iter(arrays.values())))


def bytes_of(arrays: Mapping[str, Any]) -> int:
    """What the arrays take in memory."""
    return sum(array.nbytes for array in arrays.values())


def finite_rows(stack: Stack) -> NDArray[np.bool_]:
    """Which rows are models; the others miss a training."""
    parts = [
        np.isfinite(array.reshape(len(array), -1)).all(1)
        for array in to_arrays(stack).values()
        if array.dtype.kind == "f"
    ]
    return cast(NDArray[np.bool_], np.logical_and.reduce(parts))


def is_sound(values: NDArray[Any]) -> bool:
    """Whether all numbers are finite and of a size that can be trained on."""
    return values.dtype.kind != "f" or bool((np.abs(values) <= LARGEST).all())  # false for NaN, too


def sound_rows(arrays: Arrays) -> list[int]:
    """The rows of which all numbers are sound."""
    return [row for row in range(rows_of(arrays)) if all(is_sound(array[row]) for array in arrays.values())]


def missing_row(like: Arrays) -> Arrays:
    """A row that stands for a training that was not delivered: not a number wherever there may be such."""
    return {
        name: np.full_like(array[0], np.nan) if array.dtype.kind == "f" else np.zeros_like(array[0])
        for name, array in like.items()
    }


def row_digest(arrays: Arrays, row: int) -> bytes | None:
    """By which a model is recognised; None for a row that is missing. −0 counts as 0, which it becomes in an average."""
    digest = hashlib.sha256()
    for array in arrays.values():
        values = np.ascontiguousarray(array[row])
        if values.dtype.kind == "f":
            if not np.isfinite(values).all():
                return None
            values = values + 0.0
        digest.update(values.tobytes())
    return digest.digest()
