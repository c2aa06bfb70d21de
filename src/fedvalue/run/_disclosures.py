"""The file in a run's folder that says what left each client, run by run: one that is continued adds to it.

An entry is written when a run ends, also by an error; a process that is killed outright leaves what it trained in the store alone.
"""

from __future__ import annotations

from pathlib import Path

from fedvalue._files import is_sealed, json_from, sealed, write_json
from fedvalue.errors import InputError
from fedvalue.run._folder import DISCLOSURE_FILE, keep_earlier, signed_files
from fedvalue.values import Disclosure

__all__ = ["DISCLOSURE_FILE", "add_disclosure", "read_disclosures"]

_FORMAT = "fedvalue.disclosure/1"


def add_disclosure(folder: Path, disclosure: Disclosure | None, game_id: str) -> None:
    """Adds what left the clients in a run, if anything did or would have. Where it was signed, what was signed makes way."""
    if disclosure is None or not any(one.models or one.metrics for one in disclosure.clients):
        return
    file = folder / DISCLOSURE_FILE
    if DISCLOSURE_FILE in signed_files(folder):
        keep_earlier(folder)
    runs = read_disclosures(file) if file.exists() else []
    runs = [*runs, {"game_id": game_id, **disclosure.to_dict()}]
    write_json(file, sealed({"format": _FORMAT, "runs": runs}))


def read_disclosures(file: Path) -> list[object]:
    """What is in such a file, run by run, as plain data; refused where that is not as it was written."""
    try:
        data = json_from(file.read_bytes())
        runs = data["runs"] if data["format"] == _FORMAT and is_sealed(data) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        runs = None
    if not isinstance(runs, list):
        raise InputError(
            f"{file} is not a record of what left the clients as fedvalue wrote it, and would be lost. Move it elsewhere and run the same again: "
            "what was trained is kept."
        )
    return runs
