"""The pot in a sentence: who gets what of it."""

from __future__ import annotations

from collections.abc import Sequence

from fedvalue._text import count, one_line, plural
from fedvalue.payout import Line, Payout
from fedvalue.report._trained import Absent
from fedvalue.report._words import MOST_NAMED, called, named

__all__ = ["pot_lines"]


def pot_lines(paid: Payout | Absent) -> tuple[str, ...]:
    """Who gets what: everyone where there are few clients, else the first, the last and those who get nothing.

    >>> from fedvalue.payout import payout
    >>> from fedvalue.values import Values
    >>> print(*pot_lines(payout(Values([3.0, 1.0], ("a", "b"), "exact", 4, guarantee="exact"), 100, currency="EUR")))
    Of the pot of 100.00 EUR, a gets 75.00 and b 25.00.
    """
    if isinstance(paid, Absent):
        return ()
    order = sorted(paid.lines, key=lambda line: -line.amount)
    some, nothing = [line for line in order if line.amount], [line.name for line in order if not line.amount]
    pot = f"Of the pot of {paid.text(paid.pot)}{f' {one_line(paid.currency)}' if paid.currency else ''},"
    if len(some) <= MOST_NAMED:
        who = [f"{called(line.name)} gets {_amount(paid, line)}" for line in some[:1]]
        who += [f"{called(line.name)} {_amount(paid, line)}" for line in some[1:]]
        said = who[0] if len(who) == 1 else f"{', '.join(who[:-1])} and {who[-1]}"
    else:
        said = (
            f"{called(some[0].name)} gets the most, {_amount(paid, some[0])}, and {called(some[-1].name)} the least of the "
            f"{count(len(some))} clients who are paid, {_amount(paid, some[-1])}"
        )
    return (f"{pot} {said}{_without(nothing)}.", *_of_absent(paid))


def _of_absent(paid: Payout) -> tuple[str, ...]:
    """What the rule for absent clients does with the pot, where there are some.

    >>> from fedvalue.payout import payout
    >>> from fedvalue.values import Values
    >>> values = Values([3.0, 1.0], ("a", "b"), "exact", 4, guarantee="exact", absent={"c": "was away"})
    >>> _of_absent(payout(values, 100, absent="escrow=0.2"))
    ('c was absent; by the rule escrow, 20.00 are set aside.',)
    """
    if not paid.absent:
        return ()
    names = [one.name for one in paid.absent]
    who = named(names) if len(names) <= MOST_NAMED else plural(len(names), "client")
    unit = f" {one_line(paid.currency)}" if paid.currency else ""
    rest = paid.pot - paid.shared
    what = (
        f"{paid.text(rest)}{unit} are {'set aside' if paid.held else 'paid to them'}"
        if rest
        else "they get nothing"
    )
    rule = paid.absent_rule.partition("=")[0]
    return (f"{who} {'was' if len(names) == 1 else 'were'} absent; by the rule {rule}, {what}.",)


def _amount(paid: Payout, line: Line) -> str:
    amount = paid.text(line.amount)
    if line.low is None or line.high is None or line.low >= line.high:
        return amount
    return f"{amount} (between {paid.text(line.low)} and {paid.text(line.high)})"


def _without(names: Sequence[str]) -> str:
    if not names:
        return ""
    who = named(names) if len(names) <= MOST_NAMED else plural(len(names), "client")
    return f"; {who} {'gets' if len(names) == 1 else 'get'} nothing"
