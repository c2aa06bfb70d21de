"""Reading a user's files: CSV and Parquet as named columns, NPZ as the arrays x and y. Nothing is repaired or dropped.

A line of a CSV file is a row. A quoted cell must therefore end on its line: a forgotten quote would otherwise swallow
the rows up to the next one, and nobody could tell.
"""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue._extras import need
from fedvalue._text import plural
from fedvalue.errors import ScenarioError
from fedvalue.scenarios._readings import Readings, as_numbers, plain
from fedvalue.scenarios._sources import content_of

__all__ = ["SUFFIXES", "Cells", "Table", "kind", "read_npz", "read_table", "stem", "texts"]

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".npz")
_DELIMITERS = ",;\t|"
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_QUOTED = re.compile(r'"[^"]*"')

Cells: TypeAlias = "list[str] | NDArray[np.float64]"
"""A column: text as written, or numbers (NaN where missing) where the file itself has numbers."""


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, the line of each row, and how many blank lines were passed over."""

    path: Path
    columns: dict[str, Cells]
    lines: Sequence[Any]
    blank: int = 0
    unit: str = "line"  # what `lines` number
    called: str = ""  # a name other than that of the file
    _read: dict[str, Readings] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def name(self) -> str:
        """Whose rows these are."""
        return self.called or stem(self.path)

    @property
    def file(self) -> str:
        """What the table itself is called, for a message."""
        return self.called or self.path.name

    @property
    def where(self) -> str:
        """Where it is, for a message."""
        return self.called or str(self.path)

    def numbers(self, name: str) -> Readings:
        """A column read as numbers, in both ways; numbers of the file itself have one meaning."""
        if name not in self._read:
            cells = self.columns[name]
            self._read[name] = as_numbers(cells) if isinstance(cells, list) else Readings(cells, cells)
        return self._read[name]

    def at(self, row: int) -> str:
        """Where a row is, for a message."""
        return f"{self.where}, {self.unit} {self.lines[row]}"


def kind(path: Path) -> str:
    """The suffix by which a file is read, or an empty text."""
    return next((suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)), "")


def stem(path: Path) -> str:
    """The name of a file without that suffix."""
    return path.name[: -len(kind(path))] if kind(path) else path.name


def texts(cells: Cells) -> list[str]:
    """A column as text; numbers without a needless .0."""
    if isinstance(cells, list):
        return cells
    return ["" if np.isnan(value) else f"{value:.15g}" for value in cells.tolist()]


def read_table(path: Path) -> Table:
    """The columns of a CSV or Parquet file."""
    table = _read_parquet(path) if kind(path) == ".parquet" else _read_csv(path)
    names = list(table.columns)
    if not names:
        raise ScenarioError(f"{path} has no columns. A client without data still needs the header row.")
    if "" in names:
        raise ScenarioError(
            f"{path}, line 1: column {names.index('') + 1} has no name. If it numbers the rows, as some programs "
            "write it, leave it out; otherwise name it."
        )
    if all(as_numbers([name]).valid[0] for name in names):
        raise ScenarioError(
            f"{path}, line 1: expected the names of the columns. Got numbers: {', '.join(names[:5])}. Add a header row."
        )
    return table


def read_npz(path: Path, label: str) -> tuple[NDArray[Any], Cells]:
    """The features `x` and the labels (`label`) of an NPZ file."""
    if path.is_file() and not zipfile.is_zipfile(path):
        raise ScenarioError(f"{path} is no NPZ file: damaged, or of another kind under this name.")
    try:
        with np.load(path, allow_pickle=False) as stored:
            absent = [name for name in ("x", label) if name not in stored]
            if absent:
                raise ScenarioError(
                    f"{path} must hold the arrays 'x' (features, rows first) and {label!r} (labels). "
                    f"Got {sorted(stored.files)}."
                )
            x, y = stored["x"], stored[label]
    except ScenarioError:
        raise
    except Exception as error:  # damaged archives make zipfile, zlib and numpy raise whatever they like
        if isinstance(error, MemoryError):
            raise
        raise ScenarioError(f"{path} cannot be read as NPZ without pickled objects: {error}.") from error
    if y.ndim != 1 or x.ndim < 2 or len(x) != len(y):
        raise ScenarioError(
            f"{path}: 'x' must have two dimensions or more (rows first) and {label!r} one entry per row. "
            f"Got shapes {x.shape} and {y.shape}."
        )
    if x.dtype.kind not in "fiub":
        raise ScenarioError(f"{path}: 'x' must hold numbers. Got {x.dtype}.")
    if y.dtype.kind not in "fiubUS":
        raise ScenarioError(f"{path}: {label!r} must hold numbers or texts. Got {y.dtype}.")
    if y.dtype.kind in "fiub":
        return x, y.astype(np.float64)
    words = [word.decode("utf-8", "replace") if isinstance(word, bytes) else word for word in y.tolist()]
    return x, [plain(word) for word in words]


def _read_csv(path: Path) -> Table:
    lines = re.split("\r\n|\n|\r", _text(path))
    while lines and not lines[-1].strip():
        lines.pop()  # the end of the last line, and of the file
    if not lines:
        return Table(path, {}, [])
    skipped = 0
    delimiter = max(_DELIMITERS, key=_QUOTED.sub("", lines[0]).count)
    if re.fullmatch("sep=.", lines[0].strip(), re.IGNORECASE):  # which spreadsheets write for each other
        delimiter, skipped = lines[0].strip()[-1], 1
    header, *rows = _rows(path, lines[skipped:], delimiter, skipped)
    names = [plain(name) for name in header[1]]
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise ScenarioError(f"{path}, line {header[0]} has columns of the same name: {', '.join(twice)}.")
    used: list[list[str]] = []
    numbers: list[int] = []
    for number, row in rows:
        cells = [plain(cell) for cell in row]
        if not any(cells):
            continue
        if len(cells) != len(names):
            raise ScenarioError(
                f"{path}, line {number}: expected {plural(len(names), 'cell')} as in the header. Got {len(cells)}."
            )
        used.append(cells)
        numbers.append(number)
    columns: dict[str, Cells] = {name: [row[i] for row in used] for i, name in enumerate(names)}
    return Table(path, columns, numbers, len(rows) - len(used))


def _text(path: Path) -> str:
    data = content_of(path)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ScenarioError(f"{path}, line 1: this is UTF-16 text, not UTF-8. Save it as UTF-8.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScenarioError(
            f"{path}, line {line}: not UTF-8 text ({error.reason} {data[error.start]:#04x}). Save the file as UTF-8."
        ) from error
    strange = _CONTROL.search(text)
    if strange:
        line = text.count("\n", 0, strange.start()) + 1
        raise ScenarioError(
            f"{path}, line {line}: holds the control character {ord(strange[0]):#04x}, which no table has. Is the "
            "file damaged, or not a CSV file?"
        )
    return text


def _rows(path: Path, lines: list[str], delimiter: str, skipped: int) -> list[tuple[int, list[str]]]:
    """The cells of each line with its number; every line is one row."""
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    rows: list[tuple[int, list[str]]] = []
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise ScenarioError(
                f"{path}, line {number + skipped}: {_explained(str(error), reader.line_num > number)}"
            ) from error
        if row is None:
            return rows
        if reader.line_num > number:
            raise ScenarioError(f"{path}, line {number + skipped}: {_explained('', True)}")
        rows.append((number + skipped, row))


def _explained(error: str, beyond_the_line: bool) -> str:
    if "field larger" in error:
        return f"a cell has more than {csv.field_size_limit():,} characters. Is a quote missing, or is the file not a table?"
    if beyond_the_line or "end of data" in error:
        return (
            "a quoted cell does not end on this line. Close the quote, or take line breaks out of the cell."
        )
    return f'a quote in the middle of a cell ({error}). Write it twice ("") or take it out.'


def _read_parquet(path: Path) -> Table:
    parquet = need("pyarrow.parquet", f"Reading {path}")
    try:
        table = parquet.read_table(path)
        columns = {str(name): _column(table.column(name).to_pylist()) for name in table.column_names}
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise ScenarioError(f"{path} cannot be read as Parquet: {error}.") from error
    if len(columns) != len(table.column_names):
        raise ScenarioError(f"{path} has columns of the same name: {list(table.column_names)}.")
    rows = len(next(iter(columns.values()), []))
    return Table(path, columns, range(1, rows + 1), unit="row")


def _column(values: Sequence[Any]) -> Cells:
    if all(value is None or isinstance(value, (bool, int, float)) for value in values):
        return np.asarray([np.nan if value is None else value for value in values], dtype=np.float64)
    return ["" if value is None else plain(str(value)) for value in values]
