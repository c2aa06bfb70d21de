"""`fedvalue data show`: who the clients of a scenario are."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fedvalue.cli._console import print_json
from fedvalue.cli._options import DataDirOption, JsonFlag
from fedvalue.cli._pairs import scenario_options

__all__ = ["show"]

_OF_COMMAND = ("name", "clients", "partition", "samples", "seed", "data_dir", "test_size", "test_parts")


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
    data_dir: DataDirOption = None,
    label: Annotated[str | None, typer.Option(help="Label column (scenario files).")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="Option of scenario or partition: alpha=0.1.")
    ] = None,
    json: JsonFlag = False,
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
    if json:
        print_json(scenario.describe())
        return
    for line in scenario.lines("utf" in (sys.stdout.encoding or "").lower()):
        typer.echo(line)  # as it is: a table must not be wrapped between words
