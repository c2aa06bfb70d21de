"""Metrics of models: those that are measured of every trained model, those of one's own, and the one that counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import as_key, checked_init, did_you_mean
from fedvalue._extras import need
from fedvalue._imports import own_object
from fedvalue.errors import InputError, UtilityError
from fedvalue.learners._named import NAMED, named_metric
from fedvalue.outcome import own_metric
from fedvalue.store import FileNames, fingerprint
from fedvalue.training import Learner

__all__ = [
    "METRICS",
    "Counted",
    "Measuring",
    "Metric",
    "MetricLike",
    "Metrics",
    "count_by",
    "further_metrics",
    "measuring",
    "of_part",
]

METRICS: Mapping[str, Mapping[str, bool]] = {
    "classification": {
        "accuracy": True, "correct": True, "loss": False, "balanced_accuracy": True, "f1": True, "auc": True,
    },
    "regression": {"r2": True, "mse": False, "mae": False},
}  # fmt: skip
"""What is measured of every trained model, by task, and whether higher is better. The first is the usual utility."""

_MEANS = frozenset({"accuracy", "loss", "mse", "mae"})  # over test rows
_SUMS = frozenset({"correct"})

_TAKES = ("outputs", "predictions")
_EXPECTED = "a function (outputs, labels) → number, or a fedvalue.Metric"


@checked_init
@dataclass(frozen=True)
class Metric:
    """A metric of your own: `function(outputs, labels)` gives one finite number for one model.

    For a classification, `outputs` are the model's logits on all test rows, float64 of shape (rows, classes), and
    `labels` their classes, int64 of shape (rows,). For a regression both are float64 of shape (rows,). With
    `takes="predictions"` the function gets the predicted classes (int64, where the logit is largest) instead of the
    logits; the predictions of a regression are its outputs. The arrays are copies. Mind the order: scikit-learn's
    functions take the labels first.

    Where lower is better the negative of the metric is the utility. The function is called for every trained model,
    on the whole test set and on each of its named parts; a part on which it fails is left out. Sixteen further calls
    leave out a sixteenth of the test rows each: they tell by how much another sample of rows would change the number.

    A store recognises the function by its source text and what that refers to, and keeps the numbers of two
    functions of the same name apart; the content of `files`, which the function may read, counts as well. `key`
    replaces all that by a text of yours: change it when the numbers change.

    >>> hits = Metric("hits", lambda predicted, labels: float((predicted == labels).sum()), takes="predictions")
    >>> hits(np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1]))
    1.0
    """

    name: str
    function: Callable[[NDArray[Any], NDArray[Any]], float]
    higher_is_better: bool = True
    _: KW_ONLY
    takes: str = "outputs"
    key: str | None = None
    files: FileNames | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.higher_is_better, bool):
            raise InputError(
                f"higher_is_better of the metric {self.name!r} must be True or False. Got {self.higher_is_better!r}."
            )
        if (
            not isinstance(self.name, str)
            or not self.name.isprintable()
            or not self.name.strip()
            or "/" in self.name
        ):
            raise InputError(
                f"The name of a metric must be a line of text without a slash. Got {self.name!r}. A function "
                "without a usable name gets one by Metric('name', function)."
            )
        if any(self.name in names for names in METRICS.values()) and self.key != _key_of(self.name):
            raise InputError(
                f"{self.name!r} is a built-in metric. Give yours another name: Metric('name', function)."
            )
        if not callable(self.function):
            raise InputError(f"The metric {self.name!r} must be {_EXPECTED}. Got {self.function!r}.")
        if not isinstance(self.takes, str) or self.takes not in _TAKES:
            raise InputError(f"A metric takes {' or '.join(_TAKES)}. Got {self.takes!r} for {self.name!r}.")
        as_key(self.key)

    def __call__(self, outputs: NDArray[Any], labels: NDArray[Any]) -> float:
        """The metric of one model, checked to be a finite number."""
        of_classes = outputs.ndim > np.ndim(labels)
        if self.takes == "predictions" and of_classes:
            given = outputs.argmax(-1)
        else:
            given = np.array(outputs, dtype=np.float64)
        true = np.array(labels, dtype=np.int64 if of_classes else np.float64)
        try:
            number = self.function(given, true)
        except (Exception, SystemExit) as error:  # whatever the user's own function raises
            raise UtilityError(f"The metric {self.name!r} raised {type(error).__name__}: {error}.") from error
        if isinstance(number, (str, bytes)) or np.ndim(number) != 0 or np.iscomplexobj(number):
            raise UtilityError(
                f"The metric {self.name!r} must return one number. Got {_shown(number)}, a {type(number).__name__}."
            )
        try:
            found = float(number)
        except Exception as error:  # whatever the conversion of a user's own type raises
            raise UtilityError(
                f"The metric {self.name!r} must return one number. Got {_shown(number)}."
            ) from error
        if not math.isfinite(found):
            raise UtilityError(f"The metric {self.name!r} must return a finite number. Got {found}.")
        return found

    @property
    def of_scikit_learn(self) -> bool:
        """Whether it is scikit-learn's metric of that name, and not a function of the user's."""
        return self.key == _key_of(self.name)

    @property
    def stored_as(self) -> str:
        """The name under which outcomes hold it: two functions of one name are two metrics."""
        return own_metric(self.name, self._identity[0])

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the function refers to and a store could not see change."""
        return self._identity[1]

    @cached_property
    def _identity(self) -> tuple[str, tuple[str, ...]]:
        if self.key is not None:
            return fingerprint("key", self.key, self.takes)
        return fingerprint(self.function, self.takes, files=self.files, seeded=())


