"""How much the sizes of coalitions count in semivalues: computed from ratios of neighbours, so that n may be a thousand and more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedvalue.by_size import BySize
from fedvalue.errors import InputError

__all__ = ["banzhaf", "beta", "leave_one_out", "own_sizes", "uniform"]

Array = NDArray[np.float64]


def uniform(n: int) -> BySize:
    """All sizes count the same: the Shapley value."""
    return BySize(n, np.full(n, 1 / n))


def banzhaf(n: int) -> BySize:
    """Every coalition of the others counts the same (Wang and Jia, Data Banzhaf, AISTATS 2023): sizes as there are coalitions."""
    s = np.arange(n - 1)
    return _by_ratios(n, np.log((n - 1 - s) / (s + 1)))


def beta(n: int, a: float, b: float) -> BySize:
    """Beta(a, b)-Shapley (Kwon and Zou, AISTATS 2022): B(s + b, n − 1 − s + a) / B(a, b) for a coalition of s others."""
    s = np.arange(n - 1)
    of_coalition = np.log(s + b) - np.log(n - 2 - s + a)
    return _by_ratios(n, np.log((n - 1 - s) / (s + 1)) + of_coalition)


def leave_one_out(n: int) -> BySize:
    """v(N) − v(N∖i): the semivalue that looks at one coalition."""
    return BySize(n, np.append(np.zeros(n - 1), 1.0))


def own_sizes(n: int, counts: Sequence[float]) -> BySize:
    """Sizes 0, 1, … of the others count in proportion to these numbers."""
    if len(counts) != n:
        raise InputError(
            f"sizes needs a number for each size of a coalition of others: {n} numbers for {n} clients. Got {len(counts)}."
        )
    relative = np.array(counts, np.float64) / max(counts)
    return BySize(n, relative / relative.sum())


def _by_ratios(n: int, log_ratios: Array) -> BySize:
    """From the logarithms of how much a size counts by what the one before it does."""
    logs = np.append(0.0, np.cumsum(log_ratios))
    counts = np.exp(logs - logs.max())
    return BySize(n, counts / counts.sum())
