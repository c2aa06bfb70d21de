"""Who is in a period: joined, returned, changed, stayed, or left since the one before."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from fedvalue.errors import InputError
from fedvalue.periods._entry import Period
from fedvalue.scenarios import Scenario

__all__ = ["Attendance", "Client", "attend", "clients_of"]


class Client(NamedTuple):
    """Who is to be a member: its name, the fingerprint of its rows, and how many there are."""

    name: str
    data: str
    rows: int


def clients_of(scenario: Scenario) -> tuple[Client, ...]:
    """The clients of a scenario."""
    pairs = zip(scenario.names, scenario.clients, strict=True)
    return tuple(Client(name, data.fingerprint, len(data)) for name, data in pairs)


class Attendance(NamedTuple):
    """The status of every client by name, those who left, and of whose data nothing was trained in the period before.

    `was` are the former names of those who have another one now.
    """

    status: Mapping[str, str]
    left: tuple[str, ...]
    new: tuple[str, ...]
    was: Mapping[str, str]


def attend(
    clients: Sequence[Client],
    closed: Sequence[Period],
    renamed: Mapping[str, str],
    absent: Collection[str] = (),
) -> Attendance:
    """Compares clients with those of the closed periods. `renamed` gives the new name of each; who is `absent` has not left."""
    before = {} if not closed else {member.name: member.data for member in closed[-1].members}
    ever = {member.name for period in closed for member in period.members}
    names = [client.name for client in clients]
    was = _former(renamed, ever, names, absent)
    status = {}
    for name, data, _ in clients:
        former = was.get(name, name)
        if former in before:
            status[name] = "stayed" if before[former] == data else "changed"
        else:
            status[name] = "returned" if former in ever else "joined"
    here = {was.get(name, name) for name in (*names, *absent)}
    last = {member.name: member.data for period in closed for member in period.members}
    others = {member.was for period in closed for member in period.members}
    rows_of = {data: name for name, data in last.items() if name not in here | others}
    for name, data, _ in clients:
        if status[name] == "joined" and data in rows_of:
            status[name] = f"joined with the rows of {rows_of[data]}"
    trained = set(before.values())
    new = [name for name, data, rows in clients if rows and data not in trained]
    return Attendance(status, tuple(name for name in before if name not in here), tuple(new), was)


def _former(
    renamed: Mapping[str, str], ever: set[str], names: Sequence[str], absent: Collection[str]
) -> dict[str, str]:
    for old, new in renamed.items():
        if old in absent:
            raise InputError(
                f"renamed says that {old!r} is called {new!r} now, but {old!r} is absent in this period. Its account stays its own."
            )
        if old not in ever:
            raise InputError(f"renamed names {old!r}, which was in no closed period.")
        if new not in names or old in names:
            raise InputError(
                f"renamed says that {old!r} is called {new!r} now, but the clients are: {', '.join(names)}."
            )
        if new in ever:
            raise InputError(
                f"renamed gives {old!r} the name {new!r}, which is that of another client of earlier periods."
            )
    if len(set(renamed.values())) < len(renamed):
        raise InputError("renamed gives two clients the same name.")
    return {new: old for old, new in renamed.items()}
