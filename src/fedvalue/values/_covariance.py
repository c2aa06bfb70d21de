"""Covariances as standard errors and correlations, and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["correlations_of", "covariance_of", "deviations"]


_ROUNDED = 1e-6  # correlations are written to six decimals


def deviations(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard errors; a difference of covariances may fall below zero by rounding."""
    deviations: NDArray[np.float64] = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return deviations


def correlations_of(covariance: NDArray[np.float64]) -> list[float]:
    """What is below the diagonal, row by row, to six decimals."""
    deviation = deviations(covariance)
    scale = np.outer(deviation, deviation)
    correlation = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
    below: list[float] = correlation[np.tril_indices(len(covariance), -1)].round(6).tolist()
    return below


def covariance_of(correlations: ArrayLike, stderr: ArrayLike) -> NDArray[np.float64]:
    """The covariance that has these correlations and standard errors."""
    deviation = np.asarray(stderr, dtype=np.float64)
    if not (np.abs(np.asarray(correlations, dtype=np.float64)) <= 1 + _ROUNDED).all():
        raise ValueError("a correlation is not between -1 and 1")
    if not np.isfinite(deviation).all():
        raise ValueError("a standard error is not finite")
    lower = np.zeros((len(deviation), len(deviation)))
    lower[np.tril_indices(len(deviation), -1)] = correlations
    covariance: NDArray[np.float64] = (lower + lower.T + np.eye(len(deviation))) * np.outer(
        deviation, deviation
    )
    return covariance
