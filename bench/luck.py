"""Do intervals hold the values of the expected utility where the luck of training has a known form?

Every game is a table with a row for each of 32 seeds: a curve, plus normal noise whose standard deviations are given.

    level   moves all coalitions of a seed alike
    client  moves a seed's coalitions by who is in them; divided by the size where it says so, as averages of models do
    single  moves every training by itself; by size^1.5 where it says so, as where single clients have few rows

    coverage      how often the 95 % interval of a client holds the Shapley value of the mean over all seeds
    worst client  the same for the client with the lowest
    width         mean half-width / mean absolute error (2.5 if errors were normal and all the same)

    python bench/luck.py [--runs 40] [--clients 4,7]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import fedvalue as fv
from _table import table

SEEDS = 32
METHODS = {
    "exact, one seed": {"method": "exact"},
    "32 trainings": {"method": "surrogate", "budget": 32},
    "64 trainings": {"method": "surrogate", "budget": 64},
    "128 trainings": {"method": "surrogate", "budget": 128},
}


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the three kinds of luck."""

    level: float
    client: float
    single: float
    by_size: bool = False
    steep: bool = False

    def __str__(self) -> str:
        by_size, steep = " / size" if self.by_size else "", " / size^1.5" if self.steep else ""
        return f"{self.level:g}, {self.client:g}{by_size}, {self.single:g}{steep}"


NOISES = [
    Noise(0.02, 0.0, 0.01),
    Noise(0.01, 0.02, 0.005, by_size=True),
    Noise(0.02, 0.01, 0.005),
    Noise(0.0, 0.02, 0.0),
    Noise(0.0, 0.01, 0.08, by_size=True, steep=True),
]


def utilities(n: int, noise: Noise, rng: np.random.Generator) -> NDArray[np.float64]:
    """A row for each seed."""
    inside = (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(float)
    weight = rng.lognormal(0, 0.7, n)
    curve = 0.1 + 0.8 * (1 - np.exp(-3 * inside @ weight / weight.sum()))
    of_clients = rng.normal(0, noise.client, (SEEDS, n)) @ inside.T
    if noise.by_size:
        of_clients /= np.maximum(inside.sum(1), 1)
    single = rng.normal(0, noise.single, (SEEDS, 1 << n))
    if noise.steep:
        single /= np.maximum(inside.sum(1), 1) ** 1.5
    luck = rng.normal(0, noise.level, (SEEDS, 1)) + of_clients + single
    luck[:, 0] = 0.0
    return curve + luck


def trained_with_seeds(rows: NDArray[np.float64]) -> fv.FunctionGame:
    """The game as somebody has it who can train a coalition with one seed after another."""

    def utility(coalition: tuple[int, ...], seed: int) -> float:
        return float(rows[seed % SEEDS, sum(1 << i for i in coalition)])

    return fv.FunctionGame(int(np.log2(rows.shape[1])), utility, batch=False)


def measured(n: int, noise: Noise, runs: int, asked: dict[str, object]) -> tuple[float, float, float]:
    """Coverage, that of the worst client, and width."""
    held, errors, widths = [], [], []
    for run in range(runs):
        rows = utilities(n, noise, np.random.default_rng([run, n]))
        truth = fv.value(rows.mean(0).tolist(), method="exact").mean
        values = fv.value(trained_with_seeds(rows), seed=run, **asked)
        interval = values.interval()
        if interval is None:
            raise SystemExit(f"{asked} has no interval for {n} clients.")
        held.append((interval[:, 0] <= truth) & (truth <= interval[:, 1]))
        errors.append(abs(values.mean - truth).mean())
        widths.append((interval[:, 1] - interval[:, 0]).mean() / 2)
    return float(np.mean(held)), float(np.mean(held, axis=0).min()), float(np.mean(widths) / np.mean(errors))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--clients", default="4,7")
    args = parser.parse_args()
    rows = [
        [str(n), str(noise), name, *(f"{x:.2f}" for x in measured(n, noise, args.runs, asked))]
        for n in map(int, args.clients.split(","))
        for noise in NOISES
        for name, asked in METHODS.items()
    ]
    head = ["clients", "level, client, single", "values", "coverage", "worst client", "width"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
