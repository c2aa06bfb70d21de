"""Values that other commands have written, read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.values import Values

__all__ = ["VALUES_FILE", "check_targets", "read_values"]

VALUES_FILE = "values.json"  # in the folder that `fedvalue run --out` writes


def read_values(path: Path) -> Values:
    """The values in a file, or in the folder of a run."""
    from fedvalue.values import Values

    file = path / VALUES_FILE if path.is_dir() else path
    if not file.exists():
        missing = f"{path} holds no {VALUES_FILE}" if path.is_dir() else f"There is no file {path}"
        raise InputError(
            f"{missing}. `fedvalue run --out DIR` writes one, `fedvalue value --json FILE` another."
        )
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {file}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # not text, not JSON, or nested beyond measure
        raise InputError(f"{file} is not a file of values: it holds no JSON.") from error
    try:
        return Values.from_dict(data)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error


def check_targets(*targets: str | None) -> None:
    """Refuses what cannot be written before anything is computed; only one result can go to stdout."""
    given = [target for target in targets if target is not None]
    if given.count("-") > 1:
        raise InputError("Only one format can be printed; give the others a file name.")
    for target in given:
        if target != "-" and not Path(target).absolute().parent.is_dir():
            raise InputError(f"Cannot write {target}: there is no such folder.")
