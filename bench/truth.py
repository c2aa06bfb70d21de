"""How close values come to those of the expected utility, and how often their intervals hold them.

Each file of the folder holds `accuracy`: rows are trainings of all 2^n coalitions with other seeds. The truth is the
Shapley value of the mean over all rows. A run draws its seeds from these rows at random. For every game and budget:

    ratio     mean error (relative, l2) / mean error of the exact values of one row, which take 2^n trainings
    coverage  how often a 95 % interval holds the truth, whose own error from the number of rows is added to it
    width     mean half-width / mean absolute error (2.5 if errors were normal and all the same)

Below them, the equal split in the same ratio, and the geometric mean over games.

    python bench/truth.py DIR [--budgets 32,64,128,256] [--runs 8] [--seeds N] [--per-game]
    python bench/truth.py DIR --exact [--runs 8] [--per-game]

With --exact, the exact values of one row with the interval that a few trainings of other rows give them.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import fedvalue as fv
from _table import table
from fedvalue.estimators.exact import exact_mc, shapley_values

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """A game trained again and again, the values of its mean, and what those of one training err by."""

    name: str
    rows: Array
    values: Array
    own_error: Array
    one_seed: float

    @classmethod
    def read(cls, path: Path) -> Truth:
        with np.load(path) as file:
            rows = file["accuracy"].astype(float)
        n = rows.shape[1].bit_length() - 1
        of_rows = np.array([shapley_values(n, row) for row in rows])
        values, count = of_rows.mean(0), len(rows)
        # The mean contains the row it is compared with.
        one_seed = np.mean([_relative(row, values) for row in of_rows]) * np.sqrt(count / (count - 1))
        return cls(path.stem, rows, values, of_rows.std(0, ddof=1) / np.sqrt(count), float(one_seed))


@dataclass(frozen=True)
class Figures:
    ratio: float
    coverage: float
    width: float
    seconds: float


def _relative(values: Array, truth: Array) -> float:
    return float(np.linalg.norm(values - truth) / np.linalg.norm(truth))


def measure(truth: Truth, budget: int, runs: int, seeds: int | None, method: str = "surrogate") -> Figures:
    """A method on one game, with other rows in another order in each run."""
    errors, held, widths, misses, seconds = [], [], [], [], []
    for run in range(runs):
        rows = truth.rows[np.random.default_rng(run).permutation(len(truth.rows))]
        options = {} if seeds is None else {"seeds": seeds}
        began = time.process_time()
        values = fv.value(fv.TableGame(rows), method, budget=budget, seed=run, **options)
        seconds.append(time.process_time() - began)
        assert values.evaluations <= budget
        assert values.stderr is not None
        miss = np.abs(values.mean - truth.values)
        errors.append(_relative(values.mean, truth.values))
        held.append(miss <= 1.96 * np.hypot(values.stderr, truth.own_error))
        widths.append(1.96 * values.stderr.mean())
        misses.append(miss.mean())
    ratio = float(np.mean(errors)) / truth.one_seed
    return Figures(ratio, float(np.mean(held)), np.mean(widths) / np.mean(misses), float(np.mean(seconds)))


def measure_exact(truth: Truth, runs: int) -> Figures:
    """All coalitions of one row, and the extra trainings of other rows that tell how far luck takes its values."""
    n, count = len(truth.values), len(truth.rows)
    errors, held, widths, misses, seconds = [], [], [], [], []
    for run in range(runs):
        rows = truth.rows[np.random.default_rng(run).permutation(count)]
        rows[:, 0] = rows[:, 0].mean()  # v(∅) is a mean over untrained models
        began = time.process_time()
        plan = exact_mc(n, 0, np.random.default_rng(run), most_seeds=None)
        trials = next(plan)
        try:
            plan.send(np.array([rows[seed, mask] for mask, seed in trials]))
        except StopIteration as done:
            estimate = done.value
        seconds.append(time.process_time() - began)
        half = stats.t.ppf(0.975, estimate.dof) * estimate.stderr
        # The truth contains the row that it is compared with, and is nearer to it than another mean would be.
        miss = np.abs(estimate.mean - truth.values) * np.sqrt(count / (count - 1))
        errors.append(_relative(estimate.mean, truth.values) * np.sqrt(count / (count - 1)))
        held.append(miss <= half)
        widths.append(half.mean())
        misses.append(miss.mean())
    ratio = float(np.mean(errors)) / truth.one_seed
    return Figures(ratio, float(np.mean(held)), np.mean(widths) / np.mean(misses), float(np.mean(seconds)))


def _geometric(numbers: list[float]) -> float:
    return float(np.exp(np.mean(np.log(numbers))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budgets", default="32,64,128,256")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--method", default="surrogate")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--per-game", action="store_true")
    given = parser.parse_args()
    games = [Truth.read(path) for path in sorted(given.folder.glob("*.npz"))]
    lines = []
    for budget in ["exact"] if given.exact else given.budgets.split(","):
        found = {
            game.name: measure_exact(game, given.runs)
            if given.exact
            else measure(game, int(budget), given.runs, given.seeds, given.method)
            for game in games
        }
        if given.per_game:
            for name, f in found.items():
                lines.append([name, budget, f"{f.ratio:.2f}", f"{f.coverage:.2f}", f"{f.width:.1f}", ""])
        every = list(found.values())
        ratio = _geometric([f.ratio for f in every])
        coverage = f"{np.mean([f.coverage for f in every]):.3f} (worst {min(f.coverage for f in every):.2f})"
        width = f"{_geometric([f.width for f in every]):.2f}"
        seconds = f"{np.mean([f.seconds for f in every]):.2f}"
        lines.append([f"{len(games)} games", budget, f"{ratio:.3f}", coverage, width, seconds])
    equal = [_relative(np.full(len(g.values), g.values.mean()), g.values) / g.one_seed for g in games]
    lines.append(["equal split", "", f"{_geometric(equal):.3f}", "", "", ""])
    print(table(["games", "trainings", "ratio", "coverage", "width", "CPU s"], lines))
