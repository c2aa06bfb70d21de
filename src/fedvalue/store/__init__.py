"""The store: every trained coalition, kept in one SQLite file and found again by its game's fingerprint."""

from fedvalue.store._chain import Entry, Head
from fedvalue.store._claims import lives, new_owner
from fedvalue.store._export import export, lower_is_better, summary
from fedvalue.store._games import StoredGame
from fedvalue.store._history import History, read_history
from fedvalue.store._look import LatestRow, StoreLook
from fedvalue.store._merge import MergeReport
from fedvalue.store._protocol import Chained, Claiming, Registering, Store, Surveyed, agree, register
from fedvalue.store._sqlite import UtilityStore
from fedvalue.store._until import StoreUntil
from fedvalue.store.identity import FileNames, fingerprint

__all__ = [
    "Chained",
    "Claiming",
    "Entry",
    "FileNames",
    "Head",
    "History",
    "LatestRow",
    "MergeReport",
    "Registering",
    "Store",
    "StoreLook",
    "StoreUntil",
    "StoredGame",
    "Surveyed",
    "UtilityStore",
    "agree",
    "export",
    "fingerprint",
    "lives",
    "lower_is_better",
    "new_owner",
    "read_history",
    "register",
    "summary",
]
