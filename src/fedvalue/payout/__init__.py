"""Payout: values into money, by a written policy, to the cent.

>>> from fedvalue.values import Values
>>> values = Values([3.0, 1.0, -0.5], ("a", "b", "c"), "exact", 8, guarantee="exact")
>>> [str(line.amount) for line in payout(values, 100, "floor").lines]
['75.00', '25.00', '0.00']
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import checked_call, did_you_mean, expect, whole
from fedvalue._html import as_printed
from fedvalue.errors import InputError
from fedvalue.payout._absent import ABSENT_RULES, AbsentClient, AbsentRule, read_rule, set_aside
from fedvalue.payout._money import Amount, as_decimal, deal, in_steps, split
from fedvalue.payout._parties import Copies, Parties
from fedvalue.payout._rules import RULES, Rule, half_widths, policy
from fedvalue.payout._stability import DRAWS, LEVEL, Order, Stability, stability
from fedvalue.payout._write import (
    as_csv,
    as_frame,
    as_html,
    as_markdown,
    as_text,
    doubtful_orders,
    payout_rows,
)
from fedvalue.values import Values, expect_shapley

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "ABSENT_RULES",
    "RULES",
    "AbsentClient",
    "AbsentRule",
    "Copies",
    "Line",
    "Order",
    "Payout",
    "Rule",
    "Stability",
    "doubtful_orders",
    "payout_rows",
    "payout",
]

_FORMAT = "fedvalue.payout/1"
_ROUNDING = 1e-12  # of the largest value: what is smaller came out of floating-point arithmetic


@dataclass(frozen=True)
class Line:
    """What one client is paid. `low` and `high` are None where the method has no interval."""

    name: str
    value: float
    half_width: float | None
    share: float
    amount: Decimal
    low: Decimal | None
    high: Decimal | None
    note: str


@dataclass(frozen=True)
class Payout:
    """A pot shared out: one line per client, the policy in words, and how firm the amounts are.

    `absent` are clients without a value, with what the rule for them gives them; `held` is set aside for them. Shares are
    of what is shared out among the others. `copies` are clients that share one part by the rule for copies, "share".

    >>> values = Values([3.0, 1.0], ("a", "b"), "exact", 4, guarantee="exact")
    >>> paid = payout(values, 1000, currency="EUR")
    >>> [(line.name, paid.text(line.amount)) for line in paid.lines], paid.rule
    ([('a', '750.00'), ('b', '250.00')], 'floor')
    """

    lines: tuple[Line, ...]
    pot: Decimal
    step: Decimal
    currency: str
    rule: str
    min_share: Decimal
    policy: tuple[str, ...]
    stability: Stability
    method: str
    guarantee: str
    game_id: str
    absent: tuple[AbsentClient, ...] = ()
    held: Decimal = Decimal(0)
    absent_rule: str = "excluded"
    agreement: str = ""
    copies: tuple[tuple[str, ...], ...] = ()
    copies_rule: str = "each"

    @property
    def shared(self) -> Decimal:
        """What those get who were valued: the pot without what the rule for absent clients takes."""
        return sum((line.amount for line in self.lines), Decimal(0))

    def text(self, amount: Decimal) -> str:
        """An amount for people: thousands apart, as many decimals as the step has.

        >>> values = Values([1.0], ("a",), "exact", 2)
        >>> payout(values, 1234, currency="EUR").text(Decimal(1234))
        '1,234.00'
        """
        exponent = self.step.as_tuple().exponent
        return f"{amount:,.{max(0, -exponent if isinstance(exponent, int) else 0)}f}"

    def range(self, line: Line) -> str:
        """Where an amount lies with 95%, for people; a dash where that is not known."""
        return (
            "–"
            if line.low is None or line.high is None
            else f"{self.text(line.low)} – {self.text(line.high)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. Amounts are texts: a number would be a float to most readers."""
        plain = {
            "format": _FORMAT,
            "pot": str(self.pot),
            "currency": self.currency,
            "rule": self.rule,
            "min_share": str(self.min_share),
            "round": str(self.step),
            "policy": list(self.policy),
            "method": self.method,
            "guarantee": self.guarantee,
            "game_id": self.game_id,
            "lines": [_plain(line) for line in self.lines],
            "absent_rule": self.absent_rule,
            "absent": [
                {"client": one.name, "reason": one.reason, "amount": str(one.amount), "note": one.note}
                for one in self.absent
            ],
            "held": str(self.held),
            "stability": self.stability.to_dict(),
            "copies_rule": self.copies_rule,
            "copies": [list(names) for names in self.copies],
        }
        return plain | ({"agreement": self.agreement} if self.agreement else {})

    def __str__(self) -> str:
        """A plain table of the amounts, and the policy."""
        return as_text(self)

    def _repr_html_(self) -> str:
        """A table with bars, and the policy, as notebooks show it."""
        return as_html(self)

    _repr_pretty_ = as_printed

    def to_frame(self) -> DataFrame:
        """A pandas frame, one row per client that was valued; amounts are decimals."""
        return as_frame(self)

    def to_csv(self) -> str:
        """One row per client. A name that a spreadsheet would run as a formula gets an apostrophe in front."""
        return as_csv(self)

    def to_markdown(self) -> str:
        """In Markdown: the table, the policy it follows, and how firm the amounts are."""
        return as_markdown(self)


