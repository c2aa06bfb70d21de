"""The live page: a run as it goes, read from its store and folder alone."""

from fedvalue.watch._server import WatchServer
from fedvalue.watch._snapshot import RunNow, Snapshot, Stored, snapshot
from fedvalue.watch._so_far import SoFar, so_far
from fedvalue.watch._watcher import Watcher

__all__ = ["RunNow", "Snapshot", "SoFar", "Stored", "WatchServer", "Watcher", "snapshot", "so_far"]
