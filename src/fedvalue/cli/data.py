"""fedvalue data: which scenarios there are, where their data is, and who the clients of one are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedvalue._text import bars, count
from fedvalue.cli import _data_check
from fedvalue.cli._console import new_table, print_json, print_table, say
from fedvalue.cli._options import scenario_options

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.scenarios import Scenario

__all__ = ["app"]

app = typer.Typer(help="Scenarios: who the clients are, and where their data is.", no_args_is_help=True)

_OF_COMMAND = ("name", "clients", "partition", "samples", "seed", "data_dir", "test_size", "test_parts")

DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with data sets; default $FEDVALUE_DATA, then the user's cache folder."),
]


app.command("check")(_data_check.check)


@app.command("ls")
def ls(data_dir: DataDir = None) -> None:
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


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="mnist or adult.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder to write to. [default: the user's cache folder]")
    ] = None,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Keep the data even if it is not the known version.")
    ] = False,
) -> None:
    """Fetch a data set from OpenML and check that it is the known one."""
    from fedvalue.scenarios import fetch as fetch_data

    typer.echo(f"Fetching {name} from OpenML …", err=True)
    say(f"{name} is in {fetch_data(name, data_dir, unverified=unverified)}")


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="A scenario; `fedvalue data ls` lists them.")],
    clients: Annotated[int | None, typer.Option(help="Number of clients.")] = None,
    partition: Annotated[
        str | None,
        typer.Option(help="Who gets which rows, such as size+label-flip. [default: the data's own, or size]"),
    ] = None,
    samples: Annotated[int | None, typer.Option(help="Rows per client on average.")] = None,
    test_size: Annotated[int | None, typer.Option(help="Number of test rows.")] = None,
    test_parts: Annotated[int, typer.Option(help="Number of parts to divide the test set into.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed for everything random.")] = 0,
    data_dir: DataDir = None,
    label: Annotated[str | None, typer.Option(help="Label column (scenario files).")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="Option of scenario or partition: alpha=0.1.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the clients of a scenario: samples, labels, fingerprint."""
    from fedvalue.scenarios import SCENARIOS, load_scenario

    options = scenario_options(option or (), _OF_COMMAND)
    if label is not None:
        options["label"] = label
    entry = SCENARIOS.get(name)
    scenario = load_scenario(
        name,
        clients=clients,
        partition=partition or (entry.usual_partition if entry else None),
        samples=samples,
        test_size=test_size,
        test_parts=test_parts,
        seed=seed,
        data_dir=data_dir,
        **options,
    )
    if as_json:
        print_json(scenario.describe())
    else:
        _print(scenario)


def _print(scenario: Scenario) -> None:
    plain = scenario.describe()
    what = f"{plain['classes']} classes" if plain["classes"] else "regression"
    shape = " × ".join(map(str, plain["shape"]))
    features = f"{shape} words of {plain['vocabulary']}" if plain["vocabulary"] else f"features {shape}"
    lines = [
        f"{scenario.name}: {scenario.n} clients, partition {scenario.details.get('partition', '–')}",
        f"{what}, {features}, seed {scenario.details.get('seed', '–')}",
        f"fingerprint {scenario.fingerprint[:24]}",
    ]
    for line in (*lines, ""):
        say(line)
    print_table(_summary(plain, "utf" in (sys.stdout.encoding or "").lower()))
    for name, rows in plain["test_parts"].items():
        say(f"test part {name}: {count(rows)} rows")
    for warning in scenario.details["warnings"]:
        say(f"Note: {warning}")


def _summary(plain: dict[str, Any], unicode: bool) -> Table:
    from rich.text import Text

    rows = [*plain["clients"], {"name": "(test set)", **plain["test"]}]
    if not plain["classes"]:
        table = new_table("client", "samples", "mean target", "sd", right=("samples", "mean target", "sd"))
        for row in rows:
            spread = ["–" if row[key] is None else f"{row[key]:.4g}" for key in ("mean", "sd")]
            table.add_row(Text(row["name"]), count(row["samples"]), *spread)
        return table
    title = f"labels 0 … {plain['classes'] - 1}"
    table = new_table("client", "samples", title, "classes", right=("samples", "classes"))
    for row in rows:
        present = sum(count > 0 for count in row["labels"])
        table.add_row(Text(row["name"]), count(row["samples"]), bars(row["labels"], unicode), str(present))
    return table
