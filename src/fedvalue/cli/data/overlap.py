"""`fedvalue data sketch` and `fedvalue data overlap`: do two clients hold the same rows?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue._text import one_line
from fedvalue.cli._console import busy, print_json, say
from fedvalue.cli._options import JsonFlag
from fedvalue.cli._pairs import scenario_options
from fedvalue.cli._tables import new_table, print_table
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.scenarios import Scenario

__all__ = ["overlap", "sketch"]

Label = Annotated[str | None, typer.Option(help="Column to predict.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="As for a run: drop=id,note; repeatable."),
]


def sketch(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with the client's file and a test set.")
    ],
    secret: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="File with the secret that the clients share and the operator does not have."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for a sketch per client.")] = Path(),
    label: Label = None,
    option: Options = None,
) -> None:
    """Write salted hashes of a client's rows, which tell nothing to anyone without the secret.

    Give the sketch to whoever compares, and the secret to nobody but the other clients.
    """
    from fedvalue.scenarios import sketch as make

    try:
        key = secret.read_bytes().strip()
    except OSError as error:
        raise InputError(f"Cannot read {secret}: {error.strerror}.") from error
    scenario = _read(folder, label, option)
    out.mkdir(parents=True, exist_ok=True)
    for place, (name, data) in enumerate(zip(scenario.names, scenario.clients, strict=True)):
        path = make(data, key, name).save(out / f"{_file_name(name, place)}.sketch.npz")
        say(one_line(f"{name}: {len(data):,} rows, written to {path}."))


def overlap(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="DIR|FILE…", help="A folder with a file per client, or sketches of clients."),
    ],
    label: Label = None,
    option: Options = None,
    json: JsonFlag = False,
) -> None:
    """Compare the rows of clients: the same ones, and near copies. Exit code 1 if some are suspicious.

    Files of one folder are compared as they are, clients elsewhere by the sketches that they wrote with a secret of
    theirs (`fedvalue data sketch`).
    """
    from secrets import token_bytes

    from fedvalue.scenarios import OVERLAP_COLUMNS, compare_rows, read_sketch
    from fedvalue.scenarios import sketch as make

    if len(paths) == 1 and paths[0].is_dir():
        scenario, key = _read(paths[0], label, option), token_bytes(32)
        with busy("comparing", json):
            parts = zip(scenario.names, scenario.clients, strict=True)
            found = compare_rows([make(data, key, name) for name, data in parts])
    else:
        found = compare_rows([read_sketch(path) for path in paths])
    if json:
        print_json(found.to_dict())
    else:
        from rich.text import Text

        table = new_table(*OVERLAP_COLUMNS, right=OVERLAP_COLUMNS[2:6])
        for first, second, *numbers in found.rows():
            table.add_row(Text(one_line(first)), Text(one_line(second)), *numbers)
        print_table(table)
        for line in found.lines():
            say(one_line(line))
    if found.suspicious:
        raise typer.Exit(1)


def _read(folder: Path, label: str | None, option: list[str] | None) -> Scenario:
    from fedvalue.scenarios import load_scenario

    given = scenario_options(option or (), ("folder", "label"))
    if label is not None:
        given["label"] = label
    return load_scenario("files", data_dir=folder, **given)


def _file_name(name: str, place: int) -> str:
    plain = "".join(c if c.isalnum() else "-" for c in name).strip("-")
    return plain or f"client-{place}"
