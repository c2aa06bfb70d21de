"""What Ctrl-C does while the command starts: nothing is under way yet, so the program ends at once, with the same
word as later. As an exception in the middle of an import it would be a traceback of somebody else's code.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any, NoReturn

__all__ = ["INTERRUPTED", "INTERRUPTED_CODE", "end_at_once", "raise_as_usual"]

INTERRUPTED = "Interrupted. If a store was given, what was finished is kept."
INTERRUPTED_CODE = 130


def end_at_once() -> None:
    """From here on Ctrl-C ends the program; where it was to be ignored (`nohup`), it still is."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_as_usual() -> None:
    """From here on Ctrl-C is an exception again, because work that is under way has to be put away."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*signal_and_frame: Any) -> NoReturn:
    with suppress(OSError):
        os.write(2, f"Error: {INTERRUPTED}\n".encode())
    os._exit(INTERRUPTED_CODE)  # no finally, no atexit: half of the modules may not be there yet
