"""Where results go that can be written to a file as well as printed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from fedvalue._files import json_text, write_file
from fedvalue.errors import InputError

__all__ = ["check_targets", "write_result"]


def check_targets(*targets: str | None) -> None:
    """Refuses what cannot be written, or is signed, before anything is computed; only one result can go to stdout."""
    from fedvalue.run import refuse_signed

    given = [target for target in targets if target is not None]
    if given.count("-") > 1:
        raise InputError("Only one format can be printed; give the others a file name.")
    for target in given:
        if target != "-" and not Path(target).absolute().parent.is_dir():
            raise InputError(f"Cannot write {target}: there is no such folder.")
        if target != "-" and Path(target).is_dir():
            raise InputError(f"Cannot write {target}: it is a folder.")
        if target != "-" and not os.access(Path(target).absolute().parent, os.W_OK):
            raise InputError(f"Cannot write {target}: its folder cannot be written to.")
        if target != "-":
            refuse_signed(Path(target))


def write_result(data: Mapping[str, Any] | str, target: str | None) -> None:
    """Text as it is, or other data as JSON: in a file, on stdout for `-`, nowhere for None."""
    if target is None:
        return
    text = data if isinstance(data, str) else json_text(data) + "\n"
    if target == "-":
        typer.echo(text, nl=False)
        return
    with write_file(Path(target)) as file:
        file.write(text.encode())
