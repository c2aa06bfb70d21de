"""The rules of payout. To add one: a function and a line in `RULES`; docs/payout.md has an example of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import InputError
from fedvalue.precision import unknown
from fedvalue.values import Values

__all__ = ["RULES", "Rule", "half_widths", "policy"]

Array: TypeAlias = "NDArray[np.float64]"
Weigh: TypeAlias = "Callable[[Array, Array | None], tuple[Array, NDArray[np.bool_]]]"


@dataclass(frozen=True)
class Rule:
    """One policy: `weigh` turns values (last axis: clients) into weights and says who takes part at all.

    `words` is the policy as a payout states it, `nobody` why it may come to pay no one.
    """

    name: str
    words: str
    nobody: str
    weigh: Weigh
    needs_interval: bool = False
    refuses_negative: bool = False

    def check(self, values: Values, mean: Array, half_width: Array | None) -> None:
        """Refuses values that the rule is not made for."""
        if self.refuses_negative and (mean < 0).any():
            named = ", ".join(
                f"{name!r} ({value:+.4g})"
                for name, value in zip(values.names, mean, strict=True)
                if value < 0
            )
            raise InputError(
                f"The rule {self.name!r} cannot pay negative values: {named}. Choose floor (they are paid 0), "
                "shift or threshold."
            )
        if self.needs_interval and half_width is None:
            raise InputError(
                f"The rule {self.name!r} needs intervals, and the method {values.method!r} gives none. Choose "
                "floor, or value the clients by a method with intervals: surrogate."
            )
        if self.needs_interval and "training" in unknown(values):
            raise InputError(
                f"The rule {self.name!r} pays whoever is above zero for sure, and nobody knows who that is: the luck of "
                f"training is not in the intervals of these values, because {unknown(values)['training']}. Choose floor, or "
                "value the clients with several seeds: surrogate, or exact without --no-noise."
            )

    def note(self, value: float, takes_part: bool) -> str:
        """Why a client that gets nothing gets nothing."""
        if takes_part:
            return ""
        return "below zero" if value < 0 else "zero" if value == 0 else "interval covers zero"


def _floor(values: Array, half_width: Array | None) -> tuple[Array, NDArray[np.bool_]]:
    return np.maximum(values, 0.0), values > 0


def _shift(values: Array, half_width: Array | None) -> tuple[Array, NDArray[np.bool_]]:
    return values - values.min(axis=-1, keepdims=True), np.ones(values.shape, dtype=bool)


def _threshold(values: Array, half_width: Array | None) -> tuple[Array, NDArray[np.bool_]]:
    assert half_width is not None
    sure = values - half_width > 0
    return np.where(sure, values, 0.0), sure


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(
            "proportional",
            "Everyone is paid in proportion to their value. Negative values are not allowed.",
            "no value is above zero",
            _floor,
            refuses_negative=True,
        ),
        Rule(
            "floor",
            "Clients with a value below zero are paid nothing and owe nothing; the others are paid in proportion "
            "to their values.",
            "no value is above zero",
            _floor,
        ),
        Rule(
            "shift",
            "All values are raised or lowered by the same amount so that the lowest becomes zero; payment is in "
            "proportion to what results. Where all are equal, everyone is paid the same.",
            "there are no clients",
            _shift,
        ),
        Rule(
            "threshold",
            "Only clients whose value is above zero with its whole 95% interval are paid, in proportion to their "
            "values.",
            "no value is above zero with its whole 95% interval",
            _threshold,
            needs_interval=True,
        ),
    )
}


def half_widths(values: Values, level: float) -> Array | None:
    """How far the interval reaches to either side: zero for exact values, None where the method cannot tell."""
    interval = values.interval(level)
    if interval is not None:
        width: Array = (interval[:, 1] - interval[:, 0]) / 2
        return width
    return np.zeros(values.n) if values.guarantee == "exact" else None


def policy(rule: Rule, pot: Decimal, step: Decimal, currency: str, least: Decimal) -> tuple[str, ...]:
    """The policy in plain words, sentence by sentence."""
    unit = f" {currency}" if currency else ""
    sentences = [f"The pot of {pot:,f}{unit} is shared out by the rule {rule.name}. {rule.words}"]
    if least:
        whom = "Every client" if rule.weigh is _shift else "Every client that this rule pays"
        sentences.append(
            f"{whom} gets at least {float(least):.6g} of the pot, up to rounding; what that takes comes from the "
            "others in proportion."
        )
    sentences.append(
        f"Amounts are multiples of {step}{unit} and add up to the pot; what is left after rounding down goes to "
        "the largest remainders. Ties go to the higher value, then to the client listed first."
    )
    return tuple(sentences)
