"""`fedvalue flower`: valuations in a real federation. Writes a Flower app, or shows one on this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedvalue.cli._console import busy, print_table, say, write_json
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.scenarios.base import Scenario
    from fedvalue.values import Values

__all__ = ["app"]

app = typer.Typer(help="Valuations in a Flower federation: docs/flower.md.", no_args_is_help=True)

_LONGEST_SECONDS = 1800.0  # of a demo
_MOST_CLIENTS = 12  # processes on one machine


@app.command("init")
def init(
    folder: Annotated[Path, typer.Argument(help="Folder for the app; new, or without these files.")],
    clients: Annotated[int, typer.Option(min=1, help="SuperNodes that take part.")] = 4,
) -> None:
    """Write a Flower app that values the clients of your federation."""
    from fedvalue.flower.app_files import write_app

    for path in write_app(folder, {"clients": clients}):
        say(str(path))
    say("Say in valuation/client_app.py where a party's rows are, and in pyproject.toml what to run. Then:")
    say(f"flwr run {folder} NAME-OF-YOUR-SUPERLINK --stream")


@app.command("demo")
def demo(
    clients: Annotated[int, typer.Option(min=2, max=_MOST_CLIENTS, help="SuperNodes to start.")] = 4,
    method: Annotated[str, typer.Option(help="See `fedvalue methods`.")] = "exact",
    budget: Annotated[int | None, typer.Option(help="Distinct coalitions at most.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the federation.")] = 2,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of a client in a round.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Everything random follows from it.")] = 0,
    keep: Annotated[
        Path | None,
        typer.Option(help="New folder for app, rows, logs and store. [default: removed afterwards]"),
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write the values as JSON; - for stdout.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result.")] = False,
) -> None:
    """Start a SuperLink and SuperNodes on this machine, value their clients, and stop them again."""
    _need_flower()
    from fedvalue.flower.demo import lay_out
    from fedvalue.scenarios import load_scenario

    quiet = quiet or json == "-"
    if keep is not None and keep.exists():
        raise InputError(f"{keep} is there already. --keep takes the name of a new folder.")
    settings: dict[str, Any] = {
        "method": method,
        "budget": budget or 0,
        "rounds": rounds,
        "epochs": epochs,
        "seed": seed,
    }
    scenario = load_scenario("digits", clients=clients, seed=seed)
    with _ended_politely(), TemporaryDirectory(prefix="fedvalue-") as temporary:
        home = (keep or Path(temporary)).resolve()
        lay_out(home, scenario, settings)
        values = _valued(home, scenario, settings, quiet)
    if json is not None:
        write_json(values.to_dict(), json)
    if json != "-":
        print_table(values.table())
    if not quiet:
        rounds_said = values.details["message_rounds"]
        say(
            f"{values.evaluations} coalitions in {rounds_said} message rounds, one of them a query; "
            "every client's rows stayed in its own process."
        )


def _valued(home: Path, scenario: Scenario, settings: dict[str, Any], quiet: bool) -> Values:
    from fedvalue.flower.demo import run_app, start
    from fedvalue.flower.processes import Federation

    def tell(text: str) -> None:
        if not quiet:
            say(text)

    began = time.perf_counter()
    with Federation(home) as federation:
        start(federation, scenario, tell)
        with busy("training coalitions at the nodes", quiet):
            values = run_app(federation, home / "app", home / "out", settings, _LONGEST_SECONDS)
    tell(f"Done after {time.perf_counter() - began:.0f} s; all processes are stopped.")
    return values


def _need_flower() -> None:
    if find_spec("flwr") is None:
        raise InputError('This needs Flower, which is not installed: pip install "fedvalue[flower]"')
    if os.name != "posix":
        raise InputError("The demo starts process groups, which needs Linux or macOS.")


@contextmanager
def _ended_politely() -> Iterator[None]:
    """A request to terminate, or a terminal that is closed, is handled like Ctrl-C: what was started is stopped."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]  # nohup
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
