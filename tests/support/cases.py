"""Every registered estimator that asks for coalitions, also with some of its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fedvalue as fv
from fedvalue.estimators import ESTIMATORS
from fedvalue.testing import drive as drive_plan
from fedvalue.testing.games import Array

# Every method that asks for coalitions; gradient methods read a recorded training instead.
SAMPLING = {name: method for name, method in ESTIMATORS.items() if not method.view}

# Real federated games, fully enumerated; they are not part of the repository.
REAL_GAMES = Path(__file__).parents[3] / "shared" / "games"


@dataclass(frozen=True)
class Case:
    """A registered method with some of its options."""

    method: str
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return ",".join([self.method, *(f"{key}={value}" for key, value in self.options.items())])

    @property
    def smallest(self) -> int:
        """How many clients it needs: k-greedy with a fixed k as many, everything else takes any number."""
        return self.options.get("k", 1)

    def minimum(self, n: int) -> int:
        """The smallest budget that the method says it works with."""
        return SAMPLING[self.method].minimum(n, self.options)

    def run(self, game: Any, budget: int | None, seed: int = 0) -> fv.Values:
        """The values by the public entrance."""
        return fv.value(game, self.method, budget, seed, **self.options)


CASES = (
    *(Case(name) for name in SAMPLING),
    Case("stratified-mc", {"design": "paper"}),
    Case("stratified-cc", {"design": "paper"}),
    Case("stratified-mc", {"allocation": "proportional"}),
    Case("stratified-cc", {"allocation": "proportional"}),
    Case("ipss", {"balance": "strict"}),
    Case("permutation", {"balanced": False}),
    Case("tmc", {"patience": 0, "tolerance": 1e-4}),
    Case("k-greedy", {"k": 2}),
)


def drive(method: str, table: Array, budget: int, seed: int, **options: Any) -> fv.Estimate:
    """Runs a plan against a table with nothing in between: fast enough for thousands of seeds."""
    n = len(table).bit_length() - 1
    plan = SAMPLING[method].plan(n, budget, np.random.default_rng(seed), **options)
    return drive_plan(plan, lambda ask: table[np.fromiter(ask, np.int64)])
