"""MNIST: 60,000 + 10,000 handwritten digits, 28 × 28, from the original idx files."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._build import Ask, Pool
from fedvalue.scenarios._partition import Rows
from fedvalue.scenarios._sources import Files

__all__ = ["HOW", "NEEDS", "build", "images", "read_idx"]

NEEDS = (
    "mnist/train-images-idx3-ubyte.gz",
    "mnist/train-labels-idx1-ubyte.gz",
    "mnist/t10k-images-idx3-ubyte.gz",
    "mnist/t10k-labels-idx1-ubyte.gz",
)
HOW = "fedvalue data fetch mnist"


def build(ask: Ask) -> Pool:
    """All training images, pixels 0..255 as 0..1."""
    train_x, train_y, test_x, test_y, sources = read(ask.data_dir)

    def encode(rows: Rows, test_rows: Rows) -> tuple[NDArray[Any], NDArray[Any], int]:
        return images(train_x[rows]), images(test_x[test_rows]), 0

    return Pool("mnist", train_y, test_y, encode, classes=10, details={"sources": sources})


def read(
    data_dir: str | PathLike[str] | None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, str]]:
    """Training images and labels, test images and labels, and the checksums of the files."""
    files = Files(NEEDS, data_dir, HOW)
    train_x, train_y, test_x, test_y = (read_idx(files.read(name), name) for name in NEEDS)
    for x, y, part in ((train_x, train_y, "training"), (test_x, test_y, "test")):
        if x.ndim != 3 or y.shape != (len(x),):
            raise ScenarioError(f"The {part} files of MNIST do not belong together: {x.shape} and {y.shape}.")
    return train_x, train_y.astype(np.int64), test_x, test_y.astype(np.int64), files.sources


def images(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes (rows, height, width) as numbers 0..1 (rows, 1, height, width)."""
    return (pixels.astype(np.float32) / np.float32(255))[:, None]


def read_idx(data: bytes, name: str) -> NDArray[np.uint8]:
    """The array in an idx file of bytes: magic number 0, 0, 8, dimensions; sizes; content.

    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "tiny").tolist()
    [7, 9]
    """
    dimensions = data[3] if len(data) > 3 and data[:3] == b"\0\0\x08" else 0
    start = 4 + 4 * dimensions
    shape = tuple(int(size) for size in np.frombuffer(data[4:start], ">u4")) if dimensions else ()
    if not dimensions or len(data) != start + int(np.prod(shape)):
        raise ScenarioError(f"{name} is not a complete idx file of bytes. Get it again: {HOW}.")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