@checked_call
def payout(
    values: Values,
    pot: Amount,
    rule: str = "floor",
    min_share: Amount = 0,
    step: Amount = Decimal("0.01"),
    currency: str = "",
    draws: int = DRAWS,
    *,
    absent: str | AbsentRule = "excluded",
    anyway: bool = False,
    copies: Copies | None = None,
) -> Payout:
    """Shares the pot out by one of the `RULES`, in whole steps that add up to it exactly.

    Everyone whom the rule pays gets at least `min_share` of the pot, up to rounding. How far the amounts would
    move within the intervals of the values is simulated with `draws` draws and a fixed seed. Values of a model that has
    learnt nothing are refused, unless they are to be paid out `anyway`; the policy then says so. Values in groups pay the
    groups first. With `copies` (see `fedvalue.copies_once`) interchangeable clients share one part. Clients that were
    `absent` are excluded, or treated by another written rule: "last-period=PATH" or "escrow=PART" (see `AbsentRule`).

    >>> values = Values([2.0, 1.0, 0.0], ("a", "b", "c"), "exact", 8, guarantee="exact")
    >>> [str(line.amount) for line in payout(values, 100, "proportional").lines]
    ['66.67', '33.33', '0.00']
    """
    expect("values", values, Values, "fv.Values", "fv.value and fv.run give them.")
    expect_shapley(values, "A payout")
    whole("draws", draws, 1)
    chosen = _rule(rule)
    exact_pot, exact_step = as_decimal(pot, "The pot"), as_decimal(step, "The step of rounding")
    steps = in_steps(exact_pot, exact_step)
    least = _least(min_share, values.n)
    _check(values, currency)
    if values.warning and not anyway:
        raise InputError(
            f"{values.warning} To share the pot out by these values all the same: anyway=True (--anyway)."
        )
    expect(
        "copies",
        copies,
        (Copies, type(None)),
        "what fv.copies_once gives",
        "Got the name of a rule? fv.copies_once(…) applies it.",
    )
    parties = Parties.of(values, copies)
    firm = stability(parties, chosen, float(least), draws)
    of_absent = read_rule(absent)

    def amounts(earlier: Values) -> dict[str, Decimal]:
        paid = payout(earlier, pot, rule, min_share, step, currency, draws, anyway=anyway)
        return {line.name: line.amount for line in paid.lines}

    aside = set_aside(values, of_absent, exact_pot, exact_step, currency, amounts)
    steps -= in_steps(aside.total, exact_step) if aside.total else 0
    lines = _lines(values, parties, chosen, least, steps, exact_step, firm)
    said = (
        *([values.warning] if values.warning else ()),
        *(f"Suspicious data: {text}" for text in values.suspicious),
        *policy(chosen, exact_pot, exact_step, currency, least),
        *parties.words,
        *aside.policy,
        *_counted_from(values),
    )
    origin = (values.method, values.guarantee, values.game_id)
    left = aside.clients, aside.held, of_absent.text
    return Payout(
        lines,
        exact_pot,
        exact_step,
        currency,
        rule,
        least,
        said,
        firm,
        *origin,
        *left,
        values.agreement,
        () if copies is None else copies.sets,
        "each" if copies is None else "share",
    )


