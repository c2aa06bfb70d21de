"""The files of a run under a signature: `evidence.json` lists their digests, the head of the chain and the agreement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

from fedvalue._checks import as_path
from fedvalue._files import json_from, json_ready, write_json
from fedvalue._text import listed, one_line
from fedvalue._version import __version__
from fedvalue.agreement import Signature, canonical, message_of, public_line, signature_of, signatures_from
from fedvalue.errors import InputError
from fedvalue.evidence._run import LeftRun
from fedvalue.evidence._verdict import Check, sound, unchecked, wrong
from fedvalue.run import EVIDENCE_FILE, is_within
from fedvalue.values import Values

__all__ = ["signatures_of", "write_signed"]

_FORMAT = "fedvalue.evidence/1"
_WHAT = "Signatures under the results"
_NAMED = 6


def write_signed(run: LeftRun, values: Values, key: str | PathLike[str]) -> Path:
    """Signs the files as they are. Who has signed the same before stays; a signature under other files does not."""
    statement = _statement(run, values)
    file, others = run.folder / EVIDENCE_FILE, tuple[Signature, ...]()
    if file.exists():
        try:
            before, signatures = _read(file)
            if {**before, "made": ""} == {**statement, "made": ""}:
                statement, others = before, signatures
        except (ValueError, KeyError, TypeError):
            pass  # it is no more than a file in the way
    mine = signature_of(statement, as_path("A key", key))
    kept = [one for one in others if one.key != mine.key]
    write_json(file, {"statement": statement, "signatures": [one.to_dict() for one in (*kept, mine)]})
    return file


def signatures_of(run: LeftRun, values: Values | None, signed_by: str | None) -> Iterator[Check]:
    """Whether the files are those that were signed, and who did so."""
    file = run.folder / EVIDENCE_FILE
    must = [run.agreement.operator.key] if run.agreement is not None else []
    must += [] if signed_by is None else [public_line(signed_by, "the key of whoever must have signed")]
    if not file.is_file():
        yield (wrong if must else unchecked)(
            _WHAT, "nobody has signed these results: `fedvalue sign` does so"
        )
        return
    try:
        statement, signatures = _read(file)
        message = message_of(statement)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        yield wrong(_WHAT, f"{file.name} is not as fedvalue wrote it: {error}")
        return
    bad = list(_other_files(run, statement["files"]))
    if values is not None and statement["chain"] != _chain(values):
        bad.append("the rows of the store that were signed are not those of the values")
    if values is not None and statement["agreement"] != values.agreement:
        bad.append("another agreement was signed")
    names = _names(run)
    fitting = [one.key for one in signatures if one.fits(message)]
    bad += [
        f"the signature of {names.get(one.key, one_line(one.key)[:40])} does not fit"
        for one in signatures
        if one.key not in fitting
    ]
    bad += [f"{names.get(key, key)} has not signed" for key in must if key not in fitting]
    yield from (wrong(_WHAT, text) for text in bad)
    if not bad:
        who = listed([names.get(key, f"the owner of {key}") for key in fitting], _NAMED) or "nobody"
        yield sound(_WHAT, f"{len(statement['files'])} files, signed by {who}")
    listed_files = statement["files"]
    late = [one_line(name)[:80] for path in run.written if (name := run.called(path)) not in listed_files]
    if late:
        yield unchecked(_WHAT, f"not among the files that were signed: {listed(late, _NAMED)}")


def _read(file: Path) -> tuple[dict[str, Any], tuple[Signature, ...]]:
    data = json_from(file.read_bytes())
    statement = data["statement"]
    if set(data) != {"statement", "signatures"} or statement["format"] != _FORMAT:
        raise ValueError("its parts are others")
    if set(statement) != {"format", "fedvalue", "made", "game_id", "agreement", "chain", "files"}:
        raise ValueError("what was signed has other parts")
    if not all(isinstance(d, str) for d in statement["files"].values()):
        raise ValueError("a digest is not text")
    return statement, signatures_from(data["signatures"])


def _statement(run: LeftRun, values: Values) -> dict[str, Any]:
    for path in run.written:
        try:
            path.name.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"The name of {one_line(path.name)!r} is not text in UTF-8, so it cannot be written down. Rename the file."
            ) from error
    statement = {
        "format": _FORMAT,
        "fedvalue": __version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "game_id": values.game_id,
        "agreement": values.agreement,
        "chain": _chain(values),
        "files": {run.called(path): _digest(path) for path in run.written},
    }
    return dict(json.loads(canonical(json_ready(statement))))


def _chain(values: Values) -> dict[str, Any] | None:
    return None if values.chain is None else asdict(values.chain)


def _other_files(run: LeftRun, digests: dict[str, str]) -> Iterator[str]:
    if run.values_file.name not in digests:
        yield f"{run.values_file.name} is not among the files that were signed"
    for name, digest in digests.items():
        path = run.folder / name
        shown = one_line(name)[:80]
        try:
            if not is_within(name) or not path.is_file():
                yield f"{shown} was signed and is not there"
            elif _digest(path) != digest:
                yield f"{shown} is not the file that was signed"
        except OSError as error:
            yield f"{shown} was signed and cannot be read: {error.strerror}"


def _names(run: LeftRun) -> dict[str, str]:
    if run.agreement is None:
        return {}
    return {party.key: party.name for party in (run.agreement.operator, *run.agreement.members) if party.key}


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
