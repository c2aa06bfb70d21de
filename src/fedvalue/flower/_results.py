"""What a run leaves in its folder, for whoever waits for it: values, or the reason why there are none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging import INFO
from pathlib import Path
from typing import Any

from flwr.common import log

from fedvalue._files import write_json
from fedvalue.errors import FedvalueError
from fedvalue.flower._settings import ERROR_FILE
from fedvalue.run import VALUES_FILE, keep_earlier
from fedvalue.values import Values

__all__ = ["Awaited", "left_in"]


@contextmanager
def left_in(out: Path, settings: Mapping[str, Any], incidents: Sequence[str]) -> Iterator[None]:
    """If what is done in here fails, the folder says why, with the settings and what had happened till then.

    What an earlier run has left there stays; why an earlier one failed is kept elsewhere.
    """
    out.mkdir(parents=True, exist_ok=True)
    error_file = out / ERROR_FILE
    keep_earlier(out, [ERROR_FILE])
    try:
        yield
    except Exception as error:  # whoever waits for the result is told, whatever happened
        log(INFO, "The valuation ended: %s", error)
        write_json(
            error_file, {"error": str(error), "incidents": list(incidents), "settings": dict(settings)}
        )
        raise


class Awaited:
    """Made before the run begins: what an earlier one has left is not taken for its result, which is in `file`."""

    def __init__(self, out: Path, file: str = VALUES_FILE) -> None:
        self.out = out
        self.file = file
        self._before = self._written()

    def values(self, otherwise: str) -> Values:
        """The values of the run, after its end; see `content`."""
        return Values.from_dict(self.content(otherwise))

    def content(self, otherwise: str) -> Any:
        """What the run has left, after its end. Where it failed, an error with its reason, or else the given one."""
        values, error = self._written()
        if error is not None and error != self._before[1]:
            raise FedvalueError(json.loads((self.out / ERROR_FILE).read_text(encoding="utf-8"))["error"])
        if values is None or values == self._before[0]:
            raise FedvalueError(f"The run ended without a result: {otherwise}")
        return json.loads((self.out / self.file).read_text(encoding="utf-8"))

    def _written(self) -> tuple[int | None, int | None]:
        """When result and error were written."""
        files = (self.out / self.file, self.out / ERROR_FILE)
        values, error = (file.stat().st_mtime_ns if file.exists() else None for file in files)
        return values, error
