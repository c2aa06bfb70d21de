"""Which node is which client where the app does not say: by registered key, by registered name, by partition."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from fedvalue._text import listed
from fedvalue.errors import FedvalueError, InputError
from fedvalue.flower._messages import Grid
from fedvalue.flower._names import too_alike
from fedvalue.flower._registered import Directory
from fedvalue.flower._roster import Roster

__all__ = ["NodeRoster", "in_fixed_order", "wait_for"]

_LOOK_SECONDS = 0.5


class NodeRoster(Roster):
    """Clients that are told apart by their nodes: one that is listed again is back."""

    def find_again(self, lost: Collection[int], seconds: float) -> set[int]:
        ends = time.monotonic() + seconds
        while True:
            connected = set(self.directory.nodes())
            back = {client for client in lost if self.nodes[client] in connected}
            if back == set(lost) or time.monotonic() >= ends:
                return back
            time.sleep(min(_LOOK_SECONDS, max(0.0, ends - time.monotonic())))


def wait_for(directory: Directory, clients: int, seconds: float, quorum: int) -> list[int]:
    """The nodes, once there are as many as expected; after the given time, if there are at least `quorum`."""
    ends = time.monotonic() + seconds
    while len(nodes := directory.nodes()) < clients - len(directory.without_key):
        if time.monotonic() >= ends:
            if len(nodes) >= quorum:
                return nodes
            silent = directory.silent({directory.place(node) for node in nodes})
            missing = f" Missing: {listed(silent, 12)}." if silent else ""
            raise FedvalueError(
                f"Expected {clients - directory.left} nodes; {len(nodes)} are connected after {seconds:.0f} s.{missing} Start the others."
            )
        time.sleep(_LOOK_SECONDS)
    if len(nodes) > clients:
        raise InputError(f"Expected {clients} nodes; {len(nodes)} are connected. Say clients={len(nodes)}.")
    return nodes


def in_fixed_order(directory: Directory, nodes: Sequence[int]) -> dict[int, str]:
    """The nodes as client 0, 1, … and their names, both the same in the next run."""
    if directory.registered:
        return {
            node: directory.called(node)
            for node in sorted(nodes, key=lambda node: directory.place(node) or 0)
        }
    if _is_simulation(directory.grid):
        # Ids are drawn anew for every run, but nodes are made in the order of their partitions.
        made = {info.node_id: info.registered_at for info in directory.grid.get_nodes()}
        return {
            node: f"client-{place}" for place, node in enumerate(sorted(nodes, key=lambda node: made[node]))
        }
    names = {node: directory.called(node) for node in nodes}
    if too_alike(list(names.values())):
        names = {node: f"node-{node}" for node in nodes}
    return dict(sorted(names.items(), key=lambda item: item[1]))


def _is_simulation(grid: Grid) -> bool:
    from flwr.superlink.grid import InMemoryGrid

    return isinstance(grid, InMemoryGrid)
