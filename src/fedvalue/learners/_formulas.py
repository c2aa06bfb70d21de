"""The built-in metrics of many models at once, and by how much single test rows move them.

The influence of a row is what its share of the test set adds to the metric, to first order: the metric of a test set in
which row i has weight 1/m + ε is the metric + ε·influence_i. It is exact for means over rows; for AUC it is what DeLong's
variance is made of. Influences of a model add up to 0, and their variance divided by m is that of the metric.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

__all__ = ["Columns", "classification", "regression"]

Columns: TypeAlias = dict[str, Tensor]
"""By metric: a number for each model, or a row of influences."""


def classification(logits: Tensor, labels: Tensor, told: bool) -> tuple[Columns, Columns]:
    """Metrics of each model, and where they are wanted (`told`) the influences of test rows."""
    models, samples, classes = logits.shape
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
    areas, of_areas = _auc(logits, labels, present, told)
    metrics = {
        "accuracy": right.double().mean(1),
        "correct": right.double().sum(1),
        "loss": -log_likelihood.squeeze(2).mean(1),
        "balanced_accuracy": recall[:, present].mean(1),
        "f1": f1[:, present].mean(1),
        "auc": areas,
    }
    if not told:
        return metrics, {}
    counted = float(present.sum())
    of_row = right.double() - metrics["accuracy"][:, None]
    # F1 is 2·hits / (guesses + support): a row adds to the numerator where it is right, and below what it is and is
    # taken for. Of a class that the test set lacks nothing is counted.
    per_class = torch.where(present, 1 / ((guesses + support).clamp(min=1) * counted), 0.0)
    lost = f1 * per_class
    moved = 2 * right * per_class[:, labels] - lost[:, labels] - lost.gather(1, predicted)
    return metrics, {
        "accuracy": of_row,
        "correct": samples * of_row,
        "loss": -log_likelihood.squeeze(2) - metrics["loss"][:, None],
        "balanced_accuracy": (right.double() - recall[:, labels]) * (samples / counted / support[labels]),
        "f1": samples * moved,
        "auc": of_areas,
    }


def _auc(logits: Tensor, labels: Tensor, present: Tensor, told: bool) -> tuple[Tensor, Tensor]:
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
    influences = torch.zeros((models, samples), dtype=torch.float64, device=logits.device)
    for place, c in enumerate(wanted):
        score = columns[:, :, 0 if classes == 2 else wanted[place]]
        positive = labels == c
        count = int(positive.sum())
        if count in (0, samples):
            areas.append(torch.full((models,), 0.5, dtype=torch.float64, device=logits.device))
            continue
        ordered, order = score.sort(dim=1)
        rank_sum = _mean_ranks(ordered, score[:, positive]).sum(1)
        areas.append((rank_sum - count * (count + 1) / 2) / (count * (samples - count)))
        if told:
            moved = _placements(ordered, positive[order], count) - areas[-1][:, None]
            weight = torch.where(positive, samples / count, samples / (samples - count))[order]
            influences.scatter_add_(1, order, moved * weight / len(wanted))  # each row of the test set once
    return torch.stack(areas, dim=1).mean(
        1
    ), influences  # along the rows: the same sum however many models there are


def _mean_ranks(ordered: Tensor, wanted: Tensor) -> Tensor:
    """Ranks 1..samples of some entries within each row, equal scores sharing the mean of theirs."""
    ordered, wanted = ordered.contiguous(), wanted.contiguous()
    below = torch.searchsorted(ordered, wanted, right=False)
    up_to = torch.searchsorted(ordered, wanted, right=True)
    return (below + up_to + 1).double() / 2


def _placements(ordered: Tensor, positive: Tensor, count: int) -> Tensor:
    """Which share of the others each entry is on the right side of, ties by half: negatives below a positive one,
    positives above a negative one. All in the order of the scores.
    """
    samples = ordered.shape[1]
    place = torch.arange(samples, device=ordered.device).expand_as(ordered)
    own = positive.double()
    up_to = own.cumsum(1)
    rises = ordered[:, 1:] != ordered[:, :-1]
    if bool(rises.all()):  # no ties, which is the usual case
        below, positives = place.double() + 0.5, up_to - own / 2
    else:
        edge = torch.ones_like(rises[:, :1])
        first = torch.where(torch.cat([edge, rises], 1), place, 0).cummax(1).values  # of its equals
        last = torch.where(torch.cat([rises, edge], 1), place, samples).flip(1).cummin(1).values.flip(1)
        below = (first + last + 1).double() / 2
        positives = (up_to.gather(1, first) - own.gather(1, first) + up_to.gather(1, last)) / 2
    return torch.where(positive, (below - positives) / (samples - count), 1 - positives / count)


def regression(outputs: Tensor, targets: Tensor, told: bool) -> tuple[Columns, Columns]:
    """Metrics of each model, and where they are wanted (`told`) the influences of test rows."""
    residual = outputs.squeeze(2).double() - targets.double()
    squared = residual.square()
    around = (targets.double() - targets.double().mean()).square()
    spread = around.mean()
    # A test set with constant targets has no variance to explain; R² is 0 by convention then.
    error, varied = _means(squared), bool(targets.min() < targets.max())
    r2 = 1 - error / spread if varied else torch.zeros(len(outputs))
    metrics = {"mse": error, "mae": _means(residual.abs()), "r2": r2.to(squared)}
    if not told:
        return metrics, {}
    unexplained = error[:, None] / spread if varied else 0.0
    of_r2 = (unexplained * around - squared) / spread if varied else torch.zeros_like(squared)
    return metrics, {
        "mse": squared - error[:, None],
        "mae": residual.abs() - metrics["mae"][:, None],
        "r2": of_r2,
    }


def _means(table: Tensor) -> Tensor:
    """The mean of every row. NumPy adds up a row alike however many there are; torch does not, to the last bit."""
    if table.device.type != "cpu":
        return table.mean(1)
    return torch.from_numpy(np.ascontiguousarray(table.numpy()).mean(1))
