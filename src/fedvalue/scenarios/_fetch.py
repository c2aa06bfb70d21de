"""Fetching MNIST and Adult through scikit-learn's OpenML client, into files of the original formats.

Never at import, only when asked. The content must have the known checksum, and that checksum is recorded
beside the files: a file that changes later is refused when it is read.
"""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._extras import need
from fedvalue.errors import ScenarioError
from fedvalue.scenarios import adult, mnist
from fedvalue.scenarios._checks import unknown
from fedvalue.scenarios._sources import CHECKSUMS, cache_folder, sha256

__all__ = ["FETCHERS", "KNOWN", "fetch"]

# sha256 of the uncompressed files; Adult's in one spelling of white space and line ends.
KNOWN: dict[str, str] = {
    "train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    "adult.data.gz": "df25a4e32ed6f1bd4b3910d21a7bd661a09061eced7cb45555a519d9667cc87b",
    "adult.test.gz": "ceb625d3b5aeddf1e04cd5eec3268e18af4140fbde5a853a11223deeebcfe0f5",
}
_ADULT_TEST_ROWS = 16_281


def fetch(name: str, data_dir: str | PathLike[str] | None = None, *, unverified: bool = False) -> Path:
    """Fetches a data set into the data folder (default: the user's cache); returns where it lies.

    With `unverified` content that is not the known one is kept nevertheless.
    """
    if name not in FETCHERS:
        raise unknown("data set", name, FETCHERS, " to fetch:")
    folder = (cache_folder() if data_dir is None else Path(data_dir).expanduser()) / name
    contents = FETCHERS[name](folder)
    digests = {f"{file}.gz": sha256(content) for file, content in contents.items()}
    wrong = [file for file, digest in digests.items() if KNOWN.get(file) != digest]
    if wrong and not unverified:
        raise ScenarioError(
            f"What OpenML sent as {name} is not the known content ({', '.join(wrong)}). Nothing was written. "
            "To keep it nevertheless: --unverified."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in contents.items():
            # Without a time stamp the same content gives the same file.
            _write(folder / f"{file}.gz", gzip.compress(content, 6, mtime=0))
        _write(folder / CHECKSUMS, (json.dumps(digests, indent=2) + "\n").encode())
    except OSError as error:
        raise ScenarioError(
            f"{folder} cannot be written: {error}. Name another folder: --data-dir."
        ) from error
    return folder


def _write(path: Path, data: bytes) -> None:
    """All or nothing: a fetch that is interrupted leaves no half file."""
    partial = path.with_name(path.name + ".part")
    partial.write_bytes(data)
    partial.replace(path)


def _openml(name: str, version: int, folder: Path) -> Any:
    datasets = need("sklearn.datasets", f"Fetching {name}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one per attempt; the error below says it once
            # liac-arff is the parser that does not need pandas.
            return datasets.fetch_openml(
                name, version=version, as_frame=False, parser="liac-arff", cache=False
            )
    except (OSError, ValueError) as error:
        raise ScenarioError(
            f"{name} could not be fetched from OpenML: {type(error).__name__}: {error}. Check the network "
            f"and try again, or put the files into {folder} yourself."
        ) from error


def _mnist(folder: Path) -> dict[str, bytes]:
    bunch = _openml("mnist_784", 1, folder)
    pixels = np.asarray(bunch.data)
    labels = np.asarray(bunch.target).astype(np.int64)
    if pixels.shape != (70_000, 784) or labels.shape != (70_000,):
        raise ScenarioError(f"OpenML sent MNIST as {pixels.shape}. Expected 70,000 rows of 784 pixels.")
    x = pixels.astype(np.uint8).reshape(-1, 28, 28)
    y = labels.astype(np.uint8)
    names = [Path(name).name.removesuffix(".gz") for name in mnist.NEEDS]
    parts = (x[:60_000], y[:60_000], x[60_000:], y[60_000:])
    return {name: _idx(part) for name, part in zip(names, parts, strict=True)}


def _idx(array: NDArray[np.uint8]) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.asarray(array.shape, ">u4").tobytes()
    return header + array.tobytes()


def _adult(folder: Path) -> dict[str, bytes]:
    bunch = _openml("adult", 2, folder)
    values = np.asarray(bunch.data, dtype=np.float64)
    names = list(bunch.feature_names)
    if values.shape != (48_842, len(adult.COLUMNS)) or set(names) != set(adult.COLUMNS):
        raise ScenarioError(f"OpenML sent Adult as {values.shape}, columns {names}. Expected 48,842 × 14.")
    cells = [_cells(values[:, names.index(name)], bunch.categories.get(name)) for name in adult.COLUMNS]
    rows = [list(row) for row in zip(*cells, (str(label).strip() for label in bunch.target), strict=True)]
    # One table there; which end is the official test set is seen from the checksum.
    at_front = _adult_files(rows[_ADULT_TEST_ROWS:], rows[:_ADULT_TEST_ROWS])
    at_end = _adult_files(rows[:-_ADULT_TEST_ROWS], rows[-_ADULT_TEST_ROWS:])
    known = KNOWN.get("adult.test.gz")
    return at_end if sha256(at_end["adult.test"]) == known else at_front


def _cells(values: NDArray[np.float64], categories: list[str] | None) -> list[str]:
    if categories is None:
        return [f"{value:.0f}" for value in values.tolist()]
    return ["?" if np.isnan(value) else str(categories[int(value)]).strip() for value in values.tolist()]


def _adult_files(train: list[list[str]], test: list[list[str]]) -> dict[str, bytes]:
    def text(rows: list[list[str]], end: str) -> bytes:
        return "".join(", ".join(row) + end for row in rows).encode()

    return {"adult.data": text(train, "\n"), "adult.test": b"|1x3 Cross validator\n" + text(test, ".\n")}


FETCHERS: dict[str, Callable[[Path], dict[str, bytes]]] = {"mnist": _mnist, "adult": _adult}
