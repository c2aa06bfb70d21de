"""Clients and the keys that they have registered: names and places follow from keys, not from what nodes say.

Flower tells a ServerApp with which public key a node was registered. With `--enable-supernode-auth` every request of a
node is signed with its private key, so a node cannot have the key of another client. The operator's file `roster.json` says whose
key it is.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedvalue._files import write_json
from fedvalue._text import one_line
from fedvalue.agreement import public_line
from fedvalue.errors import InputError
from fedvalue.flower._messages import Grid
from fedvalue.flower._names import check_names, comparable
from fedvalue.flower._reports import ClientReport

__all__ = ["Directory", "RegisteredClient", "key_of", "read_roster", "write_roster"]

_FORMAT = "fedvalue.roster/1"


@dataclass(frozen=True)
class RegisteredClient:
    """A client by its name and its public key, a line as `ssh-keygen` writes it; its place in the file is its number."""

    name: str
    key: str = ""  # until the client has sent one
    signs: str = ""  # the Ed25519 key with which it signs replies and agreements; "" for one that does not
    left: bool = (
        False  # it was in the consortium; its number stays, and nobody waits for it or calls it absent
    )


def read_roster(path: Path) -> list[RegisteredClient]:
    """The clients of the file, in their order."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        written = data["format"]
        clients = [RegisteredClient(**entry) for entry in data["clients"]]
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a roster as `fedvalue flower deploy` writes it.") from error
    if written != _FORMAT:
        raise InputError(f"{path} has format {written!r}; expected {_FORMAT!r}.")
    check_names([client.name for client in clients])
    keys = {
        client.name: key_of(client.key, f"the key of {client.name!r} in {path}")
        for client in clients
        if client.key
    }
    signing = {
        client.name: public_line(client.signs, f"the signing key of {client.name!r} in {path}")
        for client in clients
        if client.signs
    }
    for known in (keys, signing):
        if len(set(known.values())) != len(known):
            raise InputError(f"Two clients in {path} have the same key: {sorted(known)}. Each needs its own.")
    return clients


def write_roster(path: Path, clients: Sequence[RegisteredClient]) -> None:
    """The file that `read_roster` reads."""
    entries = [
        {key: value for key, value in asdict(client).items() if value is not False} for client in clients
    ]
    write_json(path, {"format": _FORMAT, "clients": entries})


def key_of(line: str, what: str) -> bytes:
    """A public key as Flower keeps it. `what` it is begins the error where it is none."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes, uses_nist_ec_curve

    try:
        key: Any = load_ssh_public_key(line.strip().encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not uses_nist_ec_curve(key):
        raise InputError(
            f"Expected {what} to be a public key as `ssh-keygen -t ecdsa -b 384` writes it to its .pub file. "
            f"Got {one_line(line.strip())[:40]!r}."
        )
    return public_key_to_bytes(key)


class Directory:
    """Which nodes are connected, and what is known of them before they say anything.

    With registered clients only their nodes count. Without, every node does, and is who it says it is.
    """

    def __init__(self, grid: Grid, registered: Sequence[RegisteredClient] = ()) -> None:
        self.grid = grid
        self.registered = tuple(registered)
        self.without_key = [client.name for client in registered if not client.key]  # nobody can be they
        self._of_key = {
            key_of(client.key, "a key"): place for place, client in enumerate(self.registered) if client.key
        }
        self._places: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self.strangers: set[int] = set()  # connected with a key that is nobody's; they are not asked

    def nodes(self) -> list[int]:
        """The nodes that are connected and may take part."""
        nodes = []
        for info in self.grid.get_nodes():
            self._names[info.node_id] = one_line(info.name)
            if self.registered and info.public_key not in self._of_key:
                self.strangers.add(info.node_id)
                continue
            if self.registered:
                self._places[info.node_id] = self._of_key[info.public_key]
            nodes.append(info.node_id)
        return nodes

    def place(self, node: int) -> int | None:
        """The number of the client whose key the node has; None where keys do not decide."""
        return self._places.get(node)

    def signing_key(self, place: int) -> str:
        """With which key the client at this place signs its replies; "" where none is registered."""
        return self.registered[place].signs if 0 <= place < len(self.registered) else ""

    def called(self, node: int) -> str:
        """The name under which the node's key is registered, or else its number."""
        place = self.place(node)
        return self.registered[place].name if place is not None else self._names.get(node) or f"node-{node}"

    def need(self, clients: int) -> None:
        """Refuses to wait for more clients than can come."""
        if len(self.registered) - len(self.without_key) < clients and self.without_key:
            never = [one.name for one in self.registered if not one.key and not one.left]
            if not never:
                raise InputError(
                    f"It takes {clients} clients to begin, and the roster has {len(self.registered) - len(self.without_key)} that "
                    "have not left. Set `quorum` lower."
                )
            raise InputError(
                f"No key is registered for {', '.join(map(repr, never))}. Register it with `fedvalue flower register`."
            )

    @property
    def left(self) -> int:
        """How many of the registered clients have left."""
        return sum(client.left for client in self.registered)

    def silent(self, places: Collection[int | None]) -> list[str]:
        """The registered clients that nothing was heard of, if these were; not those that have left."""
        heard = enumerate(self.registered)
        return [one.name for place, one in heard if place not in places and not one.left]

    def absent(self, places: Collection[int | None], clients: int, why: str) -> dict[str, str]:
        """Why each of the clients that are not at these places is absent, by name as far as names are known.

        Of a node that only has a name the place is None: then nobody knows who the others would have been.
        """
        if self.registered:
            names = [client.name for client in self.registered]
            reasons = [why if client.key else "has no registered key" for client in self.registered]
        elif None in places:
            missing = clients - len(places)
            return {f"unknown client {number}": why for number in range(1, missing + 1)}
        else:
            names, reasons = [f"client-{place}" for place in range(clients)], [why] * clients
        left = {place for place, client in enumerate(self.registered) if client.left}
        return {names[place]: reasons[place] for place in range(clients) if place not in {*places, *left}}

    def bound(self, node: int, report: ClientReport) -> ClientReport:
        """The report with name and place of the client whose key the node has; one that claims others is refused."""
        place = self.place(node)
        if place is None:
            return report
        name = self.registered[place].name
        claims = []
        if report.name and comparable(report.name) != comparable(name):
            claims.append(f"calls itself {report.name!r}")
        if report.position not in (-1, place):
            claims.append(f"claims partition-id {report.position}{self._whose(report.position)}")
        if claims:
            raise InputError(
                f"The node with the key of {name!r} {' and '.join(claims)}. This key belongs to {name!r} with partition-id "
                f"{place}: start the node with these, or ask {name!r} who else has its key."
            )
        return replace(report, name=name, position=place)

    def _whose(self, place: int) -> str:
        return f" ({self.registered[place].name!r})" if place < len(self.registered) else ""
