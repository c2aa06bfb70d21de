"""Reading a user's files: CSV and Parquet as named columns, NPZ as the arrays x and y."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._extras import need
from fedvalue.errors import ScenarioError
from fedvalue.scenarios._sources import content_of

__all__ = ["SUFFIXES", "Table", "kind", "numbers", "read_npz", "read_table", "stem"]

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".npz")
_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Table:
    """Named columns of equal length: floats are numbers (NaN where missing), text is as written."""

    path: Path
    columns: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def kind(path: Path) -> str:
    """The suffix by which a file is read, or an empty text."""
    return next((suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)), "")


def stem(path: Path) -> str:
    """The name of a file without that suffix."""
    return path.name[: -len(kind(path))]


def read_table(path: Path) -> Table:
    """The columns of a CSV or Parquet file."""
    columns = _read_parquet(path) if kind(path) == ".parquet" else _read_csv(path)
    if not columns:
        raise ScenarioError(f"{path} has no columns. A client without data still needs the header row.")
    return Table(path, columns)


def read_npz(path: Path, label: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The features `x` and the labels (`label`) of an NPZ file."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            absent = [name for name in ("x", label) if name not in stored]
            if absent:
                raise ScenarioError(
                    f"{path} must hold the arrays 'x' (features, rows first) and {label!r} (labels). "
                    f"Got {sorted(stored.files)}."
                )
            x, y = stored["x"], stored[label]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError(f"{path} cannot be read as NPZ without pickled objects: {error}.") from error
    if y.ndim != 1 or x.ndim < 2 or len(x) != len(y):
        raise ScenarioError(
            f"{path}: 'x' must have two dimensions or more (rows first) and {label!r} one entry per row. "
            f"Got shapes {x.shape} and {y.shape}."
        )
    if x.dtype.kind not in "fiub":
        raise ScenarioError(f"{path}: 'x' must hold numbers. Got {x.dtype}.")
    return x, y.astype(np.float64) if y.dtype.kind in "fiub" else y.astype(np.str_)


def numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    """Text as numbers; NaN where a cell is empty or is not a number."""
    if values.dtype.kind == "f":
        return values
    try:
        return values.astype(np.float64)
    except ValueError:
        return np.asarray([_number(value) for value in values.tolist()], dtype=np.float64)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _read_csv(path: Path) -> dict[str, NDArray[Any]]:
    try:
        text = content_of(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path} is not UTF-8 text: {error}. Save it as UTF-8.") from error
    first = text.split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=first.count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    header = [name.strip() for name in next(lines, [])]
    if "" in header:
        raise ScenarioError(
            f"{path}: column {header.index('') + 1} has no name. If it numbers the rows, as some programs "
            "write it, leave it out; otherwise name it."
        )
    if len(set(header)) != len(header):
        raise ScenarioError(f"{path} has columns of the same name: {header}.")
    rows: list[list[str]] = []
    for row in lines:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(header):
            raise ScenarioError(
                f"{path}, row {len(rows) + 1}: expected {len(header)} cells as in the header. Got {len(row)}."
            )
        rows.append([cell.strip() for cell in row])
    cells = np.asarray(rows, dtype=np.str_).reshape(len(rows), len(header))
    return {name: cells[:, i] for i, name in enumerate(header)}


def _read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    parquet = need("pyarrow.parquet", f"Reading {path}")
    try:
        table = parquet.read_table(path)
        return {str(name): _column(table.column(name).to_pylist()) for name in table.column_names}
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise ScenarioError(f"{path} cannot be read as Parquet: {error}.") from error


def _column(values: Sequence[Any]) -> NDArray[Any]:
    if all(value is None or isinstance(value, (bool, int, float)) for value in values):
        return np.asarray([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.asarray(["" if value is None else str(value) for value in values], dtype=np.str_)
