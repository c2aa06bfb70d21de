"""What an operator does with a deployment: lets clients in by their keys, and runs valuations."""

from __future__ import annotations

import base64
import hashlib
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from flwr.cli.build import build_fab_from_disk

from fedvalue._checks import did_you_mean
from fedvalue.agreement import read_public_line
from fedvalue.errors import InputError
from fedvalue.flower._app_files import Value
from fedvalue.flower._names import comparable
from fedvalue.flower._plan import PLAN_FILE, FederationPlan
from fedvalue.flower._registered import RegisteredClient, key_of, read_roster, write_roster
from fedvalue.flower._results import Awaited
from fedvalue.flower.deployment._checklist import renew_clients_part
from fedvalue.flower.deployment._files import (
    APP,
    DATABASE,
    ROSTER,
    SIGNING_KEY,
    Deployment,
    authority_of,
)
from fedvalue.flower.deployment._link import Link
from fedvalue.flower.deployment._signing import signatures
from fedvalue.run import VALUES_FILE
from fedvalue.values import Values

__all__ = ["leave", "plan_deployment", "register", "run_deployment"]


def register(
    folder: Path, name: str, key_file: Path, replace: bool = False, signs: Path | None = None
) -> str:
    """Binds a client's name and place to its public key, and lets the node with this key in; the key's fingerprint.

    A client that has a key already gets another one only with `replace`; the node with the old one does not come in any more.
    `signs` is the file of its public key for signing: from then on its replies must be signed.
    """
    deployment, clients = Deployment.read(folder), read_roster(folder / ROSTER)
    place = _place(clients, name)
    try:
        line = key_file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise InputError(f"Cannot read {key_file}: {error.strerror}.") from error
    key = key_of(line, str(key_file))
    keys = {client.name: key_of(client.key, "a key") for client in clients if client.key}
    for other, theirs in keys.items():
        if theirs == key and other != clients[place].name:
            raise InputError(
                f"This is the key of {other!r}. Every client has its own: ask {name!r} for theirs."
            )
    before = keys.get(clients[place].name)
    if before is not None and before != key and not replace:
        raise InputError(
            f"{clients[place].name!r} has another key already. Ask them whether they have made a new one; then register it "
            "with --replace."
        )
    signing = clients[place].signs if signs is None else read_public_line(signs)
    if signing != clients[place].signs and clients[place].signs and not replace:
        raise InputError(
            f"{clients[place].name!r} has another key for signing already. Ask them whether they have made a new one; then "
            "register it with --replace."
        )
    if signing and any(client.signs == signing for i, client in enumerate(clients) if i != place):
        raise InputError(f"This key for signing is that of another client. Ask {name!r} for theirs.")
    with _link(folder, deployment) as link:
        if before is not None and before != key:
            link.unregister(before)
        link.register(key, clients[place].name)
    clients[place] = RegisteredClient(clients[place].name, " ".join(line.split()[:2]), signing)
    write_roster(folder / ROSTER, clients)
    renew_clients_part(folder, clients)
    return _fingerprint(line)


def leave(folder: Path, name: str) -> str:
    """Lets a client's node in no more, and takes no valuation for one that it is absent from; the client's name.

    Its number stays, so nobody else gets another one. `register` takes it back, with another key: Flower takes none that was let go.
    """
    deployment, clients = Deployment.read(folder), read_roster(folder / ROSTER)
    place = _place(clients, name)
    if clients[place].left:
        raise InputError(f"{clients[place].name!r} has left already.")
    if clients[place].key:
        with _link(folder, deployment) as link:
            link.unregister(key_of(clients[place].key, "a key"))
    clients[place] = RegisteredClient(clients[place].name, left=True)
    write_roster(folder / ROSTER, clients)
    renew_clients_part(folder, clients)
    return clients[place].name


def run_deployment(
    folder: Path, settings: Mapping[str, Value] | None = None, tell: Callable[[str], None] = lambda text: None
) -> Values:
    """Signs the app of the deployment, runs it, and waits for its values; where it fails, an error says why.

    `settings` differ from those in the app for this run. `tell` is given what the run logs, as it comes.
    """
    awaited, why = _run(folder, dict(settings or {}), tell, VALUES_FILE)
    values = awaited.values(why)
    tell(f"Values, report, record of the run and every training are in {awaited.out}.\n")
    return values


def plan_deployment(
    folder: Path, settings: Mapping[str, Value] | None = None, tell: Callable[[str], None] = lambda text: None
) -> FederationPlan:
    """The dry run: has the nodes say who is there, and tells what a valuation would take. Nothing is trained."""
    awaited, why = _run(folder, {**(settings or {}), "dry-run": True}, tell, PLAN_FILE)
    return FederationPlan.from_dict(awaited.content(why))


def _run(
    folder: Path, changed: Mapping[str, Value], tell: Callable[[str], None], file: str
) -> tuple[Awaited, str]:
    """Signs the app and runs it to its end: where its result will be, and why there may be none."""
    deployment, app = Deployment.read(folder), folder / APP
    try:
        own = tomllib.loads((app / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flwr"]["app"][
            "config"
        ]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise InputError(f"{app} is not an app as `fedvalue flower deploy` writes it: {error}.") from error
    if unknown := [key for key in changed if key not in own]:
        raise InputError(
            f"Unknown setting {unknown[0]!r}. {did_you_mean(unknown[0], own)}Settings: {', '.join(own)}."
        )
    if wrong := [key for key, value in changed.items() if not isinstance(value, (str, int, float))]:
        raise InputError(
            f"The setting {wrong[0]} must be a text, a number, true or false. Got {changed[wrong[0]]!r}."
        )
    if not os.access(folder / DATABASE, os.R_OK | os.W_OK):
        raise InputError(
            f"Cannot write {folder / DATABASE}. Start the SuperLink with superlink.sh first, and use the account under which it "
            "runs."
        )
    awaited = Awaited(folder / str(changed.get("out") or own["out"]), file)
    content = build_fab_from_disk(app)
    with _link(folder, deployment) as link:
        run = link.start(content, signatures(content, folder / SIGNING_KEY), changed)
        try:
            failed = link.follow(run, tell)
        except KeyboardInterrupt:
            tell(f"The run goes on. To end it: FLWR_HOME={folder / 'flwr'} flwr stop {run} consortium\n")
            raise
    return awaited, failed or "the log of the SuperLink says more."


def _link(folder: Path, deployment: Deployment) -> Link:
    return Link(f"127.0.0.1:{deployment.link_port}", authority_of(folder), folder / DATABASE)


def _place(clients: list[RegisteredClient], name: str) -> int:
    names = [client.name for client in clients]
    place = {comparable(known): place for place, known in enumerate(names)}.get(comparable(name))
    if place is None:
        raise InputError(
            f"There is no client {name!r}. {did_you_mean(name, names)}Clients: {', '.join(names)}."
        )
    return place


def _fingerprint(line: str) -> str:
    """As `ssh-keygen -lf` shows it."""
    digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
