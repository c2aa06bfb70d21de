"""The folder of a deployment: what `fedvalue flower deploy` writes, and what stands in it for whom."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from fedvalue._checks import whole
from fedvalue._files import write_json
from fedvalue._version import __version__
from fedvalue.errors import InputError
from fedvalue.flower._app_files import Value, write_app
from fedvalue.flower._names import check_names
from fedvalue.flower._registered import RegisteredClient, read_roster, write_roster
from fedvalue.flower.deployment._certificates import (
    KeyPair,
    make_authority,
    make_server_certificate,
    renew_server_certificate,
)
from fedvalue.flower.deployment._checklist import CHECKLIST, clients_part, renew_clients_part
from fedvalue.flower.deployment._signing import make_signing_key, trusted_entities
from fedvalue.flower.deployment._texts import folder_of, text_of

__all__ = [
    "APP",
    "DATABASE",
    "ROSTER",
    "SIGNING_KEY",
    "Deployment",
    "authority_of",
    "deploy",
    "join",
    "renew",
]

_FORMAT = "fedvalue.deployment/1"
_FILE = "deployment.json"
ROSTER, APP, DATABASE, SIGNING_KEY = "roster.json", "valuation", "state/link.db", "private/app-signing"
_AUTHORITY_KEY, _AUTHORITY = "private/ca.key", "tls/ca.crt"
_UNITS = ("fedvalue-superlink.service", "fedvalue-proxy.service")
_NODE_UNIT = "fedvalue-node@.service"
# What nobody outside may ask of the SuperLink: register a node, list runs, run an app, act as an app.
_FORBIDDEN = (
    "/v1/control/register-node",
    "/v1/control/list-runs",
    "/v1/control/start-run",
    "/v1/runtime/acquire-task",
)
# The status that somebody gets who has the address and the consortium's public certificate.
_CURL = "curl -s -o /dev/null -w '%{http_code}\\n' --max-time 10 --cacert tls/ca.crt -H 'Content-Type: application/protobuf' -X POST"

_HOST = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
)
_PATH = re.compile(r"/[A-Za-z0-9._/@+-]*")  # units and shells take these as they are
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Where everything listens and lies. `home` is the folder on the operator's machine, `client_home` on a client's.

    >>> Deployment(host="link.example.org", home="/srv/consortium").address
    'link.example.org:443'
    """

    host: str
    home: str
    also: tuple[str, ...] = ()
    listen: str = "0.0.0.0"
    port: int = 443
    link_port: int = 8000
    user: str = "fedvalue"
    client_home: str = "/opt/fedvalue"
    programs: str = str(Path(sys.executable).parent)
    nginx: str = "/usr/sbin/nginx"

    def __post_init__(self) -> None:
        for host in (self.host, *self.also):
            if not _is_address(host) and not _HOST.fullmatch(host):
                raise InputError(
                    f"The host must be a name like link.example.org or an address. Got {host!r}."
                )
        if not _is_address(self.listen.strip("[]")):
            raise InputError(
                f"listen must be an address of this machine, such as 0.0.0.0 or [::]. Got {self.listen!r}."
            )
        for name in ("port", "link_port"):
            whole(name, getattr(self, name), 1, 65535)
        if self.port == self.link_port:
            raise InputError(f"Proxy and SuperLink need a port each. Both were given {self.port}.")
        for name in ("home", "client_home", "nginx"):
            if not _PATH.fullmatch(getattr(self, name)):
                raise InputError(
                    f"{name} must be an absolute path of letters, digits and ._/@+-, as systemd takes it. Got "
                    f"{getattr(self, name)!r}."
                )
        if not _USER.fullmatch(self.user):
            raise InputError(f"user must be the name of an account, such as fedvalue. Got {self.user!r}.")

    @property
    def outside(self) -> str:
        """The host as it stands in an address."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def address(self) -> str:
        """Where nodes connect to."""
        return f"{self.outside}:{self.port}"

    @classmethod
    def read(cls, folder: Path) -> Deployment:
        """The deployment in this folder."""
        try:
            data = json.loads((folder / _FILE).read_text(encoding="utf-8"))
            if data.pop("format") != _FORMAT:
                raise ValueError("it has another format")
            return cls(**{**data, "also": tuple(data["also"])})
        except OSError as error:
            raise InputError(
                f"{folder} is not the folder of a deployment: cannot read {_FILE}. `fedvalue flower deploy` makes one."
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{folder / _FILE} is not as `fedvalue flower deploy` wrote it: {error}."
            ) from error


def deploy(
    folder: Path,
    host: str,
    clients: Sequence[str],
    *,
    days: int = 365,
    settings: Mapping[str, Value] | None = None,
    **options: Any,
) -> Deployment:
    """Writes everything that an operator needs to run valuations with these clients over the internet.

    `host` is where nodes reach the proxy, `clients` are their names in their order. `days` is how long the server's
    certificate is valid. `settings` are those of the app, as `write_app` takes them; options are the fields of `Deployment`.
    Nothing that is there is written over.
    """
    check_names(clients)
    if not clients:
        raise InputError("A deployment needs the names of its clients. Got none.")
    whole("days", days, 1, 3650)
    deployment = Deployment(host=host, home=str(options.pop("home", None) or folder.resolve()), **options)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(
            f"{folder} is there already and not empty. Choose a new folder; keys are not written over."
        )
    of_roster: dict[str, Value] = {"clients": 0, "roster": ROSTER, "out": "out", "test": "test.npz"}
    write_app(folder / APP, {**of_roster, **(settings or {})})
    try:
        for part, mode in (
            ("private", 0o700),
            ("state", 0o700),
            ("tls", 0o755),
            ("flwr", 0o700),
            ("systemd", 0o755),
        ):
            (folder / part).mkdir(parents=True)
            (folder / part).chmod(mode)
        until = _make_keys(folder, deployment, days)
        _write_operators_files(folder, deployment, clients, until)
        for place, name in enumerate(clients):
            _write_clients_folder(folder, deployment, name, place, len(clients))
    except OSError as error:
        raise InputError(f"Cannot write to {folder}: {error.strerror}.") from error
    write_roster(folder / ROSTER, [RegisteredClient(name) for name in clients])
    write_json(folder / _FILE, {"format": _FORMAT, **asdict(deployment)})
    return deployment


def join(folder: Path, name: str) -> Path:
    """Another client, after all that there are: the folder to give to it. It comes in once its key is registered.

    The numbers of the others stay, also of those that have left: a client that comes back is registered again.
    """
    deployment, clients = Deployment.read(folder), read_roster(folder / ROSTER)
    check_names([*(client.name for client in clients), name])
    try:
        mine = _write_clients_folder(folder, deployment, name, len(clients), len(clients) + 1)
    except OSError as error:
        raise InputError(f"Cannot write to {folder}: {error.strerror}.") from error
    write_roster(folder / ROSTER, everyone := [*clients, RegisteredClient(name)])
    renew_clients_part(folder, everyone)
    return mine


def renew(folder: Path, days: int = 365) -> datetime:
    """Makes another certificate for the server, with another key, from the authority of the deployment; valid until."""
    Deployment.read(folder)
    whole("days", days, 1, 3650)
    return renew_server_certificate(*_pairs(folder), days)


def authority_of(folder: Path) -> Path:
    """The certificate of the consortium's authority."""
    return folder / _AUTHORITY


