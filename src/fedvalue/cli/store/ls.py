"""`fedvalue store ls`: the games in a store."""

from __future__ import annotations

from fedvalue._text import count, minute
from fedvalue.cli._console import busy, print_json, say
from fedvalue.cli._options import JsonFlag, StoreArgument
from fedvalue.cli._tables import new_table, print_table

__all__ = ["ls"]


def ls(db: StoreArgument, json: JsonFlag = False) -> None:
    """List the games in a store."""
    from fedvalue.store import UtilityStore

    with UtilityStore(db, create=False) as store, busy("reading"):
        games = store.games()
    if json:
        print_json([game.to_dict() for game in games])
        return
    if not games:
        say("The store is empty.")
        return
    numbers = ("clients", "coalitions", "outcomes")
    table = new_table("game", *numbers, "since", right=numbers)
    for game in games:
        coalitions = f"{count(game.coalitions)} of {count(1 << game.n)}"
        table.add_row(game.id, str(game.n), coalitions, count(game.outcomes), minute(game.created))
    print_table(table)
