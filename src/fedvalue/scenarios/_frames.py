"""Data frames as tables: pandas, and whatever turns itself into pandas (`to_pandas`)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fedvalue._checks import did_you_mean
from fedvalue._extras import need
from fedvalue._text import plural
from fedvalue.errors import ScenarioError
from fedvalue.scenarios._folder import in_order
from fedvalue.scenarios._readings import plain
from fedvalue.scenarios._sheets import Sheets
from fedvalue.scenarios._tables import Cells, Table, texts

__all__ = ["as_frame", "sheets_of_frames", "table_of"]

_WHAT = "A scenario made of data frames"


def as_frame(given: Any, whose: str) -> Any:
    """A pandas frame: as it is, or what `to_pandas` of another kind of table gives."""
    pandas = need("pandas", _WHAT)
    frame = (
        given.to_pandas()
        if not isinstance(given, pandas.DataFrame) and hasattr(given, "to_pandas")
        else given
    )
    if not isinstance(frame, pandas.DataFrame):
        raise ScenarioError(f"{whose} must be a data frame. Got a {type(given).__name__}.")
    return frame


def sheets_of_frames(frames: Any, test: Any, client: str | None, label: str, needs_test: bool) -> Sheets:
    """The frames of all clients, by name or by a column that names them, and those of the test set."""
    by_name = _by_column(frames, client) if client is not None else _by_name(frames)
    tests = {} if test is None else test if isinstance(test, Mapping) else {"test": test}
    if len(tests) == 1:
        tests = {"test": next(iter(tests.values()))}
    tables = [table_of(as_frame(frame, name), name) for name, frame in by_name.items()]
    for name, frame in tests.items():
        whole = as_frame(frame, f"The test set {name!r}")
        tables.append(
            table_of(whole if client is None else whole.drop(columns=client, errors="ignore"), str(name))
        )
    return Sheets("the data frames", tables, len(by_name), label, needs_test=needs_test, is_folder=False)


def table_of(frame: Any, name: str) -> Table:
    """The columns of a frame as cells; rows are called as its index calls them."""
    names = [str(column) for column in frame.columns]
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice or "" in names:
        what = f"several columns called {', '.join(twice)}" if twice else "a column without a name"
        raise ScenarioError(f"The frame of {name} has {what}. Names of columns must be different texts.")
    columns = {column: _cells(frame.iloc[:, i], column, name) for i, column in enumerate(names)}
    return Table(Path(), columns, frame.index.tolist(), unit="row", called=name)


def _by_name(frames: Any) -> dict[str, Any]:
    if not isinstance(frames, Mapping) or not frames:
        raise ScenarioError(
            "Which rows are whose? Give one frame and the column that names the clients (client=…), or a dict of frames by "
            f"client. Got {'an empty dict' if isinstance(frames, Mapping) else f'a {type(frames).__name__}'}."
        )
    return {str(name): frame for name, frame in frames.items()}


def _by_column(frames: Any, client: str) -> dict[str, Any]:
    """One frame in pieces, in the natural order of the clients' names (2 before 10)."""
    frame = as_frame(frames, "With client=…, the data")
    if client not in frame.columns:
        known = list(map(str, frame.columns))
        raise ScenarioError(
            f"There is no column {client!r} that names the clients. {did_you_mean(client, known)}Columns: {', '.join(known)}."
        )
    if frame.columns.tolist().count(client) > 1:
        raise ScenarioError(
            f"There are several columns called {client!r}. Rename all but the one that names the clients."
        )
    names = np.asarray(texts(_cells(frame[client], client, "all clients")))
    if (names == "").any():
        raise ScenarioError(
            f"The column {client!r} says nothing in {plural(int((names == '').sum()), 'row')}. Every row needs a client."
        )
    found = sorted(set(names.tolist()), key=lambda name: (in_order(name), name))
    twins = [(one, other) for one, other in pairwise(found) if one.casefold() == other.casefold()]
    if twins:
        raise ScenarioError(
            f"The column {client!r} has {twins[0][0]!r} and {twins[0][1]!r}: one client, or two? Spell it in one way, or give "
            "them names that differ in more than capital letters."
        )
    rest = frame.drop(columns=client)
    return {name: rest[names == name] for name in found}


def _cells(series: Any, column: str, whose: str) -> Cells:
    """Numbers as numbers; yes and no, dates and texts as one would write them; nothing as nothing."""
    types = need("pandas.api.types", _WHAT)
    absent = series.isna().to_numpy()
    if types.is_bool_dtype(series.dtype):
        return ["" if gone else "yes" if value else "no" for value, gone in zip(series, absent, strict=True)]
    if types.is_timedelta64_dtype(series.dtype):
        return np.asarray(series.dt.total_seconds() / 3600, np.float64)
    if types.is_complex_dtype(series.dtype):
        raise ScenarioError(
            f"Column {column!r} of {whose} holds complex numbers. Give real and imaginary part as columns."
        )
    if types.is_numeric_dtype(series.dtype):
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), np.float64)
    if types.is_datetime64_any_dtype(series.dtype):
        return ["" if gone else value.isoformat() for value, gone in zip(series, absent, strict=True)]
    cells = []
    for place, (value, gone) in enumerate(zip(series, absent, strict=True)):
        if not gone and isinstance(value, (list, tuple, set, dict, bytes, np.ndarray)):
            raise ScenarioError(
                f"{whose}, row {series.index[place]}: column {column!r} holds a {type(value).__name__}. Expected one number or "
                "text per cell. Arrays go into fv.Scenario.from_arrays or from_datasets."
            )
        cells.append("" if gone else plain(str(value)))
    return cells
