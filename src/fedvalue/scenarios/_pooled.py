"""What was understood of one's own data, as a pool: columns become features, learnt from the rows in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.scenarios._build import Parts, Pool
from fedvalue.scenarios._columns import Column
from fedvalue.scenarios._examine import Examined
from fedvalue.scenarios._fixed import FixedColumn, Preprocessing
from fedvalue.scenarios._partition import Rows
from fedvalue.scenarios._scale import Scale, common_scale
from fedvalue.scenarios._tables import texts
from fedvalue.scenarios._wanted import Wanted
from fedvalue.scenarios._words import ids_of, tokens, vocabulary_of

__all__ = ["pooled"]


def pooled(found: Examined, by_client: bool, details: Mapping[str, Any], name: str = "files") -> Pool:
    """The rows of all tables, and how they become features; `found` refuses nothing."""
    wanted, fixed = found.wanted, found.wanted.fixed
    tables = [*found.clients, *found.tests]
    clients = len(found.clients)
    owner = np.repeat(np.arange(len(tables)), [len(part) for part in found.labels.y])
    first = int(np.sum(owner < clients))  # training rows come first
    y = np.concatenate(found.labels.y)
    groups = [table.name[len("test-") :] if by_client else table.name for table in tables]
    written = [] if wanted.text is None else [c for t in tables for c in texts(t.columns[wanted.text])]
    columns = [(c, np.concatenate(c.values)) for c in found.columns if c.values]
    learnt: dict[str, Any] = {}  # complete once the rows are encoded

    def encode(rows: Rows, test_rows: Rows) -> tuple[NDArray[Any], NDArray[Any], int]:
        both = np.concatenate([rows, first + test_rows])
        words = [tokens(written[row]) for row in both] if written else []
        if fixed is not None:
            ways = [fixed.column(column.report.name) for column in found.columns]
        elif written:
            known = vocabulary_of(words[: len(rows)], wanted.words)
            ways = [FixedColumn(str(wanted.text), "text", tuple(known), length=wanted.length)]
        else:
            ways = [_learnt(*column, owner, rows, both, wanted) for column in columns]
        report = found.report
        learnt.update(
            Preprocessing(
                report.label, report.task, found.labels.names, tuple(ways), wanted.standardise
            ).to_plain()
        )
        if found.arrays is not None:
            features = found.arrays[both]
        elif written:
            numbers = {word: place for place, word in enumerate(ways[0].levels, start=2)}
            features = ids_of(words, numbers, ways[0].length)
        else:
            blocks = [_encoded(way, values[both]) for way, (_, values) in zip(ways, columns, strict=True)]
            features = np.concatenate(blocks, axis=1).astype(np.float32)
        vocabulary = len(ways[0].levels) + 2 if written else 0
        return features[: len(rows)], features[len(rows) :], vocabulary

    return Pool(
        name,
        y[:first],
        y[first:],
        encode,
        classes=len(found.labels.names),
        natural=lambda: Parts(
            [np.flatnonzero(owner == i) for i in range(clients)], [table.name for table in found.clients]
        ),
        test_groups=np.asarray([groups[i] for i in owner[first:]], dtype=np.str_)
        if len(found.tests) > 1 or by_client
        else None,
        tests_of_clients=by_client and bool(found.tests),
        details={
            **details,
            **({"class_names": list(found.labels.names)} if found.labels.names else {}),
            "preprocessing": learnt,
        },
        target_scale=None if fixed is None else fixed.target,
        report=found.report,
    )


def _learnt(
    column: Column, values: NDArray[np.float64], owner: Rows, rows: Rows, both: Rows, wanted: Wanted
) -> FixedColumn:
    """What the clients' rows in use say about a column: their common scale, and the usual number."""
    report = column.report
    if column.levels:
        return FixedColumn(report.name, "category", column.levels)
    parts = [values[rows[owner[rows] == client]] for client in np.unique(owner[rows])]
    parts = [part[~np.isnan(part)] for part in parts]
    test = values[both[len(rows) :]]
    scale = common_scale(parts, test[~np.isnan(test)]) if wanted.standardise else Scale()
    usual = _usual([part for part in parts if len(part)], wanted.choices.impute)
    return FixedColumn(report.name, report.kind, (), report.features > 1, scale.centre, scale.spread, usual)


def _usual(parts: Sequence[NDArray[np.float64]], impute: str) -> float:
    """What missing cells get: of medians or means the median over clients, so that none can move what others get."""
    if impute == "zero" or not parts:
        return 0.0
    return float(np.median([np.mean(part) if impute == "mean" else np.median(part) for part in parts]))


def _encoded(way: FixedColumn, wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """The features of a column: categories one-hot, numbers on the common scale, missing ones marked."""
    if way.kind == "category":
        return np.asarray(wanted[:, None] == np.arange(len(way.levels)), np.float64)
    absent = np.isnan(wanted)
    numbers = way.scale.scaled(np.where(absent, way.usual, wanted))
    return np.stack([numbers, *([absent.astype(np.float64)] if way.marked else [])], axis=1)
