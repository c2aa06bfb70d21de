"""Utilities of the games of an experiment in one small file: all that its tables can be computed from again.

`utilities.npz` holds numbers and a header in JSON, nothing that is executed when it is read. A utility is kept bit
for bit: as a count of test samples where it is one, as float64 elsewhere. Coalitions are named only where not
all of them are known. Recorded runs, which gradient methods look at, are far too large to be kept.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import InputError
from fedvalue.scenarios import Scenario
from fedvalue_paper.costs import Cost
from fedvalue_paper.files import write_bytes_whole
from fedvalue_paper.known import KeptGame, KnownGame

__all__ = ["UTILITIES", "Kept", "keep", "read_kept", "write_kept"]

UTILITIES = "utilities.npz"
_FORMAT = "fedvalue.utilities/1"
_HEADER = "header"


@dataclass(frozen=True)
class Kept:
    """A game without its data: utilities, and the facts about clients that measures and costs need."""

    label: str
    game_id: str
    names: tuple[str, ...]
    metric: str
    averages: bool
    empty_rule: str
    data: str
    details: Mapping[str, Any]
    sizes: tuple[int, ...]
    test_samples: int
    features: tuple[int, ...]
    cost: Cost | None
    utilities: Mapping[int, float]

    def game(self) -> KeptGame:
        """The game, for methods."""
        return KeptGame(self.game_id, self.names, self.sizes, self.utilities)

    def scenario(self) -> Scenario:
        """Stands in for the scenario: its name, details and sizes, and no data."""
        test = SimpleNamespace(x=np.broadcast_to(np.float32(0), (self.test_samples, *self.features)))
        stand_in = SimpleNamespace(
            name=self.data,
            details=self.details,
            n=len(self.sizes),
            clients=[range(size) for size in self.sizes],
            test=test,
        )
        return cast(Scenario, stand_in)


def keep(label: str, game: KnownGame, cost: Cost | None) -> Kept:
    """What is kept of a game that was played."""
    federated, scenario = game.game, game.game.scenario
    return Kept(
        label=label,
        game_id=game.id,
        names=game.names,
        metric=federated.metric,
        averages=game.averages,
        empty_rule=str(federated.empty),
        data=scenario.name,
        details={key: value for key, value in scenario.details.items() if _is_json(value)},
        sizes=tuple(game.sizes),
        test_samples=len(scenario.test),
        features=tuple(scenario.test.x.shape[1:]),
        cost=cost,
        utilities=game.known(),
    )


def write_kept(path: Path, about: Mapping[str, Any], games: Sequence[Kept]) -> None:
    """All games in one file, with `about`, which says what experiment they are of."""
    arrays: dict[str, NDArray[Any]] = {}
    described = []
    for number, kept in enumerate(games):
        facts = {key: value for key, value in asdict(kept).items() if key != "utilities"}
        described.append({**facts, "empty": kept.utilities.get(0)})
        n, masks = len(kept.sizes), sorted(kept.utilities)
        if len(masks) < 1 << n:
            arrays[f"{number}.masks"] = _bits(masks, n)
        packed = _packed(np.array([kept.utilities[mask] for mask in masks]), kept.test_samples)
        arrays |= {f"{number}.{name}": array for name, array in packed.items()}
    header = json.dumps({"format": _FORMAT, **about, "games": described}, ensure_ascii=False)
    arrays[_HEADER] = np.frombuffer(header.encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_bytes_whole(path, buffer.getvalue())


def read_kept(path: Path) -> tuple[dict[str, Any], list[Kept]]:
    """What the file says of its experiment, and its games in their order."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        header = json.loads(arrays[_HEADER].tobytes())
        if header["format"] != _FORMAT:
            raise ValueError(f"its format is {header['format']!r}, expected {_FORMAT!r}")
        games = [_restored(entry, arrays, number) for number, entry in enumerate(header.pop("games"))]
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is damaged or no file of utilities: {error}. Get it anew.") from error
    return header, games


def _restored(entry: dict[str, Any], arrays: Mapping[str, NDArray[Any]], number: int) -> Kept:
    empty = entry.pop("empty")
    n = len(entry["sizes"])
    utilities = _unpacked(arrays, number, entry["test_samples"])
    packed = arrays.get(f"{number}.masks")
    masks = range(1 << n) if packed is None else _masks(packed)
    known = dict(zip(masks, utilities.tolist(), strict=True))
    if known.get(0) != empty:
        raise ValueError(f"v(∅) of {entry['label']!r} is {known.get(0)}, its header says {empty}")
    cost = entry["cost"]
    if cost is not None:
        cost = Cost(**{**cost, "measured": tuple(map(tuple, cost["measured"]))})
    lists = {key: tuple(entry[key]) for key in ("names", "sizes", "features")}
    return Kept(**{**entry, **lists, "cost": cost, "utilities": known})


def _packed(utilities: NDArray[np.float64], test_samples: int) -> dict[str, NDArray[Any]]:
    """Counts of test samples where these give the same bits again; the others, such as v(∅), apart from them."""
    counts = np.round(utilities * test_samples)
    odd = np.flatnonzero((counts < 0) | (counts / np.float64(test_samples) != utilities))
    if 2 * len(odd) > len(utilities):
        return {"utilities": utilities}
    counts[odd] = 0
    kind = np.min_scalar_type(int(counts.max(initial=0)))
    return {"counts": counts.astype(kind), "odd": odd.astype(np.uint32), "utilities": utilities[odd]}


def _unpacked(arrays: Mapping[str, NDArray[Any]], number: int, test_samples: int) -> NDArray[np.float64]:
    utilities, counts = arrays[f"{number}.utilities"], arrays.get(f"{number}.counts")
    if counts is None:
        return utilities
    found: NDArray[np.float64] = counts / np.float64(test_samples)
    found[arrays[f"{number}.odd"]] = utilities
    return found


def _bits(masks: Sequence[int], n: int) -> NDArray[np.uint8]:
    width = (n + 7) // 8
    rows = b"".join(mask.to_bytes(width, "little") for mask in masks)
    return np.frombuffer(rows, np.uint8).reshape(len(masks), width)


def _masks(packed: NDArray[np.uint8]) -> list[int]:
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
