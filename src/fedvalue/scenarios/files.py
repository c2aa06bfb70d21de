"""A user's own folder: one CSV, Parquet or NPZ file per client, and a test set.

    hospitals/
      aachen.csv  bonn.csv  cologne.csv      one file per client; the name of the file is its name
      test.csv                               the test set; or test-*.csv, each a part measured by itself

Tables (CSV with a header, Parquet) must have the same columns; `label` names the one to predict. NPZ files
hold the arrays `x` (rows first; images too) and `y`. A file without rows is a client without data.

Everything is learnt from the clients' rows only: classes, categories, means and spreads.
- A column is numeric when all its training cells are numbers; otherwise it is one-hot encoded (an empty
  cell is a category too, and one that only the test set has is all zeros). Missing numbers are refused.
- The task is a classification when labels are texts, or whole numbers with at most 20 different values;
  otherwise a regression. `task=` overrules this.
- Numeric features are standardised (`standardise=False`: left alone; so are images). Targets are not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._base import CLASSIFICATION, REGRESSION
from fedvalue.scenarios._build import Ask, Parts, Pool
from fedvalue.scenarios._checks import flag, unknown
from fedvalue.scenarios._encode import Columns, Encoder
from fedvalue.scenarios._partition import Rows
from fedvalue.scenarios._sources import sha256
from fedvalue.scenarios._tables import SUFFIXES, Table, kind, numbers, read_npz, read_table, stem

__all__ = ["build"]

_MOST_CLASSES = 20  # whole numbers with more different values are taken for quantities
_MOST_CATEGORIES = 1000  # a text column with more is a name or a number of a record, not a feature
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_MISSING = ("", "nan", "na", "n/a", "<na>", "null")  # what programs write where there is nothing


def build(
    ask: Ask,
    *,
    folder: str | PathLike[str] | None = None,
    label: str | None = None,
    task: str | None = None,
    standardise: bool = True,
    drop: str | Sequence[str] = (),
) -> Pool:
    """The clients of a folder (`folder`, else the data folder); `drop` names columns to leave out."""
    where = folder if folder is not None else ask.data_dir
    if where is None:
        raise ScenarioError("Which folder? Give the one with a file per client: folder=…, or --data-dir.")
    clients, tests = _listed(Path(where).expanduser())
    if ask.clients is not None and ask.clients != len(clients):
        raise ScenarioError(
            f"{where} has {len(clients)} client files. Got clients={ask.clients}. Leave the number out."
        )
    paths = [*clients, *tests]
    if all(kind(path) == ".npz" for path in paths):
        columns, labels, sizes = _arrays(paths, label or "y")
    elif any(kind(path) == ".npz" for path in paths):
        raise ScenarioError(
            f"{where} mixes NPZ files with tables. Use NPZ for all clients and the test set, or for none."
        )
    else:
        columns, labels, sizes = _tables(paths, len(clients), label, drop)
    owner = np.repeat(np.arange(len(paths)), sizes)
    trains = owner < len(clients)
    if not trains.any():
        raise ScenarioError(f"No client file in {where} has any rows. At least one must have some.")
    y, names = _labelled(labels, trains, task, [paths[i] for i in owner[~trains]])
    return _pool(columns, y, names, owner, (clients, tests), flag("standardise", standardise))


def _pool(
    columns: Columns,
    y: NDArray[Any],
    class_names: list[str],
    owner: Rows,
    paths: tuple[list[Path], list[Path]],
    standardise: bool,
) -> Pool:
    clients, tests = paths
    first = int(np.sum(owner < len(clients)))  # training rows come first

    def encode(rows: Rows, test_rows: Rows) -> tuple[NDArray[Any], NDArray[Any], int]:
        mine = {name: values[rows] for name, values in columns.items()}
        other = {name: values[first + test_rows] for name, values in columns.items()}
        if list(columns) == ["x"] and columns["x"].ndim > 2:
            return mine["x"], other["x"], 0
        encoder = Encoder.fit(_flat(mine), standardise)
        return encoder(_flat(mine)), encoder(_flat(other)), 0

    digests = {path.name: sha256(path.read_bytes()) for path in (*clients, *tests)}
    return Pool(
        "files",
        y[:first],
        y[first:],
        encode,
        classes=len(class_names),
        natural=lambda: Parts(
            [np.flatnonzero(owner == i) for i in range(len(clients))], [stem(path) for path in clients]
        ),
        test_groups=np.asarray([stem(tests[i - len(clients)]) for i in owner[first:]], dtype=np.str_)
        if len(tests) > 1
        else None,
        details={"sources": digests, **({"class_names": class_names} if class_names else {})},
    )


def _flat(columns: Columns) -> Columns:
    """The columns of a matrix `x` one by one: they are standardised one by one."""
    if list(columns) != ["x"] or columns["x"].ndim == 1:
        return columns
    return {f"x{i}": values for i, values in enumerate(columns["x"].T)}


def _listed(folder: Path) -> tuple[list[Path], list[Path]]:
    """Client files and test files, in the order of their names (2 before 10)."""
    if not folder.is_dir():
        raise ScenarioError(f"There is no folder {folder}.")
    found = [p for p in folder.iterdir() if p.is_file() and kind(p) and not p.name.startswith(".")]
    found.sort(key=lambda p: [int(t) if t.isdecimal() else t.lower() for t in re.split(r"(\d+)", stem(p))])
    stems = [stem(path) for path in found]
    twice = sorted({name for name in stems if stems.count(name) > 1})
    if twice:
        raise ScenarioError(f"{folder} has several files of one name: {twice}. Keep one of each.")
    tests = [path for path in found if stem(path) == "test" or stem(path).startswith("test-")]
    clients = [path for path in found if path not in tests]
    if not clients:
        raise ScenarioError(
            f"{folder} has no client files. Expected one file per client ({', '.join(SUFFIXES)}) "
            "and a test set, test.csv for example."
        )
    if not tests:
        raise ScenarioError(f"{folder} has no test set. Put one beside the clients, test.csv for example.")
    return clients, tests


def _arrays(paths: list[Path], label: str) -> tuple[Columns, NDArray[Any], list[int]]:
    read = [read_npz(path, label) for path in paths]
    shape = read[0][0].shape[1:]
    for path, (x, y) in zip(paths, read, strict=True):
        if x.shape[1:] != shape:
            raise ScenarioError(
                f"All files must have features of one shape. {paths[0].name} has {shape}, "
                f"{path.name} has {x.shape[1:]}."
            )
        rows = np.flatnonzero(~_usable(x).all(axis=tuple(range(1, x.ndim))))
        if rows.size:
            raise ScenarioError(
                f"{path}, row {rows[0] + 1}: 'x' holds NaN, infinite numbers or some beyond float32."
            )
        _check_labels(path, label, y)
    x = np.concatenate([x.astype(np.float64) for x, _ in read])
    return {"x": x}, _merged([y for _, y in read]), [len(y) for _, y in read]


def _tables(
    paths: list[Path], clients: int, label: str | None, drop: str | Sequence[str]
) -> tuple[Columns, NDArray[Any], list[int]]:
    tables = [read_table(path) for path in paths]
    names = list(tables[0].columns)
    for table in tables:
        missing = [name for name in names if name not in table.columns]
        extra = [name for name in table.columns if name not in names]
        if missing or extra:
            raise ScenarioError(
                f"All files must have the same columns. {table.path.name} differs from {paths[0].name}: "
                f"missing {missing}, not expected {extra}."
            )
    if label is None:
        raise ScenarioError(f"Which column is to be predicted? Name it: label=…. There are {names}.")
    dropped = [part.strip() for part in drop.split(",")] if isinstance(drop, str) else list(drop)
    for name in (label, *dropped):
        if name not in names:
            raise unknown("column", name, names)
    features = [name for name in names if name != label and name not in dropped]
    if not features:
        raise ScenarioError(f"Besides the label {label!r} at least one column is needed.")
    for table in tables:
        _check_labels(table.path, label, table.columns[label])
    columns = {name: _feature(name, tables, clients) for name in features}
    return columns, _merged([table.columns[label] for table in tables]), [len(table) for table in tables]


def _feature(name: str, tables: Sequence[Table], clients: int) -> NDArray[Any]:
    """One column over all files: numbers if the training cells are, else texts."""
    parsed = [numbers(table.columns[name]) for table in tables]
    good = np.concatenate([np.isfinite(values) for values in parsed[:clients]])
    cells = [_texts(table.columns[name]) for table in tables]
    filled = ~_missing(np.concatenate(cells[:clients]))
    _refuse_decimal_commas(name, tables, cells)
    # Mostly numbers: the rest are missing or mistyped, and a category per number would hide it.
    if not good.size or 2 * good.sum() <= max(filled.sum(), 1):
        categories = len(np.unique(np.concatenate(cells[:clients])))
        if categories > _MOST_CATEGORIES:
            raise ScenarioError(
                f"Column {name!r} has {categories} different texts. If it names the records, leave it "
                f"out: drop={name!r}."
            )
        return np.concatenate(cells)
    for table, values, cell in zip(tables, parsed, cells, strict=True):
        bad = np.flatnonzero(~_usable(values))
        if bad.size:
            raise ScenarioError(
                f"{table.path}, row {bad[0] + 1}: column {name!r} holds numbers, but here {str(cell[bad[0]])!r}; "
                f"{bad.size} cells of this file are not numbers within the range of float32. Fill them or leave these rows out."
            )
    return np.concatenate(parsed)


def _refuse_decimal_commas(name: str, tables: Sequence[Table], cells: Sequence[NDArray[Any]]) -> None:
    for table, texts in zip(tables, cells, strict=True):
        written = [bool(_DECIMAL_COMMA.fullmatch(text)) for text in texts.tolist()]
        if texts.size and all(written):
            raise ScenarioError(
                f"{table.path}: column {name!r} holds numbers with a decimal comma, such as {str(texts[0])!r}. "
                "Write them with a point."
            )


def _usable(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Finite also as float32. One number beyond it would make the spread infinite and all others 0."""
    fine: NDArray[np.bool_] = np.abs(values) <= np.finfo(np.float32).max
    return fine