def _pairs(folder: Path) -> tuple[KeyPair, KeyPair]:
    """Of the authority and of the server."""
    authority = KeyPair(folder / _AUTHORITY_KEY, folder / _AUTHORITY)
    return authority, KeyPair(folder / "tls/server.key", folder / "tls/server.crt")


def _make_keys(folder: Path, deployment: Deployment, days: int) -> datetime:
    authority, server = _pairs(folder)
    make_authority(authority)
    make_signing_key(folder / SIGNING_KEY)
    hosts = list(dict.fromkeys([deployment.host, *deployment.also, "localhost", "127.0.0.1"]))
    return make_server_certificate(authority, server, hosts, days)


def _write_operators_files(folder: Path, d: Deployment, clients: Sequence[str], until: datetime) -> None:
    part = clients_part([RegisteredClient(name) for name in clients])
    facts = {"clients_part": part, "until": f"{until:%Y-%m-%d}", "forbidden": _FORBIDDEN, "curl": _CURL}
    for file in ("nginx.conf", CHECKLIST):
        (folder / file).write_text(text_of(file, d=d, **facts), encoding="utf-8")
    _write_program(folder / "superlink.sh", text_of("superlink.sh", d=d))
    (folder / "flwr" / "config.toml").write_text(text_of("config.toml", d=d), encoding="utf-8")
    for unit in _UNITS:
        (folder / "systemd" / unit).write_text(text_of(unit, d=d), encoding="utf-8")


def _write_clients_folder(folder: Path, d: Deployment, name: str, place: int, count: int) -> Path:
    """What a client is given: nothing of it is secret."""
    mine = folder / "clients" / folder_of(name, place)
    mine.mkdir(parents=True)
    certificate = (folder / _AUTHORITY).read_text(encoding="utf-8")
    facts = {
        "name": name,
        "place": place,
        "count": count,
        "folder": mine.name,
        "version": __version__,
        "flwr": version("flwr"),
        "fingerprint": _fingerprint(certificate),
    }
    texts = {
        "ca.crt": certificate,
        "trusted.yaml": trusted_entities(folder / SIGNING_KEY),
        "README.md": text_of("client/README.md", d=d, **facts),
        "node.toml": text_of("client/node.toml", d=d, **facts),
        _NODE_UNIT: text_of(_NODE_UNIT, d=d),
    }
    for file, text in texts.items():
        (mine / file).write_text(text, encoding="utf-8")
    _write_program(mine / "node.sh", text_of("client/node.sh", d=d))
    return mine


def _write_program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _fingerprint(certificate: str) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    digest = x509.load_pem_x509_certificate(certificate.encode()).fingerprint(hashes.SHA256())
    return digest.hex(":").upper()


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
