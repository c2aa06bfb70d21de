"""The part of an error that comes from the sample of test rows.

Values are weighted sums of utilities, and utilities are means over test rows. So every test row has values of its own: the
same weighted sums of what it said about each model. The values are their means, and the covariance of the values over
other samples of m rows is that between rows, divided by m. The same rows measure every model with every seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedvalue._text import plural
from fedvalue.coalitions import Trial
from fedvalue.per_row import PerRow
from fedvalue.run._parts import with_part
from fedvalue.values import Estimate

__all__ = ["Asked", "of_test_rows", "trainings_of", "with_test_rows"]

Array = NDArray[np.float64]
Linear = Callable[[Array], Array]
Asked = list[tuple[Trial, ...]]

_FEWEST = 8  # rows or blocks: of fewer, a variance says next to nothing
_NUMBERS_AT_ONCE = 1 << 23  # 64 MiB


def with_test_rows(
    estimate: Estimate,
    asks: Sequence[Sequence[int] | Sequence[Trial]],
    replicates: int,
    told: Mapping[Trial, PerRow],
) -> tuple[Estimate, int | None]:
    """The estimate with the part from test rows in its errors, and how many rows there are; as it was where that is
    not known. `told` is what rows said, `asks` what the plan asked for.
    """
    if not any(row.varies or row.kind == "error" for row in told.values()):
        return estimate, None
    if estimate.linear is None:  # rows say what they say, but the method not what follows for its values
        return estimate, max(row.rows for row in told.values()) or None
    asked = list(trainings_of(asks, replicates))
    distinct = dict.fromkeys(trial for trainings in asked for trial in trainings)
    silent = [trial for trial in distinct if trial not in told]
    kinds = {
        (row.kind == "error", row.length)
        for trial in distinct
        if (row := told.get(trial)) and row.kind != "fixed"
    }
    if silent or len(kinds) != 1:
        return replace(estimate, notes=[*estimate.notes, _not_known(len(silent), len(distinct))]), None
    ((independent, length),) = kinds
    if not independent and length < _FEWEST:
        return estimate, None
    part = (
        _by_errors(estimate.linear, asked, told)
        if independent
        else _by_rows(estimate.linear, asked, told, length)
    )
    rows = max(told[trial].rows for trial in distinct)
    return with_part(estimate, "test", part), rows or None


def of_test_rows(linear: Linear, asked: Asked, told: Mapping[Trial, PerRow]) -> Array | None:
    """The covariance of values over samples of test rows, from what rows said of each training; None if not known."""
    distinct = {trial for trainings in asked for trial in trainings}
    if not distinct <= told.keys() or any(told[trial].kind == "error" for trial in distinct):
        return None
    lengths = {told[trial].length for trial in distinct if told[trial].varies}
    if len(lengths) != 1 or min(lengths) < _FEWEST:
        return None
    return _by_rows(linear, asked, told, lengths.pop())


def trainings_of(
    asks: Sequence[Sequence[int] | Sequence[Trial]], replicates: int
) -> Iterator[tuple[Trial, ...]]:
    """What was asked for, in order: one training, or the coalition's replicates, whose mean was answered."""
    for ask in asks:
        for one in ask:
            yield (one,) if isinstance(one, tuple) else tuple((int(one), r) for r in range(replicates))


def _by_rows(linear: Linear, asked: Asked, told: Mapping[Trial, PerRow], length: int) -> Array:
    step = max(8, _NUMBERS_AT_ONCE // len(asked) // 8 * 8)
    of_rows = []
    for start in range(0, length, step):
        stop = min(start + step, length)
        numbers = np.zeros((len(asked), stop - start))  # what is fixed moves nothing
        for place, trainings in enumerate(asked):
            for trial in trainings:
                if told[trial].varies:
                    numbers[place] += told[trial].array(start, stop) / len(trainings)
        of_rows.append(linear(numbers))
    covariance: Array = np.atleast_2d(np.cov(np.concatenate(of_rows, axis=1))) / length
    return covariance


def _by_errors(linear: Linear, asked: Asked, told: Mapping[Trial, PerRow]) -> Array:
    """Where only standard errors are known: every training errs for itself."""
    places: dict[Trial, list[int]] = {}
    for place, trainings in enumerate(asked):
        for trial in trainings:
            if told[trial].kind == "error":
                places.setdefault(trial, []).append(place)
    constant = linear(np.zeros((len(asked), 1)))
    covariance = np.zeros((len(constant), len(constant)))
    trials = list(places)
    step = max(1, _NUMBERS_AT_ONCE // len(asked))
    for start in range(0, len(trials), step):
        some = trials[start : start + step]
        numbers = np.zeros((len(asked), len(some)))
        for column, trial in enumerate(some):
            np.add.at(numbers[:, column], places[trial], told[trial].number / len(asked[places[trial][0]]))
        moved = linear(numbers) - constant
        covariance += moved @ moved.T
    return covariance


def _not_known(silent: int, trainings: int) -> str:
    if not silent:
        return "How far another sample of test rows would move the values is not known: not all trainings were measured on the same rows."
    return (
        "How far another sample of test rows would move the values is not known: "
        f"{silent} of {plural(trainings, 'training')} came without what single rows said."
    )
