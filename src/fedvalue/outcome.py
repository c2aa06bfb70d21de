"""What one evaluated coalition gave: the record that games produce and the store keeps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["LARGEST", "UTILITY", "Outcome", "own_metric", "plain_metric"]

UTILITY = "utility"
"""Name of the metric of a game that has only one."""

LARGEST = 1e100
"""No metric is larger: sums and squares of metrics stay finite."""

_DIGITS = 8
_FINGERPRINT = re.compile(rf"#[0-9a-f]{{{_DIGITS}}}\Z")


def own_metric(name: str, digest: str) -> str:
    """What outcomes call a metric of the user's own: two functions of one name are two metrics.

    >>> own_metric("profit", "0123456789abcdef")
    'profit#01234567'
    """
    return f"{name}#{digest[:_DIGITS]}"


def plain_metric(stored_as: str) -> str:
    """The name of a metric as people know it.

    >>> plain_metric("profit#01234567"), plain_metric("late/accuracy")
    ('profit', 'late/accuracy')
    """
    return _FINGERPRINT.sub("", stored_as)


class Outcome(NamedTuple):
    """All metrics of one coalition, and where and in what time they were computed.

    >>> Outcome({"utility": 0.9}).metrics["utility"]
    0.9
    """

    metrics: Mapping[str, float]
    seconds: float = 0.0
    backend: str = ""
    device: str = ""
