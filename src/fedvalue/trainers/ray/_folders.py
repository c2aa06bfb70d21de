"""The folders of our own Ray: one for each, locked by the process that uses it.

A process that is killed leaves its folder behind, and the lock goes with the process. Whoever starts next removes the
folder.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

__all__ = ["new_folder", "remove_abandoned"]

_PREFIX = "fedvalue-ray-"
_LOCK = "owner"
_LONGEST = 40  # characters of what the folder lies in: Ray's sockets lie 60 deeper, in names of at most 107
_held: dict[Path, int] = {}  # locks of this process: a closed file would give its lock back


def _parent() -> Path:
    usual = tempfile.gettempdir()
    return Path(usual if len(usual) <= _LONGEST else "/tmp")


def new_folder() -> Path:
    """A private folder with a short name."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_parent()))
    if sys.platform != "win32":
        import fcntl

        lock = os.open(folder / f"{_LOCK}.new", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / f"{_LOCK}.new").rename(folder / _LOCK)  # under this name it is always locked
        _held[folder] = lock
    return folder


def remove_abandoned() -> None:
    """Removes folders of this user whose process is gone; those without a lock are not ours to judge."""
    if sys.platform == "win32":
        return
    import fcntl

    for folder in [folder for folder in _held if not folder.exists()]:
        os.close(_held.pop(folder))
    for folder in _parent().glob(f"{_PREFIX}*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # it is in use
            pass
        finally:
            os.close(lock)
