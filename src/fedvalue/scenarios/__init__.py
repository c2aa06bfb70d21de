"""The registry of scenarios. To add one: a file here and an entry below."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from fedvalue._checks import as_path, checked_call
from fedvalue.coalitions import MOST_CLIENTS
from fedvalue.scenarios import adult, digits, femnist, files, mnist, sent140, synthetic
from fedvalue.scenarios._base import Scenario
from fedvalue.scenarios._build import FEW_ROWS, Ask, ScenarioEntry, assemble
from fedvalue.scenarios._checks import unknown, whole
from fedvalue.scenarios._dataset import CLASSIFICATION, OWN, REGRESSION, Dataset
from fedvalue.scenarios._features import (
    Features,
    bytes_in,
    leaves,
    mapped,
    rows_joined,
    shape_of,
)
from fedvalue.scenarios._fetch import FETCHERS, fetch
from fedvalue.scenarios._fixed import preprocessing_of
from fedvalue.scenarios._held_out import BY_CLIENT, by_client, is_by_client
from fedvalue.scenarios._numbers import IGNORED, labels_in
from fedvalue.scenarios._overlap import OVERLAP_COLUMNS, Overlap, Sketch, compare_rows, read_sketch, sketch
from fedvalue.scenarios._partition import PARTITIONS
from fedvalue.scenarios._report import ColumnReport, DataReport, PartyReport
from fedvalue.scenarios._scale import Scale
from fedvalue.scenarios._sources import folders, located
from fedvalue.scenarios.files import check_folder

__all__ = [
    "OVERLAP_COLUMNS",
    "BY_CLIENT",
    "CLASSIFICATION",
    "FETCHERS",
    "IGNORED",
    "OWN",
    "REGRESSION",
    "SCENARIOS",
    "ColumnReport",
    "DataReport",
    "Dataset",
    "Features",
    "Overlap",
    "PartyReport",
    "Scale",
    "Scenario",
    "ScenarioEntry",
    "Sketch",
    "by_client",
    "bytes_in",
    "check_folder",
    "compare_rows",
    "fetch",
    "folders",
    "is_by_client",
    "labels_in",
    "leaves",
    "load_scenario",
    "mapped",
    "preprocessing_of",
    "read_sketch",
    "rows_joined",
    "shape_of",
    "sketch",
    "where",
]

_ALL = tuple(PARTITIONS)
_CHANGES = ("label-noise", "feature-noise", "label-flip", "free-riders")

_SCENARIOS = (
    ScenarioEntry(
        "digits", digits.build, "scikit-learn's 1,797 handwritten digits (8 × 8)", _ALL, training=FEW_ROWS,
    ),
    ScenarioEntry(
        "mnist", mnist.build, "70,000 handwritten digits (28 × 28)", _ALL,
        needs=mnist.NEEDS, how=mnist.HOW,
    ),
    ScenarioEntry(
        "femnist", femnist.build, "handwriting by writer: FEMNIST, or MNIST digits", ("writer", *_ALL),
        partition="writer", natural="writer", needs=femnist.NEEDS, how=femnist.HOW,
    ),
    ScenarioEntry(
        "adult", adult.build, "census income by occupation, 14 features", ("occupation", *_ALL),
        partition="occupation", natural="occupation", needs=adult.NEEDS, how=adult.HOW,
    ),
    ScenarioEntry(
        "sent140", sent140.build, "sentiment of tweets by groups of users",
        ("user", *(name for name in _ALL if "numbers" not in PARTITIONS[name].needs)),
        partition="user", natural="user", needs=sent140.NEEDS, how=sent140.HOW, model="text-mean",
    ),
    ScenarioEntry(
        "synthetic", synthetic.build, "linear regression with known theory",
        tuple(name for name in _ALL if "classes" not in PARTITIONS[name].needs), model="least-squares",
    ),
    ScenarioEntry(
        "files", files.build, "your folder: a CSV, Parquet or NPZ file, or a folder of images, per client", ("file", *_CHANGES),
        partition="file", natural="file", clients=None, training=FEW_ROWS,
    ),
)  # fmt: skip

SCENARIOS: dict[str, ScenarioEntry] = {entry.name: entry for entry in _SCENARIOS}


@checked_call
def load_scenario(
    name: str,
    *,
    clients: int | None = None,
    partition: str | None = None,
    samples: int | None = None,
    test_size: int | None = None,
    test_parts: int = 0,
    test: str | None = None,
    seed: int = 0,
    data_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> Scenario:
    """A scenario by its name; everything random in it follows from the seed.

    `samples` is the average number of rows per client (default: all there are), `test_size` the number
    of test rows, `test_parts` cuts the test set into that many named parts. With `test="by-client"` the test set consists
    of rows of the clients' own, a fifth of each, as a part with the client's name (see `by_client`); a folder of `files`
    then has no test.csv, or a test-NAME.csv for each client. `clients` and `partition` are
    by default those of the scenario (10 clients; for `files`, one per file). Options are those of the
    scenario and of the partition.

    >>> s = load_scenario("synthetic", clients=3, samples=20, partition="size")
    >>> s.n, [len(c) for c in s.clients]
    (3, [10, 20, 30])
    """
    if not isinstance(name, str) or name not in SCENARIOS:
        raise unknown("scenario", name, SCENARIOS)
    if data_dir is not None:
        as_path("data_dir", data_dir)
    entry = SCENARIOS[name]
    ask = Ask(
        clients=entry.clients if clients is None else whole("clients", clients, 1, MOST_CLIENTS),
        seed=whole("seed", seed, 0),
        samples=None if samples is None else whole("samples", samples, 1),
        test_size=None if test_size is None else whole("test_size", test_size, 1),
        test_parts=whole("test_parts", test_parts, 0),
        data_dir=data_dir,
        by_client=is_by_client(test),
    )
    return assemble(entry, ask, partition or entry.partition, options)


def where(name: str, data_dir: str | PathLike[str] | None = None) -> Path | None:
    """The folder in which the files of a scenario were found, or None."""
    if name not in SCENARIOS:
        raise unknown("scenario", name, SCENARIOS)
    if name == "femnist":
        return femnist.found(data_dir)
    needs = SCENARIOS[name].needs
    return None if needs is None else located(needs, data_dir)
