"""From a data set and a partition to a scenario: rows, then features, then changes, then the test set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, signature
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._base import Scenario
from fedvalue.scenarios._changes import Party, Setting, riders
from fedvalue.scenarios._checks import stream, unknown, whole
from fedvalue.scenarios._dataset import CLASSIFICATION, Dataset
from fedvalue.scenarios._held_out import BY_CLIENT, Tested, hold_out, without_own_rows
from fedvalue.scenarios._partition import PARTITIONS, Partition, Rows, parse, same, shares, subset
from fedvalue.scenarios._report import DataReport
from fedvalue.scenarios._scale import Scale

__all__ = ["FEW_ROWS", "Ask", "Parts", "Pool", "ScenarioEntry", "assemble"]

# A few hundred samples per client are too few steps for the usual batches of 64 at a rate of 0.001: ten
# digits clients would reach an accuracy of 0.65, not 0.95.
FEW_ROWS = {"batch": 32, "rate": 0.01}


@dataclass(frozen=True)
class Ask:
    """What a user asked for, apart from options; `clients` is None where the data itself says it."""

    clients: int | None
    seed: int = 0
    samples: int | None = None
    test_size: int | None = None
    test_parts: int = 0
    data_dir: str | PathLike[str] | None = None
    by_client: bool = False  # tested on rows of the clients' own


@dataclass(frozen=True)
class Parts:
    """The rows of each client and its name."""

    rows: list[Rows]
    names: list[str]


Encode = Callable[[Rows, Rows], tuple[NDArray[Any], NDArray[Any], int]]
"""Training rows in use and test rows → features of both, and the size of the vocabulary.

Whatever is learnt from data (means, categories, words) is learnt from those training rows only.
"""


@dataclass(frozen=True)
class Pool:
    """A data set before it is shared out. `natural` gives its own clients (writers, files, …).

    `shared_name` is its name where it is shared out otherwise and `name` would promise too much. With
    `tests_of_clients`, `test_groups` are the names of the clients whose own rows these are. The last two are those of
    the scenario.
    """

    name: str
    labels: NDArray[Any]
    test_labels: NDArray[Any]
    encode: Encode
    classes: int
    natural: Callable[[], Parts] | None = None
    test_groups: NDArray[Any] | None = None
    tests_of_clients: bool = False
    shared_name: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    target_scale: Scale | None = None
    report: DataReport | None = None


@dataclass(frozen=True)
class ScenarioEntry:
    """A scenario and what a user must know before choosing it.

    `needs` are the data files (None: nothing to download); `partition` is the default, `natural` the
    one that comes with the data; `clients` is the default number (None: the data says it). `model` and
    `training` are what suits the data where nothing else is asked for.
    """

    name: str
    builder: Callable[..., Pool]
    description: str
    partitions: tuple[str, ...]
    partition: str = "same"
    natural: str = ""
    needs: tuple[str, ...] | None = None
    how: str = ""
    clients: int | None = 10
    model: str = "mlp"
    training: Mapping[str, Any] = field(default_factory=dict)

    @property
    def usual_partition(self) -> str:
        """What a run uses where none is asked for: the data's own, or clients of different size."""
        return self.natural or "size"


def assemble(entry: ScenarioEntry, ask: Ask, spec: str, options: Mapping[str, Any]) -> Scenario:
    """The scenario of one entry, all choices made from the seed."""
    rows_name, changes, implied = parse(spec, entry.partition, entry.partitions)
    share_out = None if rows_name == entry.natural else PARTITIONS[rows_name].rows
    used = [entry.builder, share_out, *(change.change for change in changes)]
    _check_options(entry.name, spec, options, used)
    chosen = {**implied, **options}
    pool = entry.builder(ask, **_own(entry.builder, chosen))
    _check_needs([rows_name, *(change.name for change in changes)], pool.classes)
    if share_out is None:
        parts = _trimmed(pool, ask)
    else:
        parts = _shared_out(pool, ask, share_out, _own(share_out, chosen))
    test_rows = _test_rows(pool, ask)
    features, test_x, vocabulary = pool.encode(np.concatenate(parts.rows), test_rows)
    pieces = np.split(features, np.cumsum([len(rows) for rows in parts.rows])[:-1])
    parties = [
        Party(name, Dataset(x, pool.labels[rows]))
        for name, x, rows in zip(parts.names, pieces, parts.rows, strict=True)
    ]
    parties = _changed(parties, changes, pool.classes, ask.seed, chosen)
    names = [party.name for party in parties]
    if ask.by_client and not len(test_rows):
        tested = hold_out(names, [party.data for party in parties])
    else:
        test = Dataset(test_x, pool.test_labels[test_rows])
        tested = Tested([party.data for party in parties], test, _test_parts(pool, ask, test_rows))
    details = _details(entry, ask, spec, options, pool, parties)
    if ask.by_client:
        details |= {"test": BY_CLIENT, "warnings": without_own_rows(names, tested.parts)}
    return Scenario(
        name=(share_out and pool.shared_name) or pool.name,
        clients=tuple(tested.clients),
        names=tuple(names),
        test=tested.test,
        task=CLASSIFICATION if pool.classes else "regression",
        classes=pool.classes,
        vocabulary=vocabulary,
        test_parts=tested.parts,
        details=details,
        target_scale=pool.target_scale,
        report=pool.report,
        training=entry.training,
    )


