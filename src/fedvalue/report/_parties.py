"""Of whom a client is a part: its group, or clients that are interchangeable with it. The others are not named."""

from __future__ import annotations

from fedvalue._text import count, plural
from fedvalue.payout import Payout
from fedvalue.report._clients import Client
from fedvalue.report._trained import Absent
from fedvalue.report._words import called, decimals_of, signed
from fedvalue.values import Values

__all__ = ["group_of", "of_copies", "of_group"]


def group_of(values: Values, client: Client) -> str | None:
    """The name of the group that a client is in; None where it joined on its own."""
    return next((group for group, of in values.groups.items() if client.name in of), None)


def of_group(values: Values, client: Client, paid: Payout | Absent) -> list[str]:
    """The group, its value, and how it is divided."""
    group = group_of(values, client)
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


def of_copies(client: Client, paid: Payout | Absent) -> list[str]:
    """That amounts are not in proportion to values where copies share one part, and whether this client does."""
    if isinstance(paid, Absent) or not paid.copies:
        return []
    said = [
        "By the rule for copies, clients that are interchangeable share one part, and everyone is paid by what it would be "
        "worth if of each such client there were one only. So amounts are not in proportion to the values stated here."
    ]
    own = next((names for names in paid.copies if client.name in names), None)
    if own is not None:
        said.append(
            f"It is interchangeable with {plural(len(own) - 1, 'other client')}: they share one part equally."
        )
    return said
