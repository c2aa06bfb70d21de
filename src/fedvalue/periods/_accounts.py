"""Whose an account is: that of a key, or of rows. A name alone gets nobody the account of somebody who left."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fedvalue.errors import InputError
from fedvalue.periods._balances import Balances
from fedvalue.periods._entry import Member, Period
from fedvalue.periods._members import Attendance, Client

__all__ = ["refuse_strangers", "said_the_same"]


def said_the_same(attendance: Attendance, same: Collection[str]) -> Attendance:
    """Whose status says that somebody has vouched for it; names of clients that have been here before."""
    unknown = [name for name in same if attendance.status.get(name, "joined").startswith("joined")]
    if unknown:
        raise InputError(
            f"same names {unknown[0]!r}, but no client of this period was in an earlier one under this name."
        )
    status = {
        name: f"{what}, said to be the same" if name in same and what != "stayed" else what
        for name, what in attendance.status.items()
    }
    return attendance._replace(status=status)


def refuse_strangers(
    clients: Sequence[Client],
    attendance: Attendance,
    keys: Mapping[str, str],
    closed: Sequence[Period],
    before: Balances,
    same: Collection[str],
) -> None:
    """Raises where a client may be another one than that whose account it would get: other rows, or another key.

    Who signed with the same key as the last time that it had one is the same whatever its rows are; who was `renamed`, or is named in `same`, is so by
    the word of whoever closes the period. Changed rows of a client that was in the period before are doubted only where its
    account holds a debt or escrow.
    """
    for name, data, _ in clients:
        last = _last(closed, attendance.was.get(name, name))
        if last is None or name in same or name in attendance.was:
            continue
        key, before_key = keys.get(name, ""), _last_key(closed, attendance.was.get(name, name))
        if key and key == before_key:
            continue
        if key and before_key:
            why = "it has another key than it had then"
        elif data == last.data:
            continue
        elif attendance.status[name] == "returned":
            why = "it comes back with other rows"
        elif before_key:
            why = "it has other rows, and not the key that it had then"
        elif before.of(name).debt or before.of(name).escrow:
            why = "it has other rows, and its account holds a debt or escrow"
        else:
            continue
        raise InputError(
            f"Is {name} the client that was called so before? {why[0].upper()}{why[1:]}. If it is the same, say so: "
            f"same={[name]!r} (--same {name!r}); an agreement that it signs with the same key says so, too. If it is another "
            "one, give it another name: the account stays with who left."
        )


def _last(closed: Sequence[Period], name: str) -> Member | None:
    """The last time that somebody of this name took part."""
    members = (member for period in reversed(closed) for member in period.members)
    return next((member for member in members if member.name == name), None)


def _last_key(closed: Sequence[Period], name: str) -> str:
    """The key that somebody of this name, or of the one before it, had last: a period without keys takes it from nobody."""
    for period in reversed(closed):
        for member in period.members:
            if member.name == name:
                if member.key:
                    return member.key
                name = member.was or name
                break
    return ""
