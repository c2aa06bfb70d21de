"""Values by other metrics and on named parts of the test rows, from trainings that are there: nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedvalue._extras import limited_threads
from fedvalue.errors import FedvalueError
from fedvalue.estimators import ESTIMATORS, Plan
from fedvalue.learners.metrics import METRICS
from fedvalue.outcome import empty_metric, plain_metric
from fedvalue.report._trained import Absent
from fedvalue.store import History, lower_is_better
from fedvalue.values import Values
from fedvalue.weights import owen

__all__ = ["Other", "other_metrics"]

Array = NDArray[np.float64]

_SAME = (
    1e-6  # of the largest value: less is floating-point arithmetic, which a fit to many trainings amplifies
)
_MOST_ASKS = 10_000
_MOST_CLIENTS = 200
_AS_ANOTHER = ("correct",)  # the same as the accuracy, times the number of rows


@dataclass(frozen=True)
class Other:
    """The values of all clients by another metric, or on a `part` of the test rows ("" is all of them)."""

    metric: str
    part: str
    mean: tuple[float, ...]

    @property
    def is_part(self) -> bool:
        """Whether it is the same metric on other test rows."""
        return bool(self.part)


def other_metrics(values: Values, trainings: History) -> list[Other] | Absent:
    """What the same weighted sums of the same trainings give for every other metric that the store has.

    The method is led through the stored trainings again; where that does not give the values that are reported, its
    options are not known, and nothing is said.
    """
    chosen = _chosen(values, trainings)
    if not chosen:
        return Absent("The store has no other metric of these trainings.")
    if values.n > _MOST_CLIENTS:
        return Absent(f"Other metrics are not looked at for more than {_MOST_CLIENTS} clients.")
    # The method may ask for what is not in the store.
    with suppress(FedvalueError, KeyError), limited_threads(1):
        valued = _valuing(values, trainings)
        if valued is not None:
            return [
                Other(plain_metric(leaf), part, tuple(valued(stored_as).tolist()))
                for part, leaf, stored_as in chosen
            ]
    return Absent(
        "That takes the method once more, on the stored trainings. Either its options are not recorded with the values, or "
        "with another metric it asks for trainings that are not in the store."
    )


def _chosen(values: Values, trainings: History) -> list[tuple[str, str, str]]:
    """Other metrics of the same rows, and the same metric on other rows: part, metric, and how the store calls it."""
    own_part, _, own = values.stored_as.rpartition("/")
    known = {name for of_task in METRICS.values() for name in of_task} - set(_AS_ANOTHER)
    found = []
    for stored_as in trainings.measured:
        part, _, leaf = stored_as.rpartition("/")
        other_metric = part == own_part and leaf != own and leaf in known
        other_rows = part != own_part and leaf == own
        if (other_metric or other_rows) and stored_as in trainings.untrained:
            found.append((part if other_rows else "", leaf, stored_as))
    return found


def _valuing(values: Values, trainings: History) -> Callable[[str], Array] | None:
    """What makes values of a metric, by its name in the store; None where it cannot be known.

    Where the method says so, the weights of its trainings are those that it found for the metric that counts.
    """
    led = _led(values, _numbers(values, trainings, values.stored_as))
    if np.abs(led.mean - values.mean).max() > _SAME * (np.abs(values.mean).max() or 1.0):
        return None

    def valued(metric: str) -> Array:
        numbers = _numbers(values, trainings, metric)
        if led.linear is None:
            return _led(values, numbers).mean
        return np.asarray(led.linear(np.array([[numbers(trial)] for trial in led.asked])))[:, 0]

    return valued


Ask = tuple[int, int | None]


class _Led(NamedTuple):
    """What came of a method that was led through known trainings."""

    mean: Array
    linear: Callable[[Array], Array] | None
    asked: list[Ask]


def _led(values: Values, numbers: Callable[[Ask], float]) -> _Led:
    """Leads the plan of the method through known trainings; a KeyError where it asks for one that is not there."""
    plan = _plan(values)
    asked: list[Ask] = []
    ask = next(plan)
    for _ in range(_MOST_ASKS):
        trials = _trials(ask)
        asked += trials
        try:
            ask = plan.send(np.array([numbers(trial) for trial in trials]))
        except StopIteration as done:
            return _Led(done.value.mean, done.value.linear, asked)
    raise KeyError("the method asks on and on")


def _plan(values: Values) -> Plan:
    method = ESTIMATORS.get("exact" if values.guarantee == "exact" else values.method)
    if method is None or method.plan is None or values.budget is None:
        raise KeyError(values.method)
    rng = np.random.default_rng(values.seed or 0)
    given = {"weights": owen(values.n, values.blocks)} if values.groups else {}
    if method.name == "exact":  # of the mean over seeds, where there were several
        return method.plan(values.n, 1 << values.n, rng, **given)
    if method.uses_seeds:
        seeds = {"seeds": values.seeds, "most_seeds": values.most_seeds}
        return method.plan(values.n, values.budget, rng, **seeds, **given)
    return method.plan(values.n, values.budget, rng)


def _trials(ask: Sequence[int] | Sequence[tuple[int, int]]) -> list[Ask]:
    return [one if isinstance(one, tuple) else (int(one), None) for one in ask]


def _numbers(values: Values, trainings: History, stored_as: str) -> Callable[[Ask], float]:
    """The utility by a metric of a coalition, with one seed or as the mean of all its trainings."""
    own = stored_as == values.stored_as
    sign = (
        values.sign
        if stored_as.rpartition("/")[2] == values.stored_as.rpartition("/")[2]
        else _sign(stored_as)
    )
    table = trainings.numbers(stored_as)
    empty = values.utility_of_none if own else sign * _untrained(values, trainings.untrained, stored_as)

    def number(trial: Ask) -> float:
        mask, seed = trial
        if (mask == 0 or mask in trainings.without_data) and empty is not None:
            return empty
        of_mask = table[mask]
        return sign * (float(np.mean(list(of_mask.values()))) if seed is None else of_mask[seed])

    return number


def _sign(stored_as: str) -> int:
    return -1 if lower_is_better(stored_as) else 1


def _untrained(values: Values, known: Mapping[str, float], stored_as: str) -> float:
    """v(∅) by the rule of the values, where the store has that for this metric; else that of the untrained model."""
    rule = values.empty.rule if values.empty else ""
    return known.get(empty_metric(stored_as, rule), known[stored_as])
