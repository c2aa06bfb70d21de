"""How many rows of a client count when models are averaged: what it claims, the same for all, or no more than a share.

Weights follow from what clients say of themselves, at nodes as well as in files. A client that claims fifty times its rows
has its model fifty times in the average, and where others do harm that can raise its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fedvalue.errors import InputError
from fedvalue.scenarios import Scenario
from fedvalue.training._rules import Training

__all__ = ["claims_apart", "counted", "counted_rows"]


def counted_rows(scenario: Scenario, training: Training) -> list[float]:
    """The rows of every client, as they count by the rules."""
    return counted([len(data) for data in scenario.clients], training.weights, training.max_share)


def counted(sizes: Sequence[int], weights: str = "rows", max_share: float = 0.0) -> list[float]:
    """Rows as they count: as claimed, one for everybody who has some, or clipped so that nobody has more than a share.

    >>> counted([10, 30, 1000], "equal"), counted([10, 30, 1000], "clipped", 0.5), counted([1, 1, 2], "clipped", 0.5)
    ([1.0, 1.0, 1.0], [10.0, 30.0, 40.0], [1.0, 1.0, 2.0])
    """
    rows = [float(size) for size in sizes]
    if weights == "equal":
        return [1.0 if size else 0.0 for size in rows]
    return _clipped(rows, max_share) if weights == "clipped" else rows


def _clipped(rows: list[float], share: float) -> list[float]:
    """The most that counts is `share` of all that then counts."""
    largest = sorted(filter(None, rows), reverse=True)
    if share * len(largest) < 1:
        raise InputError(
            f"With {len(largest)} clients that have data, max_share must be at least 1/{len(largest)}. Got {share:g}."
        )
    rest = sum(largest)
    for clipped, size in enumerate(largest):
        # With so many clipped: cap = share · (clipped · cap + what the others have).
        cap = share * rest / (1 - share * clipped) if share * clipped < 1 else largest[-1]
        if size <= cap or share * clipped >= 1:
            return [min(size, cap) for size in rows]
        rest -= size
    return [min(size, largest[-1]) for size in rows]


def claims_apart(sizes: Sequence[int], times: float) -> list[int]:
    """Clients that claim more than so many times as many rows as the median of the others; nobody where few can be compared.

    >>> claims_apart([100, 120, 90, 5000], 10)
    [3]
    """
    found = []
    for i, size in enumerate(sizes):
        others = [other for j, other in enumerate(sizes) if j != i and other]
        if len(others) > 1 and size > times * median(others):
            found.append(i)
    return found
