"""What values are measured against: how v(∅) was fixed, and the best answer that needs no training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["OVER_SEEDS", "Baseline", "Empty", "margin_by_luck"]

NOTHING_LEARNED = "The model learns nothing from these data: values mean nothing."
OVER_SEEDS = "seeds"  # the rule of functions that take a seed: v(∅) is their mean over some
_NAMED = 4
_Z = 1.6448536269514722  # one-sided: a model that knows nothing gets further in 5 % of test sets


@dataclass(frozen=True)
class Empty:
    """How v(∅) was fixed: by which rule, in words, and as the mean of how many models where it is measured."""

    rule: str
    label: str
    models: int = 0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Empty:
        """From plain data, checked."""
        rule, label, models = data["rule"], data["label"], data.get("models", 0)
        if not isinstance(rule, str) or not isinstance(label, str) or type(models) is not int:
            raise ValueError(f"empty is {dict(data)!r}")
        return cls(rule, label, models)


@dataclass(frozen=True)
class Baseline:
    """The best answer that ignores the features, which every model has to beat.

    `utility` is what it reaches on the test rows, in words `label`. A model that knows nothing is ahead of it by
    more than `margin` in one of twenty cases at most, by the luck of the test rows. `best` is the highest utility of
    a trained coalition, `best_clients` are its clients; `best_is_luck` says that so many coalitions may contain one
    that is as good by luck alone.
    """

    label: str
    utility: float
    margin: float
    best: float | None = None
    best_clients: tuple[str, ...] = ()
    best_is_luck: bool = True

    def beaten_by(self, utility: float) -> bool:
        """Whether a model with this utility has learnt something."""
        return utility > self.utility + self.margin

    def statement(self, utility: float, metric: str, sign: int) -> str:
        """What to say first about values whose grand coalition reaches only this utility; nothing where all is well."""
        if self.beaten_by(utility):
            return ""
        reached = (
            f"All clients together reach {metric} {sign * utility:.4f}; {self.label} has {sign * self.utility:.4f}"
            + (f", and luck with the test rows explains a lead of {self.margin:.4f}." if self.margin else ".")
        )
        if self.best is None or self.best_is_luck:
            return f"{NOTHING_LEARNED} {reached}"
        who = ", ".join(self.best_clients[:_NAMED]) + (", …" if len(self.best_clients) > _NAMED else "")
        return (
            "The common model of all clients is no better than an answer that ignores the data: values are no basis for "
            f"payments. {reached} Some coalitions do learn ({who}: {sign * self.best:.4f}), so some clients spoil it."
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Baseline:
        """From plain data, checked."""
        numbers = [data["utility"], data["margin"], *([] if data.get("best") is None else [data["best"]])]
        clients, is_luck = data.get("best_clients", ()), data.get("best_is_luck", True)
        if not isinstance(data["label"], str) or not all(isinstance(x, (int, float)) for x in numbers):
            raise ValueError(f"baseline is {dict(data)!r}")
        if not all(isinstance(name, str) for name in clients) or not isinstance(is_luck, bool):
            raise ValueError(f"baseline is {dict(data)!r}")
        return cls(data["label"], data["utility"], data["margin"], data.get("best"), tuple(clients), is_luck)


def margin_by_luck(metric: str, constant: float, labels: NDArray[Any]) -> float:
    """By how much a model whose answers have nothing to do with the labels may beat the constant, by luck.

    Such a model strays from the constant on a part of the rows. Straying costs on average what it may win by luck;
    the margin is at the part that makes the most of it, which is known in closed form.
    """
    m = len(labels)
    if metric in ("r2", "mse", "mae"):
        variance = 1.0 if metric == "r2" else constant
        return _Z**2 / m * variance
    if metric == "loss":
        return _Z**2 / (2 * m)
    counts = np.unique(labels, return_counts=True)[1]
    if metric in ("accuracy", "correct"):
        scale = m if metric == "correct" else 1
        reached = constant / scale
        others = counts.tolist()
        if (hits := round(reached * m)) in others:
            others.remove(hits)
        behind = reached - max(others, default=0) / m
        luck = 2 * _Z * math.sqrt(max(reached * (1 - reached), 0.0) / m)
        return scale * (math.hypot(luck, behind) - behind) / 2
    even = 1 / len(counts)
    if metric == "auc":
        errors = [math.sqrt((m + 1) / (12 * c * (m - c))) for c in counts if 0 < c < m]
        return _Z * max(errors, default=0.0)
    return _Z * even * math.sqrt(even * (1 - even) * float((1 / counts).sum()))  # balanced accuracy, F1
