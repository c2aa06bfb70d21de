"""What groups of clients are worth as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.values._covariance import deviations

if TYPE_CHECKING:
    from fedvalue.values._values import Values

__all__ = ["of_groups"]


def of_groups(values: Values) -> Values:
    """See `Values.of_groups`: sums over groups, with the errors of these sums."""
    sums = np.zeros((len(values.blocks), values.n))
    for row, block in zip(sums, values.blocks, strict=True):
        row[list(block)] = 1
    called = {frozenset(map(values.names.index, of)): name for name, of in values.groups.items()}
    covariance = None if values.covariance is None else sums @ values.covariance @ sums.T
    stderr = (
        None if values.stderr is None else sums @ values.stderr
    )  # the worst case where nothing else is known
    dof = values.dof
    return replace(
        values,
        mean=sums @ values.mean,
        names=tuple(called.get(frozenset(block), values.names[block[0]]) for block in values.blocks),
        stderr=stderr if covariance is None else deviations(covariance),
        dof=None if dof is None else np.array([dof[list(block)].min() for block in values.blocks]),
        covariance=covariance,
        parts={name: sums @ part @ sums.T for name, part in values.parts.items()},
        groups={},
        clients=None,
    )
