"""Stratum means: from contributions (client, coalition size, amount) to values and standard errors."""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from fedvalue.values import Estimate

__all__ = ["stratum_moments", "stratum_means"]

Array = NDArray[np.float64]


def stratum_moments(
    n: int, client: NDArray[np.intp], size: NDArray[np.intp], amount: Array
) -> tuple[Array, Array, Array]:
    """Count, mean and sum of squared deviations of every stratum (client i, size k), as n × (n+1)."""
    cell = client * (n + 1) + size
    cells = n * (n + 1)
    count = np.bincount(cell, minlength=cells).astype(float)
    mean = np.divide(np.bincount(cell, amount, cells), count, out=np.zeros(cells), where=count > 0)
    squares: Array = np.bincount(cell, (amount - mean[cell]) ** 2, cells).astype(float)
    return count.reshape(n, -1), mean.reshape(n, -1), squares.reshape(n, -1)


def stratum_means(
    n: int,
    client: NDArray[np.intp],
    size: NDArray[np.intp],
    amount: Array,
    *,
    borrow: bool,
    replacement: bool = False,
) -> Estimate:
    """φ_i = (1/n) Σ_k mean_{i,k} (Alg. 1, line 15), with a standard error once every stratum was sampled.

    A stratum without samples contributes 0; with `borrow`, the mean of the other clients at that size. `replacement`
    says whether a contribution may be among the samples of its stratum more than once.
    """
    count, mean, squares = stratum_moments(n, client, size, amount)
    count, mean, squares = count[:, 1:], mean[:, 1:], squares[:, 1:]  # sizes 1..n
    empty = count == 0
    if borrow:
        of_size = mean.sum(0) / np.maximum((~empty).sum(0), 1)
        mean = np.where(empty, of_size, mean)
    stderr, dof = (None, None) if empty.any() else _standard_error(n, count, squares, replacement)
    missing = int(empty.sum())
    how = "borrowed from other clients" if borrow else "count as 0"
    note = f"Not unbiased at this budget: {missing} of {n * n} strata had no sample and {how}."
    return Estimate(
        mean.sum(1) / n,
        stderr,
        dof,
        details={"empty_strata": missing, "strata": n * n},
        guarantee="biased" if missing else None,
        notes=(note,) if missing else (),
    )


def _standard_error(
    n: int, count: Array, squares: Array, replacement: bool
) -> tuple[Array | None, Array | None]:
    """√Σ_k s²_{i,k}/m_{i,k}·(1 − m_{i,k}/C(n−1,k−1)) / n, the factor only where a stratum is sampled without replacement.

    A stratum with one sample has no deviation of its own and takes the pooled one of its size; one that holds a
    single contribution is known.
    """
    population = np.array([float(min(comb(n - 1, k - 1), 10**300)) for k in range(1, n + 1)])
    unseen = np.clip(1 - count / population, 0, 1)
    if replacement:
        unseen = np.broadcast_to(np.where(population == 1, 0.0, 1.0), count.shape)
    single = count < 2
    pooled_dof = np.maximum(count - 1, 0).sum(0)
    if np.any(single & (unseen > 0) & (pooled_dof == 0)):
        return None, None
    pooled = squares.sum(0) / np.maximum(pooled_dof, 1)
    variance = np.where(single, pooled, squares / np.maximum(count - 1, 1)) * unseen / count
    freedom = np.where(single, pooled_dof, count - 1)
    total = variance.sum(1)
    # Welch–Satterthwaite: strata with few samples cost degrees of freedom in proportion to their share.
    spread = (variance**2 / np.maximum(freedom, 1)).sum(1)
    dof = np.divide(total**2, spread, out=freedom.sum(1), where=spread > 0)
    return np.sqrt(total) / n, np.maximum(dof, 1.0)
