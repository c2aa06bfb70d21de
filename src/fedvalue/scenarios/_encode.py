"""Columns of a table → features: numbers standardised, categories one-hot, both learnt from train only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Columns", "Encoder"]

Columns: TypeAlias = "Mapping[str, NDArray[Any]]"
"""Float columns are numbers, text columns are categories."""


@dataclass(frozen=True)
class Encoder:
    """Per column either (mean, sd) or the categories; a category unseen in training is all zeros.

    >>> encoder = Encoder.fit({"age": np.array([20.0, 40.0]), "job": np.array(["a", "b"])})
    >>> encoder({"age": np.array([30.0]), "job": np.array(["c"])}).tolist()
    [[0.0, 0.0, 0.0]]
    """

    learnt: Mapping[str, tuple[float, float] | NDArray[Any]]

    @classmethod
    def fit(cls, columns: Columns, standardise: bool = True) -> Encoder:
        """Learns from training rows."""
        learnt: dict[str, tuple[float, float] | NDArray[Any]] = {}
        for name, values in columns.items():
            if values.dtype.kind != "f":
                learnt[name] = np.unique(values)
            elif standardise and len(values):
                # A constant column carries nothing: it becomes 0, not a division by 0.
                learnt[name] = (float(values.mean()), float(values.std()) or 1.0)
            else:
                learnt[name] = (0.0, 1.0)
        return cls(learnt)

    def __call__(self, columns: Columns) -> NDArray[np.float32]:
        """The features of any rows, in the order of the learnt columns."""
        blocks = []
        for name, known in self.learnt.items():
            values = columns[name]
            if isinstance(known, tuple):
                blocks.append(((values - known[0]) / known[1])[:, None])
            else:
                blocks.append(values[:, None] == known[None, :])
        return np.concatenate(blocks, axis=1).astype(np.float32)
