"""`fedvalue data ls`: which scenarios there are, and where their data is."""

from __future__ import annotations

from fedvalue.cli._console import say
from fedvalue.cli._options import DataDirOption
from fedvalue.cli._tables import new_table, print_table

__all__ = ["ls"]


def ls(data_dir: DataDirOption = None) -> None:
    """List the scenarios and whether their data is found."""
    from rich.markup import escape

    from fedvalue.scenarios import SCENARIOS, folders, where

    table = new_table("scenario", "what", "data", wrap=("what", "data"))
    missing = []
    for entry in SCENARIOS.values():
        found = where(entry.name, data_dir)
        if entry.needs is None:
            state = "nothing to download"
        elif found is not None:
            state = escape(f"found in {found}")
        else:
            state = "not found"
            missing.append(entry)
        table.add_row(entry.name, entry.description, state)
    print_table(table)
    for entry in missing:
        say()
        say(f"{entry.name}: looked in {', '.join(map(str, folders(data_dir)))}. To get it: {entry.how}.")
