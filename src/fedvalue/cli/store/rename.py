"""`fedvalue store rename`: other names for a game's clients."""

from __future__ import annotations

from typing import Annotated

import typer

from fedvalue.cli._console import say
from fedvalue.cli._options import GameArgument, StoreArgument

__all__ = ["rename"]


def rename(
    db: StoreArgument,
    game: GameArgument,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="All clients, in their order.")],
) -> None:
    """Correct the names of a game's clients. The order must stay: names belong to numbers."""
    from fedvalue.store import UtilityStore

    with UtilityStore(db, create=False) as store:
        before = store.game(game)
        after = store.rename(before.id, names)
    old = [str(name) for name in before.description.get("names", [])]
    for number, name in enumerate(after.description["names"]):
        say(f"{number}: {old[number] if number < len(old) else '–'} → {name}")
