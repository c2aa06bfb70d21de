"""The names of a game's clients: the same game has them in one order, or its values go to the wrong ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedvalue._text import listed
from fedvalue.errors import StoreError

__all__ = ["default_names", "description_with", "learnt_names", "other_names"]

_NAMED = 8
_GIVEN = "names_given"


def default_names(n: int) -> list[str]:
    """The names of clients that were given none."""
    return [f"client-{i}" for i in range(n)]


def description_with(names: Sequence[str], are_given: bool) -> dict[str, Any]:
    """What a store keeps of names. That they were given need be said of the usual ones only."""
    usual = list(names) == default_names(len(names))
    return {"names": list(names), **({_GIVEN: True} if usual and are_given else {})}


def other_names(
    game_id: str, n: int, known: Mapping[str, Any], given: Mapping[str, Any]
) -> StoreError | None:
    """What to say where a game comes with other names than it is known by; None where it may. Both are descriptions.

    Names that nobody gave say nothing, neither in the store nor in the game, unless the same names have other places on
    the other side.
    """
    before, now = known.get("names"), names_in(given)
    if not isinstance(before, list) or not now or now == before:
        return None
    places = {name: place for place, name in enumerate(before)}
    moved = any(places.get(name, place) != place for place, name in enumerate(now))
    if (is_unnamed(n, known) or is_unnamed(n, given)) and not moved:
        return None
    same = sorted(now) == sorted(before)
    return StoreError(
        f"The store knows the game {game_id} with the clients {listed([str(name) for name in before], _NAMED)}; now they are {listed(now, _NAMED)}. "
        + (
            "In another order the values would go to the wrong clients: give names and data in the same order as before."
            if same
            else "If these are the same clients under corrected names, rename them: `fedvalue store rename DB GAME NAME…`. "
            "If they are others, use another store, or another key='…'."
        )
    )


def names_in(description: Mapping[str, Any]) -> list[str]:
    """The names that a description holds; none where it says nothing of them."""
    return [str(name) for name in description.get("names") or ()]


def is_unnamed(n: int, description: Mapping[str, Any]) -> bool:
    """Whether nobody gave the names that a description holds."""
    names = names_in(description)
    return not names or (names == default_names(n) and not description.get(_GIVEN))


def learnt_names(n: int, known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be added to a description that holds no names yet, or none that anybody gave."""
    if not is_unnamed(n, known) or not names_in(given):
        return {}
    new = {key: given[key] for key in ("names", _GIVEN) if key in given}
    return {} if all(known.get(key) == value for key, value in new.items()) else new
