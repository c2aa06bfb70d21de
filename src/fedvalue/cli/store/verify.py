"""`fedvalue store verify`: whether a store is sound."""

from __future__ import annotations

import typer

from fedvalue._text import plural
from fedvalue.cli._console import busy, complain, print_json, say
from fedvalue.cli._options import JsonFlag, StoreArgument

__all__ = ["verify"]


def verify(db: StoreArgument, json: JsonFlag = False) -> None:
    """Check a store; exit code 1 and a list if something is wrong."""
    from fedvalue.store import UtilityStore

    with UtilityStore(db, create=False) as store, busy("verifying"):
        problems = store.verify()
        games = [] if problems else store.games()
    outcomes = sum(game.outcomes for game in games)
    if json:
        print_json({"sound": not problems, "problems": problems})
    else:
        say(
            "\n".join(problems)
            or f"No problems: {plural(outcomes, 'outcome')} of {plural(len(games), 'game')}."
        )
    if problems:
        complain(f"{db} has {plural(len(problems), 'problem')}; restore it from a copy.")
        raise typer.Exit(1)
