"""A process that is killed just before it changes a file for the k-th time: every stage of a command, one after the other."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

_CHANGES = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "shutil.copyfile", "sqlite3.connect")
_LONGEST = 60.0


def killed_before(change: int, folder: Path, act: Callable[[], object]) -> bool:
    """Runs something in a process of its own, which is killed before it changes so many files in the folder (from 0).

    False where it changes fewer: then it has ended by itself. What SQLite writes does not count.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # later releases of Python warn of a fork beside threads
        child = os.fork()
    if not child:
        try:
            _kill_before(change, str(folder))
            act()
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(3)
    ends = time.monotonic() + _LONGEST
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimeoutError(f"still running after {_LONGEST:.0f} s")
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(found[1])
    assert code in (0, -signal.SIGKILL), f"it ended with {code}"
    return code != 0


def _kill_before(change: int, folder: str) -> None:
    left = [change]

    def see(event: str, given: tuple[object, ...]) -> None:
        if event == "open":
            changes = isinstance(given[2], int) and bool(given[2] & (os.O_WRONLY | os.O_RDWR))
        else:
            changes = event in _CHANGES
        if changes and any(str(part).removeprefix("file:").startswith(folder) for part in given):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(see)
