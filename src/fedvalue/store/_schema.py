"""The tables of a store: how they are made, brought up to date, and recognised."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from fedvalue.store._file import APPLICATION_ID
from fedvalue.store._rows import COLUMNS, UNSIGNED

__all__ = [
    "ADDED",
    "CHAIN",
    "CLAIMS",
    "OLDEST",
    "PER_ROW",
    "VERSION",
    "checksum_column",
    "create",
    "is_chained",
    "is_in_use",
    "is_signed",
    "mark_in_use",
    "schema_problems",
    "upgrade",
    "version_of",
]

OLDEST, VERSION = (
    1,
    4,
)  # 2: checksums of rows, and claims; 3: what test rows said; 4: chains, nothing without checksum
_SIGNED, _CHAINED = 2, 4
_IN_USE = 1 << 16  # beside the version, in the header: there is a log with more than the file holds
ADDED, CHAIN, CLAIMS, PER_ROW = "added_metrics", "chain", "claims", "per_row"

_CLAIMS = f"""
CREATE TABLE IF NOT EXISTS {CLAIMS} (
    game_id TEXT NOT NULL, replicate INTEGER NOT NULL, mask TEXT NOT NULL, owner TEXT NOT NULL, until REAL NOT NULL,
    PRIMARY KEY (game_id, replicate, mask)
) WITHOUT ROWID
"""
_CHAIN = f"""
CREATE TABLE IF NOT EXISTS {CHAIN} (
    game_id TEXT NOT NULL, place INTEGER NOT NULL, kind TEXT NOT NULL, replicate INTEGER NOT NULL, mask TEXT NOT NULL,
    names TEXT NOT NULL, digest TEXT NOT NULL, link TEXT NOT NULL, PRIMARY KEY (game_id, place)
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
{_CHAIN};
COMMIT;
"""
_EXPECTED = {
    "games": ("game_id", "n", "description", "created"),
    "outcomes": (*COLUMNS, "checksum"),
    ADDED: ("game_id", "replicate", "mask", "name", "value", "created", "checksum"),
    CHAIN: ("game_id", "place", "kind", "replicate", "mask", "names", "digest", "link"),
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


def checksum_column(db: sqlite3.Connection, schema: str = "main") -> str:
    """What to select as the checksum of a row. The word for none says so in stores of earlier formats alone."""
    if is_chained(db, schema):
        return f"nullif(checksum, '{UNSIGNED}')"
    return "checksum" if is_signed(db, schema) else f"'{UNSIGNED}'"


def is_chained(db: sqlite3.Connection, schema: str = "main") -> bool:
    """Whether rows are in chains and have checksums without exception: in stores of earlier formats they may not."""
    return version_of(db, schema) >= _CHAINED


def is_in_use(db: sqlite3.Connection) -> bool:
    """Whether the file says that there is a log with more than it holds."""
    return bool(_user_version(db, "main") & _IN_USE)


def mark_in_use(db: sqlite3.Connection, in_use: bool) -> None:
    """Says so in the file, or no longer. Its format stays what it is."""
    db.execute(f"PRAGMA main.user_version = {version_of(db) | (_IN_USE if in_use else 0)}")


def create(db: sqlite3.Connection) -> None:
    """Makes a store of an empty file."""
    db.executescript(_CREATE)


def upgrade(db: sqlite3.Connection) -> None:
    """Brings the tables of an older store up to date, within the caller's transaction; `take_over` does its rows."""
    for table in () if is_signed(db) else ("outcomes", ADDED):
        if _columns(db, table):
            db.execute(f"ALTER TABLE {table} ADD COLUMN checksum TEXT NOT NULL DEFAULT '{UNSIGNED}'")
    db.execute(_CLAIMS)
    db.execute(_CHAIN)
    db.execute(f"PRAGMA user_version = {VERSION}")


def schema_problems(db: sqlite3.Connection) -> Iterator[str]:
    """What no store has: views, triggers, indexes, tables with other columns."""
    old, chained = not is_signed(db), is_chained(db)
    kinds = dict(db.execute("SELECT name, type FROM main.sqlite_master"))
    for name, kind in kinds.items():
        if kind != "table" or (name in _EXPECTED and _is_virtual(db, name)):
            yield f"it has {'an' if kind == 'index' else 'a'} {kind} {name!r}, which no store has"
    if not chained and CHAIN in kinds:
        yield f"it says that it has format {version_of(db)}, and has a chain, which came later"
    for table, columns in _EXPECTED.items():
        expected = columns[:-1] if old and columns[-1] == "checksum" else columns
        if table not in kinds:
            if table in _ALWAYS or (table == CHAIN and chained):
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
