"""v(∅): what a coalition without any data is worth, by a rule that is said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from typing import TypeAlias

from fedvalue._extras import need
from fedvalue.errors import InputError
from fedvalue.learners.metrics import Counted
from fedvalue.outcome import DRAWN, Outcome, empty_metric
from fedvalue.per_row import PerRow
from fedvalue.scenarios import Scenario
from fedvalue.yardsticks import Empty

__all__ = ["EmptyCoalition", "EmptyLike"]

EmptyLike: TypeAlias = "str | float"
"""initial, chance, majority, or a number in the metric that counts."""

_RULES = ("initial", "chance", "majority")


class EmptyCoalition:
    """v(∅) of a federated game by one rule, as metrics that outcomes of coalitions without data have besides.

    `initial`: the mean over untrained models. `majority`: the best constant answer. `chance`: guessing. Else a number.
    """

    def __init__(self, empty: EmptyLike, scenario: Scenario, counted: Counted) -> None:
        number = _number(empty)
        if number is None and empty not in _RULES:
            raise InputError(
                f"empty, what a coalition without data is worth, must be initial, chance, majority or a finite number. "
                f"Got {empty!r}."
            )
        self.rule = str(empty) if number is None else f"={number!r}"
        self.stored_as = empty_metric(counted.stored_as, self.rule)
        self.label, self._fixed = _told(self.rule, number, scenario, counted)
        if self.rule != "initial" and counted.stored_as not in self._fixed.metrics:
            raise InputError(
                f"What guessing reaches in the metric {counted.name!r} is not known here. Choose initial, majority or a "
                "number."
            )

    def of_part(self, counted: Counted, share: float) -> EmptyCoalition:
        """The same rule for a metric on a part of the test set; of a number it is worth this share."""
        part = copy(self)
        part.stored_as = empty_metric(counted.stored_as, self.rule)
        if self.rule.startswith("="):
            part._fixed = _constant({counted.stored_as: share * float(self.rule.removeprefix("="))})
        if self.rule != "initial" and counted.stored_as not in part._fixed.metrics:
            raise InputError(f"What guessing reaches in the metric {counted.name!r} is not known here.")
        return part

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a coalition without data, with its metrics by this rule."""
        if self.rule == "initial" and self.stored_as in outcome.metrics:
            return outcome
        # Else it is of a trainer that knows the one untrained model.
        ruled = outcome if self.rule == "initial" else self._fixed
        metrics = {empty_metric(name, self.rule): number for name, number in ruled.metrics.items()}
        rows = {empty_metric(name, self.rule): row for name, row in ruled.rows.items()}
        metrics |= {DRAWN: 1.0} if self.rule == "initial" else {}
        return outcome._replace(metrics={**outcome.metrics, **metrics}, rows={**outcome.rows, **rows})

    def described(self, outcome: Outcome) -> Empty:
        """How v(∅) was fixed in this outcome."""
        if self.rule != "initial":
            return Empty("number" if self.rule.startswith("=") else self.rule, self.label)
        models = round(outcome.metrics.get(DRAWN, 1.0))
        return Empty(self.rule, self.label + (f" (mean of {models})" if models > 1 else ""), models)


def _number(empty: EmptyLike) -> float | None:
    try:
        number = None if isinstance(empty, bool) else float(empty)
    except (TypeError, ValueError):
        return None
    return number + 0.0 if number is not None and math.isfinite(number) else None  # −0 is 0


def _told(rule: str, number: float | None, scenario: Scenario, counted: Counted) -> tuple[str, Outcome]:
    """The rule in words, and what it fixes before anything is trained: numbers that no test row changes, or the
    most frequent class, of which test rows say as much as of a model.
    """
    if rule == "initial":
        return "untrained model", Outcome({})
    if number is not None:
        return "no clients, as chosen", _constant({counted.stored_as: number})
    need("torch", f"empty={rule!r}")
    from fedvalue.learners.answers import chance_metrics, majority_label, majority_outcome

    if rule == "chance":
        return "guessing", _constant(chance_metrics(scenario))
    own = {} if counted.own is None else {counted.own.stored_as: counted.own}
    return majority_label(scenario).removeprefix("the "), majority_outcome(scenario, own)


def _constant(metrics: Mapping[str, float]) -> Outcome:
    return Outcome(metrics, rows={name: PerRow.fixed(number) for name, number in metrics.items()})
