"""`fedvalue store show`: what a store knows about one game."""

from __future__ import annotations

from fedvalue._text import count, listed, minute, one_line
from fedvalue.cli._console import busy, print_json, say
from fedvalue.cli._options import GameArgument, JsonFlag, StoreArgument
from fedvalue.cli._tables import new_table, print_table

__all__ = ["show"]


def show(db: StoreArgument, game: GameArgument, json: JsonFlag = False) -> None:
    """Show what a store knows about one game."""
    from fedvalue.store import UtilityStore, summary

    with UtilityStore(db, create=False) as store, busy("reading"):
        known = summary(store, game)
    if json:
        print_json(known)
        return
    names = [str(name) for name in known["description"].get("names", [])]
    facts = {
        "game": known["id"],
        "clients": f"{known['clients']}: {listed(names, 12)}",
        "coalitions": f"{count(known['coalitions'])} of {count(1 << known['clients'])}",
        "replicates": count(known["replicates"]),
        "metrics": ", ".join(known["metrics"]) or "–",
        "seconds": f"{known['seconds']:,.1f} in all",
        "computed by": ", ".join(known["computed_by"]) or "–",
        "written": f"{minute(known['first'])} to {minute(known['last'])}" if known["first"] else "–",
    }
    for name, text in facts.items():
        say(f"{name + ':':13}{one_line(text)}")  # names come from others, and may hold what a terminal obeys
    if known["by_size"]:
        headings = ("size", "coalitions", "of")
        table = new_table(*headings, right=headings)
        for line in known["by_size"]:
            table.add_row(str(line["size"]), count(line["coalitions"]), count(line["of"]))
        say()
        print_table(table)
