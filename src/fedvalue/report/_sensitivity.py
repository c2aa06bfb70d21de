"""What the amounts depend on: another rule, another metric, other test rows, other luck. Nothing is trained for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from fedvalue._text import one_line
from fedvalue.errors import InputError
from fedvalue.payout import RULES, AbsentRule, Copies, Payout, payout
from fedvalue.report._other_metrics import Other, other_metrics
from fedvalue.report._trained import Absent
from fedvalue.store import History
from fedvalue.values import Values

__all__ = ["Alternative", "Luck", "Sensitivity", "sensitivity"]

_DRAWS = 100  # of ranges that are not shown
_MOST_PARTS = 12  # test parts; of more, the first
_METRICS = {
    "accuracy": "How many answers are right.",
    "balanced_accuracy": "How many answers are right, every class counting the same.",
    "f1": "How well each class is found and told from the others.",
    "auc": "How well cases are put in order.",
    "loss": "How sure the model is of right answers.",
    "r2": "How much of the variation is explained.",
    "mse": "Squared errors: large ones count most.",
    "mae": "Sizes of errors.",
}
_LUCK = {
    "coalitions": "Other coalitions trained",
    "training": "Other seeds of training",
    "test": "Another sample of test rows",
}


@dataclass(frozen=True)
class Alternative:
    """The amounts, by client, if one thing had been agreed otherwise. `moved` is what would go from some to others.

    `gains` and `loses` are the client for whom most changes, and by how much; None where nothing does.
    """

    kind: str
    what: str
    note: str
    amounts: tuple[Decimal, ...]
    moved: Decimal
    gains: tuple[int, Decimal] | None
    loses: tuple[int, Decimal] | None


@dataclass(frozen=True)
class Luck:
    """By how much luck of one kind alone moves amounts, as 95% ranges by client."""

    what: str
    ranges: tuple[tuple[Decimal, Decimal], ...]
    widest: int
    typical: Decimal


@dataclass(frozen=True)
class Sensitivity:
    """All alternatives that can be computed, why the others cannot, and the kinds of luck that are known."""

    alternatives: tuple[Alternative, ...]
    not_possible: tuple[tuple[str, str], ...]
    luck: tuple[Luck, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. Amounts are texts, in the order of the clients of the values."""
        return {
            "alternatives": [
                {
                    "kind": other.kind,
                    "what": other.what,
                    "amounts": [*map(str, other.amounts)],
                    "moved": str(other.moved),
                }
                for other in self.alternatives
            ],
            "not_possible": dict(self.not_possible),
            "luck": [
                {"what": luck.what, "ranges": [[str(low), str(high)] for low, high in luck.ranges]}
                for luck in self.luck
            ],
        }


def sensitivity(
    values: Values,
    paid: Payout | Absent,
    trainings: History | Absent,
    *,
    absent: str | AbsentRule = "excluded",
    anyway: bool = False,
    copies: Copies | None = None,
) -> Sensitivity | Absent:
    """How the amounts of a payout would change. `copies` is what it was shared out with.

    >>> values = Values([0.6, 0.3, -0.1], ("a", "b", "c"), "exact", 8, guarantee="exact")
    >>> found = sensitivity(values, payout(values, 100), Absent("No store."))
    >>> [(other.what, str(other.moved)) for other in found.alternatives]
    [('Rule shift', '3.03'), ('Rule threshold', '0.00')]
    """
    if isinstance(paid, Absent):
        return Absent("Nobody is paid, so there are no amounts that could depend on anything.")
    alternatives: list[Alternative] = []
    refused: list[tuple[str, str]] = []

    def consider(kind: str, what: str, note: str, of: Values, rule: str) -> None:
        try:
            found = payout(
                of,
                paid.pot,
                rule,
                paid.min_share,
                paid.step,
                paid.currency,
                _DRAWS,
                absent=absent,
                anyway=anyway,
                copies=copies,
            )
        except InputError as error:
            refused.append((what, str(error)))
        else:
            alternatives.append(_compared(kind, what, note, paid, found))

    for rule in RULES:
        if rule != paid.rule:
            consider("rule", f"Rule {rule}", RULES[rule].words, values, rule)
    others = trainings if isinstance(trainings, Absent) else other_metrics(values, trainings)
    if copies is not None and copies.sets and not isinstance(others, Absent):
        others = Absent(
            "Copies share one part, and what they are worth once is not computed in other metrics."
        )
    if isinstance(others, Absent):
        refused.append(("Other metrics and test rows", others.why))
    else:
        for other in _at_most(others):
            consider(*_named(other), _valued(values, other), paid.rule)
    return Sensitivity(
        tuple(alternatives), tuple(refused), tuple(_luck(values, paid, absent, anyway, copies))
    )


def _at_most(others: Sequence[Other]) -> list[Other]:
    parts = [other for other in others if other.is_part]
    return [other for other in others if not other.is_part] + parts[:_MOST_PARTS]


def _named(other: Other) -> tuple[str, str, str]:
    if other.is_part:
        return "part", f"Test rows {one_line(other.part)} alone", "The same models, measured on these rows."
    words = _METRICS.get(other.metric, "")
    return "metric", f"Metric {one_line(other.metric).replace('_', ' ')}", words


def _valued(values: Values, other: Other) -> Values:
    """Values with other means; how sure those are is not known."""
    return replace(
        values,
        mean=np.array(other.mean),
        guarantee=values.guarantee if values.guarantee != "exact" else "biased",
        stderr=None,
        covariance=None,
        dof=None,
        parts={},
        baseline=None,
    )


def _compared(kind: str, what: str, note: str, paid: Payout, other: Payout) -> Alternative:
    amounts = tuple(line.amount for line in other.lines)
    change = [amount - line.amount for amount, line in zip(amounts, paid.lines, strict=True)]
    up, down = (
        max(range(len(change)), key=change.__getitem__),
        min(range(len(change)), key=change.__getitem__),
    )
    moved = sum((x for x in change if x > 0), Decimal(0)).quantize(paid.step)
    return Alternative(
        kind,
        what,
        note,
        amounts,
        moved,
        (up, change[up]) if moved else None,
        (down, -change[down]) if moved else None,
    )


def _luck(
    values: Values, paid: Payout, absent: str | AbsentRule, anyway: bool, copies: Copies | None
) -> list[Luck]:
    """The ranges of the payout where one part of the error is all there is."""
    found = []
    paid_by = values if copies is None or not copies.sets else copies.values
    for name, part in paid_by.parts.items():
        if not part.any():
            continue
        alone = replace(paid_by, parts={name: part}, covariance=part, stderr=None, guarantee="biased")
        of, once = (
            (alone, None) if paid_by is values or copies is None else (values, replace(copies, values=alone))
        )
        try:
            other = payout(
                of,
                paid.pot,
                paid.rule,
                paid.min_share,
                paid.step,
                paid.currency,
                absent=absent,
                anyway=anyway,
                copies=once,
            )
        except InputError:  # the rule needs what this part alone does not have
            continue
        ranges = tuple(
            (
                line.low if line.low is not None else line.amount,
                line.high if line.high is not None else line.amount,
            )
            for line in other.lines
        )
        widths = [high - low for low, high in ranges]
        half = (sum(widths, Decimal(0)) / (2 * len(widths))).quantize(paid.step)
        found.append(Luck(_LUCK[name], ranges, max(range(len(widths)), key=widths.__getitem__), half))
    return found