MetricLike = str | Metric | Callable[[NDArray[Any], NDArray[Any]], float]
"""A metric by name, by package.module:function, as a function, or as it is."""

Metrics = Sequence[MetricLike] | Mapping[str, MetricLike]
"""Several metrics, in a list or by names of one's own."""


@dataclass(frozen=True)
class Counted:
    """The metric that counts in a game. Outcomes hold it as `stored_as`; `own` is None where it is built in."""

    name: str
    higher_is_better: bool
    stored_as: str
    own: Metric | None = None

    @property
    def is_sum(self) -> bool:
        """Whether the metric of all test rows is the sum of that of their parts."""
        return self.name in _SUMS

    @property
    def adds_up(self) -> bool:
        """Whether the metric of all test rows follows from that of their parts: their sum, or a mean by rows."""
        return self.is_sum or self.name in _MEANS


@runtime_checkable
class Measuring(Protocol):
    """A learner whose sessions can also compute metrics of one's own: those it holds, by the names they are stored as."""

    own_metrics: Mapping[str, Metric]


def count_by(
    metric: MetricLike | None,
    task: str,
    parts: Collection[str],
    further: Mapping[str, Metric] = MappingProxyType({}),
) -> Counted:
    """The metric that counts: the usual one where none is given; part/name counts a named part of the test set.

    `further` are metrics of the game's own, by name (see `further_metrics`).

    >>> count_by("late/loss", "classification", ["late"])
    Counted(name='late/loss', higher_is_better=False, stored_as='late/loss', own=None)
    >>> count_by("late/log_loss", "classification", ["late"]).higher_is_better
    False
    """
    built_in = METRICS.get(task, {})
    if metric is None:
        if not built_in:
            raise InputError(
                "A task of your own has no usual metric. Give one: metric='log_loss', say, or a function "
                "(outputs, labels) → number."
            )
        metric = next(iter(built_in))
    if not isinstance(metric, str) or ":" in metric:
        return _counted(_own(metric))
    name = _of_all(metric, parts)
    part = metric[: -len(name) - 1] if name != metric else ""
    if name in built_in:
        return Counted(metric, built_in[name], metric)
    own = further.get(name) or _named(name, task)
    if own is None:
        shown = [*built_in, *further, *(f"{part}/{name}" for part in parts for name in built_in)]
        known = [*shown, *NAMED.get(task, ())]
        raise InputError(
            f"Unknown metric {metric!r}. {did_you_mean(metric, known)}Metrics of this game: {', '.join(shown)}; those of "
            "scikit-learn for this task, such as "
            f"{'explained_variance' if task == 'regression' else 'log_loss'}; or package.module:function."
        )
    return of_part(_counted(own), part) if part else _counted(own)


