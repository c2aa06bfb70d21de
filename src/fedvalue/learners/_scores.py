"""Metrics of many models at once, from their outputs on the test set."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedvalue.errors import UtilityError
from fedvalue.learners.metrics import Metric
from fedvalue.scenarios import Scale

__all__ = ["scores"]

_PLAIN = Scale()


def scores(
    outputs: Tensor,
    targets: Tensor,
    task: str,
    parts: Mapping[str, Tensor],
    own: Mapping[str, Metric] | None = None,
    scale: Scale = _PLAIN,
) -> list[dict[str, float]]:
    """All metrics of each model: outputs are (models, samples, classes) or, for regression, (…, 1).

    Metrics on a named part of the test set are called part/metric. A model with outputs that are not
    finite gets nan everywhere. `own` are metrics of the user's, by the names under which they are stored.
    Outputs of a regression are in units of `scale`, targets and metrics in their own.
    """
    if outputs.device.type == "mps":  # which has no float64
        outputs, targets = outputs.cpu(), targets.cpu()
        parts = {part: rows.cpu() for part, rows in parts.items()}
    outputs = scale.original(outputs)
    measure = _classification if task == "classification" else _regression
    columns = measure(outputs, targets)
    for part, rows in parts.items():
        of_part = measure(outputs[:, rows], targets[rows])
        columns.update({f"{part}/{metric}": column for metric, column in of_part.items()})
    finite = torch.isfinite(outputs).flatten(1).all(1)
    table = torch.stack(list(columns.values()), dim=1).double()
    table = torch.where(finite[:, None], table, torch.full_like(table, float("nan")))
    measured = [dict(zip(columns, map(float, row), strict=True)) for row in table.cpu().tolist()]
    if own:
        rows_of = {part: rows.cpu().numpy() for part, rows in parts.items()}
        labels = targets.cpu().numpy()
        for metrics, model, is_finite in zip(measured, outputs, finite.tolist(), strict=True):
            said = (model if task == "classification" else model.squeeze(1)).cpu().numpy()
            if is_finite:
                metrics |= _own_scores(said, labels, rows_of, own)
            else:
                metrics |= dict.fromkeys(own, float("nan"))
    return measured


def _own_scores(
    outputs: NDArray[np.float64],
    labels: NDArray[np.float64],
    parts: Mapping[str, NDArray[np.int64]],
    own: Mapping[str, Metric],
) -> dict[str, float]:
    """The user's metrics of one model; of a part only where the function can be computed there."""
    measured = {}
    for stored_as, metric in own.items():
        measured[stored_as] = metric(outputs, labels)
        for part, rows in parts.items():
            try:
                measured[f"{part}/{stored_as}"] = metric(outputs[rows], labels[rows])
            except UtilityError:  # a part may have one class only, or no row at all
                continue
    return measured


def _classification(logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
    models, _, classes = logits.shape
    predicted = logits.argmax(2)
    right = predicted == labels
    log_likelihood = torch.log_softmax(logits.double(), dim=2).gather(2, labels.expand(models, -1)[..., None])
    one_hot = torch.nn.functional.one_hot(labels, classes).double()
    support = one_hot.sum(0)
    present = support > 0
    hits = right.double() @ one_hot
    guesses = torch.nn.functional.one_hot(predicted, classes).sum(1).double()
    recall = hits / support.clamp(min=1)
    f1 = 2 * hits / (guesses + support).clamp(min=1)
    return {
        "accuracy": right.double().mean(1),
        "correct": right.double().sum(1),
        "loss": -log_likelihood.squeeze(2).mean(1),
        "balanced_accuracy": recall[:, present].mean(1),
        "f1": f1[:, present].mean(1),
        "auc": _auc(logits, labels, present),
    }


def _auc(logits: Tensor, labels: Tensor, present: Tensor) -> Tensor:
    """Area under the ROC curve, the mean over classes of one against the rest; two classes: of class 1.

    Mann–Whitney: the rank sum of the positives, ties at their mean rank. A test set with one class only has
    no ranking to measure: 0.5, as for a coin.
    """
    models, samples, classes = logits.shape
    if classes == 2:
        columns, wanted = (logits[:, :, 1] - logits[:, :, 0])[..., None], [1]
    else:
        columns, wanted = torch.softmax(logits.double(), dim=2), [int(c) for c in present.nonzero()]
    areas = []
    for place, c in enumerate(wanted):
        score = columns[:, :, 0 if classes == 2 else wanted[place]]
        positive = labels == c
        count = int(positive.sum())
        if count in (0, samples):
            areas.append(torch.full((models,), 0.5, dtype=torch.float64, device=logits.device))
            continue
        rank_sum = _mean_ranks(score, positive).sum(1)
        areas.append((rank_sum - count * (count + 1) / 2) / (count * (samples - count)))
    return torch.stack(areas, dim=1).mean(1)  # along the rows: the same sum however many models there are


def _mean_ranks(score: Tensor, which: Tensor) -> Tensor:
    """Ranks 1..samples of some entries within each row, equal scores sharing the mean of theirs."""
    ordered = score.sort(dim=1).values.contiguous()
    wanted = score[:, which].contiguous()
    below = torch.searchsorted(ordered, wanted, right=False)
    up_to = torch.searchsorted(ordered, wanted, right=True)
    return (below + up_to + 1).double() / 2


def _regression(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    residual = outputs.squeeze(2).double() - targets.double()
    squared = residual.square()
    spread = (targets.double() - targets.double().mean()).square().mean()
    # A test set with constant targets has no variance to explain; R² is 0 by convention then.
    error = _means(squared)
    r2 = 1 - error / spread if targets.min() < targets.max() else torch.zeros(len(outputs))
    return {"mse": error, "mae": _means(residual.abs()), "r2": r2.to(squared)}


def _means(table: Tensor) -> Tensor:
    """The mean of every row. NumPy adds up a row alike however many there are; torch does not, to the last bit."""
    if table.device.type != "cpu":
        return table.mean(1)
    return torch.from_numpy(np.ascontiguousarray(table.numpy()).mean(1))
