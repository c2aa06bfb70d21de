"""Metrics that scikit-learn computes from predictions, by the names that it has for them.

`neg_log_loss` is log_loss with its sign turned, as scikit-learn's scorers have it; both can be asked for. `recall[3]` is
that of class 3 against the rest. Where a row has a label at each of several places, all that count are taken together.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._extras import need
from fedvalue.scenarios import IGNORED

__all__ = ["NAMED", "named_metric"]

Array = NDArray[Any]
_PER_CLASS = re.compile(r"(?P<name>\w+)\[(?P<place>\d+)\]")


@dataclass(frozen=True)
class _Named:
    """A function of scikit-learn's, what it takes of a model (labels, scores or probabilities), and its direction."""

    function: str
    takes: str = "labels"
    higher_is_better: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    all_classes: bool = False  # is told which classes there are, for test rows that lack one


def _averaged(names: Mapping[str, str]) -> dict[str, _Named]:
    """Precision and its like: of class 1 by the plain name, else averaged as the name says."""
    found = {}
    for name, function in names.items():
        for average in ("binary", "macro", "micro", "weighted", "samples"):
            options = {"average": average, "zero_division": 0}
            found[name if average == "binary" else f"{name}_{average}"] = _Named(function, options=options)
    return found


_CLASSIFICATION: dict[str, _Named] = {
    "matthews_corrcoef": _Named("matthews_corrcoef"),
    **_averaged({"precision": "precision_score", "recall": "recall_score", "jaccard": "jaccard_score"}),
    **{name: named for name, named in _averaged({"f1": "f1_score"}).items() if name != "f1"},
    "f1_binary": _Named("f1_score", options={"zero_division": 0}),
    "positive_likelihood_ratio": _Named("class_likelihood_ratios"),
    "negative_likelihood_ratio": _Named("class_likelihood_ratios", higher_is_better=False),
    "log_loss": _Named("log_loss", "probabilities", False, all_classes=True),
    "brier_score": _Named("brier_score_loss", "probabilities", False, all_classes=True),
    "d2_log_loss_score": _Named("d2_log_loss_score", "probabilities", all_classes=True),
    "d2_brier_score": _Named("d2_brier_score", "probabilities", all_classes=True),
    "roc_auc": _Named("roc_auc_score", "scores"),
    "average_precision": _Named("average_precision_score", "scores"),
    "top_k_accuracy": _Named("top_k_accuracy_score", "scores", all_classes=True),
    **{
        f"roc_auc_{way}{suffix}": _Named(
            "roc_auc_score", "probabilities", options={"multi_class": way, "average": average}
        )
        for way in ("ovr", "ovo")
        for suffix, average in (("", "macro"), ("_weighted", "weighted"))
    },
    **{
        name: _Named(name)  # of groups: how alike predicted classes and labels divide the rows, whatever their names
        for name in (
            "adjusted_mutual_info_score", "adjusted_rand_score", "completeness_score", "fowlkes_mallows_score",
            "homogeneity_score", "mutual_info_score", "normalized_mutual_info_score", "rand_score", "v_measure_score",
        )
    },
}  # fmt: skip

_REGRESSION: dict[str, _Named] = {
    "explained_variance": _Named("explained_variance_score"),
    "d2_absolute_error_score": _Named("d2_absolute_error_score"),
    **{
        name: _Named(name, higher_is_better=False)
        for name in (
            "max_error", "mean_absolute_error", "mean_squared_error", "mean_squared_log_error", "median_absolute_error",
            "mean_absolute_percentage_error", "mean_gamma_deviance", "mean_poisson_deviance", "root_mean_squared_error",
            "root_mean_squared_log_error",
        )
    },
    "rmse": _Named("root_mean_squared_error", higher_is_better=False),
    "mape": _Named("mean_absolute_percentage_error", higher_is_better=False),
}  # fmt: skip


def _with_opposites(table: Mapping[str, _Named]) -> dict[str, _Named]:
    opposites = {f"neg_{name}": named for name, named in table.items() if not named.higher_is_better}
    return {**table, **opposites}


NAMED: Mapping[str, Mapping[str, _Named]] = {
    "classification": _with_opposites(_CLASSIFICATION),
    "regression": _with_opposites(_REGRESSION),
    "own": {
        **_with_opposites(_CLASSIFICATION),
        **_with_opposites(_REGRESSION),
        "accuracy": _Named("accuracy_score"),
        "balanced_accuracy": _Named("balanced_accuracy_score"),
        "f1": _Named("f1_score", options={"zero_division": 0}),
        "r2": _Named("r2_score"),
    },
}
"""By task, the metrics that are known by name besides the built-in ones."""

