"""A user's own folder: one CSV, Parquet or NPZ file per client, and a test set.

    hospitals/
      aachen.csv  bonn.csv  cologne.csv      one file per client; the name of the file is its name
      test.csv                               the test set; or several test-….csv, each a part measured by itself;
                                             or, tested by client, none

Tables (CSV with a header, Parquet) must have the same columns; `label` names the one to predict. NPZ files
hold the arrays `x` (rows first; images too) and `y`. A file without rows is a client without data.

Every row is used, or nothing is: what cannot be understood is refused by file and line, and what was decided is in
the report. Types, classes, categories and scales come from the clients' rows only. All rules: docs/own-data.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._build import Ask, Parts, Pool
from fedvalue.scenarios._checks import flag, unknown
from fedvalue.scenarios._columns import Column
from fedvalue.scenarios._examine import Examined, examine
from fedvalue.scenarios._fixed import FixedColumn, Preprocessing
from fedvalue.scenarios._held_out import is_by_client
from fedvalue.scenarios._partition import Rows
from fedvalue.scenarios._report import DataReport
from fedvalue.scenarios._scale import Scale, common_scale
from fedvalue.scenarios._sources import sha256
from fedvalue.scenarios._tables import stem
from fedvalue.scenarios._ways import Choices

__all__ = ["build", "check_folder"]

_LABELS = ("same", "exact")
_DECIMALS = {".": ".", ",": ",", "point": ".", "comma": ","}
_DATES = ("day-first", "month-first")


def build(
    ask: Ask,
    *,
    folder: str | PathLike[str] | None = None,
    label: str | None = None,
    task: str | None = None,
    standardise: bool = True,
    drop: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    decimal: str | None = None,
    dates: str | None = None,
    missing: Any = (),
    labels: str = "same",
    preprocessing: Any = None,
) -> Pool:
    """The clients of a folder (`folder`, else the data folder).

    `drop` leaves columns out, `keep` uses them although they look like identifiers or free text. `decimal` ("," or
    ".") and `dates` ("day-first", "month-first") decide what cells alone do not; `missing` are further words
    for nothing, such as -999. `labels="exact"` makes every spelling of a label a class of its own. `preprocessing` is what
    was learnt from these or other clients before, in a file or as a scenario's details have it: nothing is learnt then.
    """
    fixed = None if preprocessing is None else Preprocessing.read(preprocessing)
    if fixed is not None:
        label, task = _agreed("label", label, fixed.label), _agreed("task", task, fixed.task)
    where = folder if folder is not None else ask.data_dir
    if where is None:
        raise ScenarioError("Which folder? Give the one with a file per client: folder=…, or --data-dir.")
    found = examine(
        Path(where).expanduser(),
        label,
        task,
        _listed(drop),
        _choices(keep, decimal, dates, missing),
        _exact(labels),
        ask.by_client,
        fixed,
    )
    refused = found.report.refused
    if refused:
        more = f" ({len(refused) - 1} more refused: fedvalue data check {where})" if len(refused) > 1 else ""
        raise ScenarioError(refused[0] + more)
    clients = len(found.clients)
    if ask.clients is not None and ask.clients != clients:
        raise ScenarioError(
            f"{where} has {clients} client files. Got clients={ask.clients}. Leave the number out."
        )
    return _pool(
        found, fixed.standardise if fixed else flag("standardise", standardise), ask.by_client, fixed
    )


def _agreed(what: str, given: str | None, fixed: str) -> str:
    if given not in (None, fixed):
        raise ScenarioError(
            f"The preprocessing fixes {what}={fixed}. Got {given!r}. Leave it out, or say the same."
        )
    return fixed


def check_folder(
    folder: str | PathLike[str],
    *,
    label: str | None = None,
    task: str | None = None,
    drop: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    decimal: str | None = None,
    dates: str | None = None,
    missing: Any = (),
    labels: str = "same",
    standardise: bool = True,
    test: str | None = None,
) -> DataReport:
    """What fedvalue makes of a folder: rows, columns, what was done, what is suspicious, what is refused.

    Options are those of the scenario `files`, and `test` that of `load_scenario`. Whatever is wrong with the data is in
    the report; nothing is raised but for impossible options.
    """
    flag("standardise", standardise)  # changes nothing that is reported
    choices = _choices(keep, decimal, dates, missing)
    return examine(
        Path(folder).expanduser(), label, task, _listed(drop), choices, _exact(labels), is_by_client(test)
    ).report


def _choices(keep: Any, decimal: str | None, dates: str | None, missing: Any) -> Choices:
    if decimal is not None and decimal not in _DECIMALS:
        raise unknown("decimal", decimal, _DECIMALS)
    if dates is not None and dates not in _DATES:
        raise unknown("order of dates", dates, _DATES)
    words = frozenset(word.lower() for word in _listed(missing))
    return Choices(frozenset(_listed(keep)), None if decimal is None else _DECIMALS[decimal], dates, words)


def _exact(labels: str) -> bool:
    if labels not in _LABELS:
        raise unknown("way of reading labels", labels, _LABELS)
    return labels == "exact"


def _listed(given: Any) -> list[str]:
    """Names, from a sequence or from a text with commas."""
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return [str(part) for part in (given if isinstance(given, (list, tuple, set, frozenset)) else [given])]


def _pool(found: Examined, standardise: bool, by_client: bool, fixed: Preprocessing | None) -> Pool:
    clients, files = len(found.clients), [*found.clients, *found.tests]
    owner = np.repeat(np.arange(len(files)), [len(part) for part in found.labels.y])
    first = int(np.sum(owner < clients))  # training rows come first
    y = np.concatenate(found.labels.y)
    groups = [stem(path)[len("test-") :] if by_client else stem(path) for path in files]
    columns = [(column, np.concatenate(column.values)) for column in found.columns]
    learnt: dict[str, Any] = {}  # complete once the rows are encoded

    def encode(rows: Rows, test_rows: Rows) -> tuple[NDArray[Any], NDArray[Any], int]:
        both = np.concatenate([rows, first + test_rows])
        ways = [
            fixed.column(column.report.name)
            if fixed
            else _learnt(column, values, owner, rows, both, standardise)
            for column, values in columns
        ]
        report = found.report
        learnt.update(
            Preprocessing(report.label, report.task, found.labels.names, tuple(ways), standardise).to_plain()
        )
        if found.images is not None:
            features = found.images[both]
        else:
            blocks = [_encoded(way, values[both]) for way, (_, values) in zip(ways, columns, strict=True)]
            features = np.concatenate(blocks, axis=1).astype(np.float32)
        return features[: len(rows)], features[len(rows) :], 0

    return Pool(
        "files",
        y[:first],
        y[first:],
        encode,
        classes=len(found.labels.names),
        natural=lambda: Parts(
            [np.flatnonzero(owner == i) for i in range(clients)], [stem(path) for path in found.clients]
        ),
        test_groups=np.asarray([groups[i] for i in owner[first:]], dtype=np.str_)
        if len(found.tests) > 1 or by_client
        else None,
        tests_of_clients=by_client and bool(found.tests),
        details={
            "sources": {path.name: sha256(path.read_bytes()) for path in files},
            **({"class_names": list(found.labels.names)} if found.labels.names else {}),
            "preprocessing": learnt,
        },
        target_scale=None if fixed is None else fixed.target,
        report=found.report,
    )


def _learnt(
    column: Column, values: NDArray[np.float64], owner: Rows, rows: Rows, both: Rows, standardise: bool
) -> FixedColumn:
    """What the clients' rows in use say about a column: their common scale, and the usual number."""
    report = column.report
    if column.levels:
        return FixedColumn(report.name, "category", column.levels)
    parts = [values[rows[owner[rows] == client]] for client in np.unique(owner[rows])]
    parts = [part[~np.isnan(part)] for part in parts]
    test = values[both[len(rows) :]]
    scale = common_scale(parts, test[~np.isnan(test)]) if standardise else Scale()
    # A median of medians: no client can move what others get for their missing cells.
    usual = (
        float(np.median([np.median(part) for part in parts if len(part)])) if any(map(len, parts)) else 0.0
    )
    return FixedColumn(report.name, report.kind, (), report.features > 1, scale.centre, scale.spread, usual)


def _encoded(way: FixedColumn, wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """The features of a column: categories one-hot, numbers on the common scale, missing ones marked."""
    if way.kind == "category":
        return np.asarray(wanted[:, None] == np.arange(len(way.levels)), np.float64)
    absent = np.isnan(wanted)
    numbers = way.scale.scaled(np.where(absent, way.usual, wanted))
    return np.stack([numbers, *([absent.astype(np.float64)] if way.marked else [])], axis=1)
