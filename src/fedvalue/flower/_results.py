"""What a run leaves in its folder, for whoever waits for it: values, or the reason why there are none."""

from __future__ import annotations

import json
from pathlib import Path

from fedvalue.errors import FedvalueError
from fedvalue.flower._settings import ERROR_FILE
from fedvalue.run import VALUES_FILE
from fedvalue.values import Values

__all__ = ["Awaited"]


class Awaited:
    """Made before the run begins: what an earlier one has left is not taken for its result."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._before = self._written()

    def values(self, otherwise: str) -> Values:
        """The values of the run, after its end. Where it failed, an error with its reason, or else the given one."""
        values, error = self._written()
        if error is not None and error != self._before[1]:
            raise FedvalueError(json.loads((self.out / ERROR_FILE).read_text(encoding="utf-8"))["error"])
        if values is None or values == self._before[0]:
            raise FedvalueError(f"The run ended without a result: {otherwise}")
        return Values.from_dict(json.loads((self.out / VALUES_FILE).read_text(encoding="utf-8")))

    def _written(self) -> tuple[int | None, int | None]:
        """When values and error were written."""
        files = (self.out / VALUES_FILE, self.out / ERROR_FILE)
        values, error = (file.stat().st_mtime_ns if file.exists() else None for file in files)
        return values, error
