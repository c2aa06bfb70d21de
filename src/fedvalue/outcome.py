"""What one evaluated coalition gave: the record that games produce and the store keeps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from fedvalue.per_row import PerRow

__all__ = [
    "DRAWN",
    "LARGEST",
    "UTILITY",
    "Outcome",
    "empty_metric",
    "empty_rule",
    "of_model",
    "own_metric",
    "plain_metric",
]

UTILITY = "utility"
"""Name of the metric of a game that has only one."""

LARGEST = 1e100
"""No metric is larger: sums and squares of metrics stay finite."""

DRAWN = "models|initial"
"""Under this name the outcome of ∅ says how many untrained models its means are of."""

_EMPTY = re.compile(r"\|(initial|chance|majority|=[-+.0-9e]+)\Z")
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


def empty_metric(stored_as: str, rule: str) -> str:
    """What outcomes of coalitions without data call a metric of theirs as fixed by a rule.

    Every rule has a name of its own, beside the metric of the model that training starts from: a store that was
    written under one rule never answers for another.

    >>> empty_metric("accuracy", "majority"), empty_metric("loss", "=0.7")
    ('accuracy|majority', 'loss|=0.7')
    """
    return f"{stored_as}|{rule}"


def empty_rule(stored_as: str) -> str | None:
    """The rule in such a name; None for any other metric.

    >>> empty_rule("accuracy|majority"), empty_rule("accuracy")
    ('majority', None)
    """
    found = _EMPTY.search(stored_as)
    return found[1] if found else None


def of_model(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics of a model itself, without what a rule says about coalitions without data."""
    return {name: number for name, number in metrics.items() if empty_rule(name) is None}


class Outcome(NamedTuple):
    """All metrics of one coalition, and where and in what time they were computed.

    `rows` is what single test rows said, by metric, where that is known: it tells by how much another sample of test
    rows would change the metric.

    >>> Outcome({"utility": 0.9}).metrics["utility"]
    0.9
    """

    metrics: Mapping[str, float]
    seconds: float = 0.0
    backend: str = ""
    device: str = ""
    rows: Mapping[str, PerRow] = MappingProxyType({})

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        rows = {name: row.to_plain() for name, row in self.rows.items()}
        return {**self._asdict(), "metrics": dict(self.metrics), "rows": rows}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Outcome:
        """From what `to_plain` gave."""
        rows = {name: PerRow.from_plain(row) for name, row in plain["rows"].items()}
        return cls(**{**plain, "rows": rows})
