"""What each test row says of a model, for the scorers of scikit-learn where that follows from a formula.

The mean over rows is the score; by how much they differ tells what another sample of rows would change. For scores that
are no means over rows, a row says how far it moves the score: of an AUC, with which share of the other class it is in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from fedvalue.learners.scikit import Answers

__all__ = ["BY_ROW"]

Array = NDArray[np.float64]


def _accuracy(asked: Answers, y: Array) -> Array:
    right: Array = (_said(asked, "predict", y) == y).astype(np.float64)
    return right


def _log_loss(asked: Answers, y: Array) -> Array:
    probabilities = _said(asked, "predict_proba", y)
    if probabilities.min() < 0 or probabilities.max() > 1 + 1e-6:
        raise ValueError("predict_proba gives numbers below 0 or above 1")
    least = np.finfo(probabilities.dtype).eps
    of_labels = probabilities[np.arange(len(y)), np.searchsorted(asked.classes_, y)]
    return np.log(np.clip(of_labels, least, 1 - least)).astype(np.float64)


def _auc(asked: Answers, y: Array) -> Array:
    """Of two classes. Of more there is no number: scikit-learn has other names for the ways to average."""
    if len(asked.classes_) != 2:
        raise ValueError("there are more than two classes: say roc_auc_ovr or roc_auc_ovo")
    has_values = hasattr(asked, "decision_function")
    said = _said(asked, "decision_function" if has_values else "predict_proba", y)
    said = said if said.ndim == 1 else said[:, 1]
    ill = y == asked.classes_[1]
    if ill.all() or not ill.any():
        return np.full(1, np.nan)
    ordered = np.empty(len(y))
    for own in (ill, ~ill):
        others = np.sort(said[~own])
        below, upto = (np.searchsorted(others, said[own], side) for side in ("left", "right"))
        share = (below + upto) / (2 * len(others))
        ordered[own] = share if own is ill else 1 - share
    auc = ordered[ill].mean()
    found: Array = auc + (ordered - auc) * len(y) / np.where(ill, ill.sum(), (~ill).sum())
    return found


def _squared(asked: Answers, y: Array) -> Array:
    return -np.square(y - _said(asked, "predict", y))


def _absolute(asked: Answers, y: Array) -> Array:
    return -np.abs(y - _said(asked, "predict", y))


def _r2(asked: Answers, y: Array) -> Array:
    errors, spread = np.square(y - _said(asked, "predict", y)), np.square(y - y.mean())
    if not spread.any():
        return np.full(1, np.nan)
    unexplained = errors.mean() / spread.mean()
    found: Array = 1 - unexplained - (errors - unexplained * spread) / spread.mean()
    return found


BY_ROW: Mapping[str, Callable[[Answers, Array], Array]] = {
    "accuracy": _accuracy,
    "neg_log_loss": _log_loss,
    "roc_auc": _auc,
    "r2": _r2,
    "neg_mean_squared_error": _squared,
    "neg_mean_absolute_error": _absolute,
}


def _said(asked: Answers, question: str, y: Array) -> Array:
    """What a model answers, checked as scikit-learn does before it computes a score."""
    answers: Array = np.asarray(getattr(asked, question)(np.arange(len(y))))
    if question == "predict" and answers.shape == (len(y), 1):  # a column
        answers = answers[:, 0]
    if len(answers) != len(y) or (question == "predict" and answers.ndim != 1):
        raise ValueError(f"{question} gives an array of shape {answers.shape} for {len(y)} rows")
    if answers.dtype.kind == "f" and np.isnan(answers).any():
        raise ValueError(f"{question} gives NaN")
    if question == "predict" and (answers.dtype.kind in "US") != (y.dtype.kind in "US") and y.dtype != object:
        raise ValueError(f"{question} gives {answers.dtype}, labels are {y.dtype}")
    return answers
