"""`fedvalue store`: look into, export, check and merge stores of evaluated coalitions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli._console import busy, complain, count, new_table, plural, print_json, print_table, say

if TYPE_CHECKING:
    from fedvalue.store import StoredGame

__all__ = ["app"]

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Look into, export, check and merge stores.",
)

StoreArgument = Annotated[Path, typer.Argument(metavar="DB", help="The store.", show_default=False)]
GameArgument = Annotated[
    str, typer.Argument(metavar="GAME", help="The beginning of a game's id.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("ls")
def ls(db: StoreArgument, json: JsonOption = False) -> None:
    """List the games in a store."""
    from fedvalue.store import UtilityStore

    with UtilityStore(db, create=False) as store, busy("reading"):
        games = store.games()
    if json:
        print_json([_as_dict(game) for game in games])
        return
    if not games:
        say("The store is empty.")
        return
    numbers = ("clients", "coalitions", "outcomes")
    table = new_table("game", *numbers, "since", right=numbers)
    for game in games:
        known = f"{count(game.coalitions)} of {count(1 << game.n)}"
        table.add_row(game.id, str(game.n), known, count(game.outcomes), _minute(game.created))
    print_table(table)


@app.command("show")
def show(db: StoreArgument, game: GameArgument, json: JsonOption = False) -> None:
    """Show what a store knows about one game."""
    from fedvalue.cli._export import summary
    from fedvalue.store import UtilityStore

    with UtilityStore(db, create=False) as store, busy("reading"):
        stored = store.game(game)
        found = summary(stored, store.rows(stored.id))
    if json:
        print_json({**_as_dict(stored), **found})
        return
    facts = {
        "game": stored.id,
        "clients": f"{stored.n}: {_shortened(stored.description.get('names', []))}",
        "coalitions": f"{count(stored.coalitions)} of {count(1 << stored.n)}",
        "replicates": count(found["replicates"]),
        "metrics": ", ".join(found["metrics"]) or "–",
        "seconds": f"{found['seconds']:,.1f} in all",
        "computed by": ", ".join(found["computed_by"]) or "–",
        "written": f"{_minute(found['first'])} to {_minute(found['last'])}" if found["first"] else "–",
    }
    for name, text in facts.items():
        say(f"{name + ':':13}{text}")
    headings = ("size", "coalitions", "of")
    table = new_table(*headings, right=headings)
    for line in found["by_size"]:
        table.add_row(str(line["size"]), count(line["coalitions"]), count(line["of"]))
    if found["by_size"]:
        say()
        print_table(table)


@app.command("export")
def export(
    db: StoreArgument,
    game: GameArgument,
    out: Annotated[Path, typer.Option(help="File to write: .csv, .jsonl, or .npz for a full table.")],
    metric: Annotated[
        str | None, typer.Option(help="Utility of an .npz. [default: utility, accuracy, or the only one]")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Write the outcomes of one game to a file."""
    from fedvalue.cli._export import writer_for
    from fedvalue.store import UtilityStore

    write = writer_for(out)
    with UtilityStore(db, create=False) as store, busy("exporting", quiet):
        stored = store.game(game)
        rows = write(stored, store.rows(stored.id), out, metric)
    if not quiet:
        say(f"{plural(rows, 'outcome')} of {stored.id} written to {out}.")


@app.command("verify")
def verify(db: StoreArgument, json: JsonOption = False) -> None:
    """Check a store; exit code 1 and a list if something is wrong."""
    from fedvalue.store import UtilityStore

    with UtilityStore(db, create=False) as store, busy("verifying"):
        problems = store.verify()
        games = [] if problems else store.games()
    if json:
        print_json({"sound": not problems, "problems": problems})
    elif problems:
        for problem in problems:
            say(problem)
    else:
        outcomes = sum(game.outcomes for game in games)
        say(f"Sound: {plural(outcomes, 'outcome')} of {plural(len(games), 'game')}.")
    if problems:
        complain(f"{db} has {plural(len(problems), 'problem')}; restore it from a copy.")
        raise typer.Exit(1)


@app.command("merge")
def merge(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Store that gets everything.")],
    others: Annotated[
        list[Path], typer.Argument(metavar="OTHER...", help="Stores to add; left as they are.")
    ],
    json: JsonOption = False,
) -> None:
    """Add everything from other stores. Where two know a coalition, the target's outcome stays."""
    from fedvalue.store import UtilityStore

    for other in others:  # before the target is made
        UtilityStore(other, create=False).close()
    reports = []
    with UtilityStore(target) as store, busy("merging"):
        for other in others:
            report = store.merge(other)
            reports.append((other, report))
            if not json:
                say(
                    f"{other}: {count(report.added)} added, {count(report.present)} already there, "
                    f"{plural(len(report.conflicts), 'conflict')}."
                )
    if json:
        rows = [
            {"store": str(o), "added": r.added, "present": r.present, "conflicts": list(r.conflicts)}
            for o, r in reports
        ]
        print_json(rows)
    conflicts = [conflict for _, report in reports for conflict in report.conflicts]
    if conflicts:
        shown = ", ".join(conflicts[:5]) + (", …" if len(conflicts) > 5 else "")
        complain(
            f"{plural(len(conflicts), 'coalition')} had other metrics than in {target}, whose own were kept: "
            f"{shown}."
        )
        raise typer.Exit(1)


def _as_dict(game: StoredGame) -> dict[str, object]:
    return {
        "id": game.id,
        "clients": game.n,
        "coalitions": game.coalitions,
        "outcomes": game.outcomes,
        "created": game.created,
        "description": dict(game.description),
    }


def _minute(created: str) -> str:
    return created[:16].replace("T", " ")


def _shortened(names: list[str]) -> str:
    return ", ".join(map(str, names[:12])) + (", …" if len(names) > 12 else "")
