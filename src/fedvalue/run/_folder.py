"""The folder of a run: which run is in it, where it keeps its trainings, and all of it read back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any, overload

from fedvalue._files import CHECKSUM, is_sealed, json_from, sealed, write_json
from fedvalue.errors import InputError
from fedvalue.store import History, UtilityStore, read_history
from fedvalue.values import Values

__all__ = [
    "AGREEMENT_FILE",
    "DISCLOSURE_FILE",
    "EARLIER",
    "EVIDENCE_FILE",
    "RECORD_FILE",
    "REPORT_FILE",
    "STORE_FILE",
    "VALUES_FILE",
    "enter",
    "find_history",
    "find_store",
    "is_within",
    "keep_earlier",
    "read_record",
    "read_values",
    "refuse_other_run",
    "refuse_signed",
    "seen_from",
    "signed_files",
    "take_over",
]

VALUES_FILE, RECORD_FILE, STORE_FILE, REPORT_FILE = "values.json", "run.json", "store.db", "report.html"
DISCLOSURE_FILE = "disclosure.json"
EARLIER = "earlier"  # the folder of results that made way
AGREEMENT_FILE, EVIDENCE_FILE = "agreement.json", "evidence.json"

_GOING_ON = (DISCLOSURE_FILE,)  # run after run is added to it: what makes way gets a copy

_IDENTITY = (
    "game_id",
    "metric",
    "stored_as",
    "higher_is_better",
    "replicates",
    "empty",
    "method",
    "plan",
    "budget",
    "seeds",
    "options",
    "groups",
    "seed",
)

_BEFORE = {"seeds": 1}  # what runs had that do not say

_CALLED = {
    "stored_as": "metric",
    "higher_is_better": "metric",
    "plan": "method",
    "game_id": "data, model or rules",
    "empty": "v(∅)",
}


def enter(out: Path, record: Mapping[str, Any], store: Path | None, overwrite: bool) -> None:
    """Makes the folder and says in it what is run there.

    Another run's folder, or one that is signed, is refused, or left as it is until there is something to replace it with:
    a run that fails costs nobody the results of an earlier one.
    """
    if not overwrite:
        refuse_other_run(out, record)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Cannot write to {out}: {error.strerror}.") from error
    if not _must_make_way(out, record):
        _write_record(out, record, store)


def take_over(out: Path, record: Mapping[str, Any], store: Path | None) -> None:
    """The values of this run are about to be written: what is there of another one, or signed, makes way."""
    if _must_make_way(out, record):
        keep_earlier(out)
        _write_record(out, record, store)


def keep_earlier(
    out: Path, names: Sequence[str] = (VALUES_FILE, RECORD_FILE, REPORT_FILE, AGREEMENT_FILE, EVIDENCE_FILE)
) -> Path | None:
    """Moves the results in the folder to one in its folder `earlier`, named by when they were written: nothing is deleted.

    What was signed goes with its signatures, byte by byte. None where there are no results: the first of the files is not
    there.
    """
    signed = signed_files(out) if EVIDENCE_FILE in names else []
    there = [out / name for name in dict.fromkeys([*names, *signed]) if (out / name).is_file()]
    if not (out / names[0]).exists():
        return None
    try:
        written = datetime.fromtimestamp((out / names[0]).stat().st_mtime, UTC)
        stem = written.strftime("%Y-%m-%dT%H%M%SZ")
        stems = chain([stem], (f"{stem}-{number}" for number in count(2)))
        folder = next(of for name in stems if not (of := out / EARLIER / name).exists())
        # All of it is there before anything is taken away, so that nothing is torn apart by a kill.
        draft = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(draft, ignore_errors=True)
        for file in there:
            to = draft / file.relative_to(out)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, to)
        draft.rename(folder)
        # The values go last: as long as they are there, whoever comes next keeps what is left.
        for file in reversed(there):
            if file.name not in _GOING_ON:
                file.unlink()
        folders = {of for file in there for of in file.relative_to(out).parents} - {Path()}
        for emptied in sorted(folders, reverse=True):
            with suppress(OSError):  # something that nobody signed may be left there
                (out / emptied).rmdir()
    except OSError as error:
        raise InputError(f"Cannot write to {out}: {error.strerror}.") from error
    return folder


def _write_record(out: Path, record: Mapping[str, Any], store: Path | None) -> None:
    seen = None if store is None else seen_from(out, store)
    write_json(out / RECORD_FILE, sealed({**record, "store": seen}))


def refuse_other_run(out: Path, record: Mapping[str, Any]) -> None:
    """Raises where the folder holds a run that would have other values, or one whose results are signed."""
    if _holds_other_run(out, record):
        other = _differences(out, record)
        what = (
            f"another run (it differs in {', '.join(dict.fromkeys(_CALLED.get(key, key) for key in other))})"
            if other
            else f"a {VALUES_FILE} of unknown origin"
        )
        raise InputError(f"{out} holds {what}. Choose another folder, or overwrite it (--overwrite).")
    if _is_signed(out):
        raise InputError(
            f"The results in {out} are signed ({EVIDENCE_FILE}), and no signature would fit what is written anew. Choose "
            f"another folder, or overwrite it (--overwrite): then they are kept, with their signatures, in {out / EARLIER}."
        )


def refuse_signed(file: Path) -> None:
    """Raises where a file that somebody has signed, or one in such a folder, would be written again."""
    path = file.parent.resolve() / file.name
    for folder in path.parents:
        called = path.relative_to(folder).as_posix()
        if not any(name == called or name.startswith(f"{called}/") for name in signed_files(folder)):
            continue
        raise InputError(
            f"{file} is signed ({folder / EVIDENCE_FILE}), and no signature would fit another one. Write to another file."
        )


def signed_files(folder: Path) -> list[str]:
    """The names of the files in a folder that somebody has signed; what cannot be read names none."""
    try:
        names = list(json_from((folder / EVIDENCE_FILE).read_bytes())["statement"]["files"])
    except (OSError, ValueError, LookupError, TypeError):
        return []
    return [name for name in names if is_within(name) and name != STORE_FILE]


def is_within(name: object) -> bool:
    """Whether a name is that of a file in a folder of a run, or in folders of that one.

    >>> is_within("values.json"), is_within("statements/1-a.html"), is_within("../values.json")
    (True, True, False)
    """
    parts = name.split("/") if isinstance(name, str) else []
    return bool(parts) and all(part not in ("", ".", "..") and "\\" not in part for part in parts)


def _is_signed(out: Path) -> bool:
    return (out / VALUES_FILE).exists() and (out / EVIDENCE_FILE).exists()


def _must_make_way(out: Path, record: Mapping[str, Any]) -> bool:
    return _is_signed(out) or _holds_other_run(out, record)


def _holds_other_run(out: Path, record: Mapping[str, Any]) -> bool:
    unknown = (out / VALUES_FILE).exists() and _recorded(out) is None
    return unknown or bool(_differences(out, record))


def _differences(out: Path, record: Mapping[str, Any]) -> list[str]:
    """In what the run in the folder differs from this one."""
    found = _recorded(out)
    return [key for key in _IDENTITY if found is not None and found.get(key, _BEFORE.get(key)) != record[key]]


def read_values(path: Path) -> Values:
    """The values in a file, or in the folder of a run."""
    file = path / VALUES_FILE if path.is_dir() else path
    if not file.exists():
        missing = f"{path} holds no {VALUES_FILE}" if path.is_dir() else f"There is no file {path}"
        raise InputError(
            f"{missing}. `fedvalue run --out DIR` writes one, and so does `fedvalue value --json FILE`."
        )
    data = _read_json(file, "a file of values")
    try:
        values = Values.from_dict(data)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    if CHECKSUM not in data:
        raise InputError(
            f"{file} has no checksum, so nobody can tell whether it is as fedvalue wrote it. Run the same command again; "
            "with its store, nothing is trained again. In Python, `values.save(path)` writes one."
        )
    return values


def read_record(path: Path) -> dict[str, Any] | None:
    """How the values in a file or folder were run, or None where nothing beside them says so."""
    file = (path if path.is_dir() else path.parent) / RECORD_FILE
    if not file.is_file():
        return None
    found = _read_json(file, "the record of a run")
    if not isinstance(found, dict):
        raise InputError(
            f"{file} is not the record of a run. Expected an object, got {type(found).__name__}."
        )
    if not is_sealed(found):
        raise InputError(
            f"{file} is not as fedvalue wrote it: its content does not match its checksum, or it has none. Run the same "
            "command again; with its store, nothing is trained again."
        )
    return {key: part for key, part in found.items() if key != CHECKSUM}


def find_store(run: Path, store: Path | None) -> Path:
    """The file with the trainings of a run: as named, as recorded with the run, or the one in its folder."""
    if store is None:
        recorded = (read_record(run) or {}).get("store") or STORE_FILE
        if not isinstance(recorded, str):
            raise InputError(f"{RECORD_FILE} names no usable store. Got {recorded!r}. Name it with --store.")
        folder = run if run.is_dir() else run.parent
        if (
            folder.resolve().parent.name == EARLIER
        ):  # what made way still says how it was found from where it was
            folder = folder / ".." / ".."
        store = folder / recorded
    return store


@overload
def find_history(values: Values, run: Path, store: Path | None) -> History: ...
@overload
def find_history(values: Values, run: Path, store: Path | None, most: int) -> History | None: ...
def find_history(values: Values, run: Path, store: Path | None, most: int | None = None) -> History | None:
    """The trainings that the values rest on; None where there are more coalitions than that."""
    path = find_store(run, store)
    if not path.is_file():
        raise InputError(
            f"There is no store at {path}, and this needs the trainings. Give its path with --store."
        )
    with UtilityStore(path, create=False) as opened:
        stored = sum(game.coalitions for game in opened.games() if game.id == values.game_id)
        return None if most is not None and stored > most else read_history(opened, values)


def _read_json(file: Path, what: str) -> Any:
    try:
        return json_from(file.read_bytes())
    except OSError as error:
        raise InputError(f"Cannot read {file}: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"{file} is not {what}: {error}.") from error


def _recorded(out: Path) -> dict[str, Any] | None:
    """The record of the run in the folder; one that cannot be read is that of no run known here."""
    try:
        return read_record(out / VALUES_FILE)  # the folder itself may not be there yet
    except InputError:
        return {}


def seen_from(folder: Path, file: Path) -> str:
    """The file as other commands find it from the run's folder, also where both were moved together."""
    try:
        return Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive
        return str(file.resolve())
