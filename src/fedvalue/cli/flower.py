"""`fedvalue flower`: valuations in a real federation. Writes a Flower app, or shows one on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli._console import say
from fedvalue.cli._tables import print_table
from fedvalue.cli._targets import write_result

__all__ = ["app"]

app = typer.Typer(help="Value the clients of a Flower federation; see docs/flower.md.", no_args_is_help=True)

_MOST_CLIENTS = 12  # processes on one machine


@app.command("init")
def init(
    folder: Annotated[Path, typer.Argument(help="Folder for the app; new, or without these files.")],
    clients: Annotated[int, typer.Option(min=1, help="SuperNodes that take part.")] = 4,
) -> None:
    """Write a Flower app that values the clients of your federation."""
    from fedvalue.flower import write_app

    for path in write_app(folder, {"clients": clients}):
        say(str(path))
    say("Say in valuation/client_app.py where a party's rows are, and in pyproject.toml what to run. Then:")
    say(f"flwr run {folder} NAME-OF-YOUR-SUPERLINK --stream")


@app.command("demo")
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
    json: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write the values as JSON; - prints only JSON.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result.")] = False,
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
    write_result(values.to_dict(), json)
    if json != "-":
        print_table(values.table())
    tell(
        f"{values.evaluations} coalitions in {values.details['message_rounds']} message rounds, one of them a query; "
        "every client's rows stayed in its own process."
    )
