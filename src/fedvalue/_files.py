"""Files that are written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from fedvalue.errors import InputError

__all__ = [
    "CHECKSUM",
    "is_sealed",
    "json_from",
    "json_ready",
    "json_text",
    "sealed",
    "write_file",
    "write_json",
]

CHECKSUM = "checksum"


@contextmanager
def write_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name when it is complete, and not before."""
    special = path.exists() and not path.is_file()  # /dev/stdout, a pipe: written to, never replaced
    draft = path if special else path.with_name(f".{path.name[:64]}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            yield file
        if not special:
            draft.replace(path)
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from error
    finally:
        if not special:
            with suppress(OSError):  # on a read-only file system there is nothing to take away
                draft.unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """The data as JSON, whole or not at all."""
    with write_file(path) as file:
        file.write(json_text(data).encode() + b"\n")


def json_text(data: Any) -> str:
    """JSON for people and machines; nan and infinity, which it does not know, become null.

    >>> json_text({"share": math.nan}).split()
    ['{', '"share":', 'null', '}']
    """
    return json.dumps(json_ready(data), indent=2, ensure_ascii=False, allow_nan=False, default=repr)


class _TwiceError(ValueError):
    """Something is in JSON twice."""


def json_from(content: bytes) -> Any:
    """JSON in which nothing is said twice: of two values under one name, one reader takes this and another that.

    A ValueError says in words what is wrong with it.

    >>> json_from(b'{"pot": 1, "pot": 2}')
    Traceback (most recent call last):
    fedvalue._files._TwiceError: it is damaged: 'pot' is in it twice
    """
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_once)
    except _TwiceError:
        raise
    except (ValueError, RecursionError) as error:  # not text, not JSON, or nested beyond measure
        raise ValueError("it does not hold JSON") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _TwiceError(f"it is damaged: {name!r} is in it twice")
        found[name] = value
    return found


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data with a checksum, so that a change by hand or by accident is noticed.

    >>> is_sealed(sealed({"mean": [0.5]})), is_sealed({**sealed({"mean": [0.5]}), "mean": [0.7]})
    (True, False)
    """
    content = {key: value for key, value in json_ready(dict(data)).items() if key != CHECKSUM}
    return {**content, CHECKSUM: _checksum(content)}


def is_sealed(data: Mapping[str, Any]) -> bool:
    """Whether data that was read has a checksum, and is what was written."""
    content = {key: value for key, value in data.items() if key != CHECKSUM}
    return data.get(CHECKSUM) == _checksum(content)


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()[:16]


def json_ready(data: Any) -> Any:
    """The same as JSON can hold it: lists instead of arrays, texts as keys, None instead of nan and infinity.

    >>> json_ready({2: math.nan, "ends in half a character \\ud83d": (1, 2)})
    {'2': None, 'ends in half a character \\\\ud83d': [1, 2]}
    """
    if isinstance(data, str):  # halves of characters, as in file names that are not UTF-8, cannot be written
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {json_ready(str(key)): json_ready(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [json_ready(value) for value in data]
    return json_ready(data.tolist()) if hasattr(data, "tolist") else data  # numbers and arrays of NumPy
