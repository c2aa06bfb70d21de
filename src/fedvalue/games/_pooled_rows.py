"""Rows of clients as people have them: pairs of features and labels, frames, sparse matrices, texts; put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import as_array, expect_same_order
from fedvalue._text import shortened
from fedvalue.errors import GameError
from fedvalue.scenarios import Dataset, Scenario

__all__ = ["Rows", "clients_and_test", "pooled", "taken"]

_PAIR = (
    "a pair (x, y) of features and labels, an fv.Dataset, or a frame whose label column is named by label=…"
)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one party: features, an array, frame or sparse matrix with rows first, and labels."""

    x: Any
    y: NDArray[Any]

    def __len__(self) -> int:
        return len(self.y)


def clients_and_test(
    clients: Any, test: Any, label: str | None, names: Sequence[str] | None
) -> tuple[tuple[Rows, ...], Sequence[str] | None, Rows]:
    """The rows of every client, their names where they are known, and the test rows; all of one kind."""
    if isinstance(clients, Scenario):
        if test is not None or label is not None or names is not None:
            raise GameError(
                "A scenario has its own names, labels and test set. Leave out test, label and names."
            )
        clients.need_single("A game on pooled rows")
        clients, names, test = clients.clients, clients.names, clients.test
    if isinstance(clients, Mapping):
        names = list(clients) if names is None else names
        clients = clients.values()
    if isinstance(clients, (str, bytes)) or not isinstance(clients, Iterable) or _is_frame(clients):
        raise GameError(
            f"clients must be a list, one entry per client, each {_PAIR}. Got a {type(clients).__name__}."
        )
    if test is None:
        raise GameError(f"A game on pooled rows needs test rows: test={_PAIR}.")
    of_test = _rows(test, label, "the test set")
    called = [
        f"client {place if name is None else repr(str(name))}" for place, name in _numbered(clients, names)
    ]
    parties = [_rows(rows, label, whose) for rows, whose in zip(clients, called, strict=False)]
    if not len(of_test):
        raise GameError("The test set is empty. Without test rows no coalition can be measured.")
    if not sum(map(len, parties)):
        raise GameError("No client has any rows. At least one must have some to fit an estimator to.")
    return (
        tuple(_fitted(rows, of_test, whose) for rows, whose in zip(parties, called, strict=True)),
        names,
        of_test,
    )


def pooled(parties: Sequence[Rows]) -> Rows:
    """All rows, one party after the other. Parties without rows are left out: they may lack types of columns."""
    held = [rows for rows in parties if len(rows)]
    if len(held) == 1:
        return held[0]
    return Rows(_joined([rows.x for rows in held]), np.concatenate([rows.y for rows in held]))


def taken(x: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of features."""
    return x.iloc[rows] if _is_frame(x) else x[rows]


def _joined(parts: Sequence[Any]) -> Any:
    if _is_frame(parts[0]):
        import pandas

        return pandas.concat(parts, ignore_index=True)
    if _is_sparse(parts[0]):
        from scipy.sparse import vstack

        return vstack(parts, format="csr")
    return np.concatenate(parts)


def _numbered(clients: Any, names: Sequence[str] | None) -> list[tuple[int, str | None]]:
    count = len(clients)
    return [(place, name) for place, (name, _) in enumerate(zip_longest(names or [], range(count)))][:count]


def _rows(given: Any, label: str | None, whose: str) -> Rows:
    """Features and labels of one party, whatever it was given as."""
    if isinstance(given, Dataset):
        x, y = given.x.reshape(len(given), -1) if given.x.ndim > 2 and len(given) else given.x, given.y
    elif _is_frame(given):
        if label is None:
            raise GameError(
                f"{whose} is a frame. Name its label column: label='outcome', or give a pair (x, y)."
            )
        _check_names(given, whose)
        if label not in given.columns:
            columns = shortened(", ".join(map(str, given.columns)), 200)
            raise GameError(f"The frame of {whose} has no column {label!r}. Columns: {columns}.")
        x, y = given.drop(columns=label), given[label]
    elif isinstance(given, (tuple, list)) and len(given) == 2:
        x, y = given
    else:
        raise GameError(f"{whose} must be {_PAIR}. Got a {type(given).__name__}.")
    expect_same_order(x, y, whose, GameError)
    labels = as_array(y, f"The labels of {whose}", error=GameError)
    features = _features(x, whose)
    if labels.ndim != 1 or features.shape[0] != len(labels):
        raise GameError(
            f"Features and labels of {whose} must have one row per sample, labels a single column. Got shapes "
            f"{features.shape} and {labels.shape}."
        )
    missing = labels != labels if labels.dtype.kind in "fO" else np.zeros(0, bool)
    if np.any(missing) or (labels.dtype == object and any(item is None for item in labels)):
        raise GameError(f"Labels of {whose} are missing (NaN or None). Leave these rows out.")
    return Rows(features, labels)


def _check_names(frame: Any, whose: str) -> None:
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise GameError(
            f"The frame of {whose} has several columns called {shortened(', '.join(twice), 200)}. Names of columns must be "
            "different texts."
        )


def _features(x: Any, whose: str) -> Any:
    if _is_frame(x):
        _check_names(x, whose)
        return x.reset_index(drop=True)
    if _is_sparse(x):
        return x.tocsr()
    if isinstance(x, (Mapping, tuple)):
        raise GameError(
            f"The features of {whose} are several inputs. An estimator of scikit-learn takes one."
        )
    array = as_array(x, f"The features of {whose}", error=GameError)
    return array.astype(object) if array.dtype.kind in "US" else array  # texts of any length, side by side


def _fitted(rows: Rows, test: Rows, whose: str) -> Rows:
    """The rows as those of the test set are: the same kind, and columns in the same order."""
    if not len(rows):
        return rows
    kinds = [(_is_frame(x), _is_sparse(x)) for x in (rows.x, test.x)]
    if kinds[0] != kinds[1]:
        raise GameError(
            f"All features must be of one kind. Those of {whose} are a {type(rows.x).__name__}, those of the test set "
            f"a {type(test.x).__name__}."
        )
    if not _is_frame(test.x):
        if rows.x.shape[1:] != test.x.shape[1:]:
            raise GameError(
                f"All clients must have features of one shape. The test set has {test.x.shape[1:]}, {whose} has "
                f"{rows.x.shape[1:]}."
            )
        return rows
    differing = set(rows.x.columns) ^ set(test.x.columns)
    if differing:
        raise GameError(
            f"All frames must have the same columns. Those of {whose} and of the test set differ in "
            f"{shortened(', '.join(sorted(map(str, differing))), 200)}."
        )
    return Rows(rows.x[list(test.x.columns)], rows.y)


def _is_frame(x: object) -> bool:
    return hasattr(x, "iloc") and hasattr(x, "columns")


def _is_sparse(x: object) -> bool:
    from scipy.sparse import issparse

    return bool(issparse(x))
