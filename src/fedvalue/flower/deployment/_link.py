"""The SuperLink of a deployment, by its Control API, which answers on the operator's machine only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from flwr.cli.config_utils import get_fab_metadata
from flwr.common.constant import SubStatus
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StreamLogsRequest,
    UnregisterNodeRequest,
)
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore.constant import NOOP_FEDERATION_ID, NodeStatus, TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import FlowerError
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager
from sqlalchemy.exc import SQLAlchemyError

from fedvalue.errors import FedvalueError

__all__ = ["Link"]


class Link:
    """Registers nodes and starts runs; an error where the SuperLink does not answer or refuses."""

    def __init__(self, address: str, authority: Path, database: Path) -> None:
        self.address = address
        self.database = database
        self._client = ControlHttpClient.from_server_address(
            address,
            insecure=False,
            root_certificates=authority.read_bytes(),
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def register(self, key: bytes, name: str) -> None:
        """Lets the node with this key come in; where it may already, nothing happens."""
        if self._node(key) is None:
            with self._answering():
                self._client.RegisterNode(RegisterNodeRequest(public_key=key, name=name))

    def unregister(self, key: bytes) -> None:
        """The node with this key does not come in any more."""
        node = self._node(key)
        if node is not None:
            with self._answering():
                self._client.UnregisterNode(UnregisterNodeRequest(node_id=node))

    def _node(self, key: bytes) -> int | None:
        with self._answering():
            nodes = self._client.ListNodes(ListNodesRequest()).nodes_info
        known = (n for n in nodes if n.public_key == key and n.status != NodeStatus.UNREGISTERED)
        return next((node.node_id for node in known), None)

    def start(self, content: bytes, signed: Mapping[str, str], settings: Mapping[str, Any]) -> int:
        """Starts a run of the app in this bundle; its number.

        A bundle that comes with the request to start would lose its signatures. So it is put into the SuperLink's database
        with them, where the SuperLink keeps apps that have been run before, and that one is started.
        """
        fab = Fab(hashlib.sha256(content).hexdigest(), content, dict(signed))
        app = f"@{get_fab_metadata(content)[0]}"
        database = str(self.database)
        try:
            state = LinkStateFactory(database, NoOpFederationManager(), ObjectStoreFactory(database)).state()
            state.store_app(fab, NOOP_FEDERATION_ID, app, TaskType.SERVER_APP, added_by="operator")
        except SQLAlchemyError as error:
            raise FedvalueError(
                f"Cannot write to the database of the SuperLink, {database}: {error}"
            ) from error
        request = StartRunRequest(
            fab=fab_to_proto(Fab(fab.hash_str, b"", {})),
            app_spec=app,
            override_config=user_config_to_proto(dict(settings)),
        )
        with self._answering():
            reply = self._client.StartRun(request)
        if not reply.HasField("run_id"):
            raise FedvalueError("The SuperLink did not start the run. Its log says why.")
        return int(reply.run_id)

    def follow(self, run: int, tell: Callable[[str], None]) -> str:
        """Waits for the end of a run, telling what it logs; why it failed, or nothing."""
        with self._answering():
            for part in self._client.StreamLogs(StreamLogsRequest(run_id=run, after_timestamp=0.0)):
                tell(part.log_output)
            status = self._client.ListRuns(ListRunsRequest(run_id=run)).run_dict[run].status
        return (
            ""
            if status.sub_status == SubStatus.COMPLETED
            else f"{status.sub_status}: {status.details}".strip(": ")
        )

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPStatusError as error:
            refused = FlowerError.from_json(error.response.text)
            reason = refused.message if refused else f"status {error.response.status_code}"
            raise FedvalueError(f"The SuperLink on {self.address} refused: {reason}") from error
        except httpx.HTTPError as error:
            raise FedvalueError(
                f"The SuperLink does not answer on {self.address}. Start it with superlink.sh, on this machine."
            ) from error
