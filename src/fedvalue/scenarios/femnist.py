"""Handwriting by writer: FEMNIST from LEAF's json files, or MNIST digits with the ids of their writers.

LEAF: `femnist/train/*.json` and `femnist/test/*.json`, each {"users": […], "user_data": {user: {"x": rows
of 784 numbers, "y": labels 0..61}}}. Without them the digits of MNIST are used, whose writers QMNIST
traced (`femnist/mnist_writer_ids.npz`, which `fedvalue data fetch femnist` gets): ten classes, and called
`mnist-by-writer` in results.
"""

from __future__ import annotations

import io
import json
import zlib
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import ScenarioError
from fedvalue.scenarios import mnist
from fedvalue.scenarios._build import Ask, Parts, Pool
from fedvalue.scenarios._checks import stream, whole
from fedvalue.scenarios._partition import Rows, by_owner
from fedvalue.scenarios._sources import Files, folders, located, sha256

__all__ = ["HOW", "NEEDS", "WRITERS", "build", "found"]

WRITERS = "femnist/mnist_writer_ids.npz"
NEEDS = (WRITERS, *mnist.NEEDS)
_FETCH = "fedvalue data fetch femnist"
HOW = (
    f"{_FETCH} (the writers of MNIST's digits) and {mnist.HOW} (the digits), or put LEAF's FEMNIST as "
    "femnist/train/*.json and femnist/test/*.json into one of these folders"
)
_LEAF_CLASSES = 62


def build(ask: Ask, *, writers: int | str = 1) -> Pool:
    """`writers` writers, drawn at random, make one client; with "all", every writer is dealt to one of the clients."""
    each = None if writers == "all" else whole('writers (a number, or "all")', writers, 1)
    leaf = _leaf_folder(ask.data_dir)
    return _leaf_pool(leaf, ask, each) if leaf else _mnist_pool(ask, each)


def _leaf_folder(data_dir: str | PathLike[str] | None) -> Path | None:
    """The first `femnist` folder with LEAF's json files, or None."""
    for folder in folders(data_dir):
        leaf = folder / "femnist"
        if all(any((leaf / part).glob("*.json")) for part in ("train", "test")):
            return leaf
    return None


def found(data_dir: str | PathLike[str] | None) -> Path | None:
    """The folder of LEAF's files or of the writer ids, if all that is needed is there."""
    digits = located(mnist.NEEDS, data_dir)
    return _leaf_folder(data_dir) or (digits and located((WRITERS,), data_dir))


def _mnist_pool(ask: Ask, each: int | None) -> Pool:
    # Not necessarily in one folder: MNIST may have been fetched. That both fit is checked below.
    ids_file = Files((WRITERS,), ask.data_dir, HOW)
    train_x, train_y, test_x, test_y, sources = mnist.read(ask.data_dir)
    try:
        with np.load(io.BytesIO(ids_file.read(WRITERS))) as stored:
            owner, label = stored["train_writer"], stored["train_label"]
    except (KeyError, ValueError, OSError, EOFError, BadZipFile, zlib.error) as error:
        raise ScenarioError(
            f"{WRITERS} must hold the arrays train_writer and train_label. {error}. Get it again: {_FETCH}."
        ) from error
    if owner.shape != label.shape or not np.array_equal(label, train_y):
        raise ScenarioError(
            f"The labels in {WRITERS} are not those of the MNIST files: whose digits they are is unknown. Get both "
            f"again: {_FETCH}, {mnist.HOW}."
        )

    def encode(rows: Rows, test_rows: Rows) -> tuple[NDArray[Any], NDArray[Any], int]:
        return mnist.images(train_x[rows]), mnist.images(test_x[test_rows]), 0

    return Pool(
        "mnist-by-writer",
        train_y,
        test_y,
        encode,
        classes=10,
        natural=lambda: _by_writer(owner, ask, each),
        shared_name="mnist",
        details={"sources": {**sources, **ids_file.sources}},
    )


def _by_writer(owner: NDArray[Any], ask: Ask, each: int | None) -> Parts:
    rows, owned = by_owner(owner, ask.clients or 1, stream(ask.seed, "writers"), each=each, kind="writer")
    names = [f"writer-{who[0]}" if each == 1 else f"writers-{i}" for i, who in enumerate(owned)]
    return Parts(rows, names)


def _leaf_pool(leaf: Path, ask: Ask, each: int | None) -> Pool:
    sources: dict[str, str] = {}
    train_x, train_y, owner = _read_leaf(leaf / "train", sources)
    test_x, test_y, _ = _read_leaf(leaf / "test", sources)

    def encode(rows: Rows, test_rows: Rows) -> tuple[NDArray[Any], NDArray[Any], int]:
        return train_x[rows], test_x[test_rows], 0

    return Pool(
        "femnist",
        train_y,
        test_y,
        encode,
        classes=_LEAF_CLASSES,
        natural=lambda: _by_writer(owner, ask, each),
        details={"sources": sources},
    )


def _read_leaf(
    folder: Path, sources: dict[str, str]
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[Any]]:
    x: list[NDArray[np.float32]] = []
    y: list[NDArray[np.int64]] = []
    owner: list[str] = []
    for path in sorted(folder.glob("*.json")):
        content = path.read_bytes()
        sources[f"femnist/{folder.name}/{path.name}"] = sha256(content)
        try:
            stored = json.loads(content)
            for user in stored["users"]:
                rows = stored["user_data"][user]
                x.append(np.asarray(rows["x"], dtype=np.float32).reshape(-1, 1, 28, 28))
                y.append(np.asarray(rows["y"], dtype=np.int64))
                if len(x[-1]) != len(y[-1]):
                    raise ValueError(f"user {user!r} has {len(x[-1])} images and {len(y[-1])} labels")
                owner += [str(user)] * len(y[-1])
        except (KeyError, TypeError, ValueError) as error:
            raise ScenarioError(
                f'{path} is not in LEAF\'s format, {{"users": […], "user_data": {{user: {{"x": rows of 784 '
                f'numbers, "y": labels}}}}}}. {type(error).__name__}: {error}.'
            ) from error
    if not owner:
        raise ScenarioError(f"The json files in {folder} hold no users.")
    return np.concatenate(x), np.concatenate(y), np.asarray(owner)
