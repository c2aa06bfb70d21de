"""What one evaluated coalition gave: the record that games produce and the store keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["LOWER_IS_BETTER", "METRICS", "UTILITY", "Outcome"]

UTILITY = "utility"
"""Name of the metric of a game that has only one."""


METRICS = {
    "classification": ("accuracy", "correct", "loss", "balanced_accuracy", "f1", "auc"),
    "regression": ("r2", "mse", "mae"),
}
"""What is measured of every trained model, by task; the first is the utility where none is chosen."""

LOWER_IS_BETTER = frozenset({"loss", "mse", "mae"})
"""Metrics whose negative is the utility."""


class Outcome(NamedTuple):
    """All metrics of one coalition, and where and in what time they were computed.

    >>> Outcome({"utility": 0.9}).metrics["utility"]
    0.9
    """

    metrics: Mapping[str, float]
    seconds: float = 0.0
    backend: str = ""
    device: str = ""