def further_metrics(given: Metrics, task: str, parts: Collection[str] = ()) -> dict[str, Metric]:
    """Metrics that are measured besides, by name; built-in ones are measured anyway, and left out.

    Each is measured on all named parts of the test set, too: `late/log_loss` in a list is `log_loss`.

    >>> list(further_metrics(["accuracy", "log_loss", "recall[1]"], "classification"))
    ['log_loss', 'recall[1]']
    """
    if isinstance(given, str) or not isinstance(given, (Mapping, Sequence)):
        raise InputError(
            "metrics must be a list of metrics, or a dict of metrics by name, such as {'hits': function}. Got "
            f"{_shown(given)}."
        )
    pairs = given.items() if isinstance(given, Mapping) else ((None, metric) for metric in given)
    found: dict[str, Metric] = {}
    for name, metric in pairs:
        if name is None and isinstance(metric, str):
            metric = _of_all(metric, parts)
            if metric in METRICS.get(task, {}):
                continue
        if name is not None and not isinstance(metric, (str, Metric)) and callable(metric):
            own = Metric(name, metric)
        else:
            counted = count_by(metric, task, ())
            if counted.own is None:
                raise InputError(
                    f"{counted.name!r} is measured anyway, by that name. Leave it out of metrics."
                )
            own = counted.own if name is None else replace(counted.own, name=name)
        if own.name in found and found[own.name].stored_as != own.stored_as:
            raise InputError(f"Two metrics are called {own.name!r}. Give one of them another name.")
        found[own.name] = own
    return found


def _of_all(metric: str, parts: Collection[str]) -> str:
    """The name of a metric without that of a part of the test set."""
    part = next((p for p in sorted(parts, key=len, reverse=True) if metric.startswith(f"{p}/")), None)
    return metric if part is None else metric.removeprefix(f"{part}/")


def _named(name: str, task: str) -> Metric | None:
    """The metric of scikit-learn's by this name, if it is one of the task's."""
    found = named_metric(name, task)
    if found is None:
        return None
    need("sklearn", f"The metric {name!r}")
    function, higher_is_better = found
    return Metric(name, function, higher_is_better, key=_key_of(name))


def _key_of(name: str) -> str:
    return f"scikit-learn {name}"


def _counted(own: Metric) -> Counted:
    return Counted(own.name, own.higher_is_better, own.stored_as, own)


def of_part(counted: Counted, part: str) -> Counted:
    """The same metric on a named part of the test set.

    >>> of_part(Counted("loss", False, "loss"), "late").stored_as
    'late/loss'
    """
    return replace(counted, name=f"{part}/{counted.name}", stored_as=f"{part}/{counted.stored_as}")


def measuring(learner: Learner, own: Mapping[str, Metric]) -> Learner:
    """The learner, with sessions that also compute these metrics, and no others of one's own."""
    if isinstance(learner, Measuring):
        twin = copy(learner)
        twin.own_metrics = own
        return cast(Learner, twin)
    if not own:
        return learner
    names = ", ".join(repr(metric.name) for metric in own.values())
    raise InputError(
        f"The metric {names} cannot be computed here: a {type(learner).__name__} measures its models itself and does "
        "not hand out what they say about the test rows. Choose a built-in metric."
    )


def _own(metric: MetricLike) -> Metric:
    if isinstance(metric, str):
        metric = cast(MetricLike, own_object(metric, "metric", _EXPECTED))
    if isinstance(metric, Metric):
        return metric
    name = getattr(metric, "__name__", "")
    if not callable(metric) or name in ("", "<lambda>"):
        raise InputError(
            f"A metric is given by name or as {_EXPECTED}. Got {_shown(metric)}"
            + (", which has no name: give it one by Metric('name', function)." if callable(metric) else ".")
        )
    return Metric(name, metric)


def _shown(thing: object) -> str:
    text = repr(thing)
    return text if len(text) <= 60 else f"{text[:60]}…"
