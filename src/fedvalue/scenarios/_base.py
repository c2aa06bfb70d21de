"""Scenarios: who the clients are. Arrays per client, a test set, a fingerprint; nothing about models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import checked_init, expect
from fedvalue.errors import ScenarioError
from fedvalue.scenarios._dataset import CLASSIFICATION, OWN, REGRESSION, Dataset, described
from fedvalue.scenarios._features import leaves, mapped, shape_of
from fedvalue.scenarios._from_data import FromData
from fedvalue.scenarios._numbers import class_numbers, finite, float32, labels_in, whole_numbers
from fedvalue.scenarios._report import DataReport
from fedvalue.scenarios._scale import Scale, common_scale
from fedvalue.scenarios._shown import scenario_lines
from fedvalue.store import fingerprint

__all__ = ["Scenario"]

_LEAST_SPREAD = 1e-5  # of the centre: float32 still tells a hundred steps apart


@checked_init
@dataclass(frozen=True, eq=False)
class Scenario(FromData):
    """Clients with their data, and the test set on which coalitions are measured.

    Features are float32 of any shape (images: rows, 1, height, width), or int64 token ids in
    0..`vocabulary`−1 where a vocabulary is given (0 is padding). Of several inputs, whole numbers stay int64 and
    truth values bool; a vocabulary holds for all that are whole. Labels are int64 in 0..`classes`−1, and −100 at
    places of a row that do not count; targets of a regression are float32. Arrays of other number types are
    converted; everything that a training could stumble over is refused here. A client without data is a client: its arrays have
    length 0.

    The task "own" (classes=0) is for everything else: labels of any shape, whole numbers or float32, are handed as they are
    to a loss and a metric that the game must name, and models may say of a row what they like.

    Models of a regression are trained on (target − centre) / spread, and measured in the unit of the targets.
    This `target_scale` is learnt from the clients' targets so that none of them can move it much;
    `Scale()` trains on the targets as they are.

    `test_parts` are named sets of test rows, for measuring each part by itself. `details` is plain data
    about the origin, `report` what was read from files and what was done to it. A test set may hold classes
    that no client has: no coalition can get them right, values remain well defined; `details["warnings"]`
    says so. `training` are rules that suit the data, used where nothing else is asked for: {"rate": 0.01}.
    `print(scenario)` shows all but the rows.

    >>> a, b = Dataset([[0.0], [1.0]], [0, 1]), Dataset([[0.1]], [0])
    >>> s = Scenario("tiny", (a, b), ("a", "b"), test=a, task="classification", classes=2)
    >>> s.n, s.summary()[1]
    (2, {'name': 'b', 'samples': 1, 'labels': [1, 0]})
    """

    name: str
    clients: tuple[Dataset, ...]
    names: tuple[str, ...]
    test: Dataset
    task: str
    classes: int
    vocabulary: int = 0
    test_parts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    target_scale: Scale | None = None
    report: DataReport | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_kinds(self)
        names = _checked_names(self.names, len(self.clients))
        _check_task(self.task, self.classes, self.vocabulary)
        clients = tuple(
            self._converted(data, f"client {name!r}") for name, data in zip(names, self.clients, strict=True)
        )
        test = self._converted(self.test, "the test set")
        _check_enough(clients, test, self.task)
        clients = _same_shapes(clients, test, names)
        parts = {str(key): _checked_part(str(key), rows, len(test)) for key, rows in self.test_parts.items()}
        warnings = [*self.details.get("warnings", []), *self._unseen(clients, test)]
        for key, value in {
            "target_scale": self._target_scale(clients),
            "names": names,
            "clients": clients,
            "test": test,
            "test_parts": parts,
            "details": {**self.details, "warnings": list(dict.fromkeys(warnings))},
        }.items():
            object.__setattr__(self, key, value)

    @property
    def n(self) -> int:
        """How many clients."""
        return len(self.clients)

    @property
    def scale(self) -> Scale:
        """What models of a regression are trained in."""
        return self.target_scale or Scale()

    @cached_property
    def fingerprint(self) -> str:
        """Changes with any array, test part or the kind of task; not with names and details.

        Made of the parties' fingerprints, so that who knows only those (a server) finds the same one.
        """
        return self.fingerprint_with([c.fingerprint for c in self.clients])

    def fingerprint_with(self, clients: Sequence[str]) -> str:
        """What the fingerprint would be with other clients, given theirs."""
        scale = () if self.scale.is_plain else (self.scale.centre, self.scale.spread)
        return fingerprint(
            list(clients),
            self.test.fingerprint,
            dict(self.test_parts),
            (self.task, self.classes, self.vocabulary, *scale),
        )[0]

    @property
    def changed(self) -> bool:
        """Whether anybody's rows were changed in place since the fingerprint was taken."""
        return any(data.changed for data in (*self.clients, self.test))

    def need_single(self, what: str) -> None:
        """Refuses several inputs, and several labels a row, which `what` cannot take."""
        self.need_one_input(what)
        if self.test.y.ndim > 1:
            raise ScenarioError(
                f"{what} gives one answer a row. This scenario has labels of shape {self.test.y.shape[1:]} for each: use "
                "a model of your own."
            )

    def need_one_input(self, what: str) -> None:
        """Refuses several inputs, which `what` cannot take."""
        if isinstance(self.test.x, (Mapping, tuple)):
            names = ", ".join(name for name, _ in leaves(self.test.x))
            raise ScenarioError(
                f"{what} needs features in one array. This scenario has several inputs ({names}): use a model of your "
                "own that takes them."
            )

    @property
    def test_owners(self) -> Mapping[str, int]:
        """The client of every test part, where the test set consists of rows of the clients' own; else nothing.

        That is so if every part has the name of a client, and every test row is in one of them.
        """
        parts = self.test_parts
        own = set(parts) <= set(self.names) and sum(map(len, parts.values())) == len(self.test)
        covered = len(np.unique(np.concatenate([*parts.values()]))) if own and parts else 0
        return {name: self.names.index(name) for name in parts} if covered == len(self.test) else {}

    def summary(self) -> list[dict[str, Any]]:
        """Per client: name, samples, and the label histogram or the mean and spread of the targets."""
        return [
            {"name": name, **described(data, self.task, self.classes)}
            for name, data in zip(self.names, self.clients, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        """Everything about the scenario but its rows, as plain data."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "task": self.task,
            "classes": self.classes,
            "vocabulary": self.vocabulary,
            "shape": shape_of(self.test.x),
            "clients": self.summary(),
            "test": described(self.test, self.task, self.classes),
            "test_parts": {name: len(rows) for name, rows in self.test_parts.items()},
            "details": dict(self.details),
            **({} if self.report is None else {"report": self.report.to_dict()}),
        }

    def lines(self, unicode: bool = True) -> list[str]:
        """The scenario in words, with a line per client."""
        return scenario_lines(self, unicode)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def thinned(self, rows: int) -> Scenario:
        """The scenario with at most so many rows per client, spread over each client's own: for trying things out."""
        if rows >= max(map(len, self.clients)):
            return self
        clients = tuple(data.thinned(rows) for data in self.clients)
        test = self.test.thinned(rows * self.n)
        return replace(self, clients=clients, test=test, test_parts={}, details={})

    def _converted(self, data: Dataset, whose: str) -> Dataset:
        x, y = data.x, data.y
        for name, leaf in leaves(x):
            if y.ndim < 1 or leaf.ndim < 1 or len(leaf) != len(y):
                raise ScenarioError(
                    f"Features and labels must have one row per sample. Got shapes {leaf.shape}"
                    f"{f' ({name})' if name else ''} and {y.shape} for {whose}."
                )
        labels = "labels" if self.task == CLASSIFICATION else "targets"
        if self.classes and y.shape[1:] == (1,):
            raise ScenarioError(
                f"Labels must be a single column, an array of one dimension. Got shape {y.shape} for {whose}."
            )
        y = finite(y, f"the {labels} of {whose}")
        if self.task == OWN and y.dtype.kind in "iub":
            y = y.astype(np.int64)
        else:
            y = class_numbers(y, self.classes, f"labels of {whose}") if self.classes else float32(y)
        return Dataset(
            mapped(lambda leaf: self._features(leaf, x is leaf, whose), x), np.ascontiguousarray(y)
        )

    def _features(self, values: NDArray[Any], alone: bool, whose: str) -> NDArray[Any]:
        """One array of features in the type of numbers that it is used in."""
        values = finite(values, f"the features of {whose}")
        whole = values.dtype.kind in "iu" and not alone
        if self.vocabulary and (whole or alone):
            values = whole_numbers(values, self.vocabulary, f"token ids of {whose}")
        elif whole:
            values = values.astype(np.int64, copy=False)
        elif alone or values.dtype.kind == "f":
            values = float32(values)
        return np.ascontiguousarray(values)

    def _target_scale(self, clients: Sequence[Dataset]) -> Scale:
        if self.task != REGRESSION:
            return Scale()
        test = self.test.y if self.test.here else None
        scale = self.target_scale or common_scale([c.y for c in clients], test)
        if scale.spread < _LEAST_SPREAD * abs(scale.centre):
            raise ScenarioError(
                f"The targets lie about {scale.centre:.6g} and spread by {scale.spread:.3g} only: too little for "
                f"float32, which holds seven digits. Subtract {scale.centre:.6g} from all of them."
            )
        return scale

    def _unseen(self, clients: Sequence[Dataset], test: Dataset) -> list[str]:
        if self.task != CLASSIFICATION:
            return []
        unseen = np.setdiff1d(_classes_in([test]), _classes_in(clients)).tolist()
        return [f"The test set holds classes that no client has: {unseen}."] if unseen else []


def _check_kinds(scenario: Scenario) -> None:
    """What can be looked into as it must be; what is in it is checked later."""
    kinds = (
        ("clients", (list, tuple), "a list of fv.Dataset"),
        ("names", (list, tuple, np.ndarray), "a list of texts, one per client"),
        ("test_parts", Mapping, "a dict of row numbers by name"),
        ("details", Mapping, "a dict"),
        ("training", Mapping, "a dict of rules of training"),
    )
    for name, kind, expected in kinds:
        expect(f"{name} of a scenario", getattr(scenario, name), kind, expected, error=ScenarioError)
    for data, whose in (
        *((c, "Each client of a scenario") for c in scenario.clients),
        (scenario.test, "test"),
    ):
        hint = "Rows are given as fv.Dataset(x, y); fv.Scenario.from_arrays takes pairs (x, y)."
        expect(whose, data, Dataset, "an fv.Dataset", hint, error=ScenarioError)
    for name in ("classes", "vocabulary"):
        expect(
            f"{name} of a scenario",
            getattr(scenario, name),
            (int, np.integer),
            "a whole number",
            error=ScenarioError,
        )


def _checked_names(names: Sequence[str], n: int) -> tuple[str, ...]:
    given = tuple(str(name) for name in names)
    if n < 1:
        raise ScenarioError("A scenario needs at least one client. Got none.")
    if len(given) != n or len(set(given)) != n:
        raise ScenarioError(f"Names must be {n} different texts. Got {len(given)}: {list(given)[:12]}.")
    return given


def _check_task(task: str, classes: int, vocabulary: int) -> None:
    if task not in (CLASSIFICATION, REGRESSION, OWN):
        raise ScenarioError(f"The task must be {CLASSIFICATION!r}, {REGRESSION!r} or {OWN!r}. Got {task!r}.")
    if task == CLASSIFICATION and classes < 2:
        raise ScenarioError(f"A classification needs at least two classes. Got classes={classes}.")
    if task == REGRESSION and classes != 0:
        raise ScenarioError(f"A regression has no classes: classes must be 0. Got {classes}.")
    if task == OWN and classes != 0:
        raise ScenarioError(
            f"The labels of a task of your own are what you make of them: classes must be 0. Got {classes}."
        )
    if vocabulary < 0:
        raise ScenarioError(f"The vocabulary must not be negative. Got {vocabulary}.")


def _classes_in(parts: Sequence[Dataset]) -> NDArray[np.int64]:
    return np.unique(np.concatenate([labels_in(part.y) for part in parts]))


def _same_shapes(clients: Sequence[Dataset], test: Dataset, names: Sequence[str]) -> tuple[Dataset, ...]:
    """The clients, those without data given features and labels of the shape that all others have."""
    shape = shape_of(test.x)
    if shape == []:
        raise ScenarioError(f"Features need at least two dimensions (rows first). Got {test.x.shape}.")
    fitted = []
    for name, data in zip(names, clients, strict=True):
        without = not len(data) and shape_of(data.x) == []
        like = test.rows(slice(0, 0)) if without else data
        if shape_of(like.x) != shape:
            raise ScenarioError(
                f"All clients must have features of one shape. The test set has {_shown(test)}, client {name!r} "
                f"has {_shown(like)}."
            )
        if len(like) and like.y.shape[1:] != test.y.shape[1:]:
            raise ScenarioError(
                f"All clients must have labels of one shape. The test set has {test.y.shape[1:]}, client {name!r} "
                f"has {like.y.shape[1:]}."
            )
        fitted.append(like if len(like) else Dataset(like.x, test.y[:0]))
    return tuple(fitted)


def _shown(data: Dataset) -> str:
    return str(mapped(lambda leaf: leaf.shape[1:], data.x))


def _check_enough(clients: Sequence[Dataset], test: Dataset, task: str) -> None:
    if len(test) == 0:
        raise ScenarioError("The test set is empty. Without test rows no coalition can be measured.")
    if task == CLASSIFICATION and not labels_in(test.y).size:
        raise ScenarioError(
            "No label of the test set counts: all are -100. Without labels no coalition can be measured."
        )
    if not any(len(c) for c in clients):
        raise ScenarioError("No client has any data. At least one must have rows to train on.")
    if task == CLASSIFICATION:
        seen = _classes_in(clients)
        if len(seen) == 1:
            raise ScenarioError(
                f"All training rows of all clients have the same label, {seen[0]}. "
                "A classification needs at least two classes in the training data."
            )


def _checked_part(name: str, rows: NDArray[Any], count: int) -> NDArray[np.int64]:
    index = np.asarray(rows)
    if index.dtype == bool and index.shape == (count,):
        index = np.flatnonzero(index)
    fine = index.ndim == 1 and index.size > 0 and index.dtype.kind in "iu"
    if not fine or index.min() < 0 or index.max() >= count or len(np.unique(index)) != len(index):
        raise ScenarioError(
            f"A test part must hold different row numbers of the test set, 0 to {count - 1}. "
            f"Part {name!r} does not."
        )
    return index.astype(np.int64)
