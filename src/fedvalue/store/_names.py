"""The names of a game's clients: the same game has them in one order, or its values go to the wrong ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedvalue._text import listed
from fedvalue.errors import StoreError

__all__ = ["default_names", "other_names"]

_NAMED = 8


def default_names(n: int) -> list[str]:
    """The names of clients that were given none."""
    return [f"client-{i}" for i in range(n)]


def other_names(game_id: str, n: int, known: Any, given: Sequence[str]) -> StoreError | None:
    """What to say where a game comes with other names than it is known by; None where it may.

    Names that nobody gave say nothing, neither in the store nor in the game, unless the same names have other places on
    the other side.
    """
    if not isinstance(known, list) or not given or list(given) == known:
        return None
    places = {name: place for place, name in enumerate(known)}
    moved = any(places.get(name, place) != place for place, name in enumerate(given))
    if default_names(n) in (known, list(given)) and not moved:
        return None
    same = sorted(given) == sorted(known)
    return StoreError(
        f"The store knows the game {game_id} with the clients {listed([str(name) for name in known], _NAMED)}; now they are {listed(given, _NAMED)}. "
        + (
            "In another order the values would go to the wrong clients: give names and data in the same order as before."
            if same
            else "If these are the same clients under corrected names, rename them: `fedvalue store rename DB GAME NAME…`. "
            "If they are others, use another store, or another key='…'."
        )
    )
