"""What rows are made of, in words that travel: the type and shape of each input and of the label of one row."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.flower._wire import WireError
from fedvalue.scenarios import Dataset, leaves, mapped

__all__ = ["Form"]

_LEAF = re.compile(r"(float32|int64|bool)((?: [1-9][0-9]{0,8}){0,8})")
_MOST_INPUTS = 1000
_MOST_NUMBERS = 10**8  # in a row that anybody may claim to have


@dataclass(frozen=True)
class Form:
    """A type and the sides of a shape for every input of one row, and for its label: "float32 1 28 28", "int64".

    Inputs are one such text, or several in a tuple or by name, as the features of a data set are.

    >>> Form.of(Dataset({"ids": np.zeros((3, 2), np.int64), "mask": np.ones((3, 2), bool)}, np.zeros(3)))
    Form(x={'ids': 'int64 2', 'mask': 'bool 2'}, y='float64')
    """

    x: Any
    y: str

    @classmethod
    def of(cls, data: Dataset) -> Form:
        """What the rows of a data set are made of."""
        return cls(mapped(_said, data.x), _said(data.y))

    def __str__(self) -> str:
        inputs = ", ".join(f"{name}: {leaf}" if name else leaf for name, leaf in leaves(self.x))
        return f"features {inputs}; labels {self.y}"

    def to_text(self) -> str:
        """As it travels; a tuple is a list there."""
        return json.dumps({"x": self.x, "y": self.y})

    @classmethod
    def from_text(cls, text: object) -> Form:
        """What another party's `to_text` gave."""
        try:
            told = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, Mapping) or set(told) != {"x", "y"}:
            raise WireError("reported no form of its rows")
        x = tuple(told["x"]) if isinstance(told["x"], list) else told["x"]
        inputs = leaves(x)
        if not inputs or not all(name.isprintable() for name, _ in inputs):
            raise WireError("reported inputs without names")
        for leaf in (*(part for _, part in inputs), told["y"]):
            if not isinstance(leaf, str) or not _LEAF.fullmatch(leaf):
                raise WireError(f"reported rows of the form {str(leaf)[:40]!r}")
        numbers = sum(math.prod(_read(leaf)[1]) for leaf in (*(part for _, part in inputs), told["y"]))
        if numbers > _MOST_NUMBERS or len(inputs) > _MOST_INPUTS:
            raise WireError(
                f"reported {len(inputs)} inputs of {numbers:,} numbers a row, more than anybody has"
            )
        return cls(x, told["y"])

    def stand_ins(self, classes: int, vocabulary: int) -> Dataset:
        """Two rows of this form. Masks let everything through, and where there are classes, two of them occur."""

        def made(leaf: str) -> NDArray[Any]:
            kind, shape = _read(leaf)
            ones = kind != "float32" and vocabulary != 1
            return np.full((2, *shape), ones, kind)

        kind, shape = _read(self.y)
        y = np.zeros((2, *shape), kind)
        y[1] = 1 if classes else 0
        return Dataset(mapped(made, self.x), y)


def _said(array: NDArray[Any]) -> str:
    return " ".join([array.dtype.name, *map(str, array.shape[1:])])


def _read(leaf: str) -> tuple[str, tuple[int, ...]]:
    kind, *sides = leaf.split()
    return kind, tuple(map(int, sides))
