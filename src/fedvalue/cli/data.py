"""fedvalue data: which scenarios there are, where their data lies, and who the clients of one are."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedvalue.cli._console import count, new_table, print_json, print_table, say
from fedvalue.errors import ScenarioError

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.scenarios import Scenario

__all__ = ["app", "parse_options", "usual_partition"]

app = typer.Typer(help="Scenarios: who the clients are, and where their data lies.", no_args_is_help=True)

_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:-=+*#%@"
_WIDEST = 24  # classes shown one by one; more are shown in groups
OF_COMMANDS = ("name", "clients", "partition", "samples", "seed", "data_dir")

DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with data sets; default $FEDVALUE_DATA, then the user's cache folder."),
]


@app.command("ls")
def ls(data_dir: DataDir = None) -> None:
    """List the scenarios and whether their data is found."""
    from rich.markup import escape

    from fedvalue.scenarios import SCENARIOS, where
    from fedvalue.scenarios._sources import folders

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
    data_dir: Annotated[Path | None, typer.Option(help="Where to; default: the user's cache folder.")] = None,
    unverified: Annotated[bool, typer.Option(help="Keep content other than the known one.")] = False,
) -> None:
    """Fetch a data set from OpenML and check that it is the known one."""
    from fedvalue.scenarios._fetch import fetch as fetch_data

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
    test_parts: Annotated[int, typer.Option(help="Cut the test set into so many parts.")] = 0,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    data_dir: DataDir = None,
    label: Annotated[str | None, typer.Option(help="Label column (scenario files).")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="Option of scenario or partition: alpha=0.1.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Plain data instead of a table.")] = False,
) -> None:
    """Show the clients of a scenario: samples, labels, fingerprint."""
    from fedvalue.scenarios import load_scenario

    options = parse_options(option or (), (*OF_COMMANDS, "test_size", "test_parts"))
    if label is not None:
        options["label"] = label
    scenario = load_scenario(
        name,
        clients=clients,
        partition=usual_partition(name, partition),
        samples=samples,
        test_size=test_size,
        test_parts=test_parts,
        seed=seed,
        data_dir=data_dir,
        **options,
    )
    if as_json:
        print_json(_plain(scenario))
    else:
        _print(scenario)


def usual_partition(scenario: str, asked: str | None) -> str | None:
    """What commands use where none is asked for: the data's own, or clients of different size."""
    from fedvalue.scenarios import SCENARIOS

    entry = SCENARIOS.get(scenario)
    return asked or (entry and (entry.natural or "size")) or None


def parse_options(pairs: Sequence[str], of_command: Collection[str] = OF_COMMANDS) -> dict[str, Any]:
    """name=value pairs with numbers, true, false and none as such; not those that the command has itself.

    >>> parse_options(["alpha=0.1", "flippers=2", "keep-occupation=false", "label=income"])
    {'alpha': 0.1, 'flippers': 2, 'keep_occupation': False, 'label': 'income'}
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name.strip():
            raise ScenarioError(f"An option is written name=value, such as alpha=0.1. Got {pair!r}.")
        key = name.strip().replace("-", "_")
        if key in of_command:
            raise ScenarioError(f"{key!r} is an option of the command, not of the scenario. Got {pair!r}.")
        if key in found:
            raise ScenarioError(f"The option {key!r} was given twice.")
        found[key] = _parsed(text.strip())
    return found


def _parsed(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _plain(scenario: Scenario) -> dict[str, Any]:
    from fedvalue.scenarios.base import describe

    return {
        "name": scenario.name,
        "fingerprint": scenario.fingerprint,
        "task": scenario.task,
        "classes": scenario.classes,
        "vocabulary": scenario.vocabulary,
        "shape": list(scenario.test.x.shape[1:]),
        "clients": scenario.summary(),
        "test": describe(scenario.test, scenario.task, scenario.classes),
        "test_parts": {name: len(rows) for name, rows in scenario.test_parts.items()},
        "details": dict(scenario.details),
    }


def _print(scenario: Scenario) -> None:
    plain = _plain(scenario)
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
        table.add_row(Text(row["name"]), count(row["samples"]), _bars(row["labels"], unicode), str(present))
    return table


def _bars(counts: Sequence[int], unicode: bool = True) -> str:
    """A small bar per class, the largest of the row full; what is there is never invisible.

    >>> _bars([0, 1, 50, 100])
    ' ▁▄█'
    """
    signs = _BLOCKS if unicode else _ASCII
    group = -(-len(counts) // _WIDEST)
    sums = [sum(counts[i : i + group]) for i in range(0, len(counts), group)]
    largest = max(sums) or 1
    top = len(signs) - 1
    return "".join(signs[max(1, round(top * size / largest)) if size else 0] for size in sums)
