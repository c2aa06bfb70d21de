"""Answers that ignore the features: the best constant, guessing, and by how much luck may beat them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from fedvalue.errors import InputError
from fedvalue.learners._scores import outcomes
from fedvalue.learners.metrics import Counted, Metric
from fedvalue.outcome import Outcome
from fedvalue.scenarios import CLASSIFICATION, OWN, REGRESSION, Scenario, labels_in
from fedvalue.yardsticks import Baseline, margin_by_luck

__all__ = ["baseline_of", "chance_metrics", "majority_label", "majority_outcome"]

# Metrics of scikit-learn's that the same constant is best in as in a built-in one, and as many rows bring as far by luck.
_LIKE = {
    **dict.fromkeys(("log_loss", "neg_log_loss"), "loss"),
    **dict.fromkeys(("roc_auc", "roc_auc_ovr", "roc_auc_ovo"), "auc"),
    **dict.fromkeys(("mean_squared_error", "neg_mean_squared_error"), "mse"),
}
_ROOTS = frozenset(["rmse", "neg_rmse", "root_mean_squared_error", "neg_root_mean_squared_error"])
_ABSOLUTE = "mae"  # the one built-in metric whose best constant is the median and not the mean


def majority_label(scenario: Scenario) -> str:
    """What the best constant answer is, in words."""
    return "the most frequent class" if scenario.task == CLASSIFICATION else "the mean of the targets"


def majority_outcome(scenario: Scenario, own: Mapping[str, Metric]) -> Outcome:
    """All metrics, on the test rows, and what those say, of the answer that is best for the training rows among those that are the same
    for every row: the most frequent class (its probability by frequency, one row of each class added, so that an
    unseen one is not impossible), or the mean of the targets (for the mean absolute error the median).
    """
    if scenario.task == OWN:
        raise InputError(
            "The best constant answer to a task of your own is not known. Choose initial or a number."
        )
    if not scenario.test.here or not all(data.here for data in scenario.clients):
        raise InputError(
            "The most frequent class cannot be known here: the rows of the clients, or the test rows, are at their "
            "nodes. Choose initial, chance or a number."
        )
    return _constant_answer(scenario, np.concatenate([data.y for data in scenario.clients]), own)


def chance_metrics(scenario: Scenario) -> dict[str, float]:
    """Built-in metrics of guessing all classes equally often; where the test rows are elsewhere, not all of them."""
    if scenario.task != CLASSIFICATION:
        what = "regression" if scenario.task == REGRESSION else "task of your own"
        raise InputError(f"Guessing needs classes, and this is a {what}. Choose initial or a number.")
    if not scenario.test.here:
        return _guessed(scenario.classes, len(scenario.test), None)
    labels = labels_in(scenario.test.y)
    found = _guessed(scenario.classes, len(labels), labels)
    for part, rows in scenario.test_parts.items():
        labels = labels_in(scenario.test.y[rows])
        of_part = _guessed(scenario.classes, len(labels), labels)
        found |= {f"{part}/{name}": number for name, number in of_part.items()}
    return found


def _guessed(classes: int, rows: int, labels: NDArray[np.int64] | None) -> dict[str, float]:
    even = 1 / classes
    found = {
        "accuracy": even, "correct": rows * even, "loss": math.log(classes), "balanced_accuracy": even, "auc": 0.5,
    }  # fmt: skip
    if labels is not None:
        shares = np.unique(labels, return_counts=True)[1] / len(labels)
        found["f1"] = float((2 * even * shares / (even + shares)).mean())
    return found


def baseline_of(scenario: Scenario, counted: Counted) -> Baseline | None:
    """What a model has to beat in the metric that counts; None where it cannot be known.

    Where the clients' rows are elsewhere, the constant is the best one for the test rows themselves.
    """
    part, _, name = counted.name.rpartition("/")
    alike = name if counted.own is None else _alike(counted.own)
    if alike is None or scenario.task == OWN or not scenario.test.here:
        return None
    here = [data.y for data in scenario.clients if data.here]
    known = len(here) == scenario.n
    seen = np.concatenate(here) if known else scenario.test.y
    own = {} if counted.own is None else {counted.own.stored_as: counted.own}
    number = _constant_answer(scenario, seen, own).metrics[counted.stored_as]
    label = f"always answering {majority_label(scenario)}"
    label += "" if known else " of the test rows"
    labels = labels_in(scenario.test.y[scenario.test_parts[part]] if part else scenario.test.y)
    if name == "f1" and number < (guessed := 1 / len(np.unique(labels))):
        number, label = guessed, "guessing by the frequencies of the classes"
    number_as_utility = number if counted.higher_is_better else -number
    if name in _ROOTS:  # a small change of a mean of squares is 2·root times that of its root
        return Baseline(
            label, number_as_utility, margin_by_luck(alike, number**2, labels) / (2 * abs(number) or 1)
        )
    return Baseline(label, number_as_utility, margin_by_luck(alike, abs(number), labels))


def _alike(own: Metric) -> str | None:
    """The built-in metric that this one is like; a constant answer may be the best there is in others, such as recall."""
    if not own.of_scikit_learn:
        return None
    return "mse" if own.name in _ROOTS else _LIKE.get(own.name)


def _constant_answer(scenario: Scenario, seen: NDArray[np.float64], own: Mapping[str, Metric]) -> Outcome:
    shape = np.shape(scenario.test.y)
    if scenario.task == CLASSIFICATION:
        counts = np.bincount(labels_in(seen), minlength=scenario.classes) + 1.0
        return _scored(scenario, np.tile(np.log(counts / counts.sum()), (*shape, 1)), own)
    mean, median = float(np.mean(seen, dtype=np.float64)), float(np.median(seen))
    found = _scored(scenario, np.full((*shape, 1), mean), own)
    of_median = _scored(scenario, np.full((*shape, 1), median), {})
    absolute = [name for name in of_median.metrics if name.rpartition("/")[2] == _ABSOLUTE]
    return found._replace(
        metrics={**found.metrics, **{name: of_median.metrics[name] for name in absolute}},
        rows={**found.rows, **{name: of_median.rows[name] for name in absolute if name in of_median.rows}},
    )


def _scored(scenario: Scenario, outputs: NDArray[np.float64], own: Mapping[str, Metric]) -> Outcome:
    parts = {name: torch.from_numpy(rows) for name, rows in scenario.test_parts.items()}
    targets = torch.from_numpy(np.asarray(scenario.test.y))
    return outcomes(torch.from_numpy(outputs)[None], targets, scenario.task, parts, own)[0]
