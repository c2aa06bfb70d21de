"""What a column is, decided over all files: numbers, dates, yes/no, categories; or nothing that could be trained on.

A decision is made from the clients' cells and reported; what cannot be decided is refused with the option that does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedvalue._text import listed, plural, shortened
from fedvalue.errors import ScenarioError
from fedvalue.scenarios._fixed import FixedColumn
from fedvalue.scenarios._readings import CODE, NO, YES, as_dates, is_code, is_nothing
from fedvalue.scenarios._report import ColumnReport
from fedvalue.scenarios._tables import Cells, Table, texts
from fedvalue.scenarios._ways import DATES, Choices, read_numbers, resolved

__all__ = ["Column", "decided"]

MISSING = "(missing)"
_MOST_LEVELS = 50
_MANY_LEVELS = 10
_FEW_ROWS = 10  # with fewer, nothing is told from how often texts repeat
# In a column of categories these cells are empty; "none" and "-" may well be categories.
_EMPTY = frozenset(["", "nan", "na", "n/a", "<na>", "null", "?", "#n/a", "#na"])
_NAMED_ID = re.compile(
    r"(?i:(.*[^a-z])?(id|ids|idx|index|key|uuid|guid|nr|no|row|record|unnamed.*))|.*[a-z](ID|Id|Nr|No)"
)
_EIGHT = re.compile(r"[0-9]{8}")
_DIGITS = re.compile(r"[0-9]+(?:[.,][0-9]+)?")
_NAMED = 3  # files
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Column:
    """One column, file by file: numbers (NaN where missing), or the places of categories in `levels` (−1: none).

    `of_files` are findings about single files, by their places; `findings` those about no file in particular.
    """

    report: ColumnReport
    values: list[NDArray[np.float64]]
    levels: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    of_files: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class _Case:
    """A column under decision."""

    name: str
    tables: Sequence[Table]
    clients: int
    choices: Choices
    habits: Sequence[int | None]
    fixed: FixedColumn | None = None
    cells: list[Cells] = field(default_factory=list)
    filled: list[NDArray[np.bool_]] = field(default_factory=list)

    def words(self) -> list[str]:
        """All filled training cells, as text."""
        return [
            cell
            for cells, filled in zip(self.cells[: self.clients], self.filled, strict=False)
            for cell, here in zip(texts(cells), filled, strict=True)
            if here
        ]

    def refuse(self, why: str) -> ScenarioError:
        return ScenarioError(f"Column {self.name!r} {why}")


def decided(
    name: str,
    tables: Sequence[Table],
    clients: int,
    choices: Choices,
    habits: Sequence[int | None],
    fixed: FixedColumn | None = None,
) -> Column:
    """What the column is. `habits` say how each file writes decimals in its other columns, where they tell.

    What was decided before is `fixed`, and a cell that does not go with it is refused.
    """
    cells = [table.columns[name] for table in tables]
    filled = [~is_nothing(texts(column), choices.missing) for column in cells]
    case = _Case(name, tables, clients, choices, habits, fixed, cells, filled)
    if fixed is not None:
        return {"yes/no": _yes_no, "number": _number, "date": _dates, "category": _categories}[fixed.kind](
            case
        )
    words = case.words()
    if not words:
        raise case.refuse(f"has no values at any client. Leave it out: drop={name!r}.")
    lower = {word.lower() for word in words}
    if lower <= YES | NO and not lower <= {"0", "1", "0.0", "1.0"}:
        return _yes_no(case)
    if not is_code(words):
        if len(set(words)) >= 5 and all(map(_EIGHT.fullmatch, words)) and as_dates(words).valid.all():
            return _dates(case)
        readings = (
            table.numbers(name).valid & here for table, here in zip(tables[:clients], filled, strict=False)
        )
        if 2 * sum(int(valid.sum()) for valid in readings) > len(words):
            return _number(case)
        if 2 * int(as_dates(words).valid.sum()) > len(words):
            return _dates(case)
    return _categories(case)


def _yes_no(case: _Case) -> Column:
    values, spellings = [], []
    for table, cells, filled in zip(case.tables, case.cells, case.filled, strict=True):
        lower = [cell.lower() for cell in texts(cells)]
        numbers = np.asarray([1.0 if w in YES else 0.0 if w in NO else np.nan for w in lower], np.float64)
        _refuse_others(case, table, cells, filled & np.isnan(numbers), "yes and no")
        values.append(numbers)
        spellings.append(frozenset(word for word, here in zip(lower, filled, strict=True) if here))
    done = ["yes is 1, no is 0"]
    known = set(filter(None, spellings[: case.clients]))
    if len(frozenset().union(*known)) > 2:
        written = "; ".join(sorted("/".join(sorted(words)) for words in known))
        done.append(f"clients write it differently ({written})")
    return _as_numbers(case, "yes/no", values, done)


def _number(case: _Case) -> Column:
    what = f"column {case.name!r}"
    values = [
        np.array(part) for part in read_numbers(case.name, case.tables, what, case.choices, case.habits)
    ]
    done = []
    commas = []
    marks: dict[str, list[str]] = {}
    for table, cells, filled, numbers in zip(case.tables, case.cells, case.filled, values, strict=True):
        numbers[~filled] = np.nan
        _refuse_others(case, table, cells, filled & np.isnan(numbers), "numbers")
        _refuse_others(case, table, cells, np.abs(numbers) > _LARGEST, "numbers within the range of float32")
        found = table.numbers(case.name)
        if filled[found.says()[1]].any():
            commas.append(table.name)
        for mark in sorted(found.marks_of(filled)):
            marks.setdefault(mark, []).append(table.name)
    done += [f"decimal commas ({listed(commas, _NAMED)})"] if commas else []
    done += _agreed(case, marks)
    decided_before = case.fixed is not None or case.name in case.choices.keep
    findings = [] if decided_before else [*_looks_like_id(case, values), *_looks_like_codes(case)]
    return _as_numbers(case, "number", values, done, tuple(findings))


def _agreed(case: _Case, marks: dict[str, list[str]]) -> list[str]:
    """What %, € and the like mean for the column; two of them cannot be one quantity."""
    written = {mark: names for mark, names in marks.items() if mark}
    if not written:
        return []
    if len(written) > 1 or ("%" in written and "" in marks):
        ways = "; ".join(f"{mark or 'no sign'} ({listed(names, _NAMED)})" for mark, names in marks.items())
        raise case.refuse(
            f"is written in several units: {ways}. Write it in one, or leave it out: drop={case.name!r}."
        )
    (mark,) = written
    if mark == "%":
        return ["per cent, as fractions"]
    bare = [name for name in marks.get("", []) if name not in written[mark]]
    return [
        f"amounts in {mark}"
        + (f", taken to be so where no sign is written ({listed(bare, _NAMED)})" if bare else "")
    ]


def _dates(case: _Case) -> Column:
    values, marks = [], set()
    way = DATES.choice(case.choices.dates)
    for table, cells, filled in zip(case.tables, case.cells, case.filled, strict=True):
        found = as_dates(texts(cells))
        days = resolved(found, cells, table, f"column {case.name!r}", DATES, way, None)
        _refuse_others(case, table, cells, filled & np.isnan(days), "dates")
        marks |= found.marks_of(filled)
        values.append(days)
    if len(marks) > 1:
        raise case.refuse(
            f"mixes {' and '.join(sorted(mark or 'dates without a time zone' for mark in marks))}. Write all alike, "
            f"or leave it out: drop={case.name!r}."
        )
    return _as_numbers(case, "date", values, ["hours" if marks == {"time of day"} else "days since 1970"])


def _as_numbers(
    case: _Case, kind: str, values: list[NDArray[np.float64]], done: list[str], findings: tuple[str, ...] = ()
) -> Column:
    training = np.concatenate(values[: case.clients])
    absent = int(np.isnan(training).sum())
    to = "zero" if case.choices.impute == "zero" else f"the {case.choices.impute}"
    marked = bool(absent) if case.fixed is None else case.fixed.marked
    if absent:
        how = ", and marked in a feature of its own" if marked else ""
        done = [*done, f"{plural(absent, 'missing cell')} set to {to}{how}"]
    elif any(np.isnan(part).any() for part in values[case.clients :]):
        done = [*done, f"missing cells of the test set set to {to}"]
    known = training[~np.isnan(training)]
    if len(known) > 1 and known.min() == known.max():
        done = [*done, "the same in all training rows"]
    return Column(ColumnReport(case.name, kind, 1 + marked, tuple(done)), values, (), findings)


def _categories(case: _Case) -> Column:
    merged = [[cell.casefold() for cell in texts(cells)] for cells in case.cells]
    merged = [
        [MISSING if word in _EMPTY or word in case.choices.missing else word for word in words]
        for words in merged
    ]
    spelled: dict[str, Counter[str]] = {}
    for words, cells in zip(merged[: case.clients], case.cells, strict=False):
        for word, cell in zip(words, texts(cells), strict=True):
            spelled.setdefault(word, Counter())[cell] += 1
    levels = sorted(spelled) if case.fixed is None else list(case.fixed.levels)
    known = {word: place for place, word in enumerate(levels)}
    values = [np.asarray([known.get(word, -1) for word in words], np.float64) for words in merged]
    rows = sum(map(len, merged[: case.clients]))
    texts_here = [word for word in levels if word != MISSING]
    many = len(texts_here) > _MOST_LEVELS or (rows >= _FEW_ROWS and 2 * len(texts_here) > rows)
    if many and case.fixed is None and case.name not in case.choices.keep:
        example = shortened(spelled[texts_here[0]].most_common(1)[0][0], 30)
        raise case.refuse(
            f"has {len(texts_here)} different texts in {rows} rows, such as {example!r}: names, identifiers or free "
            f"text, which teach a model nothing. Leave it out: drop={case.name!r}. To train on it all the same, with a "
            f"feature for each text: keep={case.name!r}."
        )
    done = [plural(len(levels), "category").replace("categorys", "categories")]
    variants = [sorted(counts) for word, counts in spelled.items() if word != MISSING and len(counts) > 1]
    done += [f"{' and '.join(map(repr, variants[0][:3]))} are one category"] if variants else []
    if MISSING in known:
        missing = sum(words.count(MISSING) for words in merged[: case.clients])
        done.append(
            f"{plural(missing, 'missing cell')} {'is' if missing == 1 else 'are'} a category of {'its' if missing == 1 else 'their'} own"
        )
    strange = sum(int((part == -1).sum()) for part in values[case.clients :])
    findings = [f"{plural(strange, 'test row')} with a {case.name} that no client has"] if strange else []
    new = sum(int((part == -1).sum()) for part in values[: case.clients])
    findings += (
        [f"{plural(new, 'row')} with a {case.name} that is not among the fixed categories"] if new else []
    )
    decided_before = case.fixed is not None or case.name in case.choices.keep
    shaped = [] if decided_before else _looks_like_quantity(case, texts_here)
    return Column(
        ColumnReport(case.name, "category", len(levels), tuple(done)),
        values,
        tuple(levels),
        (*findings, *shaped),
        tuple(_own_categories(case, values)),
    )


def _own_categories(case: _Case, values: list[NDArray[np.float64]]) -> list[tuple[int, str]]:
    """A client none of whose categories anybody else has: perhaps it spells them differently."""
    found = []
    seen = [set(np.unique(part[part >= 0]).tolist()) for part in values]
    for i, mine in enumerate(seen[: case.clients]):
        others = set().union(*(theirs for k, theirs in enumerate(seen) if k != i))
        if len(mine) > 1 and others and not mine & others:
            found.append((i, f"its {case.name} has nothing in common with that of the others"))
    return found


def _looks_like_id(case: _Case, values: list[NDArray[np.float64]]) -> list[str]:
    """Refuses whole numbers that number the rows; a suspicion is returned."""
    parts = [part for part in values[: case.clients] if len(part)]
    pooled = np.concatenate(parts)
    if len(pooled) < _FEW_ROWS or np.isnan(pooled).any() or (pooled != np.rint(pooled)).any():
        return []
    distinct = len(np.unique(pooled)) == len(pooled)
    in_steps = all(len(part) > 2 and (np.diff(part) == 1).all() for part in parts)
    dense = distinct and pooled.max() - pooled.min() + 1 == len(pooled) and len(pooled) >= 50
    named = _NAMED_ID.fullmatch(case.name) is not None
    if in_steps or dense or (distinct and named):
        raise case.refuse(
            f"numbers the records: {int(pooled[0])}, {int(pooled[1])}, … Leave it out: drop={case.name!r}. If it is a "
            f"quantity after all: keep={case.name!r}."
        )
    if named:
        return [f"{case.name} is named like an identifier and used as a quantity"]
    if distinct and len(pooled) >= 50 and pooled.min() >= 100_000:
        return [f"{case.name}: all {len(pooled)} whole numbers differ, as identifiers do"]
    return []


def _looks_like_codes(case: _Case) -> list[str]:
    """Zeros in front of some numbers: spreadsheets take them away from postal codes."""
    codes = [word for word in case.words() if CODE.fullmatch(word)]
    if not codes:
        return []
    return [
        f"{case.name}: {plural(len(codes), 'number')} with zeros in front, such as {codes[0]}, and others without: taken "
        "for a quantity; codes would have to be written alike"
    ]


def _looks_like_quantity(case: _Case, levels: Sequence[str]) -> list[str]:
    """Many categories that are numbers with the same around them: `57 kg`, `2020-03`."""
    shapes = Counter(_DIGITS.sub("0", word) for word in levels)
    ((shape, count),) = shapes.most_common(1) or [("", 0)]
    if count < _MANY_LEVELS or count < 0.9 * len(levels) or not shape.startswith("0") or shape == "0":
        return []
    return [
        f"{case.name}: {len(levels)} categories such as {levels[0]!r}; if it is a quantity or a date, write it as one"
    ]


def _refuse_others(case: _Case, table: Table, cells: Cells, wrong: NDArray[np.bool_], expected: str) -> None:
    places = np.flatnonzero(wrong)
    if not places.size:
        return
    cell = shortened(texts(cells)[places[0]], 40)
    raise ScenarioError(
        f"{table.at(int(places[0]))}: column {case.name!r} holds {expected}, but here {cell!r}; "
        f"{plural(int(places.size), 'such cell')} in this file. Repair them, or say missing={cell} if this stands for "
        f"nothing, or leave the column out: drop={case.name!r}."
    )
