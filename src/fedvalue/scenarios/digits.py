"""scikit-learn's 1,797 handwritten digits, 8 × 8: real data that needs no download."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._extras import need
from fedvalue.scenarios._build import Ask, Pool
from fedvalue.scenarios._checks import stream
from fedvalue.scenarios._partition import Rows, subset

__all__ = ["build"]

_TEST_SHARE = 0.25
_FILE = ("datasets", "data", "digits.csv.gz")


def build(ask: Ask) -> Pool:
    """A seeded, stratified quarter is the test set; pixels 0..16 become 0..1."""
    images, labels = _images_and_labels()
    x = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    y = labels.astype(np.int64)
    test = subset(y, round(_TEST_SHARE * len(y)), stream(ask.seed, "digits test"))
    train = np.setdiff1d(np.arange(len(y)), test)

    def encode(rows: Rows, test_rows: Rows) -> tuple[NDArray[Any], NDArray[Any], int]:
        return x[train[rows]], x[test[test_rows]], 0

    return Pool("digits", y[train], y[test], encode, classes=10, details={"source": "scikit-learn digits"})


def _images_and_labels() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What scikit-learn's `load_digits` gives, read from its file: to import scikit-learn takes longer than all the rest.

    Where the file is elsewhere in a version of scikit-learn, that version is asked.
    """
    spec = find_spec("sklearn")
    folders = (spec and spec.submodule_search_locations) or ()
    file = next((path for folder in folders if (path := Path(folder, *_FILE)).is_file()), None)
    if file is None:
        datasets = need("sklearn.datasets", "The scenario 'digits'", extra="torch")
        images, labels = datasets.load_digits(return_X_y=True)
        return images, labels
    with gzip.open(file, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",")
    return table[:, :-1], table[:, -1]
