"""What tests do to a federation of local processes: break it, encrypt it, and look what is left of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from fedvalue.flower._processes import LOOPBACK, Federation
from fedvalue.flower.deployment._certificates import KeyPair, make_authority, make_server_certificate

# Flower's nodes look for messages every 3 s, and a killed one counts as there for a minute, in which nobody else
# may come under its key: tests need not wait so long.
IMPATIENT = """
import time
import flwr.common.constant as constant
constant.HEARTBEAT_DEFAULT_INTERVAL = 10
sleep = time.sleep
time.sleep = lambda seconds: sleep(min(seconds, 0.3))
"""


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"waited {seconds} s for {what}"
        time.sleep(0.1)


def alive(home: Path) -> list[str]:
    """Processes that were started with this folder as Flower's home, zombies left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(home).encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120])
        except OSError:
            continue
    return [command for command in found if command]


def kill(federation: Federation, *names: str) -> None:
    """Ends processes and what they have started at once, as a power failure would."""
    for name in names:
        process = federation.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_number(federation: Federation, name: str) -> str:
    """Flower's number of a run that was started under the given name; waits until it has one."""
    until(lambda: "started run" in federation.log(name, 10**6), f"the number of {name}")
    found = re.search(r"started run (\d+)", federation.log(name, 10**6))
    assert found is not None
    return found[1]


def make_key(path: Path) -> Path:
    """A node's key, as the README of a client says; the public half is beside it."""
    command = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


def node_number(federation: Federation, name: str) -> str:
    """Flower's number of a SuperNode."""
    return federation.log(name, 10**6).split("SuperNode ID: ")[1].split()[0]


def flwr(federation: Federation, *arguments: str) -> None:
    """A command of the operator that must not fail."""
    name = f"flwr-{len(federation.processes)}"
    federation.start(name, "flwr", *arguments)
    federation.wait(name, 120.0)
    assert federation.processes.pop(name).returncode == 0, federation.log(name)


class Authority:
    """A certificate authority, and a server certificate for the loopback address."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.root = folder / "ca.crt"
        own = KeyPair(folder / "ca.key", self.root)
        make_authority(own)
        make_server_certificate(own, KeyPair(folder / "server.key", folder / "server.crt"), [LOOPBACK], 2)

    def secure(self, federation: Federation) -> None:
        """Has everything of the federation encrypted, and nodes known by their keys."""
        files = {"ca-certfile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}
        options = [
            text for name, file in files.items() for text in (f"--ssl-{name}", str(self.folder / file))
        ]
        federation.link_options = [*options, "--enable-supernode-auth"]
        federation.trust = ["--root-certificates", str(self.root)]
        federation.connection = f'root-certificates = "{self.root}"'
