"""The tables of a store: how they are made, brought up to date, and recognised."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from fedvalue.store._file import APPLICATION_ID
from fedvalue.store._rows import COLUMNS, UNSIGNED

__all__ = [
    "ADDED",
    "CLAIMS",
    "OLDEST",
    "PER_ROW",
    "VERSION",
    "create",
    "is_in_use",
    "is_signed",
    "mark_in_use",
    "schema_problems",
    "upgrade",
    "version_of",
]

OLDEST, VERSION = 1, 3  # 2: a checksum in every row, and claims; 3: what test rows said
_SIGNED = 2
_IN_USE = 1 << 16  # beside the version, in the header: there is a log with more than the file holds
ADDED, CLAIMS, PER_ROW = "added_metrics", "claims", "per_row"

_CLAIMS = f"""
CREATE TABLE IF NOT EXISTS {CLAIMS} (
    game_id TEXT NOT NULL, replicate INTEGER NOT NULL, mask TEXT NOT NULL, owner TEXT NOT NULL, until REAL NOT NULL,
    PRIMARY KEY (game_id, replicate, mask)
) WITHOUT ROWID
"""
_CREATE = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
CREATE TABLE IF NOT EXISTS games (
    game_id TEXT PRIMARY KEY, n INTEGER NOT NULL, description TEXT NOT NULL, created TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outcomes (
    game_id TEXT NOT NULL, mask TEXT NOT NULL, replicate INTEGER NOT NULL, metrics TEXT NOT NULL,
    backend TEXT NOT NULL, device TEXT NOT NULL, seconds REAL NOT NULL, created TEXT NOT NULL,
    checksum TEXT NOT NULL,
    PRIMARY KEY (game_id, mask, replicate)
) WITHOUT ROWID;
{_CLAIMS};
COMMIT;
"""
_EXPECTED = {
    "games": ("game_id", "n", "description", "created"),
    "outcomes": (*COLUMNS, "checksum"),
    ADDED: ("game_id", "replicate", "mask", "name", "value", "created", "checksum"),
    CLAIMS: ("game_id", "replicate", "mask", "owner", "until"),
    PER_ROW: ("game_id", "replicate", "mask", "name", "kind", "length", "data", "rows", "checksum"),
}
_ALWAYS = ("games", "outcomes")


def version_of(db: sqlite3.Connection, schema: str = "main") -> int:
    """The format of a store; 0 for an empty file."""
    return _user_version(db, schema) & ~_IN_USE


def is_signed(db: sqlite3.Connection, schema: str = "main") -> bool:
    """Whether the tables have checksums: stores of the first releases do not."""
    return version_of(db, schema) >= _SIGNED


def is_in_use(db: sqlite3.Connection) -> bool:
    """Whether the file says that there is a log with more than it holds."""
    return bool(_user_version(db, "main") & _IN_USE)


def mark_in_use(db: sqlite3.Connection, in_use: bool) -> None:
    """Says so in the file, or no longer."""
    db.execute(f"PRAGMA main.user_version = {VERSION | (_IN_USE if in_use else 0)}")


def create(db: sqlite3.Connection) -> None:
    """Makes a store of an empty file."""
    db.executescript(_CREATE)


def upgrade(db: sqlite3.Connection) -> None:
    """Brings an older store up to date, within the caller's transaction. Its rows stay as they are, without checksums."""
    for table in () if is_signed(db) else ("outcomes", ADDED):
        if _columns(db, table):
            db.execute(f"ALTER TABLE {table} ADD COLUMN checksum TEXT NOT NULL DEFAULT '{UNSIGNED}'")
    db.execute(_CLAIMS)
    db.execute(f"PRAGMA user_version = {VERSION}")


def schema_problems(db: sqlite3.Connection) -> Iterator[str]:
    """What no store has: views, triggers, indexes, tables with other columns."""
    old = not is_signed(db)
    kinds = dict(db.execute("SELECT name, type FROM main.sqlite_master"))
    for name, kind in kinds.items():
        if kind != "table" or (name in _EXPECTED and _is_virtual(db, name)):
            yield f"it has {'an' if kind == 'index' else 'a'} {kind} {name!r}, which no store has"
    for table, columns in _EXPECTED.items():
        expected = columns[:-1] if old and columns[-1] == "checksum" else columns
        if table not in kinds:
            if table in _ALWAYS:
                yield f"its table {table!r} is missing"
        elif kinds[table] == "table" and _columns(db, table) != expected:
            yield f"its table {table!r} has other columns than those of a store"


def _columns(db: sqlite3.Connection, table: str) -> tuple[str, ...]:
    found = db.execute(f"PRAGMA main.table_xinfo({table})").fetchall()
    return tuple(f"{name} (generated)" if hidden else name for _, name, *_, hidden in found)


def _is_virtual(db: sqlite3.Connection, table: str) -> bool:
    ((text,),) = db.execute("SELECT sql FROM main.sqlite_master WHERE name=?", (table,))
    return not str(text).upper().startswith("CREATE TABLE")


def _user_version(db: sqlite3.Connection, schema: str) -> int:
    return int(db.execute(f"PRAGMA {schema}.user_version").fetchone()[0])
