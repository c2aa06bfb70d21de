"""A folder from its files to columns and labels, with a report that has everything that was noticed on the way.

Whatever is wrong is collected, not only the first of it: one look shows all that has to be repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import did_you_mean
from fedvalue._text import plural, shortened
from fedvalue.errors import FedvalueError, MissingExtraError, ScenarioError
from fedvalue.scenarios._base import CLASSIFICATION, REGRESSION
from fedvalue.scenarios._checks import unknown
from fedvalue.scenarios._columns import Column, decided
from fedvalue.scenarios._findings import far_findings, row_findings
from fedvalue.scenarios._fixed import Preprocessing
from fedvalue.scenarios._folder import Folder, listed
from fedvalue.scenarios._labels import Labels, labelled
from fedvalue.scenarios._readings import is_nothing
from fedvalue.scenarios._report import ColumnReport, DataReport, PartyReport
from fedvalue.scenarios._tables import Table, kind, read_npz, read_table, stem, texts
from fedvalue.scenarios._ways import Choices, habit_of

__all__ = ["Examined", "examine"]

T = TypeVar("T")


@dataclass(frozen=True)
class Examined:
    """What was understood of a folder; complete where the report refuses nothing."""

    report: DataReport
    clients: list[Path] = field(default_factory=list)
    tests: list[Path] = field(default_factory=list)
    labels: Labels = field(default_factory=lambda: Labels([]))
    columns: list[Column] = field(default_factory=list)
    images: NDArray[Any] | None = None


class _Refused(list[str]):
    """What was refused so far."""

    def attempt(self, what: Callable[..., T], *given: Any, **named: Any) -> T | None:
        """The result, or None where something was refused."""
        try:
            return what(*given, **named)
        except MissingExtraError:
            raise
        except FedvalueError as error:
            self.append(str(error))
            return None


def examine(
    folder: Path,
    label: str | None,
    task: str | None,
    drop: Sequence[str],
    choices: Choices,
    exact: bool,
    by_client: bool = False,
    fixed: Preprocessing | None = None,
) -> Examined:
    """Reads all files of a folder and decides what they mean, as far as that is not `fixed`."""
    refused = _Refused()
    report = DataReport(str(folder), label or "")
    files = refused.attempt(listed, folder, by_client)
    if files is None:
        return Examined(replace(report, refused=tuple(refused)))
    paths = [*files.clients, *files.tests]
    arrays = [path for path in paths if kind(path) == ".npz"]
    if arrays and len(arrays) < len(paths):
        refused.append(
            f"{folder} mixes NPZ files with tables. Use NPZ for all clients and the test set, or for none."
        )
        return Examined(replace(report, refused=tuple(refused)))
    images: list[NDArray[Any]] = []
    if arrays:
        label = label or "y"
        tables = _arrays(paths, label, images, refused)
    else:
        read = [refused.attempt(read_table, path) for path in paths]
        tables = [table for table in read if table is not None]
    clients = sum(table.path in files.clients for table in tables)
    report = replace(
        report,
        label=label or "",
        parties=tuple(_party(table, files, choices) for table in tables),
        done=_ignored(files),
    )
    if not _enough(tables, clients, folder, refused, needs_test=bool(files.tests) or not by_client):
        return Examined(replace(report, refused=tuple(refused)))
    names = refused.attempt(_features, tables, label, drop, choices)
    if names is None or label is None:
        return Examined(replace(report, refused=tuple(refused)))
    if fixed is not None and not images:
        refused.attempt(fixed.check, names)
    if refused:
        return Examined(replace(report, refused=tuple(refused)))
    habits = [habit_of(table, [*names, label]) for table in tables]
    classes = () if fixed is None else fixed.classes
    labels = refused.attempt(
        labelled,
        label,
        tables,
        clients,
        task=task,
        exact=exact,
        choices=choices,
        habits=habits,
        fixed=classes,
    )
    if arrays:
        columns = [
            Column(ColumnReport(name, "number", 1), [np.asarray(t.columns[name]) for t in tables])
            for name in names
        ]
    else:
        decided_before = {name: None if fixed is None else fixed.column(name) for name in names}
        made = [
            refused.attempt(decided, name, tables, clients, choices, habits, decided_before[name])
            for name in names
        ]
        columns = [column for column in made if column is not None]
    report = _completed(report, tables, clients, columns, labels, images)
    return Examined(
        replace(report, refused=tuple(refused)),
        files.clients,
        files.tests,
        labels or Labels([]),
        columns,
        np.concatenate(images) if images else None,
    )


def _arrays(paths: Sequence[Path], label: str, images: list[NDArray[Any]], refused: _Refused) -> list[Table]:
    """NPZ files as tables, a column for each feature; arrays of more dimensions are kept as they are."""
    read = [(path, refused.attempt(read_npz, path, label)) for path in paths]
    tables = []
    shape: tuple[int, ...] | None = None
    for path, found in read:
        if found is None:
            continue
        x, y = found
        shape = x.shape[1:] if shape is None else shape
        if x.shape[1:] != shape:
            refused.append(
                f"All files must have features of one shape. {paths[0].name} has {shape}, "
                f"{path.name} has {x.shape[1:]}."
            )
            continue
        numbers = x.astype(np.float64)
        fine = np.abs(numbers) <= np.finfo(np.float32).max
        rows = np.flatnonzero(~fine.all(axis=tuple(range(1, x.ndim))))
        if rows.size:
            refused.append(
                f"{path}, row {rows[0] + 1}: 'x' holds NaN, infinite numbers or some beyond float32."
            )
            continue
        columns: dict[str, Any] = {label: y}
        if x.ndim > 2:
            images.append(numbers)
        else:
            columns |= {f"x{i}": values for i, values in enumerate(numbers.T)}
        tables.append(Table(path, columns, range(1, len(x) + 1), unit="row"))
    return tables


def _party(table: Table, files: Folder, choices: Choices) -> PartyReport:
    absent = sum(
        int(is_nothing(texts(cells), choices.missing).sum())
        if isinstance(cells, list)
        else int(np.isnan(cells).sum())
        for cells in table.columns.values()
    )
    findings = [f"{plural(table.blank, 'blank line')} passed over"] if table.blank else []
    findings += [] if len(table) else ["no rows"]
    is_test = table.path in files.tests
    return PartyReport(
        stem(table.path), table.path.name, len(table), table.blank, absent, is_test, findings=tuple(findings)
    )


def _ignored(files: Folder) -> tuple[str, ...]:
    if not files.ignored:
        return ()
    names = ", ".join(ascii(name)[1:-1] for name in files.ignored[:5])
    more = f" and {len(files.ignored) - 5} more" if len(files.ignored) > 5 else ""
    return (f"left aside, being no tables: {names}{more}",)


def _enough(tables: Sequence[Table], clients: int, folder: Path, refused: _Refused, needs_test: bool) -> bool:
    """Whether there are rows to look at on both sides; a file that could not be read explains why not."""
    trains, tests = (any(map(len, side)) for side in (tables[:clients], tables[clients:]))
    tests = tests or not needs_test
    if not refused and not trains:
        refused.append(f"No client file in {folder} has any rows. At least one must have some.")
    elif not refused and not tests:
        refused.append("The test set is empty. Without test rows no coalition can be measured.")
    return trains and tests


def _features(tables: Sequence[Table], label: str | None, drop: Sequence[str], choices: Choices) -> list[str]:
    """The columns to train on, if all files have them."""
    first = tables[0]
    names = list(first.columns)
    for table in tables:
        missing = [name for name in names if name not in table.columns]
        extra = [name for name in table.columns if name not in names]
        if missing or extra:
            hint = did_you_mean(missing[0], extra) if missing and extra else ""
            raise ScenarioError(
                f"All files must have the same columns. {table.path.name} differs from {first.path.name}: "
                f"missing {missing}, not expected {extra}. {hint}"
            )
    if label is None:
        raise ScenarioError(f"Which column is to be predicted? Name it: label=…. There are {names}.")
    for name in (label, *drop, *choices.keep):
        if name not in names:
            raise unknown("column", name, names)
    both = sorted(choices.keep & set(drop))
    if both or label in drop:
        raise ScenarioError(f"Column {(both or [label])[0]!r} is to be dropped and to be used. Choose one.")
    features = [name for name in names if name != label and name not in drop]
    if not features and len(names) > 1:
        raise ScenarioError(f"Besides the label {label!r} at least one column is needed.")
    return features


def _summed_up(y: NDArray[Any], names: Sequence[str]) -> str:
    """The labels of a file in a few words: rows of each class, or mean and standard deviation."""
    if not len(y):
        return ""
    if not names:
        return f"{y.mean():.4g} ± {y.std():.2g}"
    present = [(shortened(names[c], 12), int(n)) for c, n in enumerate(np.bincount(y)) if n]
    shown = ", ".join(f"{name}: {n}" for name, n in present[:4])
    return shown + (f" and {len(present) - 4} more" if len(present) > 4 else "")


def _completed(
    report: DataReport,
    tables: Sequence[Table],
    clients: int,
    columns: Sequence[Column],
    labels: Labels | None,
    images: Sequence[NDArray[Any]],
) -> DataReport:
    """The report with columns, labels and what is suspicious about each file."""
    odd = row_findings(tables, clients)
    numeric = [(column.report.name, column.values) for column in columns if not column.levels]
    if labels is not None and not labels.names:
        numeric.append((report.label, labels.y))
    for name, values in numeric:
        for mine, more in zip(odd, far_findings(name, values, tables, clients), strict=True):
            mine += more
    said = [""] * len(tables) if labels is None else [_summed_up(part, labels.names) for part in labels.y]
    parties = [
        replace(
            party, labels=of, findings=tuple(f"{party.name}: {what}" for what in (*party.findings, *mine))
        )
        for party, mine, of in zip(report.parties, odd, said, strict=True)
    ]
    described = tuple(column.report for column in columns)
    if images:
        shape = images[0].shape[1:]
        described = (ColumnReport("x", "array", int(np.prod(shape)), (f"shape {shape}, taken as it is",)),)
    return replace(
        report,
        task="" if labels is None else CLASSIFICATION if labels.names else REGRESSION,
        classes=labels.names if labels else (),
        parties=tuple(parties),
        columns=described,
        done=(*(labels.done if labels else ()), *report.done),
        findings=(*(f for column in columns for f in column.findings), *(labels.findings if labels else ())),
    )
