"""Named arrays in a file that is whole or not there, and that says so itself: no pickle, a checksum over every byte.

The file is a line that names the format, the length of a JSON text and that text, the arrays one after the other as they are
in memory, and the SHA-256 of all that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedvalue._files import write_file
from fedvalue.errors import InputError
from fedvalue.flower._arrays import Arrays

__all__ = ["read_arrays", "write_arrays"]

_MAGIC = b"fedvalue.arrays/1\n"
_LENGTH = 8  # bytes that say how long the JSON text is
_DIGEST = hashlib.sha256().digest_size
_KINDS = "fiub"  # floats, integers and truth values: what models are made of


def write_arrays(path: Path, about: Mapping[str, Any], arrays: Arrays) -> int:
    """Writes the file whole or not at all; its size in bytes. `about` is plain data for JSON."""
    described = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    text = json.dumps({"about": dict(about), "arrays": described}).encode()
    digest, size = hashlib.sha256(), 0
    with write_file(path) as file:
        for part in (_MAGIC, len(text).to_bytes(_LENGTH, "little"), text, *map(_bytes, arrays.values())):
            digest.update(part)
            size += file.write(part)
        size += file.write(digest.digest())
    return size


def read_arrays(path: Path) -> tuple[dict[str, Any], Arrays]:
    """What `write_arrays` wrote; anything else is refused."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    body = memoryview(content)[:-_DIGEST]
    if not content.startswith(_MAGIC) or hashlib.sha256(body).digest() != content[-_DIGEST:]:
        raise InputError(f"{path} is damaged: it is not as it was written.")
    start = len(_MAGIC) + _LENGTH
    end = start + int.from_bytes(content[len(_MAGIC) : start], "little")
    try:
        described = json.loads(content[start:end])
        arrays: Arrays = {}
        for name, kind, shape in described["arrays"]:
            dtype = np.dtype(kind)
            if dtype.kind not in _KINDS:
                raise ValueError(kind)
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(body, dtype, count, end).reshape(shape).copy()
            end += count * dtype.itemsize
        if end != len(body):
            raise ValueError(end)
        return dict(described["about"]), arrays
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is damaged: what it says of itself does not fit.") from error


def _bytes(array: Any) -> Any:
    """The numbers as they are in memory, without a copy of them."""
    flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memoryview(flat)
