"""Metrics of many models at once, from their outputs on the test set, and what single test rows said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedvalue.errors import UtilityError
from fedvalue.learners._formulas import Columns, classification, regression
from fedvalue.learners._places import by_place, in_rows
from fedvalue.learners.metrics import Metric
from fedvalue.outcome import Outcome
from fedvalue.per_row import MOST_ROWS, PerRow, blocks_of, pseudo_values
from fedvalue.scenarios import OWN, Scale

__all__ = ["outcomes", "scores"]

_PLAIN = Scale()


def scores(
    outputs: Tensor,
    targets: Tensor,
    task: str,
    parts: Mapping[str, Tensor],
    own: Mapping[str, Metric] | None = None,
    scale: Scale = _PLAIN,
) -> list[dict[str, float]]:
    """All metrics of each model: outputs are (models, samples, classes) or, for regression, (…, 1); where a row has a
    label at each of several places, (models, samples, places …, classes), and metrics are those of all places.

    Metrics on a named part of the test set are called part/metric. A model with outputs that are not
    finite gets nan everywhere. `own` are metrics of the user's, by the names under which they are stored.
    Outputs of a regression are in units of `scale`, targets and metrics in their own.
    """
    measured = outcomes(outputs, targets, task, parts, own, scale, told=False)
    return [dict(outcome.metrics) for outcome in measured]


def outcomes(
    outputs: Tensor,
    targets: Tensor,
    task: str,
    parts: Mapping[str, Tensor],
    own: Mapping[str, Metric] | None = None,
    scale: Scale = _PLAIN,
    *,
    told: bool = True,
) -> list[Outcome]:
    """The same `scores`, with what single test rows said of each model: a bit for every row where the metric is the
    accuracy, a number for each block of rows where it is another one, or where there are very many rows.
    """
    if outputs.device.type == "mps":  # which has no float64
        outputs, targets = outputs.cpu(), targets.cpu()
        parts = {part: rows.cpu() for part, rows in parts.items()}
    outputs = scale.original(outputs)
    columns, influences = _measured(outputs, targets, task, told)
    packed = _packed(columns, influences)
    for part, rows in parts.items():
        of_part, moved = _measured(outputs[:, rows], targets[rows], task, told)
        columns.update({f"{part}/{metric}": column for metric, column in of_part.items()})
        packed.update({f"{part}/{metric}": said for metric, said in _packed(of_part, moved).items()})
    if "accuracy" in influences and targets.dim() == 1 and len(targets) <= MOST_ROWS:
        packed["accuracy"] = PerRow.of_models((outputs.argmax(2) == targets).cpu().numpy(), len(targets))
    finite = torch.isfinite(outputs).flatten(1).all(1)
    table = torch.stack(list(columns.values()), dim=1) if columns else outputs.new_zeros(len(outputs), 0)
    table = table.double()
    table = torch.where(finite[:, None], table, torch.full_like(table, float("nan")))
    measured = [
        Outcome(
            dict(zip(columns, map(float, row), strict=True)),
            rows={name: said[model] for name, said in packed.items()} if is_finite else {},
        )
        for model, (row, is_finite) in enumerate(zip(table.cpu().tolist(), finite.tolist(), strict=True))
    ]
    return _with_own(measured, outputs, targets, task, parts, own, told) if own else measured


def _measured(outputs: Tensor, targets: Tensor, task: str, told: bool) -> tuple[Columns, Columns]:
    """The built-in metrics, and the influences of rows on them."""
    if task == OWN:  # nothing is known of its outputs
        return {}, {}
    measure = classification if task == "classification" else regression
    outputs, labels, row_of = by_place(outputs, targets)
    columns, influences = measure(outputs, labels, told)
    if row_of is None:
        return columns, influences
    return columns, {name: in_rows(moved, row_of, len(targets)) for name, moved in influences.items()}


def _packed(columns: Columns, influences: Columns) -> dict[str, Sequence[PerRow]]:
    """What blocks of rows say about every model, by metric: the metric, and by how much a block moves it."""
    packed: dict[str, Sequence[PerRow]] = {}
    for metric, moved in influences.items():
        samples = moved.shape[1]
        if samples < 2:  # one row says nothing about others
            continue
        order, count = _in_blocks(samples, moved.device)
        # Model by model in columns: rows are picked as they lie in memory, and the order of every sum is fixed.
        padded = torch.cat([moved.T, moved.new_zeros(1, len(moved))])
        of_blocks = padded.index_select(0, order).view(-1, count, len(moved)).sum(0).T
        numbers = columns[metric][:, None] + of_blocks * (count / samples)
        packed[metric] = PerRow.of_models(numbers.nan_to_num(0.0, 0.0, 0.0).cpu().numpy(), samples)
    return packed


@lru_cache(maxsize=64)
def _in_blocks(samples: int, device: torch.device) -> tuple[Tensor, int]:
    """Test rows in turns, one for each block after the other, and how many blocks there are."""
    table = blocks_of(samples)
    return torch.from_numpy(table.T.copy()).flatten().to(device), len(table)


def _with_own(
    measured: Sequence[Outcome],
    outputs: Tensor,
    targets: Tensor,
    task: str,
    parts: Mapping[str, Tensor],
    own: Mapping[str, Metric],
    told: bool,
) -> list[Outcome]:
    """With the user's metrics; a model whose outputs are not finite has none."""
    rows_of = {part: rows.cpu().numpy() for part, rows in parts.items()}
    labels = targets.cpu().numpy()
    further = []
    for outcome, model in zip(measured, outputs, strict=True):
        said = (model.squeeze(-1) if task == "regression" else model).cpu().numpy()
        if not np.isfinite(said).all():
            further.append(outcome._replace(metrics={**outcome.metrics, **dict.fromkeys(own, math.nan)}))
            continue
        metrics = _own_scores(said, labels, rows_of, own)
        rows = {name: _own_rows(metric, metrics[name], said, labels) for name, metric in own.items() if told}
        known = {name: row for name, row in rows.items() if row is not None}
        further.append(
            outcome._replace(metrics={**outcome.metrics, **metrics}, rows={**outcome.rows, **known})
        )
    return further


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


def _own_rows(
    metric: Metric, number: float, outputs: NDArray[np.float64], labels: NDArray[np.float64]
) -> PerRow | None:
    """The pseudo-values of a jackknife around the metric; None where it fails on fewer rows."""

    def score(kept: NDArray[np.intp]) -> float | None:
        try:
            return metric(outputs[kept], labels[kept])
        except UtilityError:  # no row of a class is left, for example
            return None

    numbers = pseudo_values(number, len(labels), score)
    return None if numbers is None else PerRow.of(numbers, len(labels))
