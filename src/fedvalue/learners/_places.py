"""What models say of rows, lined up with the labels: one label a row, or one at each of its places (tokens, pixels)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedvalue.scenarios import IGNORED

__all__ = ["Form", "by_place", "in_rows"]


@dataclass(frozen=True)
class Form:
    """How a model arranges its outputs for a row: how many places a row has dimensions of, and where its classes are.

    `as_it_is` is (places …, classes), or 1 instead of classes for a regression. `classes_first` is what torch's losses
    expect of images, (classes, places …); `bare` a regression without the last dimension of 1.
    """

    dims: int
    order: str = "as_it_is"

    @staticmethod
    def of(outputs: Sequence[int], places: Sequence[int], classes: int) -> Form | None:
        """The form of outputs of this shape for a row; None where they do not fit the labels. If in doubt, classes are last.

        >>> Form.of((7, 3), (7,), 3), Form.of((3, 8, 8), (8, 8), 3), Form.of((), (), 0), Form.of((2,), (), 3)
        (Form(dims=1, order='as_it_is'), Form(dims=2, order='classes_first'), Form(dims=0, order='bare'), None)
        """
        found, expected = tuple(outputs), tuple(places)
        if found == (*expected, classes or 1):
            return Form(len(expected))
        if classes and found == (classes, *expected):
            return Form(len(expected), "classes_first")
        return Form(len(expected), "bare") if not classes and found == expected else None

    def lined_up(self, outputs: Tensor) -> Tensor:
        """Outputs of any number of models and rows as (…, places …, classes); 1 instead of classes for a regression."""
        if self.order == "bare":
            return outputs.unsqueeze(-1)
        return outputs.movedim(-1 - self.dims, -1) if self.order == "classes_first" else outputs


def by_place(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Places in the place of rows: (models, places, classes) and their labels, those left out that do not count, and the
    row that each is in; None where a row has one label."""
    if labels.dim() == 1:
        return outputs, labels, None
    flat = labels.flatten()
    per_row = flat.numel() // max(1, len(labels))
    counts = (
        torch.nonzero(flat != IGNORED).squeeze(1)
        if not labels.is_floating_point()
        else torch.arange(len(flat), device=flat.device)
    )
    return outputs.flatten(1, -2)[:, counts], flat[counts], counts // per_row


def in_rows(influences: Tensor, row_of: Tensor, rows: int) -> Tensor:
    """What whole rows add to a metric, from what their places do."""
    total = influences.new_zeros(len(influences), rows).index_add_(1, row_of, influences)
    return total * (rows / max(1, len(row_of)))
