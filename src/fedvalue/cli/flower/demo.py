"""`fedvalue flower demo`: a federation of processes on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue._files import sealed
from fedvalue.cli._console import say
from fedvalue.cli._options import JsonTarget, QuietOption
from fedvalue.cli._tables import print_values
from fedvalue.cli._targets import write_result

__all__ = ["demo"]

_MOST_CLIENTS = 12  # processes on one machine


def demo(
    clients: Annotated[int, typer.Option(min=2, max=_MOST_CLIENTS, help="SuperNodes to start.")] = 4,
    method: Annotated[str, typer.Option(help="See `fedvalue methods`.")] = "exact",
    budget: Annotated[int | None, typer.Option(help="Most distinct coalitions to train.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the federation.")] = 2,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of a client in a round.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Seed for everything random.")] = 0,
    keep: Annotated[
        Path | None,
        typer.Option(help="New folder for app, rows, logs and results. [default: removed afterwards]"),
    ] = None,
    json: JsonTarget = None,
    quiet: QuietOption = False,
) -> None:
    """Start a SuperLink and SuperNodes on this machine, value their clients, and stop them again."""
    from fedvalue.run import as_method

    as_method(method)  # before Flower and the data are loaded, which takes seconds
    from fedvalue.flower import demo as run_demo
    from fedvalue.scenarios import load_scenario

    quiet = quiet or json == "-"

    def tell(text: str) -> None:
        if not quiet:
            say(text)

    settings: dict[str, str | int | float | bool] = {
        "method": method,
        "budget": budget or 0,
        "rounds": rounds,
        "epochs": epochs,
        "seed": seed,
    }
    scenario = load_scenario("digits", clients=clients, seed=seed)
    values = run_demo(scenario, settings, keep, tell)
    write_result(sealed(values.to_dict()), json)
    if json != "-":
        print_values(values)
    tell(
        f"{values.evaluations} coalitions in {values.details['message_rounds']} message rounds, one of them a query; "
        "every client's rows stayed in its own process."
    )
