"""A user's own folder: one CSV, Parquet or NPZ file per client, or one folder of images, and a test set.

    hospitals/
      aachen.csv  bonn.csv  cologne.csv      one file per client; the name of the file is its name
      test.csv                               the test set; or several test-….csv, each a part measured by itself;
                                             or, tested by client, none

Tables (CSV with a header, Parquet) must have the same columns; `label` names the one to predict. NPZ files
hold the arrays `x` (rows first; images too) and `y`. Folders of images hold one folder per class. A file without rows, or
a folder without images, is a client without data.

Every row is used, or nothing is: what cannot be understood is refused by file and line, and what was decided is in
the report. Types, classes, categories, words and scales come from the clients' rows only. All rules: docs/own-data.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._build import Ask, Pool
from fedvalue.scenarios._checks import unknown
from fedvalue.scenarios._examine import examine
from fedvalue.scenarios._held_out import is_by_client
from fedvalue.scenarios._images import Look
from fedvalue.scenarios._pooled import pooled
from fedvalue.scenarios._report import DataReport
from fedvalue.scenarios._sources import sha256
from fedvalue.scenarios._wanted import LENGTH, VOCABULARY, Wanted

__all__ = ["build", "check_folder"]


def build(
    ask: Ask,
    *,
    folder: str | PathLike[str] | None = None,
    label: str | None = None,
    task: str | None = None,
    standardise: bool = True,
    drop: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    decimal: str | None = None,
    dates: str | None = None,
    missing: Any = (),
    impute: str = "median",
    labels: str = "same",
    text: str | None = None,
    vocabulary: int = VOCABULARY,
    length: int = LENGTH,
    size: Any = None,
    colour: str | None = None,
    preprocessing: Any = None,
) -> Pool:
    """The clients of a folder (`folder`, else the data folder).

    `drop` leaves columns out, `keep` uses them although they look like identifiers or free text. `decimal` ("," or
    ".") and `dates` ("day-first", "month-first") decide what cells alone do not; `missing` are further words
    for nothing, such as -999, and `impute` ("median", "mean" or "zero") is what a missing number becomes. `labels="exact"` makes every spelling of a label a class of its own. `text` is a column whose
    words are trained on: the `vocabulary` most frequent, the first `length` of each row. Images are brought to a `size`
    (32, or 32x48) and a `colour` ("grey" or "rgb"). `preprocessing` is what was learnt from these or other clients before,
    in a file or as a scenario's details have it: nothing is learnt then.
    """
    wanted = Wanted.of(
        label=label,
        task=task,
        standardise=standardise,
        drop=drop,
        keep=keep,
        decimal=decimal,
        dates=dates,
        missing=missing,
        impute=impute,
        labels=labels,
        text=text,
        vocabulary=vocabulary,
        length=length,
        preprocessing=preprocessing,
    )
    where = folder if folder is not None else ask.data_dir
    if where is None:
        raise ScenarioError("Which folder? Give the one with a file per client: folder=…, or --data-dir.")
    found = examine(Path(where).expanduser(), wanted, Look.of(size, colour), ask.by_client)
    refused = found.report.refused
    if refused:
        more = f" ({len(refused) - 1} more refused: fedvalue data check {where})" if len(refused) > 1 else ""
        raise ScenarioError(refused[0] + more)
    clients = len(found.clients)
    if ask.clients is not None and ask.clients != clients:
        raise ScenarioError(
            f"{where} has {clients} client files. Got clients={ask.clients}. Leave the number out."
        )
    paths = [table.path for table in (*found.clients, *found.tests)]
    return pooled(found, ask.by_client, {"sources": {path.name: _digest(path) for path in paths}})


def check_folder(folder: str | PathLike[str], *, test: str | None = None, **options: Any) -> DataReport:
    """What fedvalue makes of a folder: rows, columns, what was done, what is suspicious, what is refused.

    Options are those of the scenario `files`, and `test` that of `load_scenario`. Whatever is wrong with the data is in
    the report; nothing is raised but for impossible options.
    """
    known = [
        p.name
        for p in signature(build).parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.name != "folder"
    ]
    for name in options:
        if name not in known:
            raise unknown("option", name, ["test", *known])
    look = Look.of(options.pop("size", None), options.pop("colour", None))
    return examine(Path(folder).expanduser(), Wanted.of(**options), look, is_by_client(test)).report


def _digest(path: Path) -> str:
    """The checksum of a file; of a folder that of all its files' names and checksums."""
    if path.is_file():
        return sha256(path.read_bytes())
    files = sorted(entry for entry in path.rglob("*") if entry.is_file())
    return sha256(
        "\n".join(f"{entry.relative_to(path)} {sha256(entry.read_bytes())}" for entry in files).encode()
    )
