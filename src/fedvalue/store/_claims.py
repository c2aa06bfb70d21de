"""Claims: which process is at which coalition, so that several on one store share the work.

A claim ends when its coalition is stored, when its owner gives it up, when its time is out, or when its owner, a
process of this machine, is gone. Claims decide only who begins: a coalition that is evaluated twice all the same
is stored once.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from fedvalue.store._rows import in_queries
from fedvalue.store._schema import CLAIMS

__all__ = ["claim", "finish", "lives", "new_owner", "release", "renew"]


def new_owner() -> str:
    """A name for whoever claims: the machine, the process, when that began, and a number of its own."""
    return "|".join((_machine(), str(os.getpid()), _began(os.getpid()) or "", uuid4().hex))


def claim(
    db: sqlite3.Connection, game_id: str, masks: Sequence[int], replicate: int, owner: str, seconds: float
) -> list[int]:
    """Claims those coalitions that nobody else is at, within the caller's transaction, and gives them."""
    now, taken = time.time(), set[str]()
    alive: dict[str, bool] = {}
    for some in in_queries(masks):
        query = f"SELECT mask, owner, until FROM {CLAIMS} WHERE game_id=? AND replicate=?"
        query += f" AND mask IN ({','.join('?' * len(some))})"
        for mask, other, until in db.execute(query, (game_id, replicate, *some)):
            if other not in alive:
                alive[other] = other != owner and lives(str(other))
            # A clock that was set back must not make a claim last.
            if alive[other] and isinstance(until, float) and now < until <= now + 100 * seconds:
                taken.add(mask)
    free = [(mask, key) for mask in masks if (key := f"{mask:x}") not in taken]
    db.executemany(
        f"INSERT OR REPLACE INTO {CLAIMS} VALUES (?, ?, ?, ?, ?)",
        [(game_id, replicate, key, owner, now + seconds) for _, key in free],
    )
    return [mask for mask, _ in free]


def renew(db: sqlite3.Connection, owner: str, seconds: float) -> None:
    """The owner is still at work."""
    db.execute(f"UPDATE {CLAIMS} SET until=? WHERE owner=?", (time.time() + seconds, owner))


def release(db: sqlite3.Connection, owner: str) -> None:
    """The owner gives up whatever it has claimed."""
    db.execute(f"DELETE FROM {CLAIMS} WHERE owner=?", (owner,))


def finish(db: sqlite3.Connection, game_id: str, masks: Sequence[str], replicate: int) -> None:
    """These coalitions are stored: whoever was at them is done."""
    if db.execute(f"SELECT 1 FROM {CLAIMS} LIMIT 1").fetchone():
        keys = [(game_id, replicate, mask) for mask in masks]
        db.executemany(f"DELETE FROM {CLAIMS} WHERE game_id=? AND replicate=? AND mask=?", keys)


def lives(owner: str) -> bool:
    """Whether the process may still be at work; of another machine's, only time tells."""
    machine, _, rest = owner.partition("|")
    pid, began, *_ = (*rest.split("|"), "", "")
    if machine != _machine() or not pid.isdecimal():
        return machine != _machine()
    now = _began(int(pid))
    if now is not None:
        return now == began
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


def _machine() -> str:
    """This machine since it was started; a container with processes of its own counts as one."""
    parts = [platform.node()]
    with suppress(OSError):  # other systems than Linux have neither
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return "/".join(parts).replace("|", "/")


def _began(pid: int) -> str | None:
    """When a process began, in ticks of the kernel; "" where it is gone, None where there is no telling."""
    if not Path("/proc/self/stat").exists():
        return None
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
