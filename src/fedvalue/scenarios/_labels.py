"""The label column: classes or targets. Spellings that certainly mean the same become one; doubtful ones are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._text import listed, plural, shortened
from fedvalue.errors import ScenarioError
from fedvalue.scenarios._checks import unknown
from fedvalue.scenarios._dataset import CLASSIFICATION, REGRESSION
from fedvalue.scenarios._numbers import IGNORED
from fedvalue.scenarios._readings import NO, YES, as_dates, is_nothing
from fedvalue.scenarios._tables import Table, texts
from fedvalue.scenarios._ways import Choices, read_numbers

__all__ = ["Labels", "labelled"]

_SURELY_CLASSES = 20  # whole numbers with so few different values
_SURELY_TARGETS = 100  # with more, or with hardly a value that comes twice: quantities
_NAMED = 4  # files, or spellings
# What people write as a label where they do not know it; what programs write for nothing is refused.
_UNKNOWN = frozenset(["missing", "n.a.", "n.k.", "not available", "not known", "undefined", "unk", "unknown"])
_REPEATED = 5  # rows per value from which on many whole numbers may still be classes


@dataclass(frozen=True)
class Labels:
    """File by file: class numbers with the names of the classes, or targets and no names. `of_files` are findings about
    single files, by their places; `findings` those about no file in particular."""

    y: list[NDArray[Any]]
    names: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    of_files: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class _Case:
    label: str
    tables: Sequence[Table]
    clients: int
    task: str | None
    words: list[list[str]]
    fixed: tuple[str, ...] = ()

    def who(self, places: Sequence[int]) -> str:
        return listed([self.tables[i].name for i in places], _NAMED)

    def spelled(self, place: int) -> str:
        return listed([repr(shortened(word, 20)) for word in sorted(set(self.words[place]))], _NAMED)


def labelled(
    label: str,
    tables: Sequence[Table],
    clients: int,
    *,
    task: str | None,
    exact: bool,
    choices: Choices,
    habits: Sequence[int | None],
    fixed: tuple[str, ...] = (),
) -> Labels:
    """Classes or targets. `exact`: every spelling is a class of its own, also such as usually mean nothing.

    `fixed` are the classes that there are, whoever takes part.
    """
    if task not in (None, CLASSIFICATION, REGRESSION):
        raise unknown("task", task, (CLASSIFICATION, REGRESSION))
    words = [texts(table.columns[label]) for table in tables]
    case = _Case(label, tables, clients, task, words, fixed)
    for table, mine in zip(tables, words, strict=True):
        _refuse_missing(label, table, mine, frozenset() if exact else choices.missing, exact)
    if exact:
        if task == REGRESSION:
            raise ScenarioError(
                "labels=exact makes a class of every spelling, task=regression none. Choose one."
            )
        return _classes(case, words, ())
    lower = {word.lower() for mine in words for word in mine}
    valid = [table.numbers(label).valid for table in tables]
    if lower <= YES | NO and not all(part.all() for part in valid):
        return _yes_no(case)
    if all(part.all() for part in valid):
        return _numbers(case, choices, habits)
    _refuse_mixture(case, valid)
    return _texts(case)


def _refuse_missing(label: str, table: Table, words: list[str], also: frozenset[str], exact: bool) -> None:
    absent = np.asarray([not word for word in words], bool) if exact else is_nothing(words, also)
    infinite = np.isinf(table.numbers(label).one)
    rows = np.flatnonzero(absent | infinite)
    if rows.size:
        word = words[rows[0]]
        hint = f" If {word!r} is a class, say labels=exact." if word and not infinite[rows[0]] else ""
        raise ScenarioError(
            f"{table.at(int(rows[0]))}: the label {label!r} is missing or not finite, {word!r}; "
            f"{plural(int(rows.size), 'such row')} in this file. Fill them or leave these rows out.{hint}"
        )


def _yes_no(case: _Case) -> Labels:
    ways: dict[str, list[int]] = {}
    for place, mine in enumerate(case.words):
        if mine:
            ways.setdefault("/".join(sorted({word.lower() for word in mine})), []).append(place)
    if case.task == REGRESSION:
        raise ScenarioError(f"A regression needs numbers as labels. Got {case.spelled(0)}.")
    if len({word for way in ways for word in way.split("/")}) <= 2:
        return _texts(case)
    y = [[("1" if word.lower() in YES else "0") for word in mine] for mine in case.words]
    written = "; ".join(f"{way} ({case.who(places)})" for way, places in ways.items())
    return _classes(case, y, (f"label written in several ways, taken for 0 and 1: {written}",))


def _numbers(case: _Case, choices: Choices, habits: Sequence[int | None]) -> Labels:
    what = f"the label {case.label!r}"
    values = read_numbers(case.label, case.tables, what, choices, habits)
    marks = {
        mark
        for table in case.tables
        for mark in table.numbers(case.label).marks_of(np.ones(len(table), bool))
    }
    if len(marks) > 1:
        signs = " and ".join(sorted(mark or "no sign" for mark in marks))
        raise ScenarioError(
            f"The label {case.label!r} is written in several units: {signs}. Write it in one."
        )
    (mark,) = marks or {""}
    done = [f"label in {'per cent, as fractions' if mark == '%' else mark}"] if mark else []
    known = np.concatenate(values[: case.clients])
    task, said = _task(case, values, known)
    done += said
    if task == REGRESSION:
        return Labels(values, (), tuple(done))
    _refuse_ignored(case, values)
    spelled = [[f"{value + 0.0:.15g}" for value in part] for part in values]
    return _classes(case, spelled, tuple(done))


def _refuse_ignored(case: _Case, values: Sequence[NDArray[Any]]) -> None:
    """A class of its own would be learnt and counted, which is the opposite of what is meant by this number."""
    if str(IGNORED) in case.fixed:
        return
    for table, mine in zip(case.tables, values, strict=True):
        rows = np.flatnonzero(mine == IGNORED)
        if rows.size:
            raise ScenarioError(
                f"{table.at(int(rows[0]))}: the label {case.label!r} is {IGNORED}, by which torch's losses know what does not "
                f"count; {plural(int(rows.size), 'such row')} there. A row with this label alone says nothing: leave these rows "
                "out or, where it is a class, write it otherwise."
            )


def _task(case: _Case, values: Sequence[NDArray[Any]], known: NDArray[Any]) -> tuple[str, list[str]]:
    """What numbers as labels stand for, or a refusal where both are likely."""
    if case.task is not None:
        return case.task, []
    distinct, rows = np.unique(known), len(known)
    whole = distinct == np.rint(distinct)
    both = f"Say task={CLASSIFICATION} or task={REGRESSION}."
    if not whole.all():
        fractions = [i for i, part in enumerate(values) if (part != np.rint(part)).any()]
        if whole.sum() <= _SURELY_CLASSES and 2 * int((known != np.rint(known)).sum()) < rows:
            raise ScenarioError(
                f"The label {case.label!r} is mostly a whole number, and a fraction at {case.who(fractions)} "
                f"({case.spelled(fractions[0])}). {both}"
            )
        return REGRESSION, []
    seldom = rows < 2 * len(distinct)
    if len(distinct) <= _SURELY_CLASSES and not (seldom and len(distinct) > 5):
        hint = (
            []
            if len(distinct) == 2
            else [f"{len(distinct)} whole numbers as labels: classes, unless task=regression"]
        )
        return CLASSIFICATION, hint
    others = [
        i for i, part in enumerate(values) if len(part) and len(np.unique(part)) <= _SURELY_CLASSES // 2
    ]
    if len(distinct) > _SURELY_CLASSES and 2 * len(others) > sum(len(part) > 0 for part in values):
        many = [i for i, part in enumerate(values) if len(part) and i not in others]
        raise ScenarioError(
            f"The label {case.label!r} has few different numbers in most files ({case.spelled(others[0])} at "
            f"{case.who(others)}), and many at {case.who(many)} ({case.spelled(many[0]) if many else '–'}): classes or "
            f"quantities? {both}"
        )
    if len(distinct) > _SURELY_TARGETS or (
        len(distinct) > _SURELY_CLASSES and rows < _REPEATED * len(distinct)
    ):
        return REGRESSION, [f"{len(distinct)} whole numbers as labels: targets, unless task=classification"]
    raise ScenarioError(
        f"The label {case.label!r} has {len(distinct)} different whole numbers in {rows} rows: classes or quantities? "
        f"{both}"
    )


def _refuse_mixture(case: _Case, valid: Sequence[NDArray[np.bool_]]) -> None:
    """Numbers and texts: a slip of the pen, or clients that spell classes differently."""
    numbers = sum(int(part.sum()) for part in valid)
    rows = sum(map(len, valid))
    text_at = [i for i, part in enumerate(valid) if len(part) and not part.all()]
    number_at = [i for i, part in enumerate(valid) if len(part) and part.all()]
    if not number_at and 2 * numbers <= rows:
        return
    place = text_at[0]
    row = int(np.flatnonzero(~valid[place])[0])
    others = (
        f"numbers at {case.who(number_at)} ({case.spelled(number_at[0])})" if number_at else "mostly numbers"
    )
    raise ScenarioError(
        f"{case.tables[place].at(row)}: the labels are {others}, and texts such as {case.words[place][row]!r} at "
        f"{case.who(text_at)}. Spell them alike; if every spelling is a class of its own, say labels=exact."
    )


def _texts(case: _Case) -> Labels:
    """Classes by name; capital letters make no difference."""
    if case.task == REGRESSION:
        raise ScenarioError(f"A regression needs numbers as labels. Got {case.spelled(0)}.")
    training = [word for mine in case.words[: case.clients] for word in mine]
    if 2 * int(as_dates(training).valid.sum()) > len(training):
        raise ScenarioError(
            f"The label {case.label!r} holds dates, such as {training[0]!r}. Name another column."
        )
    spelled: dict[str, Counter[str]] = {}
    for mine in case.words:
        for word in mine:
            spelled.setdefault(word.casefold(), Counter())[word] += 1
    variants = {name: sorted(counts) for name, counts in spelled.items() if len(counts) > 1}
    for name, ways in variants.items():
        if len(name) == 1 and name not in YES | NO:
            raise ScenarioError(
                f"The labels {ways[0]!r} and {ways[1]!r} are different letters, or one class written in two ways? Write "
                "it in one; if each is a class, say labels=exact."
            )
    usual = {name: min(counts, key=lambda w: (-counts[w], w)) for name, counts in spelled.items()}
    done = [f"{' and '.join(map(repr, ways))} are one class" for ways in variants.values()]
    found = _classes(case, [[usual[word.casefold()] for word in mine] for mine in case.words], tuple(done))
    unknown_here = [name for name in found.names if name.casefold() in _UNKNOWN]
    said = [
        f"{name!r} is a class of its own; if nothing is known there, leave these rows out"
        for name in unknown_here
    ]
    return replace(found, findings=(*found.findings, *said))


def _classes(case: _Case, words: list[list[str]], done: tuple[str, ...]) -> Labels:
    """Class numbers in the order of the names, learnt from the clients only."""
    clients = case.clients
    if case.fixed:
        return _fixed_classes(case, words, done)
    rows_of = Counter(word for mine in words[:clients] for word in mine)
    rows = sum(rows_of.values())
    names = sorted(rows_of, key=_by_number)
    if case.task is None and rows >= 10 and 2 * len(names) > rows:
        raise ScenarioError(
            f"The label {case.label!r} has {len(names)} different values in {rows} rows: it names the records rather "
            "than classes. Name another column, or say task=classification if each is a class."
        )
    if len(names) == 1:
        raise ScenarioError(
            f"All training rows of all clients have the same label, {names[0]!r}. A classification needs "
            "at least two; for a regression say task=regression."
        )
    place = {name: i for i, name in enumerate(names)}
    for table, mine in zip(case.tables[clients:], words[clients:], strict=True):
        strange = [row for row, word in enumerate(mine) if word not in place]
        if strange:
            raise ScenarioError(
                f"{table.at(strange[0])}: the test set has the label {mine[strange[0]]!r}, which no client has "
                f"({', '.join(names[:20])}); {plural(len(strange), 'such row')}. Remove them, or add training data "
                "with this label."
            )
    findings = _seen_once(case, words, rows_of)
    y = [np.asarray([place[word] for word in mine], np.int64) for mine in words]
    return Labels(y, tuple(names), done, of_files=tuple(findings))


def _fixed_classes(case: _Case, words: list[list[str]], done: tuple[str, ...]) -> Labels:
    """The numbers of classes that were fixed before."""
    place = {name.casefold(): i for i, name in enumerate(case.fixed)}
    place |= {name: i for i, name in enumerate(case.fixed)}
    for table, mine in zip(case.tables, words, strict=True):
        strange = [row for row, word in enumerate(mine) if word not in place and word.casefold() not in place]
        if strange:
            raise ScenarioError(
                f"{table.at(strange[0])}: the label {mine[strange[0]]!r} is not among the classes that are fixed "
                f"({', '.join(case.fixed[:20])}); {plural(len(strange), 'such row')}. Remove them, or agree on other classes "
                "and begin anew."
            )
    numbers = [
        np.asarray([place.get(word, place.get(word.casefold(), 0)) for word in mine], np.int64)
        for mine in words
    ]
    return Labels(numbers, case.fixed, done)


def _seen_once(case: _Case, words: list[list[str]], rows_of: Counter[str]) -> list[tuple[int, str]]:
    """Classes that one client alone has, and the test set has not: refused where a client has no others."""
    seen = [set(mine) for mine in words]
    tested = set().union(*seen[case.clients :])
    findings = []
    for i, mine in enumerate(seen[: case.clients]):
        others = tested.union(*(theirs for k, theirs in enumerate(seen[: case.clients]) if k != i))
        alone = sorted(mine - others)
        if mine and others and len(alone) == len(mine):
            raise ScenarioError(
                f"{case.tables[i].where}: none of its labels ({case.spelled(i)}) occurs at another client or in the test "
                f"set, which have {', '.join(sorted(others)[:6])}. Spell them alike, or leave this client out."
            )
        findings += [
            (i, f"only this client has the class {word!r} ({plural(rows_of[word], 'row')})") for word in alone
        ]
    return findings


def _by_number(name: str) -> tuple[float, str]:
    """Numbers by size, texts after them by name."""
    try:
        return float(name), name
    except ValueError:
        return float("inf"), name
