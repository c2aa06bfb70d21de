"""Everything of Flower: valuations inside a federation, apps for its server and its clients, a demo.

From what travels to what a user starts:

_arrays, _wire      models as arrays; arrays and settings in Flower's records, checked before they are used
_messages           questions to nodes and their answers: push, poll, what failed
_names, _reports    names that cannot be mistaken; what a client says of its data, and the scenario made of it
_registered, _roster  the keys of clients, by which nodes are known; which node is which client
_packing, _nodes    how models are put into messages; nodes asked by client number, and who is lost
_lost               why trainings are missing, in words
_blocks             what held-out rows say about models, in blocks that hide single rows
_evaluation         models measured at the nodes, on rows that they hold out
_session, _trainer  a training session whose local trainings happen at the nodes; the trainer `flower`
_client             the app of a client: `client_app`, `add_to`
_agreed             what an agreement says of a valuation in a federation
_witness            replies under the signatures of nodes
_settings, _server  the app of the server: `server_app`, `value_federation`
_foreign, _foreign_nodes  apps that know nothing of fedvalue: `value_foreign`; which node is which client there
_array_file, _checkpoint  what is under way, kept on disk after every round
_plan               the dry run: who is there, and what a valuation would take
_valuation          what both have in common: values of those who answer, results in a folder
_app_files          the app that `fedvalue flower init` writes
_results            what a run leaves in its folder, for whoever waits for it
_processes, _demo   a federation of local processes, and `fedvalue flower demo`
deployment          everything for a federation over the internet: `deploy`, `register`, `join`, `leave`, `run_deployment`

Names are imported when they are used: a client app is started for every message and needs only its own side.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedvalue._extras import need

if TYPE_CHECKING:
    from fedvalue.flower._app_files import write_app
    from fedvalue.flower._client import Party, add_to, client_app
    from fedvalue.flower._demo import demo
    from fedvalue.flower._foreign import value_foreign
    from fedvalue.flower._plan import FederationPlan
    from fedvalue.flower._server import Task, plan_federation, server_app, value_federation
    from fedvalue.flower._settings import Settings
    from fedvalue.flower._trainer import FlowerTrainer
    from fedvalue.flower.deployment import (
        Deployment,
        deploy,
        join,
        leave,
        plan_deployment,
        register,
        renew,
        run_deployment,
    )

__all__ = [
    "Deployment",
    "FederationPlan",
    "FlowerTrainer",
    "Party",
    "Settings",
    "Task",
    "add_to",
    "client_app",
    "demo",
    "deploy",
    "join",
    "leave",
    "plan_deployment",
    "plan_federation",
    "register",
    "renew",
    "run_deployment",
    "server_app",
    "value_federation",
    "value_foreign",
    "write_app",
]

_WHERE = {
    "_app_files": ("write_app",),
    "_client": ("Party", "add_to", "client_app"),
    "_demo": ("demo",),
    "_foreign": ("value_foreign",),
    "_plan": ("FederationPlan",),
    "_server": ("Task", "plan_federation", "server_app", "value_federation"),
    "_settings": ("Settings",),
    "_trainer": ("FlowerTrainer",),
    "deployment": (
        "Deployment",
        "deploy",
        "join",
        "leave",
        "plan_deployment",
        "register",
        "renew",
        "run_deployment",
    ),
}
_WITHOUT_FLOWER = ("Settings", "write_app")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _WITHOUT_FLOWER:
        need("flwr")
    module = next(module for module, names in _WHERE.items() if name in names)
    return getattr(import_module(f"{__name__}.{module}"), name)