def _missing(texts: NDArray[Any]) -> NDArray[np.bool_]:
    """Cells that are empty, or say so."""
    return np.isin(np.char.lower(texts), _MISSING)


def _texts(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind != "f":
        return values
    return np.asarray(["" if np.isnan(v) else f"{v:.15g}" for v in values.tolist()], dtype=np.str_)


def _check_labels(path: Path, label: str, values: NDArray[Any]) -> None:
    absent = _missing(values) if values.dtype.kind != "f" else np.isnan(values)
    rows = np.flatnonzero(absent | np.isinf(numbers(values)))
    if rows.size:
        raise ScenarioError(
            f"{path}, row {rows[0] + 1}: the label {label!r} is missing or not finite, {str(values[rows[0]])!r}; "
            f"{rows.size} such rows in this file. Fill them or leave these rows out."
        )


def _merged(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Labels of all files: numbers if they are numbers everywhere, else texts."""
    parsed = [numbers(values) for values in parts]
    if all(np.isfinite(values).all() for values in parsed):
        return np.concatenate(parsed)
    return np.concatenate([_texts(values) for values in parts])


def _labelled(
    labels: NDArray[Any], trains: NDArray[np.bool_], task: str | None, test_paths: Sequence[Path]
) -> tuple[NDArray[Any], list[str]]:
    """Class numbers and class names, or float targets and no names."""
    known = np.unique(labels[trains])
    is_number = labels.dtype.kind == "f"
    if task is None:
        _check_mixture(known)
        whole = is_number and bool(np.all(known == np.rint(known)))
        task = CLASSIFICATION if not is_number or (whole and len(known) <= _MOST_CLASSES) else REGRESSION
    if task not in (CLASSIFICATION, REGRESSION):
        raise unknown("task", task, (CLASSIFICATION, REGRESSION))
    if task == REGRESSION:
        if not is_number:
            raise ScenarioError(f"A regression needs numbers as labels. Got {known[:5].tolist()}.")
        return labels, []
    names = [f"{value:.15g}" if is_number else str(value) for value in known]
    if len(known) == 1:
        raise ScenarioError(
            f"All training rows of all clients have the same label, {names[0]!r}. A classification needs "
            "at least two; for a regression say task=regression."
        )
    strange = np.flatnonzero(~np.isin(labels[~trains], known))
    if strange.size:
        value = labels[~trains][strange[0]].item()
        raise ScenarioError(
            f"{test_paths[strange[0]]} has the label {value!r}, which no client has ({names[:20]}); "
            f"{strange.size} such rows. Remove them, or add training data with this label."
        )
    return np.searchsorted(known, labels).astype(np.int64), names


def _check_mixture(known: NDArray[Any]) -> None:
    """Many numbers and some texts: targets with a slip of the pen rather than the names of classes."""
    good = np.isfinite(numbers(known))
    if good.sum() > _MOST_CLASSES and not good.all():
        raise ScenarioError(
            f"The labels are {good.sum()} different numbers, and texts such as {str(known[~good][0])!r}. "
            "Fix these rows, or set task=classification if each is a class."
        )
