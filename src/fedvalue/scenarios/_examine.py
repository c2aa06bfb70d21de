"""Tables to columns and labels, with a report that has everything that was noticed on the way.

Whatever is wrong is collected, not only the first of it: one look shows all that has to be repaired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import did_you_mean
from fedvalue._text import plural, shortened
from fedvalue.errors import ScenarioError
from fedvalue.scenarios._checks import unknown
from fedvalue.scenarios._columns import Column, decided
from fedvalue.scenarios._dataset import CLASSIFICATION, REGRESSION
from fedvalue.scenarios._findings import far_findings, row_findings
from fedvalue.scenarios._images import Look
from fedvalue.scenarios._labels import Labels, labelled
from fedvalue.scenarios._readings import is_nothing
from fedvalue.scenarios._report import ColumnReport, DataReport, PartyReport
from fedvalue.scenarios._sheets import Refused, Sheets, sheets_of
from fedvalue.scenarios._tables import Table, texts
from fedvalue.scenarios._wanted import Wanted
from fedvalue.scenarios._ways import habit_of

__all__ = ["Examined", "examine", "understood"]


@dataclass(frozen=True)
class Examined:
    """What was understood of the tables of clients and tests; complete where the report refuses nothing."""

    report: DataReport
    wanted: Wanted
    clients: Sequence[Table] = ()
    tests: Sequence[Table] = ()
    labels: Labels = field(default_factory=lambda: Labels([]))
    columns: Sequence[Column] = ()
    arrays: NDArray[Any] | None = None


def examine(folder: Path, wanted: Wanted, look: Look, by_client: bool = False) -> Examined:
    """Reads all files of a folder and decides what they mean, as far as that is not fixed."""
    refused = Refused()
    sheets = sheets_of(folder, wanted.label, by_client, look, refused)
    if sheets is None:
        return Examined(DataReport(str(folder), wanted.label or "", refused=tuple(refused)), wanted)
    return understood(sheets, wanted, refused)


def understood(sheets: Sheets, wanted: Wanted, refused: Refused) -> Examined:
    """What the tables mean, as far as that is not fixed."""
    tables, clients, label = sheets.tables, sheets.clients, sheets.label
    report = DataReport(
        sheets.where,
        label or "",
        parties=tuple(_party(table, wanted, place >= clients) for place, table in enumerate(tables)),
        done=sheets.done,
        is_folder=sheets.is_folder,
    )
    if not _enough(sheets, refused):
        return Examined(replace(report, refused=tuple(refused)), wanted)
    names = refused.attempt(_features, tables, label, wanted)
    if names is None or label is None:
        return Examined(replace(report, refused=tuple(refused)), wanted)
    fixed = wanted.fixed
    if fixed is not None and sheets.arrays is None:
        refused.attempt(fixed.check, names)
    if refused:
        return Examined(replace(report, refused=tuple(refused)), wanted)
    habits = [habit_of(table, [*names, label]) for table in tables]
    labels = refused.attempt(
        labelled,
        label,
        tables,
        clients,
        task=wanted.task,
        exact=wanted.exact,
        choices=wanted.choices,
        habits=habits,
        fixed=() if fixed is None else fixed.classes,
    )
    if wanted.text is not None:
        columns = [Column(_of_text(tables, clients, wanted), [])]
    elif sheets.plain:
        columns = [
            Column(ColumnReport(name, "number", 1), [np.asarray(t.columns[name]) for t in tables])
            for name in names
        ]
    else:
        before = {name: None if fixed is None else fixed.column(name) for name in names}
        made = [
            refused.attempt(decided, name, tables, clients, wanted.choices, habits, before[name])
            for name in names
        ]
        columns = [column for column in made if column is not None]
    report = _completed(report, sheets, columns, labels)
    return Examined(
        replace(report, refused=tuple(refused)),
        wanted,
        tables[:clients],
        tables[clients:],
        labels or Labels([]),
        columns,
        sheets.arrays,
    )


def _party(table: Table, wanted: Wanted, is_test: bool) -> PartyReport:
    absent = sum(
        int(is_nothing(texts(cells), wanted.choices.missing).sum())
        if isinstance(cells, list)
        else int(np.isnan(cells).sum())
        for cells in table.columns.values()
    )
    findings = [f"{plural(table.blank, 'blank line')} passed over"] if table.blank else []
    findings += [] if len(table) else ["no rows"]
    return PartyReport(
        table.name, table.file, len(table), table.blank, absent, is_test, findings=tuple(findings)
    )


def _enough(sheets: Sheets, refused: Refused) -> bool:
    """Whether there are rows to look at on both sides; a file that could not be read explains why not."""
    sides = (sheets.tables[: sheets.clients], sheets.tables[sheets.clients :])
    trains, tests = (any(map(len, side)) for side in sides)
    tests = tests or not sheets.needs_test
    if not refused and not trains:
        refused.append(f"No client in {sheets.where} has any rows. At least one must have some.")
    elif not refused and not tests:
        refused.append("The test set is empty. Without test rows no coalition can be measured.")
    return trains and tests


def _of_text(tables: Sequence[Table], clients: int, wanted: Wanted) -> ColumnReport:
    """A column of text, word by word."""
    name = str(wanted.text)
    empty = sum(not cell.strip() for table in tables[:clients] for cell in texts(table.columns[name]))
    done = [
        f"the first {plural(wanted.length, 'word')} of each row, the {wanted.words:,} most frequent with numbers of their own"
    ]
    done += [f"{plural(empty, 'row')} without text"] if empty else []
    return ColumnReport(name, "text", wanted.length, tuple(done))


def _features(tables: Sequence[Table], label: str | None, wanted: Wanted) -> list[str]:
    """The columns to train on, if all files have them."""
    first = tables[0]
    names = list(first.columns)
    for table in tables:
        missing = [name for name in names if name not in table.columns]
        extra = [name for name in table.columns if name not in names]
        if missing or extra:
            hint = did_you_mean(missing[0], extra) if missing and extra else ""
            raise ScenarioError(
                f"All files must have the same columns. {table.file} differs from {first.file}: "
                f"missing {missing}, not expected {extra}. {hint}"
            )
    if label is None:
        raise ScenarioError(
            f"Which column is to be predicted? Name it: label=COLUMN (--label COLUMN). Columns: {', '.join(names)}."
        )
    drop, keep, text = wanted.drop, wanted.choices.keep, wanted.text
    for name in (label, *drop, *keep, *([text] if text else [])):
        if name not in names:
            raise unknown("column", name, names)
    both = sorted(keep & set(drop))
    if both or label in drop or text in drop:
        raise ScenarioError(
            f"Column {[*both, text if text in drop else label][0]!r} is to be dropped and to be used. Choose one."
        )
    features = [name for name in names if name != label and name not in drop]
    others = [name for name in features if name != text]
    if text is not None and (others or text == label):
        raise ScenarioError(
            f"Text is trained on by itself. Leave the other columns out: drop={','.join(others)}."
            if others
            else f"The column {label!r} cannot be both the label and the text."
        )
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
    report: DataReport, sheets: Sheets, columns: Sequence[Column], labels: Labels | None
) -> DataReport:
    """The report with columns, labels and what is suspicious about each file."""
    tables, clients = sheets.tables, sheets.clients
    odd = row_findings(tables, clients, sheets.arrays)
    numeric = [
        (column.report.name, column.values) for column in columns if column.values and not column.levels
    ]
    if labels is not None and not labels.names:
        numeric.append((report.label, labels.y))
    for name, values in numeric:
        for mine, more in zip(odd, far_findings(name, values, tables, clients), strict=True):
            mine += more
    parts = (*columns, *([labels] if labels is not None else ()))
    for part in parts:
        for place, what in part.of_files:
            odd[place].append(what)
    said = [""] * len(tables) if labels is None else [_summed_up(part, labels.names) for part in labels.y]
    parties = [
        replace(
            party, labels=of, findings=tuple(f"{party.name}: {what}" for what in (*party.findings, *mine))
        )
        for party, mine, of in zip(report.parties, odd, said, strict=True)
    ]
    described = tuple(column.report for column in columns)
    if sheets.arrays is not None:
        shape = sheets.arrays.shape[1:]
        described = (ColumnReport("x", "array", int(np.prod(shape)), (f"shape {shape}, taken as it is",)),)
    return replace(
        report,
        task="" if labels is None else CLASSIFICATION if labels.names else REGRESSION,
        classes=labels.names if labels else (),
        parties=tuple(parties),
        columns=described,
        done=(*(labels.done if labels else ()), *report.done),
        findings=tuple(finding for part in parts for finding in part.findings),
    )
