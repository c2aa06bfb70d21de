"""`fedvalue methods`: what there is to choose from."""

from __future__ import annotations

from fedvalue.cli._console import on_terminal, print_json
from fedvalue.cli._options import JsonFlag
from fedvalue.cli._tables import new_table, print_table

__all__ = ["methods"]


def methods(
    json: JsonFlag = False,
) -> None:
    """List the methods and what each guarantees."""
    import fedvalue as fv

    keys = ("name", "guarantee", "description", "reference")
    rows = [{key: getattr(method, key) for key in keys} for method in fv.methods()]
    if json:
        print_json(rows)
        return
    if on_terminal():  # the reference below the description: four columns are too narrow to read
        prose = "description, reference"
        table = new_table("name", "guarantee", prose, wrap=(prose,))
        for row in rows:
            table.add_row(
                row["name"], row["guarantee"], f"{row['description']}\n[dim]{row['reference']}[/dim]"
            )
    else:
        table = new_table(*keys)
        for row in rows:
            table.add_row(*row.values())
    print_table(table)