def _counted_from(values: Values) -> list[str]:
    """What v(∅) is, which decides what there is to share."""
    if values.utility_of_none is None:
        return []
    start = f"{values.metric} {values.sign * values.utility_of_none:.4f}"
    return [f"Values are counted from v(∅), {values.empty_label}: {start}."]


def _lines(
    values: Values, parties: Parties, rule: Rule, least: Decimal, steps: int, step: Decimal, firm: Stability
) -> tuple[Line, ...]:
    of_clients, mean = _rounded(values.mean), _rounded(parties.values.mean)
    half = half_widths(parties.values, LEVEL)
    rule.check(parties.values, mean, half)
    weights, takes_part = rule.weigh(mean, half)
    if not takes_part.any():
        raise InputError(
            f"The rule {rule.name!r} pays nobody: {rule.nobody}. Keep the pot, or choose a rule that pays for "
            "differences only: shift."
        )
    by_party = split(weights.tolist(), takes_part.tolist(), least)
    shares = parties.exactly(by_party, of_clients)
    plain = parties.exactly(split(weights.tolist(), takes_part.tolist(), Decimal(0)), of_clients)
    units = deal(shares, steps, plain)
    party_of = {i: party for party, of in enumerate(parties.members) for i in of}
    widths = half_widths(values, LEVEL)
    lines = []
    for i, name in enumerate(values.names):
        amount, party = units[i] * step, party_of[i]
        note = rule.note(float(mean[party]), bool(takes_part[party]))
        if note:
            note = parties.unpaid(party, note)
        elif not shares[i]:
            note = parties.without_share(party, by_party[party], of_clients[i])
        elif shares[i] > plain[i]:
            note = "raised to the minimum share"
        width = None if widths is None or values.stderr is None else float(widths[i])
        low, high = _range(firm, i, steps, step, amount)
        lines.append(Line(name, float(values.mean[i]), width, float(shares[i]), amount, low, high, note))
    return tuple(lines)


def _rounded(mean: NDArray[np.float64]) -> NDArray[np.float64]:
    rounded: NDArray[np.float64] = np.where(np.abs(mean) <= _ROUNDING * np.abs(mean).max(), 0.0, mean)
    return rounded


def _rule(name: str) -> Rule:
    rule = RULES.get(name) if isinstance(name, str) else None
    if rule is None:
        raise InputError(f"Unknown rule {name!r}. {did_you_mean(name, RULES)}Rules: {', '.join(RULES)}.")
    return rule


def _least(min_share: Amount, n: int) -> Decimal:
    least = as_decimal(min_share, "The minimum share")
    if not 0 <= least <= 1:
        raise InputError(f"The minimum share is a fraction of the pot, from 0 to 1. Got {min_share}.")
    if least * n > 1:
        raise InputError(
            f"A minimum share of {least} for each of {n} clients is more than the pot. "
            f"At most 1/{n} each can be promised."
        )
    return least


def _check(values: Values, currency: str) -> None:
    if not isinstance(currency, str) or not currency.isprintable() or len(currency) > 16:
        raise InputError(f"A currency is a short text such as EUR. Got {currency!r}.")
    if values.n == 0:
        raise InputError("There are no clients in these values: nobody can be paid.")
    for what, numbers in (("value", values.mean), ("standard error", values.stderr)):
        bad = [] if numbers is None else np.flatnonzero(~np.isfinite(numbers)).tolist()
        if bad:
            raise InputError(
                f"Every {what} must be a finite number. That of {values.names[bad[0]]!r} is not"
                f"{f', nor are {len(bad) - 1} others' if len(bad) > 1 else ''}. Value the clients again."
            )


def _range(
    firm: Stability, i: int, steps: int, step: Decimal, amount: Decimal
) -> tuple[Decimal | None, Decimal | None]:
    """Simulated shares as money. The amount itself is always within."""
    if firm.ranges is None:
        return None, None
    low, high = (round(steps * share) * step for share in firm.ranges[i])
    return min(low, amount), max(high, amount)


def _plain(line: Line) -> dict[str, Any]:
    texts = {
        name: None if (a := getattr(line, name)) is None else str(a) for name in ("amount", "low", "high")
    }
    return {
        "client": line.name,
        "value": line.value,
        "half_width_95": line.half_width,
        "share": line.share,
        **texts,
        "note": line.note,
    }