def _details(
    entry: ScenarioEntry,
    ask: Ask,
    spec: str,
    options: Mapping[str, Any],
    pool: Pool,
    parties: Sequence[Party],
) -> dict[str, Any]:
    return {
        "scenario": entry.name,
        "partition": spec,
        "seed": ask.seed,
        "samples": ask.samples,
        "options": {key: value if _plain(value) else str(value) for key, value in options.items()},
        "roles": [
            {"client": i, "role": party.role, **({} if party.of is None else {"of": party.of})}
            for i, party in enumerate(parties)
            if party.role
        ],
        **pool.details,
    }


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, list, tuple))


def _own(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in _option_names(function) if name in options}


def _option_names(function: Callable[..., Any]) -> list[str]:
    return [p.name for p in signature(function).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]


def _check_options(
    name: str, spec: str, options: Mapping[str, Any], used: Sequence[Callable[..., Any] | None]
) -> None:
    known = list(dict.fromkeys(option for f in used if f is not None for option in _option_names(f)))
    for option in options:
        if option not in known:
            raise unknown("option", option, known, f" of scenario {name!r} with partition {spec!r}:")


def _check_needs(used: Sequence[str], classes: int) -> None:
    for name in used:
        if name in PARTITIONS and "classes" in PARTITIONS[name].needs and not classes:
            raise ScenarioError(f"Partition {name!r} needs classes. This is a regression.")


def _shared_out(
    pool: Pool, ask: Ask, share_out: Callable[..., list[Rows]], options: Mapping[str, Any]
) -> Parts:
    n = ask.clients or 1
    total = _total(ask, n, len(pool.labels))
    rows = subset(pool.labels, total, stream(ask.seed, "samples"))
    parts = share_out(pool.labels[rows], n, stream(ask.seed, "rows"), **options)
    return Parts([rows[part] for part in parts], [f"client-{i}" for i in range(n)])


def _trimmed(pool: Pool, ask: Ask) -> Parts:
    """The natural clients, each cut in the same proportion when fewer samples are asked for."""
    if pool.natural is None:
        raise ScenarioError(f"Scenario {pool.name!r} has no clients of its own. Name a partition.")
    parts = pool.natural()
    sizes = [len(rows) for rows in parts.rows]
    total = _total(ask, len(sizes), sum(sizes))
    if total == sum(sizes):
        return parts
    return Parts(
        [
            rows[subset(pool.labels[rows], int(count), stream(ask.seed, f"samples of {i}"))]
            for i, (rows, count) in enumerate(zip(parts.rows, shares(total, sizes), strict=True))
        ],
        parts.names,
    )


def _total(ask: Ask, n: int, available: int) -> int:
    if ask.samples is None:
        return available
    if n * ask.samples > available:
        raise ScenarioError(
            f"{n} clients with {ask.samples} samples on average need {n * ask.samples} training rows. "
            f"There are {available}: at most samples={available // n}."
        )
    return n * ask.samples


def _changed(
    parties: list[Party], changes: Sequence[Partition], classes: int, seed: int, options: Mapping[str, Any]
) -> list[Party]:
    spared = 0
    if any(change.name == "free-riders" for change in changes):
        spared = sum(riders(len(parties), options.get("empty"), options.get("copies")))
    for change in changes:
        if change.change is not None:
            setting = Setting(classes, stream(seed, change.name), spared)
            parties = change.change(parties, setting, **_own(change.change, options))
    return parties


def _test_rows(pool: Pool, ask: Ask) -> Rows:
    if ask.by_client and (ask.test_size is not None or ask.test_parts):
        raise ScenarioError(
            f"test={BY_CLIENT!r} tests on rows of the clients, so that test_size and test_parts do not apply. Leave them out."
        )
    if ask.by_client and not pool.tests_of_clients:
        return np.arange(0)
    available = len(pool.test_labels)
    if ask.test_size is not None and ask.test_size > available:
        raise ScenarioError(f"test_size={ask.test_size} test rows were asked for. There are {available}.")
    count = available if ask.test_size is None else ask.test_size
    return subset(pool.test_labels, count, stream(ask.seed, "test"))


def _test_parts(pool: Pool, ask: Ask, rows: Rows) -> dict[str, Rows]:
    if ask.test_parts:
        count = whole("test_parts", ask.test_parts, 0, len(rows))
        cut = same(pool.test_labels[rows], count, stream(ask.seed, "test parts"))
        return {f"part-{i}": part for i, part in enumerate(cut)}
    if pool.test_groups is None:
        return {}
    groups = pool.test_groups[rows]
    return {str(name): np.flatnonzero(groups == name) for name in dict.fromkeys(groups.tolist())}
