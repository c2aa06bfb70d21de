"""Fetching data sets: MNIST and Adult through scikit-learn's OpenML client, into files of the original
formats, and the writers of MNIST's digits from the repository of QMNIST.

Never at import, only when asked. The content must have the known checksum, and that checksum is recorded
beside the files: a file that changes later is refused when it is read.
"""

from __future__ import annotations

import gzip
import io
import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedvalue._extras import need
from fedvalue._files import write_file, write_json
from fedvalue._text import shortened
from fedvalue.errors import InputError, ScenarioError
from fedvalue.scenarios import adult, femnist, mnist
from fedvalue.scenarios._checks import unknown
from fedvalue.scenarios._sources import CHECKSUMS, cache_folder, sha256

__all__ = ["FETCHERS", "KNOWN", "fetch"]

# sha256 of the uncompressed files; Adult's in one spelling of white space and line ends, an npz file's of its arrays.
KNOWN: dict[str, str] = {
    "train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    "adult.data.gz": "df25a4e32ed6f1bd4b3910d21a7bd661a09061eced7cb45555a519d9667cc87b",
    "adult.test.gz": "ceb625d3b5aeddf1e04cd5eec3268e18af4140fbde5a853a11223deeebcfe0f5",
    "mnist_writer_ids.npz": "db5066c38c2dd1a6403e130692ad16f9c61686a7e6abf16139cd31f0e1c872b1",
}
_ADULT_TEST_ROWS = 16_281

# At a fixed commit, so that the address always means the same content. Its README (section 2.2) describes
# the files: big-endian integers of 32 bits, namely 0x0c02, the number of rows, the number of columns, the
# rows. It also says that all training rows and the first 10,000 test rows are MNIST's, in the same order.
QMNIST = (
    "https://raw.githubusercontent.com/facebookresearch/qmnist/94061367ec2e099ea18c553c75727ecf849ddb9b/"
    "qmnist-{part}-labels-idx2-int.gz"
)
_QMNIST_SHAPE = (60_000, 8)
_QMNIST_MOST = 4_000_000  # bytes, packed or not: either file has 1,920,012 when unpacked
_MNIST_ROWS = {"train": 60_000, "test": 10_000}
# What is kept of a row: its column there, and the type of the array here.
_COLUMNS: dict[str, tuple[int, type[np.integer[Any]]]] = {
    "writer": (2, np.int16),
    "label": (0, np.uint8),
    "hsf": (1, np.uint8),
    "digit_index": (3, np.uint8),
}


