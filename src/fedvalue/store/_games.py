"""The entry of a game in a store: how many clients it has, and a description for people that is signed as rows are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedvalue.store._rows import as_object, checksum

__all__ = ["StoredGame", "description_of", "signed", "signed_text"]

_CHECKSUM = "checksum"
_MOST_CLIENTS = 1_000_000


@dataclass(frozen=True)
class StoredGame:
    """A game that the store knows, and how much of it: repeated evaluations are outcomes of one coalition."""

    id: str
    n: int
    coalitions: int
    outcomes: int
    created: str
    description: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "id": self.id,
            "clients": self.n,
            "coalitions": self.coalitions,
            "outcomes": self.outcomes,
            "created": self.created,
            "description": dict(self.description),
        }


def signed(game_id: str, n: int, description: Mapping[str, Any]) -> str:
    """A description as the store keeps it."""
    text = json.dumps(dict(description), sort_keys=True)
    return json.dumps({**json.loads(text), _CHECKSUM: checksum([game_id, n, text])}, sort_keys=True)


def signed_text(game_id: str, n: int, text: str) -> str:
    """The text of an entry with a checksum: as it is, if it has one or cannot be read."""
    try:
        description = as_object(text)
    except (ValueError, RecursionError):
        return text
    return text if _CHECKSUM in description else signed(game_id, n, description)


def description_of(game_id: str, n: object, text: str, unsigned: bool = False) -> dict[str, Any]:
    """The description in an entry; a damaged or altered one is a ValueError.

    Those of stores of earlier formats may be `unsigned`.

    >>> description_of("g", 2, signed("g", 2, {"names": ["a", "b"]}))
    {'names': ['a', 'b']}
    """
    if not isinstance(n, int) or not 1 <= n <= _MOST_CLIENTS:
        raise ValueError(f"{game_id}: its number of clients cannot be. Got {n!r}")
    try:
        description = as_object(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{game_id}: its description cannot be read") from error
    given = description.pop(_CHECKSUM, None)
    if given is None and unsigned:
        return description
    if given != checksum([game_id, n, json.dumps(description, sort_keys=True)]):
        raise ValueError(f"{game_id}: its entry was altered after it was stored: its checksum does not fit")
    return description
