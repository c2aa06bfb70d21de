"""The folder of a run: which run is in it, and where that run keeps its trainings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedvalue.cli._console import write_json
from fedvalue.cli._read import RECORD_FILE, REPORT_FILE, VALUES_FILE, read_record
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.cli._job import Job

__all__ = ["enter"]


def enter(out: Path, job: Job, store: Path, overwrite: bool) -> None:
    """Makes the folder and says in it what is run there; another run's folder is left alone."""
    identity = job.identity()
    if not overwrite:
        found = _recorded(out)
        other = [key for key in identity if found is not None and found.get(key) != identity[key]]
        if other or (found is None and (out / VALUES_FILE).exists()):
            what = (
                f"another run (other {', '.join(other)})" if other else f"a {VALUES_FILE} of unknown origin"
            )
            raise InputError(f"{out} holds {what}. Choose another folder, or add --overwrite.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if overwrite:
            for stale in (VALUES_FILE, REPORT_FILE):
                (out / stale).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"Cannot write to {out}: {error.strerror}.") from error
    write_json({**job.record(), "store": _seen_from(out, store)}, str(out / RECORD_FILE))


def _recorded(out: Path) -> dict[str, Any] | None:
    """The record of the run in the folder; one that cannot be read is that of no run known here."""
    try:
        return read_record(out / VALUES_FILE)  # the folder itself may not be there yet
    except InputError:
        return {}


def _seen_from(folder: Path, file: Path) -> str:
    """The file as other commands find it from the run's folder, also where both were moved together."""
    try:
        return Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive
        return str(file.resolve())
