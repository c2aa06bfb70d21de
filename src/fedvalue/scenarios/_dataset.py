"""The rows of one party, and what is done with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import as_array, checked_init, expect_same_order
from fedvalue.errors import ScenarioError
from fedvalue.scenarios._features import Features, as_features, mapped
from fedvalue.scenarios._numbers import labels_in
from fedvalue.store import fingerprint

__all__ = ["CLASSIFICATION", "OWN", "REGRESSION", "Dataset", "described"]

CLASSIFICATION = "classification"
REGRESSION = "regression"
OWN = "own"


@checked_init
@dataclass(frozen=True, eq=False)
class Dataset:
    """The rows of one party: features `x` (rows first) and labels or targets `y`.

    Features are one array, or several: a tuple of arrays, which a model gets one after the other, or arrays by name
    (token ids and a mask), which it gets as keyword arguments. Labels are a number per row, or several: a class for
    every token or pixel, an image for an image.

    >>> len(Dataset(x=[[0.0, 1.0], [1.0, 0.0]], y=[0, 1]))
    2
    >>> sorted(Dataset(x={"input_ids": [[5, 2]], "attention_mask": [[1, 1]]}, y=[1]).x)
    ['attention_mask', 'input_ids']
    """

    x: Features
    y: NDArray[Any]
    here: ClassVar[bool] = True  # whether these are the rows themselves

    def __post_init__(self) -> None:
        expect_same_order(self.x, self.y, "a dataset", ScenarioError)
        object.__setattr__(self, "x", as_features(self.x))
        object.__setattr__(self, "y", as_array(self.y, "The labels of a dataset", error=ScenarioError))

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, chosen: Any) -> Dataset:
        """Some of the rows, by their numbers or as a slice."""
        return Dataset(mapped(lambda leaf: leaf[chosen], self.x), self.y[chosen])

    @cached_property
    def fingerprint(self) -> str:
        """The same for the same rows in the same order, whoever holds them."""
        return fingerprint((self.x, self.y))[0]

    @property
    def changed(self) -> bool:
        """Whether the rows were changed in place since their fingerprint was taken."""
        return fingerprint((self.x, self.y))[0] != self.fingerprint

    def thinned(self, most: int) -> Dataset:
        """At most so many of the rows, spread over all of them."""
        return self.rows(np.linspace(0, len(self) - 1, most).astype(int)) if len(self) > most else self


def described(data: Dataset, task: str, classes: int) -> dict[str, Any]:
    """Samples and label histogram, or mean and standard deviation of the targets (None without rows)."""
    if not data.here or task == OWN:
        return {"samples": len(data)}
    if task == CLASSIFICATION:
        return {"samples": len(data), "labels": np.bincount(labels_in(data.y), minlength=classes).tolist()}
    targets = data.y.astype(np.float64)
    return {
        "samples": len(data),
        "mean": float(targets.mean()) if len(data) else None,
        "sd": float(targets.std()) if len(data) else None,
    }
