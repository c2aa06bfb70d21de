"""Who is paid as one: groups, and clients that are interchangeable. What is for a statement names nobody else."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from fedvalue._text import count, plural
from fedvalue.payout import Payout
from fedvalue.report._trained import Absent
from fedvalue.report._words import called, decimals_of, named, signed
from fedvalue.values import Values

__all__ = ["Group", "group_of", "groups_of", "of_copies", "of_group", "paid_with", "shared_line"]


@dataclass(frozen=True)
class Group:
    """A group as the report shows it: what it is worth and gets as a whole; None where there is no such number."""

    name: str
    members: tuple[str, ...]
    value: float
    low: float | None
    high: float | None
    paid: str | None


def groups_of(values: Values, paid: Payout | Absent) -> tuple[Group, ...]:
    """All groups, in the order in which they were named."""
    if not values.groups:
        return ()
    parties = values.of_groups()
    interval = parties.interval()
    found = []
    for name, members in values.groups.items():
        i = parties.names.index(name)
        low, high = (None, None) if interval is None else (float(end) for end in interval[i])
        amount = None
        if not isinstance(paid, Absent):
            amount = paid.text(sum((x.amount for x in paid.lines if x.name in members), Decimal(0)))
        found.append(Group(name, tuple(members), float(parties.mean[i]), low, high, amount))
    return tuple(found)


def paid_with(values: Values, name: str, paid: Payout | Absent) -> str:
    """With whom a client is paid as one, for the table of clients; nothing where it is paid for itself.

    >>> paid_with(Values([1.0, 2.0], ("a", "b"), "exact", 4, groups={"Holding": ["a", "b"]}), "a", Absent("Nobody is."))
    'group Holding'
    """
    group = group_of(values, name)
    if group is not None:
        return f"group {called(group)}"
    copies = () if isinstance(paid, Absent) else next((names for names in paid.copies if name in names), ())
    others = [other for other in copies if other != name]
    return f"one part with {named(others)}" if others else ""


def shared_line(paid: Payout | Absent) -> str:
    """That amounts are not in proportion to values where copies share one part."""
    if isinstance(paid, Absent) or not paid.copies:
        return ""
    who = "; ".join(named(names) for names in paid.copies)
    return (
        f"Interchangeable clients share one part: {who}. Everyone is paid by the values of the game in which there is only one of "
        "them, so amounts are not in proportion to the values above."
    )


def group_of(values: Values, name: str) -> str | None:
    """The name of the group that a client is in; None where it joined on its own."""
    return next((group for group, of in values.groups.items() if name in of), None)


def of_group(values: Values, name: str, paid: Payout | Absent) -> list[str]:
    """The group, its value, and how it is divided."""
    group = group_of(values, name)
    if group is None:
        return []
    parties, decimals = values.of_groups(), decimals_of(values)
    i, interval = parties.names.index(group), parties.interval()
    worth = signed(float(parties.mean[i]), decimals)
    if interval is not None:
        low, high = (signed(float(end), decimals) for end in interval[i])
        worth += f" ({low} to {high} with 95% confidence)"
    members = len(values.groups[group])
    said = [
        f"It belongs to the group {called(group)}: {count(members)} clients that join as one party. The value of the group is "
        f"{worth}, which is what its members add as a whole, and the sum of their values."
    ]
    if not isinstance(paid, Absent):
        said.append(
            "The group is paid as one party. What it gets is divided among its members in proportion to their values in it; "
            "those below zero get nothing of it, and where none is above zero, they share it equally."
        )
    return said


def of_copies(name: str, paid: Payout | Absent) -> list[str]:
    """That amounts are not in proportion to values where copies share one part, and whether this client does."""
    if isinstance(paid, Absent) or not paid.copies:
        return []
    said = [
        "By the rule for copies, clients that are interchangeable share one part: what one of them would get were the others not "
        "there. Everyone is paid by the values of that smaller game, so amounts are not in proportion to those stated here."
    ]
    own = next((names for names in paid.copies if name in names), None)
    if own is not None:
        said.append(
            f"It is interchangeable with {plural(len(own) - 1, 'other client')}: they share one part equally."
        )
    return said
