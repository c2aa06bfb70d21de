"""Plain data as bytes in one way only, so that a hash or a signature under it means the same everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

__all__ = ["canonical", "digest_of"]


def canonical(data: Mapping[str, Any]) -> bytes:
    """JSON in ASCII, keys in order, nothing that could be left out; numbers as Python writes them.

    >>> canonical({"b": 1.50, "a": "ü"})
    b'{"a":"\\\\u00fc","b":1.5}'
    """
    text = json.dumps(data, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.encode("ascii")


def digest_of(data: Mapping[str, Any]) -> str:
    """The SHA-256 of plain data, in hexadecimal digits."""
    return sha256(canonical(data)).hexdigest()
