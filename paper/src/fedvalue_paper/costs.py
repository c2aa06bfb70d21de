"""What a training costs when it is done alone: measured, and linear in the number of samples in between."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedvalue.coalitions import full_mask, membership
from fedvalue.games import FederatedGame
from fedvalue.trainers import LocalTrainer
from fedvalue_paper.files import write_whole

__all__ = [
    "Cost",
    "CostFile",
    "mean_prefix",
    "measure_cost",
    "orders_trained",
    "samples_of",
    "seconds_alone",
    "smallest_client",
]

_REPEATS, _QUICK_SECONDS = 5, 1.0


@dataclass(frozen=True)
class Cost:
    """Seconds of a training alone: `fixed` + `per_sample` × samples. `measured` are pairs of both."""

    fixed: float
    per_sample: float
    measured: tuple[tuple[int, float], ...]
    device: str

    def of(self, masks: Iterable[int], sizes: list[int]) -> float:
        """Training these coalitions one after the other."""
        trained = list(masks)
        return self.fixed * len(trained) + self.per_sample * samples_of(trained, sizes)

    def of_all_orders(self, sizes: list[int]) -> float:
        """Training every prefix of all n! orders anew: on average a prefix has (n + 1)/2 clients."""
        return orders_trained(len(sizes)) * (self.fixed + self.per_sample * mean_prefix(sizes))


def samples_of(masks: Sequence[int], sizes: Sequence[int]) -> int:
    """The samples of these coalitions, those of a client as often as it is in one.

    >>> samples_of([0b01, 0b11], [10, 5])
    25
    """
    return int(membership(masks, len(sizes)).sum(0) @ np.array(sizes, np.int64))


def orders_trained(n: int) -> int:
    """Trainings of Perm-Shapley, which uses none of them twice.

    >>> orders_trained(3)
    18
    """
    return n * math.factorial(n)


def mean_prefix(sizes: Sequence[int]) -> float:
    """The samples of a prefix of an order, over all prefixes and orders.

    >>> mean_prefix([10, 20, 30])
    40.0
    """
    return (len(sizes) + 1) / 2 * sum(sizes) / len(sizes)


def smallest_client(game: FederatedGame) -> int:
    """The coalition of the client with the least data, of those that have any."""
    sizes = [len(data) for data in game.scenario.clients]
    return 1 << min((size, i) for i, size in enumerate(sizes) if size)[1]


def seconds_alone(game: FederatedGame, mask: int) -> float:
    """Trains a coalition from scratch, without anything that others have left."""
    trainer = LocalTrainer(getattr(game.trainer, "device", "auto"))
    ((_, outcome),) = trainer.train(game.scenario, game.learner, game.training, [mask])
    return outcome.seconds


def measure_cost(game: FederatedGame, device: str) -> Cost:
    """Trains the smallest client alone and all clients, in turn and a few times where that is quick: the
    quickest counts, because other programs can only delay it. The first training of a process starts libraries as
    well and is not counted at all.
    """
    sizes = [len(data) for data in game.scenario.clients]
    masks = [smallest_client(game), full_mask(game.n)]
    seconds_alone(game, masks[0])
    few, many = (samples_of([mask], sizes) for mask in masks)
    quick, slow = _quickest(game, masks)
    per_sample = max(0.0, (slow - quick) / (many - few)) if many > few else 0.0
    return Cost(max(0.0, quick - per_sample * few), per_sample, ((few, quick), (many, slow)), device)


def _kind(game: FederatedGame, device: str) -> str:
    """What a training costs does not depend on who has which rows, nor on seeds."""
    rules = {key: value for key, value in asdict(game.training).items() if key != "seed"}
    rows = sum(len(data) for data in game.scenario.clients)
    facts = {"data": game.scenario.name, "clients": game.n, "rows": rows, **game.learner.identity(), **rules}
    return f"{', '.join(f'{key} {value}' for key, value in facts.items())}, on {device}"


def _quickest(game: FederatedGame, masks: Sequence[int]) -> list[float]:
    """In turn, so that a moment when the machine is busy does not make one of them alone look slow."""
    rounds: list[list[float]] = []
    while not rounds or (len(rounds) < _REPEATS and sum(map(sum, rounds)) < len(masks) * _QUICK_SECONDS):
        rounds.append([seconds_alone(game, mask) for mask in masks])
    return [min(found) for found in zip(*rounds, strict=True)]


class CostFile:
    """Measured costs beside the store, one for all games of a kind: a second experiment measures nothing again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, game: FederatedGame, device: str) -> Cost:
        """The cost as it was measured before, or now."""
        key = _kind(game, device)
        known = self._read()
        if key not in known:
            known[key] = asdict(measure_cost(game, device))
            write_whole(self.path, json.dumps(known, indent=1) + "\n")
        stored = known[key]
        measured = tuple((int(samples), float(seconds)) for samples, seconds in stored["measured"])
        return Cost(stored["fixed"], stored["per_sample"], measured, stored["device"])

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
