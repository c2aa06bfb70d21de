"""The connection to Ray: an instance of our own on this machine, or a cluster that was there before.

Our own listens on the loopback interface only, keeps its files in a private folder and ends with the run. A
cluster is used and left as it is.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from fedvalue._extras import need
from fedvalue.errors import FedvalueError, InputError
from fedvalue.scenarios import Scenario, bytes_in
from fedvalue.trainers.ray._folders import new_folder, remove_abandoned

__all__ = ["Cluster", "check_address", "open_cluster", "tasks_on"]

_CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_QUIET: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
_CONNECT_SECONDS = 3.0
_STORE_BYTES = 128 << 20  # of the object store, besides twice the data
_LOOK_SECONDS = 5.0  # between two looks at whether anyone is left who could work
_PATIENCE = 60.0  # for a machine to come back when none is left


def tasks_on(resources: dict[str, float], cpus: float, gpus: float) -> int:
    """How many tasks a machine runs side by side.

    >>> tasks_on({"CPU": 16.0, "GPU": 2.0}, cpus=4, gpus=0.5), tasks_on({"CPU": 16.0}, cpus=4, gpus=1)
    (4, 0)
    """
    by_cpu = resources.get("CPU", 0.0) // cpus
    return int(min(by_cpu, resources.get("GPU", 0.0) // gpus) if gpus else by_cpu)


class Cluster:
    """Ray, connected. `folder` holds its files where it is our own; `ours` is the connection, to be ended by us."""

    def __init__(self, name: str, folder: Path | None = None, ours: bool = True) -> None:
        self.ray = need("ray")
        self.name = name
        self.folder = folder
        self.ours = ours

    def tasks(self, cpus: float, gpus: float) -> list[int]:
        """How many tasks each machine that is alive runs side by side."""
        return [tasks_on(node["Resources"], cpus, gpus) for node in self.ray.nodes() if node["Alive"]]

    def need_room(self, cpus: float, gpus: float) -> list[int]:
        """The same; an error where no machine runs any."""
        room = self.tasks(cpus, gpus)
        if not any(room):
            whole = {key: self.ray.cluster_resources().get(key, 0) for key in ("CPU", "GPU")}
            raise InputError(
                f"A task asks for {cpus:g} CPUs and {gpus:g} GPUs, and no machine of {self.name} has them (all "
                f"together have {whole['CPU']:g} CPUs and {whole['GPU']:g} GPUs). Ask for less with --cpus-per-task "
                "and --gpus-per-task, or add machines."
            )
        return room

    def finished(self, references: Sequence[Any], cpus: float, gpus: float) -> list[Any]:
        """Waits until some are finished; gives up when no machine is left that could work on them."""
        alone_since: float | None = None
        while True:
            ready, _ = self.ray.wait(list(references), num_returns=1, timeout=_LOOK_SECONDS)
            if ready:
                more, _ = self.ray.wait(list(references), num_returns=len(references), timeout=0)
                return list(more)
            if any(self.tasks(cpus, gpus)):
                alone_since = None
                continue
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > _PATIENCE:
                raise FedvalueError(
                    f"No machine of {self.name} that could train is left, and none came back within "
                    f"{_PATIENCE:.0f} s. What was finished is kept: start machines and run the same again."
                )

    def close(self) -> None:
        """Disconnects, and ends what we started."""
        if self.ours:  # once: the next one may be somebody else's
            self.ours = False
            self.ray.shutdown()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def open_cluster(address: str | None, workers: int | None, cpus: float, scenario: Scenario) -> Cluster:
    """Connects to the address; without one, to what this process is connected to, or to a Ray of our own."""
    ray = need("ray")
    # Usage statistics would be sent over the network.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if ray.is_initialized():
        there = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", there):
            raise InputError(
                f"This process is connected to the Ray cluster at {there}, and {address} was asked for. Call "
                "ray.shutdown() before, or leave the address out."
            )
        return Cluster(f"the Ray cluster at {there}", ours=False)
    if address is not None:
        return _join(ray, address)
    return _start(ray, workers, cpus, scenario)


def _start(ray: Any, workers: int | None, cpus: float, scenario: Scenario) -> Cluster:
    remove_abandoned()
    folder = new_folder()
    data = sum(bytes_in(part.x) + part.y.nbytes for part in (*scenario.clients, scenario.test))
    try:
        with _opening(Cluster("this machine", folder)) as cluster, _loopback():
            ray.init(
                address="local",  # whatever RAY_ADDRESS says
                num_cpus=cores() if workers is None else math.ceil(workers * cpus),
                object_store_memory=_STORE_BYTES + 2 * data,
                _temp_dir=str(folder),
                **_QUIET,
            )
            return cluster
    except Exception as error:  # Ray raises many kinds, and none of its own
        raise FedvalueError(f"Ray could not be started on this machine: {_first_line(error)}") from error


@contextmanager
def _opening(cluster: Cluster) -> Iterator[Cluster]:
    """Whatever ends the attempt, Ctrl-C included, leaves nothing behind."""
    try:
        yield cluster
    except BaseException:
        cluster.close()
        raise


@contextmanager
def _loopback() -> Iterator[None]:
    """Ray listens on the loopback interface while it is started, as it does by default on macOS and Windows.

    Asked for 127.0.0.1 (`_node_ip_address`), it takes the address of the network instead, and listens on every
    interface; so it does for any other address. What switches that off is an environment variable that is read once,
    when Ray is imported, and that would keep this process from joining clusters: hence the change of a private name.
    """
    constants: Any = import_module("ray._private.ray_constants")
    before = constants.ENABLE_RAY_CLUSTER, os.environ.get(_CLUSTERS)
    constants.ENABLE_RAY_CLUSTER = False  # of this process
    os.environ[_CLUSTERS] = "0"  # of those that it starts
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before[0]
        os.environ.pop(_CLUSTERS)
        if before[1] is not None:
            os.environ[_CLUSTERS] = before[1]


def _join(ray: Any, address: str) -> Cluster:
    host = "" if address == "auto" else _listening(address)
    try:
        with _opening(Cluster(f"the Ray cluster at {address}")) as cluster:
            with _loopback() if host in _LOOPBACK else nullcontext():
                ray.init(address=address, **_QUIET)
            return cluster
    except Exception as error:
        raise FedvalueError(
            f"No Ray cluster could be joined at {address}: {_first_line(error)} This command must run on a "
            "machine of the cluster; `ray status` shows whether it does. Where the cluster asks for a token, set "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN."
        ) from error


def check_address(address: str | None) -> None:
    """Whether something answers there as Ray does, where it is a certain one."""
    if address not in (None, "auto"):
        _listening(str(address))


def _listening(address: str) -> str:
    """The host, if something answers there as Ray does. Ray itself would try for minutes before it says no."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or "://" in host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InputError(f"The address of a Ray cluster is auto or HOST:PORT. Got {address!r}.")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS) as connection:
            encrypted = os.environ.get("RAY_USE_TLS", "0").lower() not in ("0", "false")
            answers = encrypted or _speaks_http2(connection)
    except OSError as error:
        raise FedvalueError(
            f"No Ray cluster answers at {address}: {error.strerror or error}. Start it with `ray start --head "
            f"--port {port}` on that machine, or leave --address out to work on this one."
        ) from error
    if not answers:
        raise FedvalueError(
            f"What answers at {address} is not a Ray cluster. `ray status` shows the address of one."
        )
    return host


def _speaks_http2(connection: socket.socket) -> bool:
    """Whether the other side begins with its settings, as servers of gRPC do (RFC 9113, section 3.4)."""
    settings = b"\0\0\0\x04\0\0\0\0\0"  # none
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
    answer = b""
    while len(answer) < len(settings):
        received = connection.recv(len(settings) - len(answer))
        if not received:
            return False
        answer += received
    return answer[3] == settings[3]


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if text.endswith(".") else f"{text}."
