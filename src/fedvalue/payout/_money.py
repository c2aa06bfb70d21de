"""Exact arithmetic of shares and money: fractions in, whole steps out."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TypeAlias

from fedvalue.errors import InputError

__all__ = ["Amount", "as_decimal", "deal", "in_steps", "split"]

Amount: TypeAlias = "Decimal | int | str | float"
_MOST_DIGITS = 10**6  # as a fraction, 1e99999999999 would take all memory
_MOST_STEPS = 10**15  # amounts stay well within the 28 digits of a Decimal


def as_decimal(amount: Amount, what: str) -> Decimal:
    """The amount as it is written: 0.1 is a tenth, whatever floats make of it."""
    try:
        text = str(amount)
        # Python reads 1_000 and digits of other scripts, too; in an amount they are more likely a slip.
        exact = Decimal(text if text.isascii() and "_" not in text else "nan")
    except InvalidOperation:
        exact = Decimal("nan")
    if not exact.is_finite() or abs(exact.adjusted()) > _MOST_DIGITS:
        raise InputError(f"{what} must be a plain number such as 1000 or 0.01. Got {amount!r}.")
    return exact


def in_steps(pot: Decimal, step: Decimal) -> int:
    """How many steps the pot has; it must be a whole number of them.

    >>> in_steps(Decimal(100), Decimal("0.01"))
    10000
    """
    if step <= 0:
        raise InputError(f"Amounts are rounded to a step above 0, such as 0.01. Got {step}.")
    if pot <= 0:
        raise InputError(f"The pot must be more than 0. Got {pot}.")
    steps = Fraction(pot) / Fraction(step)
    if steps > _MOST_STEPS:
        raise InputError(
            f"A pot of {pot} in steps of {step} is more than {_MOST_STEPS:,} steps. Round less finely."
        )
    if steps.denominator != 1:
        below = steps.numerator // steps.denominator
        near = " or ".join(str(k * step) for k in (below, below + 1) if k > 0)
        raise InputError(
            f"A pot of {pot} cannot be paid in steps of {step}. Pay out {near}, or round more finely."
        )
    return steps.numerator


def split(weights: Sequence[float], takes_part: Sequence[bool], least: Decimal) -> list[Fraction]:
    """Shares in proportion to the weights; whoever takes part gets `least`, at the cost of the others.

    Where no weight is above zero, those who take part get the same.

    >>> [str(share) for share in split([3.0, 1.0, 0.0], [True, True, False], Decimal("0.3"))]
    ['7/10', '3/10', '0']
    """
    exact = [Fraction(weight) for weight in weights]
    if not any(exact):
        exact = [Fraction(part) for part in takes_part]
    floor, raised = Fraction(least), set[int]()
    while True:
        free = [i for i, part in enumerate(takes_part) if part and i not in raised]
        left, total = 1 - len(raised) * floor, sum(exact[i] for i in free)
        short = [i for i in free if left * exact[i] < floor * total]
        if not short:
            shares = {i: left * exact[i] / total for i in free} | dict.fromkeys(raised, floor)
            return [shares.get(i, Fraction(0)) for i in range(len(exact))]
        raised.update(short)


def deal(shares: Sequence[Fraction], steps: int, merits: Sequence[Fraction]) -> list[int]:
    """Whole steps by largest remainder; equal remainders by merit, and the client listed first.

    Merit keeps two clients that were raised to the same minimum in the order of their values.

    >>> deal([Fraction(1, 3)] * 3, 100, [Fraction(1)] * 3)
    [34, 33, 33]
    """
    ideal = [share * steps for share in shares]
    units = [number.numerator // number.denominator for number in ideal]
    by_remainder = sorted(range(len(units)), key=lambda i: (units[i] - ideal[i], -merits[i], i))
    for i in by_remainder[: steps - sum(units)]:
        units[i] += 1
    return units
