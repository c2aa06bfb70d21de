"""IPSS against CC-Shapley as published and as improved here, on enumerated games at the budgets of the IPSS paper.

    python bench/published.py DIR --seeds 400

DIR holds .npz files with the utilities of all coalitions of ten clients. Games of six and of three clients are those of
the first clients. Printed are mean and median of the relative l2 error over seeds, then in how many games IPSS errs less, then
how errors fall with γ in one game.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fedvalue as fv
from fedvalue.estimators import ESTIMATORS
from fedvalue.testing import drive

Array = NDArray[np.float64]
BUDGETS = {10: 32, 6: 8, 3: 5}  # of the paper, by number of clients
METHODS = ("ipss", "cc", "cc-paired", "equal")
SWEEP = (32, 64, 96, 128, 192, 208, 256, 384)


def errors(table: Array, method: str, budget: int, seeds: int) -> Array:
    """‖estimate − exact‖ / ‖exact‖ of every seed."""
    n = len(table).bit_length() - 1
    truth = fv.value(table, "exact").mean
    plan = ESTIMATORS[method].plan
    assert plan is not None
    runs = [
        drive(
            plan(n, budget, np.random.default_rng(seed)), lambda ask: table[np.fromiter(ask, np.int64)]
        ).mean
        for seed in range(1 if method == "equal" else seeds)
    ]
    found: Array = np.linalg.norm(np.array(runs) - truth, axis=1) / np.linalg.norm(truth)
    return found


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description="IPSS against CC-Shapley as published and as improved here.")
    parser.add_argument("dir", type=Path, metavar="DIR", help="folder with .npz games of ten clients")
    parser.add_argument("--pattern", default="*-2710-*.npz", help="which of its files")
    parser.add_argument("--sweep", default="mnist-same-2710-cnn", help="the game whose errors are shown by γ")
    parser.add_argument("--seeds", type=int, default=400)
    arguments = parser.parse_args()
    files = sorted(arguments.dir.glob(arguments.pattern))
    if not files:
        parser.error(f"no file {arguments.pattern} in {arguments.dir}")
    games = {file.stem: np.load(file)["accuracy"].astype(float) for file in files}
    for n, budget in BUDGETS.items():
        print(f"n = {n}, γ = {budget}, {arguments.seeds} seeds: mean (median) of the relative error\n")
        print(f"{'game':24}" + "".join(f"{name:>18}" for name in METHODS))
        below = {"mean": 0, "median": 0, "equal": 0}
        for name, whole in games.items():
            found = {method: errors(whole[: 1 << n], method, budget, arguments.seeds) for method in METHODS}
            cells = [f"{e.mean():.4f} ({np.median(e):.4f})" for e in found.values()]
            print(f"{name:24}" + "".join(f"{cell:>18}" for cell in cells))
            below["mean"] += found["ipss"].mean() < found["cc"].mean()
            below["median"] += np.median(found["ipss"]) < np.median(found["cc"])
            below["equal"] += found["ipss"].mean() < found["equal"].mean()
        print(
            f"\nIPSS errs less than cc in {below['mean']} of {len(games)} games by the mean, in {below['median']} by the "
            f"median; less than the equal split in {below['equal']}.\n"
        )
    print(f"{arguments.sweep}: mean error, and share of runs below 0.01\n")
    print(f"{'method':12}" + "".join(f"{f'γ = {budget}':>16}" for budget in SWEEP))
    for method in METHODS[:3]:
        table = np.load(arguments.dir / f"{arguments.sweep}.npz")["accuracy"].astype(float)
        swept = [errors(table, method, budget, arguments.seeds // 2) for budget in SWEEP]
        print(f"{method:12}" + "".join(f"{f'{e.mean():.4f} {np.mean(e < 0.01):4.0%}':>16}" for e in swept))


if __name__ == "__main__":
    main()
