"""Valuations inside a Flower federation: apps for its server and its clients, and a demo on one machine.

Names are imported when they are used: a client app is started for every message and needs only its own side.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fedvalue.errors import MissingExtraError

if TYPE_CHECKING:
    from fedvalue.flower.client import Party, add_to, client_app
    from fedvalue.flower.foreign import value_foreign
    from fedvalue.flower.server import Task, server_app, value_federation

__all__ = ["Party", "Task", "add_to", "client_app", "server_app", "value_federation", "value_foreign"]

_WHERE = {"Party": "client", "add_to": "client", "client_app": "client", "value_foreign": "foreign"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("flwr") is None:
        raise MissingExtraError(
            'This needs Flower, which is not installed. Install it with: pip install "fedvalue[flower]"'
        )
    return getattr(import_module(f"{__name__}.{_WHERE.get(name, 'server')}"), name)
