"""`fedvalue store`: look into, export, check and merge stores of evaluated coalitions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue._text import count, one_line, plural
from fedvalue.cli._console import busy, complain, new_table, print_json, print_table, say
from fedvalue.cli._options import JsonFlag

__all__ = ["app"]

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Look into, export, check and merge stores."
)

StoreArgument = Annotated[Path, typer.Argument(metavar="DB", help="The store.", show_default=False)]
GameArgument = Annotated[
    str, typer.Argument(metavar="GAME", help="The beginning of a game's id.", show_default=False)
]
TargetArgument = Annotated[Path, typer.Argument(metavar="TARGET", help="Store to add to.")]
OthersArgument = Annotated[
    list[Path], typer.Argument(metavar="OTHER...", help="Stores to add; they are not changed.")
]


@app.command("ls")
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
        table.add_row(game.id, str(game.n), coalitions, count(game.outcomes), _minute(game.created))
    print_table(table)


@app.command("show")
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
        "clients": f"{known['clients']}: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}",
        "coalitions": f"{count(known['coalitions'])} of {count(1 << known['clients'])}",
        "replicates": count(known["replicates"]),
        "metrics": ", ".join(known["metrics"]) or "–",
        "seconds": f"{known['seconds']:,.1f} in all",
        "computed by": ", ".join(known["computed_by"]) or "–",
        "written": f"{_minute(known['first'])} to {_minute(known['last'])}" if known["first"] else "–",
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


@app.command("export")
def export(
    db: StoreArgument,
    game: GameArgument,
    out: Annotated[Path, typer.Option(help="File to write: .csv, .jsonl, or .npz for a full table.")],
    metric: Annotated[str | None, typer.Option(help="Metric to write as the utilities of an .npz. [default: utility, accuracy, or the only one]")] = None,
    empty: Annotated[str | None, typer.Option(help="How v(∅) is fixed in an .npz, as in the run: initial, chance, majority or a number. [default: the only one known]")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:  # fmt: skip
    """Write the outcomes of one game to a file."""
    from fedvalue.learners.metrics import METRICS
    from fedvalue.outcome import plain_metric
    from fedvalue.store import UtilityStore, export, lower_is_better

    with UtilityStore(db, create=False) as store, busy("exporting", quiet):
        written = export(store, game, out, metric, empty)
        game = store.game(game).id
    if not quiet:
        say(f"{plural(written, 'outcome')} of {game} written to {out}.")
        built_in = {"utility", *(name for names in METRICS.values() for name in names)}
        if metric is not None and out.suffix.lower() == ".npz":
            if lower_is_better(plain_metric(metric)):
                say(f"Its utilities are {metric} negated, because lower is better.")
            elif plain_metric(metric).rsplit("/", 1)[-1] not in built_in:
                say(f"Its utilities are {metric} as measured. If lower is better, value them with --negate.")


@app.command("rename")
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


@app.command("verify")
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


@app.command("merge")
def merge(target: TargetArgument, others: OthersArgument, json: JsonFlag = False) -> None:
    """Add everything from other stores. If both know a coalition, the target keeps its numbers."""
    from fedvalue.store import UtilityStore

    for other in others:  # before the target is made
        UtilityStore(other, create=False).close()
    reports = {}
    with UtilityStore(target) as store, busy("merging"):
        for other in others:
            reports[other] = store.merge(other)
            if not json:
                say(f"{other}: {reports[other].line()}.")
    if json:
        print_json([{"store": str(other), **report.to_dict()} for other, report in reports.items()])
    conflicts = [conflict for report in reports.values() for conflict in report.conflicts]
    if conflicts:
        shown = ", ".join(conflicts[:5]) + (", …" if len(conflicts) > 5 else "")
        number = plural(len(conflicts), "coalition")
        complain(f"{number} had other metrics than in {target}, whose own were kept: {shown}.")
        raise typer.Exit(1)


def _minute(created: str) -> str:
    return created[:16].replace("T", " ")
