"""`fedvalue store verify`: whether a store is sound."""

from __future__ import annotations

from fedvalue._text import plural
from fedvalue.cli._console import busy, print_problems
from fedvalue.cli._options import JsonFlag, StoreArgument

__all__ = ["verify"]


def verify(db: StoreArgument, json: JsonFlag = False) -> None:
    """Check a store; exit code 1 and a list if something is wrong."""
    from fedvalue.store import UtilityStore

    with UtilityStore(db, create=False) as store, busy("verifying"):
        problems = store.verify()
        games = [] if problems else store.games()
    outcomes = sum(game.outcomes for game in games)
    print_problems(db, problems, f"{plural(outcomes, 'outcome')} of {plural(len(games), 'game')}", json)
