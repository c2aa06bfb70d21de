"""Memory as people write it."""

from __future__ import annotations

import re

from fedvalue.errors import InputError

__all__ = ["parse_memory"]

_UNITS = {
    "": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40,
}  # fmt: skip


def parse_memory(memory: int | str | None) -> int | None:
    """4GB, 500 MB, 2GiB or plain bytes.

    >>> parse_memory("4GB"), parse_memory("1.5 GiB"), parse_memory(1_000_000)
    (4000000000, 1610612736, 1000000)
    """
    if memory is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", str(memory).lower())
    count = int(float(found[1]) * _UNITS[found[2]]) if found and found[2] in _UNITS else 0
    if count < 1_000_000:
        raise InputError(f"Memory is written as 4GB, 500MB or 2GiB, at least 1MB. Got {memory!r}.")
    return count
