"""What is carried over from one period to the next: debts, escrow, what rounding withheld, and a reserve.

Every amount is a whole number of steps (cents), and nothing appears or vanishes:

    pot + reserve before = all that is earned
    earned = paid − released + put into escrow + held against debts
    held against debts = reserve after
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import Any

from fedvalue._text import listed, one_line
from fedvalue.errors import InputError
from fedvalue.payout import RULES, Payout

__all__ = ["DEBTS", "Account", "Balances", "Line", "Settlement", "check_terms", "settle"]

DEBTS = ("forgive", "carry")
_WITH_DEBTS = ("floor", "threshold")
_FINEST = 10**9  # parts of a step, in which it is noted what rounding withheld
_NOTHING = Decimal(0)


@dataclass(frozen=True)
class Account:
    """What is carried over for one client. `rounding` is in steps: what it was given too little so far, or too much (−)."""

    debt: Decimal = _NOTHING
    escrow: Decimal = _NOTHING
    rounding: Fraction = Fraction(0)

    def to_plain(self) -> dict[str, str]:
        """Amounts as texts: a number would be a float to most readers."""
        return {"debt": str(self.debt), "escrow": str(self.escrow), "rounding": str(self.rounding)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Account:
        """From what `to_plain` gave."""
        return cls(Decimal(plain["debt"]), Decimal(plain["escrow"]), Fraction(plain["rounding"]))


@dataclass(frozen=True)
class Balances:
    """The accounts of all who ever took part, and what was held against debts and is shared out next time."""

    accounts: Mapping[str, Account] = field(default_factory=dict)
    reserve: Decimal = _NOTHING

    def of(self, name: str) -> Account:
        """The account of a client; an empty one for somebody new."""
        return self.accounts.get(name, Account())

    def renamed(self, names: Mapping[str, str]) -> Balances:
        """The same accounts under other names, given the new name of each."""
        return replace(
            self, accounts={names.get(name, name): account for name, account in self.accounts.items()}
        )

    def to_plain(self) -> dict[str, Any]:
        """Plain data for JSON."""
        accounts = {name: account.to_plain() for name, account in self.accounts.items()}
        return {"accounts": accounts, "reserve": str(self.reserve)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Balances:
        """From what `to_plain` gave."""
        accounts = {name: Account.from_plain(account) for name, account in plain["accounts"].items()}
        return cls(accounts, Decimal(plain["reserve"]))


@dataclass(frozen=True)
class Line:
    """One client's statement: what was earned, what was held against a debt or put into escrow, released and paid.

    `owes` is the debt that this period adds.
    """

    name: str
    share: float
    earned: Decimal
    owes: Decimal
    held: Decimal
    to_escrow: Decimal
    released: Decimal
    paid: Decimal
    after: Account


@dataclass(frozen=True)
class Settlement:
    """A period in money: a line for everybody who has an account, and what is carried over."""

    lines: tuple[Line, ...]
    pot: Decimal
    reserve_before: Decimal
    after: Balances
    policy: tuple[str, ...]


def settle(
    shares: Payout,
    pot: Decimal,
    before: Balances,
    debts: str = "forgive",
    escrow: Collection[str] = (),
    release: Collection[str] = (),
) -> Settlement:
    """Pays out a pot and the reserve: `shares` is the payout of both together, before anything was carried over."""
    check_terms(shares.rule, debts, escrow, release, [line.name for line in shares.lines], before)
    if shares.pot != pot + before.reserve:
        raise InputError(
            f"The payout must share out the pot and the reserve, {pot + before.reserve}. Got {shares.pot}."
        )
    accounts = [before.of(line.name) for line in shares.lines]
    whole = [Fraction(line.share) for line in shares.lines]
    total = sum(whole)
    steps = Fraction(shares.pot) / Fraction(shares.step)
    units, rounding = _deal([share / total for share in whole], int(steps), [a.rounding for a in accounts])
    owed = _owed(shares, pot) if debts == "carry" else {}
    lines = []
    for line, account, count, left in zip(shares.lines, accounts, units, rounding, strict=True):
        name, earned = line.name, count * shares.step
        held = min(earned, account.debt)
        kept = earned - held if name in escrow else _NOTHING
        released = account.escrow if name in release else _NOTHING
        owes = owed.get(name, _NOTHING)
        after = Account(account.debt - held + owes, account.escrow + kept - released, left)
        paid = earned - held - kept + released
        lines.append(Line(name, line.share, earned, owes, held, kept, released, paid, after))
    here = {line.name for line in lines}
    for name, account in before.accounts.items():  # who has left keeps its account
        if name not in here:
            released = account.escrow if name in release else _NOTHING
            after = replace(account, escrow=account.escrow - released)
            zero = (_NOTHING,) * 4
            lines.append(Line(name, 0.0, *zero, released, released, after))
    reserve = sum((line.held for line in lines), _NOTHING)
    carried = Balances({line.name: line.after for line in lines}, reserve)
    return Settlement(
        tuple(lines),
        pot,
        before.reserve,
        carried,
        (*shares.policy, *_policy(debts, escrow, release, before.reserve)),
    )


def check_terms(
    rule: str,
    debts: str,
    escrow: Collection[str],
    release: Collection[str],
    members: Collection[str],
    before: Balances,
) -> None:
    """Refuses terms that cannot be, before anything is trained for them."""
    if rule not in RULES:
        raise InputError(f"Unknown rule {rule!r}. Rules: {', '.join(RULES)}.")
    if debts not in DEBTS:
        raise InputError(f"debts must be {' or '.join(DEBTS)}. Got {debts!r}.")
    if debts == "carry" and rule not in _WITH_DEBTS:
        raise InputError(f"Debts are carried over with the rules {' and '.join(_WITH_DEBTS)}. Got {rule!r}.")
    known = {*members, *before.accounts}
    for what, names, those in (("escrow", escrow, set(members)), ("release", release, known)):
        unknown = sorted(set(names) - those)
        if unknown:
            raise InputError(
                f"{what} names clients without an account: {', '.join(unknown)}. Known: {', '.join(sorted(those))}."
            )
    both = sorted(set(escrow) & set(release))
    if both:
        raise InputError(f"{both[0]!r} is to be kept in escrow and to be released. Choose one.")


def _owed(shares: Payout, pot: Decimal) -> dict[str, Decimal]:
    """What clients below zero owe: as much as one as far above zero, added to those there are, would have earned."""
    above = sum((Fraction(line.value) for line in shares.lines if line.value > 0), Fraction(0))
    owed = {}
    for line in shares.lines:
        surely = line.half_width if shares.rule == "threshold" and line.half_width is not None else 0.0
        if line.value + surely < 0 and above:
            below = Fraction(-line.value)
            amount = Fraction(pot) * below / (above + below) / Fraction(shares.step)
            rounded = (Decimal(amount.numerator) / Decimal(amount.denominator)).quantize(
                Decimal(1), ROUND_HALF_EVEN
            )
            owed[line.name] = rounded * shares.step
    return owed


def _deal(
    shares: Sequence[Fraction], steps: int, carried: Sequence[Fraction]
) -> tuple[list[int], list[Fraction]]:
    """Whole steps for everybody who has a share, and what rounding then has withheld from each, in steps.

    Whoever was given too little before comes first: over the periods nobody gains or loses by rounding.

    >>> units, left = _deal([Fraction(1, 3)] * 3, 100, [Fraction(0)] * 3)
    >>> units, [_deal([Fraction(1, 3)] * 3, 100, left)[0]]
    ([34, 33, 33], [[33, 34, 33]])
    """
    ideal = [
        share * steps + before if share else Fraction(0)
        for share, before in zip(shares, carried, strict=True)
    ]
    units = [max(0, number.numerator // number.denominator) for number in ideal]
    taking = [i for i, share in enumerate(shares) if share]
    while (missing := steps - sum(units)) != 0:
        step = 1 if missing > 0 else -1
        able = [i for i in taking if step > 0 or units[i]]
        for i in sorted(able, key=lambda i: (step * (units[i] - ideal[i]), i))[: abs(missing)]:
            units[i] += step
    left = [
        _fine(number - count) if share else before
        for number, count, share, before in zip(ideal, units, shares, carried, strict=True)
    ]
    return units, left


def _fine(part: Fraction) -> Fraction:
    return Fraction(round(part * _FINEST), _FINEST)


def _policy(debts: str, escrow: Collection[str], release: Collection[str], reserve: Decimal) -> list[str]:
    said = [
        "What rounding withholds from a client or gives to it is carried over, so that nobody gains by it over the periods."
    ]
    if debts == "carry":
        said.append(
            "A client below zero owes what one more client, as far above zero, would have earned of the pot: less than the pot. "
            "What it earns later is held against that first, and shared out in the period after."
        )
    if escrow:
        said.append(f"In escrow: what {_named(escrow)} earns is held back until a later period releases it.")
    if release:
        said.append(f"Released: what was held back for {_named(release)} is paid out now.")
    if reserve:
        said.append(f"In the pot are {reserve:,f} that were held against debts in the period before.")
    return said


def _named(names: Collection[str]) -> str:
    return listed([one_line(name) for name in sorted(names)], 12)