def fetch(name: str, data_dir: str | PathLike[str] | None = None, *, unverified: bool = False) -> Path:
    """Fetches a data set into the data folder (default: the user's cache); returns where it lies.

    With `unverified` content that is not the known one is kept nevertheless.
    """
    if name not in FETCHERS:
        raise unknown("data set", name, FETCHERS, " to fetch:")
    folder = (cache_folder() if data_dir is None else Path(data_dir).expanduser()) / name
    contents = FETCHERS[name].get(folder)
    wrong = [file for file, content in contents.items() if KNOWN.get(file) != sha256(_checked(file, content))]
    if wrong and not unverified:
        raise ScenarioError(
            f"What {FETCHERS[name].source} sent as {name} is not the known content ({', '.join(wrong)}). Nothing was "
            "written. To keep it nevertheless: --unverified."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in contents.items():
            with write_file(folder / file) as kept:
                # Without a time stamp the same content gives the same file.
                kept.write(gzip.compress(content, 6, mtime=0) if file.endswith(".gz") else content)
        write_json(folder / CHECKSUMS, {file: sha256(content) for file, content in contents.items()})
    except (OSError, InputError) as error:
        reason = str(error).rstrip(".")
        raise ScenarioError(
            f"{name} cannot be kept in {folder}: {reason}. Name another folder: --data-dir."
        ) from error
    return folder


def _checked(file: str, content: bytes) -> bytes:
    """What is compared with the known content: of an npz file the arrays, because zlib's versions pack differently."""
    if not file.endswith(".npz"):
        return content
    with np.load(io.BytesIO(content)) as arrays:
        return b"".join(name.encode() + arrays[name].astype("<i4").tobytes() for name in sorted(arrays))


def _openml(name: str, version: int, folder: Path) -> Any:
    datasets = need("sklearn.datasets", f"Fetching {name}", extra="torch")
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
    names = [Path(name).name for name in mnist.NEEDS]
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
    return at_end if sha256(at_end["adult.test.gz"]) == known else at_front


def _cells(values: NDArray[np.float64], categories: list[str] | None) -> list[str]:
    if categories is None:
        return [f"{value:.0f}" for value in values.tolist()]
    return ["?" if np.isnan(value) else str(categories[int(value)]).strip() for value in values.tolist()]


def _adult_files(train: list[list[str]], test: list[list[str]]) -> dict[str, bytes]:
    def text(rows: list[list[str]], end: str) -> bytes:
        return "".join(", ".join(row) + end for row in rows).encode()

    test_file = b"|1x3 Cross validator\n" + text(test, ".\n")
    return {"adult.data.gz": text(train, "\n"), "adult.test.gz": test_file}


def _writers(folder: Path) -> dict[str, bytes]:
    arrays: dict[str, Any] = {}
    for part, rows in _MNIST_ROWS.items():
        table = _qmnist_labels(QMNIST.format(part=part), folder)[:rows]
        arrays |= {f"{part}_{name}": table[:, at].astype(kind) for name, (at, kind) in _COLUMNS.items()}
    archive = io.BytesIO()
    np.savez_compressed(archive, **arrays)  # its entries have no time stamps
    return {Path(femnist.WRITERS).name: archive.getvalue()}


def _qmnist_labels(url: str, folder: Path) -> NDArray[np.int32]:
    from fedvalue.scenarios._download import download, unpacked  # ssl and http take their time to import

    try:
        return _label_table(unpacked(download(url, _QMNIST_MOST), _QMNIST_MOST))
    except (OSError, ValueError) as error:
        raise ScenarioError(
            f"The writers could not be fetched from {url}: {shortened(str(error), 200)}. Check the network and try "
            f"again, or run the command on another machine and copy {Path(femnist.WRITERS).name} into {folder}."
        ) from error


def _label_table(data: bytes) -> NDArray[np.int32]:
    """All rows of a label file of QMNIST, whose numbers fit into the arrays that are made of them."""
    header = np.frombuffer(data[:12], ">i4").tolist() if len(data) >= 12 else [0]
    if header[0] != 0x0C02:
        raise ValueError("expected an idx file of integers, got something else in the gzip file")
    rows, columns = _QMNIST_SHAPE
    if header[1:] != [rows, columns]:
        raise ValueError(f"expected {rows:,} rows of {columns} numbers, got {header[1]:,} of {header[2]:,}")
    if len(data) != (whole := 12 + 4 * rows * columns):
        raise ValueError(f"expected {whole:,} bytes in the gzip file, got {len(data):,}")
    table = np.frombuffer(data, ">i4", offset=12).reshape(_QMNIST_SHAPE).astype(np.int32)
    for name, (at, kind) in _COLUMNS.items():
        low, high = table[:, at].min(), table[:, at].max()
        if low < 0 or high > np.iinfo(kind).max:
            raise ValueError(f"expected {name} from 0 to {np.iinfo(kind).max}, got {low} to {high}")
    return table


class Fetcher(NamedTuple):
    """Where a data set comes from, for people, and what gets it: the files and their uncompressed content."""

    source: str
    get: Callable[[Path], dict[str, bytes]]


FETCHERS: dict[str, Fetcher] = {
    "mnist": Fetcher("OpenML", _mnist),
    "adult": Fetcher("OpenML", _adult),
    "femnist": Fetcher("github.com/facebookresearch/qmnist", _writers),
}
