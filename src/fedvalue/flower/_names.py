"""Names of clients: a line of text each, and no two that a reader could take for one another."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from fedvalue._text import one_line
from fedvalue.errors import InputError

__all__ = ["check_names", "comparable", "is_name", "too_alike"]

_LONGEST = 100
_SELECTORS = range(0xFE00, 0xFE10)  # choose the look of the sign before them, and are invisible themselves


def is_name(text: object) -> bool:
    """Whether this can stand for a client in tables, logs and on paper; emoji made of several signs can.

    >>> is_name("Charité Berlin"), is_name("👩‍⚕️ clinic"), is_name("a\\x1b[31m"), is_name("  ")
    (True, True, False, False)
    """
    return (
        isinstance(text, str) and bool(comparable(text)) and len(text) <= _LONGEST and one_line(text) == text
    )


def comparable(name: str) -> str:
    """What is left of a name when spaces, capitals, invisible characters and ways to write a letter are set aside.

    Letters of another alphabet that look alike stay different.

    >>> comparable("Ｃharité  Berlin ") == comparable("charité\\u200d BERLIN")
    True
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    seen = (c for c in folded if unicodedata.category(c) != "Cf" and ord(c) not in _SELECTORS)
    return " ".join("".join(seen).split())


def too_alike(names: Sequence[str]) -> tuple[str, str] | None:
    """Two of the names that a reader could take for one another; None where there are none.

    >>> too_alike(["Charité Berlin", "Bern", "Charité  Berlin"])
    ('Charité Berlin', 'Charité  Berlin')
    """
    seen: dict[str, str] = {}
    for name in names:
        if (before := seen.setdefault(comparable(name), name)) is not name:
            return before, name
    return None


def check_names(names: Sequence[str]) -> None:
    """Raises where one of the names is not a line of text, or two are too much alike."""
    if wrong := [name for name in names if not is_name(name)]:
        raise InputError(
            f"A client's name must be a line of text of at most {_LONGEST} characters. Got {wrong[0]!r}."
        )
    if pair := too_alike(names):
        raise InputError(
            f"Every client must have a name of its own. {pair[0]!r} and {pair[1]!r} are too much alike."
        )
