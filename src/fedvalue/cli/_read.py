"""What other commands have written, read back: values, how they were run, and the trainings behind them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.trainings import Trainings
    from fedvalue.values import Values

__all__ = [
    "RECORD_FILE",
    "REPORT_FILE",
    "STORE_FILE",
    "VALUES_FILE",
    "check_targets",
    "find_store",
    "find_trainings",
    "read_record",
    "read_values",
]

# What `fedvalue run --out` writes into its folder.
VALUES_FILE, RECORD_FILE, STORE_FILE, REPORT_FILE = "values.json", "run.json", "store.db", "report.html"


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


def read_record(path: Path) -> dict[str, Any] | None:
    """How the values in a file or folder were run, or None where nothing beside them says so."""
    file = (path if path.is_dir() else path.parent) / RECORD_FILE
    if not file.exists():
        return None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {file}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not the record of a run: it holds no JSON.") from error
    if not isinstance(found, dict):
        raise InputError(
            f"{file} is not the record of a run. Expected an object, got {type(found).__name__}."
        )
    return found


def find_store(run: Path, store: Path | None) -> Path:
    """The file with the trainings of a run: as named, as recorded with the run, or the one in its folder."""
    if store is None:
        recorded = (read_record(run) or {}).get("store") or STORE_FILE
        if not isinstance(recorded, str):
            raise InputError(f"{RECORD_FILE} names no usable store. Got {recorded!r}. Name it with --store.")
        store = (run if run.is_dir() else run.parent) / recorded
    return store


@overload
def find_trainings(values: Values, run: Path, store: Path | None) -> Trainings: ...
@overload
def find_trainings(values: Values, run: Path, store: Path | None, most: int) -> Trainings | None: ...
def find_trainings(
    values: Values, run: Path, store: Path | None, most: int | None = None
) -> Trainings | None:
    """The trainings that the values rest on; None where there are more coalitions than that."""
    from fedvalue.store import UtilityStore
    from fedvalue.trainings import read_trainings

    path = find_store(run, store)
    if not path.is_file():
        raise InputError(f"There is no store {path}, and this looks at trainings. Name it with --store.")
    with UtilityStore(path, create=False) as opened:
        known = sum(game.coalitions for game in opened.games() if game.id == values.game_id)
        return None if most is not None and known > most else read_trainings(opened, values)


def check_targets(*targets: str | None) -> None:
    """Refuses what cannot be written before anything is computed; only one result can go to stdout."""
    given = [target for target in targets if target is not None]
    if given.count("-") > 1:
        raise InputError("Only one format can be printed; give the others a file name.")
    for target in given:
        if target != "-" and not Path(target).absolute().parent.is_dir():
            raise InputError(f"Cannot write {target}: there is no such folder.")
