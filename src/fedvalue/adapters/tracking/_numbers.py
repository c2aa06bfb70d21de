"""The numbers of a run as it goes: of outcomes, of values so far, of the values in the end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedvalue.adapters.tracking._names import Labels
from fedvalue.adapters.tracking._tools import Row
from fedvalue.coalitions import full_mask
from fedvalue.errors import FedvalueError
from fedvalue.games import Game
from fedvalue.outcome import of_model, plain_metric
from fedvalue.run import Evaluation
from fedvalue.values import Values
from fedvalue.what_if import Trained, values_so_far

__all__ = ["Numbers"]

_RESTS = 20  # times as long as computing values so far took: a run is held up by a twentieth at most
_MOST_OUTCOMES = 2000  # beyond, computing them once takes longer than anybody would wait


class Numbers:
    """Turns what observers are told into numbers by name. A step is an outcome."""

    def __init__(
        self,
        game: Game,
        groups: Mapping[str, Sequence[str]] | None,
        every: float,
        *,
        one_seed: bool = False,
        by_method: bool = False,
    ) -> None:
        self._names, self._groups, self._replicates = tuple(game.names), groups, game.replicates
        self._one_seed, self._by_method, self._every = one_seed, by_method, every
        self._clients, self._metrics, self._methods = Labels(), Labels(), Labels()
        self._utilities: dict[int, list[float]] = {}
        self._seeds: dict[int, list[int]] = {}
        self._step = 0
        self._next = 0.0  # when values so far may be computed again

    def of_outcome(self, evaluation: Evaluation) -> Row:
        """What one coalition gave and, now and then, the values by all that is known."""
        self._step += 1
        mask, seed, outcome = evaluation.mask, evaluation.replicate, evaluation.outcome
        if not self._one_seed or seed < self._replicates:
            self._utilities.setdefault(mask, []).append(evaluation.utility)
            self._seeds.setdefault(mask, []).append(seed)
        numbers = {
            "outcome/utility": float(evaluation.utility),
            "outcome/size": float(mask.bit_count()),
            "outcome/seed": float(seed),
            "outcome/seconds": float(outcome.seconds),
            "outcome/reused": float(evaluation.reused),
        }
        for name, value in of_model(outcome.metrics).items():
            numbers[f"metric/{self._metrics.of(name, plain_metric(name))}"] = float(value)
        return Row(self._step, time.time(), numbers | self._so_far())

    def of_values(self, values: Values) -> Row:
        """The values of the run with their intervals, and what they cost."""
        method = f"{self._methods.of(values.method)}/" if self._by_method else ""
        cost = values.cost
        others = {
            "utility/none": values.utility_of_none,
            "utility/all": values.utility_of_all,
            f"cost/{method}seconds": values.seconds,
            f"cost/{method}trained": None if cost is None else cost.trained,
            f"cost/{method}reused": None if cost is None else cost.reused,
            f"cost/{method}exact_trainings": None if cost is None else cost.exact_trainings,
            f"cost/{method}exact_seconds": None if cost is None else cost.exact_seconds,
        }
        numbers = {name: float(number) for name, number in others.items() if number is not None}
        return Row(
            self._step,
            time.time(),
            numbers | self._of_clients(values, f"value/{method}", f"half_width/{method}"),
        )

    def words_of(self, values: Values) -> dict[str, Any]:
        """How the values came about."""
        how = {
            name: getattr(values, name)
            for name in ("method", "guarantee", "evaluations", "seeds", "metric", "index")
        }
        return {"values": {values.method: how} if self._by_method else how}

    def _so_far(self) -> dict[str, float]:
        ends = {0, full_mask(len(self._names))}
        known = sum(map(len, self._utilities.values()))
        began = time.monotonic()
        if began < self._next or known > _MOST_OUTCOMES or not ends <= self._utilities.keys():
            return {}
        seeds = {seed for mask, of in self._seeds.items() if mask for seed in of}
        several = not self._one_seed and self._replicates == 1 and len(seeds) > 1
        try:
            found = values_so_far(
                self._names, Trained(self._utilities, self._seeds), self._groups, several_seeds=several
            )
        except (FedvalueError, ArithmeticError, LookupError, ValueError, np.linalg.LinAlgError):
            return {}  # too little is known yet
        finally:
            now = time.monotonic()
            self._next = now + max(self._every, _RESTS * (now - began))
        return self._of_clients(found, "so_far/", "so_far_half_width/")

    def _of_clients(self, values: Values, prefix: str, of_widths: str) -> dict[str, float]:
        labels = [self._clients.of(name) for name in values.names]
        numbers = {prefix + label: float(value) for label, value in zip(labels, values.mean, strict=True)}
        interval = values.interval()
        if interval is not None:
            halves = (interval[:, 1] - interval[:, 0]) / 2
            numbers |= {of_widths + label: float(half) for label, half in zip(labels, halves, strict=True)}
        return numbers