_OF_CLASS: Mapping[str, _Named] = {
    "accuracy": _Named("recall_score", options={"zero_division": 0}),  # of the rows of that class
    "recall": _Named("recall_score", options={"zero_division": 0}),
    "precision": _Named("precision_score", options={"zero_division": 0}),
    "f1": _Named("f1_score", options={"zero_division": 0}),
    "jaccard": _Named("jaccard_score", options={"zero_division": 0}),
    "auc": _Named("roc_auc_score", "scores"),
    "average_precision": _Named("average_precision_score", "scores"),
    "brier_score": _Named("brier_score_loss", "scores", False),
}


def named_metric(name: str, task: str) -> tuple[Callable[[Array, Array], float], bool] | None:
    """The function (outputs, labels) → number of this name, and whether higher is better; None where there is none.

    >>> named_metric("neg_log_loss", "classification")[1], named_metric("mape", "regression")[1]
    (True, False)
    """
    per_class = _PER_CLASS.fullmatch(name)
    if per_class and task != "regression" and per_class["name"] in _OF_CLASS:
        of_class = _OF_CLASS[per_class["name"]]
        return partial(_of_class, of_class, int(per_class["place"])), of_class.higher_is_better
    named = NAMED.get(task, {}).get(name)
    if named is None:
        return None
    turned = name.startswith("neg_")
    return partial(_computed, named, name, -1.0 if turned else 1.0), turned or named.higher_is_better


def _computed(named: _Named, name: str, sign: float, outputs: Array, labels: Array) -> float:
    said, true, classes = _lined_up(outputs, labels)
    if classes is None:
        given: Array = said if named.takes == "labels" else _sigmoid(said)
        if named.takes == "labels" and named in _CLASSIFICATION.values():
            given = (said > 0).astype(np.int64)
        options = dict(named.options)
    else:
        given = _as_wanted(named, name, said)
        known = {"labels": np.arange(classes)} if named.all_classes else {}
        options = {**named.options, **known}
    return sign * _called(named, name, true, given, options)


def _of_class(named: _Named, place: int, outputs: Array, labels: Array) -> float:
    said, true, classes = _lined_up(outputs, labels)
    if classes is None:  # a column of a multi-label matrix
        if place >= said.shape[1]:
            raise ValueError(f"there are {said.shape[1]} columns, and none with the number {place}")
        probability, positive, predicted = _sigmoid(said)[:, place], true[:, place] > 0, said[:, place] > 0
    else:
        if place >= classes:
            raise ValueError(f"classes are 0 to {classes - 1}, and {place} is none of them")
        probability, positive, predicted = _softmax(said)[:, place], true == place, said.argmax(1) == place
    if not positive.any():
        raise ValueError(f"no test row is of class {place}")
    given = predicted if named.takes == "labels" else probability
    numbers = given.astype(np.int64) if named.takes == "labels" else given
    return _called(named, "", positive.astype(np.int64), numbers, dict(named.options))


def _lined_up(outputs: Array, labels: Array) -> tuple[Array, Array, int | None]:
    """Rows (or places) with a number per class, their labels, and how many classes; None: outputs are like labels."""
    if outputs.ndim == labels.ndim:
        if outputs.ndim > 2:
            outputs, labels = outputs.reshape(len(outputs), -1), labels.reshape(len(labels), -1)
        return outputs, labels, None
    classes = outputs.shape[-1]
    said, true = outputs.reshape(-1, classes), labels.reshape(-1)
    counts = true != IGNORED
    return said[counts], true[counts], classes


def _as_wanted(named: _Named, name: str, said: Array) -> Array:
    if named.takes == "labels":
        predicted: Array = said.argmax(1)
        return predicted
    if named.takes == "scores":
        return said[:, 1] - said[:, 0] if said.shape[1] == 2 else _softmax(said)
    probabilities = _softmax(said)
    two = said.shape[1] == 2 and named.function in ("roc_auc_score", "brier_score_loss", "d2_brier_score")
    return probabilities[:, 1] if two else probabilities


def _called(named: _Named, name: str, true: Array, given: Array, options: dict[str, Any]) -> float:
    metrics = need("sklearn.metrics", "This metric")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is undefined is not finite, and refused as that
        found = getattr(metrics, named.function)(true, given, **options)
    if named.function == "class_likelihood_ratios":
        found = found[0] if "positive" in name else found[1]
    return float(found)


def _softmax(said: Array) -> Array:
    shifted = np.exp(said - said.max(1, keepdims=True))
    found: Array = shifted / shifted.sum(1, keepdims=True)
    return found


def _sigmoid(said: Array) -> Array:
    return np.where(
        said >= 0, 1 / (1 + np.exp(-np.abs(said))), np.exp(-np.abs(said)) / (1 + np.exp(-np.abs(said)))
    )
