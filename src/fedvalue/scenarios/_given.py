"""Scenarios of data that are in memory: arrays, data frames, data sets of torch or Hugging Face.

Labels and columns are read by the rules of a folder (docs/own-data.md). Arrays are taken as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import as_array, expect_same_order
from fedvalue._text import plural
from fedvalue.errors import ScenarioError
from fedvalue.scenarios._base import Scenario
from fedvalue.scenarios._build import FEW_ROWS, Ask, ScenarioEntry, assemble
from fedvalue.scenarios._checks import unknown
from fedvalue.scenarios._dataset import CLASSIFICATION, OWN, REGRESSION, Dataset
from fedvalue.scenarios._examine import understood
from fedvalue.scenarios._frames import sheets_of_frames
from fedvalue.scenarios._held_out import BY_CLIENT, by_client
from fedvalue.scenarios._labels import Labels, labelled
from fedvalue.scenarios._pooled import pooled
from fedvalue.scenarios._readings import plain
from fedvalue.scenarios._sheets import Refused
from fedvalue.scenarios._tables import Cells, Table
from fedvalue.scenarios._wanted import Wanted
from fedvalue.scenarios._ways import Choices

__all__ = ["from_arrays", "from_datasets", "from_frames"]

_TEST = "the test set"
_LABELS = ("label", "labels")


def from_frames(
    frames: Any, *, label: str, test: Any, client: str | None, name: str, **options: Any
) -> Scenario:
    """See `Scenario.from_frames`."""
    known = [p for p in signature(Wanted.of).parameters if p != "label"]
    for option in options:
        if option not in known:
            raise unknown("option", option, known)
    tested_by_client = isinstance(test, str)
    if tested_by_client and test != BY_CLIENT:
        raise unknown("test", test, [BY_CLIENT])
    wanted = Wanted.of(label=label, **options)
    sheets = sheets_of_frames(frames, None if tested_by_client else test, client, label, not tested_by_client)
    found = understood(sheets, wanted, Refused())
    refused = found.report.refused
    if refused:
        more = f" {len(refused) - 1} more: {' '.join(refused[1:4])}" if len(refused) > 1 else ""
        raise ScenarioError(refused[0] + more)
    entry = ScenarioEntry(
        name,
        lambda ask: pooled(found, ask.by_client, {}, name),
        "data frames",
        ("client",),
        partition="client",
        natural="client",
        training=FEW_ROWS,
    )
    return assemble(entry, Ask(None, by_client=tested_by_client), "client", {})


def from_arrays(
    clients: Any,
    *,
    test: Any,
    names: Sequence[str] | None = None,
    task: str | None = None,
    classes: int | Sequence[str] | None = None,
    vocabulary: int = 0,
    test_parts: Mapping[str, Any] | None = None,
    name: str = "arrays",
) -> Scenario:
    """See `Scenario.from_arrays`."""
    pairs = _named(clients, names)
    tested_by_client = isinstance(test, str)
    if tested_by_client and test != BY_CLIENT:
        raise unknown("test", test, [BY_CLIENT])
    whose = {**pairs, **({} if tested_by_client else {_TEST: test})}
    rows = {who: _pair(given, who, one_column=task != OWN) for who, given in whose.items()}
    _refuse_other_columns({who: x for who, (x, _) in rows.items()})
    labels = _labels(rows, len(pairs), task, classes)
    warnings = [f"{tuple(rows)[place]}: {what}." for place, what in labels.of_files]
    warnings += [f"{what}." for what in labels.findings]
    data = [Dataset(x, y) for (x, _), y in zip(rows.values(), labels.y, strict=True)]
    scenario = Scenario(
        name,
        tuple(data[: len(pairs)]),
        tuple(pairs),
        data[-1],
        OWN if task == OWN else CLASSIFICATION if labels.names else REGRESSION,
        len(labels.names),
        vocabulary,
        test_parts or {},
        details={
            **({"class_names": list(labels.names)} if labels.names else {}),
            **({"warnings": warnings} if warnings else {}),
        },
    )
    return by_client(scenario) if tested_by_client else scenario


def from_datasets(
    clients: Any,
    *,
    test: Any,
    label: str | None,
    features: str | Sequence[str] | None,
    **options: Any,
) -> Scenario:
    """See `Scenario.from_datasets`."""
    known = [p for p in signature(from_arrays).parameters if p not in ("clients", "test")]
    for option in options:
        if option not in known:
            raise unknown("option", option, ["label", "features", *known])
    named = _named(clients, options.pop("names", None))
    chosen = [features] if isinstance(features, str) else None if features is None else list(features)
    pairs = {who: _rows_of(data, label, chosen, who) for who, data in named.items()}
    tested = test if isinstance(test, str) else _rows_of(test, label, chosen, _TEST)
    return from_arrays(pairs, test=tested, **options)


def _named(clients: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """What was given for each client, by its name."""
    if isinstance(clients, Mapping):
        if names is not None:
            raise ScenarioError("The clients have names already, as keys of the dict. Leave names=… out.")
        clients, names = list(clients.values()), list(clients)
    if not isinstance(clients, (list, tuple)) or not clients:
        what = "nothing in it" if isinstance(clients, (list, tuple)) else f"a {type(clients).__name__}"
        raise ScenarioError(
            f"Clients are a list with an entry for each, or a dict by their names. Got {what}."
        )
    if isinstance(names, set | frozenset):
        raise ScenarioError(f"names must be a list, in the order of the clients. Got {names!r:.60}.")
    called = [f"client-{i}" for i in range(len(clients))] if names is None else [str(name) for name in names]
    if len(called) != len(clients) or len(set(called)) != len(called):
        raise ScenarioError(
            f"Names must be {plural(len(clients), 'different text')}, one per client. Got {len(called)}: {called[:12]}."
        )
    return dict(zip(called, clients, strict=True))


def _pair(given: Any, who: str, one_column: bool) -> tuple[Any, NDArray[Any]]:
    """Features and labels of one client; sparse matrices are filled up. `one_column`: labels in one are one for each row."""
    if isinstance(given, Dataset):
        return given.x, given.y
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        what = f"{len(given)} entries" if isinstance(given, (tuple, list)) else f"a {type(given).__name__}"
        raise ScenarioError(f"Rows of {who} are given as (features, labels). Got {what}.")
    x, y = given
    expect_same_order(x, y, who, ScenarioError)
    x = x.toarray() if hasattr(x, "toarray") else x
    y = as_array(y, f"The labels of {who}", error=ScenarioError)
    return x, y.reshape(-1) if one_column and y.ndim == 2 and y.shape[1] == 1 else y


def _refuse_other_columns(features: Mapping[str, Any]) -> None:
    """Frames are taken as arrays: columns of the same names have to stand in one order."""
    columns = {who: list(map(str, x.columns)) for who, x in features.items() if hasattr(x, "iloc")}
    first = next(iter(columns), "")
    for who, names in columns.items():
        if names != columns[first]:
            raise ScenarioError(
                f"Frames given as arrays must have the same columns in the same order. {first} has "
                f"{', '.join(columns[first][:6])}; {who} has {', '.join(names[:6])}. fv.Scenario.from_frames goes by their names."
            )


def _labels(
    rows: Mapping[str, tuple[Any, NDArray[Any]]],
    clients: int,
    task: str | None,
    classes: int | Sequence[str] | None,
) -> Labels:
    """Classes or targets, by the rules of a folder; classes that are given keep their numbers. Those of a task of one's own
    are what they are."""
    if task == OWN:
        if classes is not None:
            raise ScenarioError(
                "The labels of a task of your own are what you make of them: leave classes=… out."
            )
        return Labels([y for _, y in rows.values()], ())
    several = next((who for who, (_, y) in rows.items() if y.ndim != 1), None)
    if several is not None:
        return _several_a_row(rows, several, task, classes)
    known = (
        () if classes is None else tuple(map(str, range(classes) if isinstance(classes, int) else classes))
    )
    tables = [
        Table(Path(), {"label": _cells(y, who)}, range(1, len(y) + 1), unit="row", called=who)
        for who, (_, y) in rows.items()
    ]
    chosen = CLASSIFICATION if known else task
    return labelled(
        "label",
        tables,
        clients,
        task=chosen,
        exact=False,
        choices=Choices(),
        habits=[None] * len(tables),
        fixed=known,
    )


def _several_a_row(
    rows: Mapping[str, tuple[Any, NDArray[Any]]],
    who: str,
    task: str | None,
    classes: int | Sequence[str] | None,
) -> Labels:
    """A label for every token or pixel, or an image for an image: nothing about them is decided here."""
    if classes is None and task != REGRESSION:
        raise ScenarioError(
            f"Labels of {who} have the shape {rows[who][1].shape}: several a row. Say how many classes there are "
            "(classes=…), or task='regression', or task='own' where loss and metric are yours."
        )
    names = (
        () if classes is None else tuple(map(str, range(classes) if isinstance(classes, int) else classes))
    )
    return Labels([y for _, y in rows.values()], names)


def _cells(y: NDArray[Any], who: str) -> Cells:
    if y.dtype.kind in "fiub":
        return y.astype(np.float64)
    if y.dtype.kind in "US" or (y.dtype.kind == "O" and all(isinstance(word, str) for word in y.tolist())):
        return [
            plain(word.decode("utf-8", "replace") if isinstance(word, bytes) else word) for word in y.tolist()
        ]
    raise ScenarioError(f"Labels must be numbers or texts. Those of {who} are of the type {y.dtype}.")


def _rows_of(data: Any, label: str | None, features: list[str] | None, who: str) -> tuple[Any, Any]:
    """All rows of a data set, as features and labels."""
    if hasattr(data, "column_names") and hasattr(data, "with_format"):
        return _columns_of(data, label, features, who)
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise ScenarioError(
            f"The data set of {who} must have a length and rows by number (torch's map-style data sets, Hugging Face's "
            f"Dataset). Got a {type(data).__name__}. Streams have to be read into one first."
        )
    items = [data[i] for i in range(len(data))]
    if not items:
        raise ScenarioError(
            f"The data set of {who} is empty, so that nobody knows the shape of its rows. Leave it out."
        )
    if isinstance(items[0], Mapping):
        label, features = _chosen(list(items[0]), label, features, who)
        columns = {
            key: _stacked([item[key] for item in items], f"{key} of {who}") for key in (*features, label)
        }
        return _tree(columns, features), columns[label]
    if not isinstance(items[0], (tuple, list)) or len(items[0]) != 2:
        raise ScenarioError(
            f"A row of the data set of {who} must be (features, label), or a dict of columns. Got a {type(items[0]).__name__}."
        )
    x, y = zip(*items, strict=True)
    return _stacked(x, f"The features of {who}"), _stacked(y, f"The labels of {who}")


def _columns_of(data: Any, label: str | None, features: list[str] | None, who: str) -> tuple[Any, Any]:
    """The same of a Hugging Face Dataset, column by column."""
    label, features = _chosen(list(data.column_names), label, features, who)
    columns = {key: _stacked(data[key][:], f"{key} of {who}") for key in (*features, label)}
    return _tree(columns, features), columns[label]


def _chosen(
    columns: list[str], label: str | None, features: list[str] | None, who: str
) -> tuple[str, list[str]]:
    found = label if label is not None else next((name for name in _LABELS if name in columns), None)
    if found is None:
        raise ScenarioError(
            f"Which column of {who} is to be predicted? Name it: label=COLUMN. Columns: {', '.join(columns)}."
        )
    wanted = [name for name in columns if name != found] if features is None else features
    for name in (found, *wanted):
        if name not in columns:
            raise unknown("column", name, columns)
    if not wanted:
        raise ScenarioError(f"The data set of {who} has no column besides the label {found!r}.")
    return found, wanted


def _stacked(values: Sequence[Any], what: str) -> NDArray[Any]:
    rows = [as_array(value, what, error=ScenarioError) for value in values]
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        shown = " and ".join(map(str, sorted(shapes)[:2]))
        raise ScenarioError(f"{what} must have one shape in all rows. Got {shown}. Pad or resize them first.")
    return np.stack(rows) if rows else np.zeros(0)


def _tree(columns: Mapping[str, NDArray[Any]], features: list[str]) -> Any:
    """The features as the model gets them: an array, or a dict of arrays where columns hold more than single numbers."""
    for name in features:
        if columns[name].dtype.kind not in "fiub":
            raise ScenarioError(
                f"The column {name!r} holds {columns[name].dtype}, not numbers. Turn it into numbers first (texts: with the "
                "tokenizer of the model), name others (features=…), or use fv.Scenario.from_frames, which reads tables."
            )
    if len(features) > 1 and all(columns[name].ndim == 1 for name in features):
        return np.stack([columns[name] for name in features], axis=1)
    return columns[features[0]] if len(features) == 1 else {name: columns[name] for name in features}
