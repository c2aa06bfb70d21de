"""A regression: what are eight clinics worth to a model that predicts the course of diabetes, measured by R²?

The scenario is made of arrays. Least squares needs no rounds: all 256 coalitions are solved at once. Then several
methods estimate the values from 32 coalitions, as you would have to with sixty clinics, and their errors are printed.
"""

import numpy as np
from rich.console import Console
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import fedvalue as fv
from fedvalue.learners.least_squares import LeastSquares

SIZES = (80, 60, 50, 40, 30, 20, 10, 10)


def scenario() -> fv.Scenario:
    """Clinics of different sizes; the second one mixed up which patient each result belongs to."""
    x, y = load_diabetes(return_X_y=True)
    # A model without data predicts 0. With centred targets that is the mean, and its R² is about 0.
    y = (y - y.mean()) / y.std()
    train_x, test_x, train_y, test_y = train_test_split(x, y, train_size=sum(SIZES), random_state=0)
    cuts = np.cumsum(SIZES)[:-1]
    xs, ys = np.split(train_x, cuts), np.split(train_y, cuts)
    ys[1] = np.random.default_rng(0).permutation(ys[1])
    return fv.Scenario(
        name="diabetes",
        clients=tuple(fv.Dataset(*data) for data in zip(xs, ys, strict=True)),
        names=tuple(f"clinic-{i}{' (mixed up)' if i == 1 else ''}" for i in range(len(SIZES))),
        test=fv.Dataset(test_x, test_y),
        task="regression",
        classes=0,
    )


def main() -> fv.Values:
    # R² has no lower bound: without the ridge, a model of ten patients is far worse than no model.
    game = fv.FederatedGame(scenario(), LeastSquares(ridge=0.1), metric="r2")
    methods = ["exact", "surrogate", "ipss", "permutation", "equal"]
    results = fv.compare(game, methods, budget=32)
    console = Console()
    console.print(results["exact"].table())
    console.print("\nFrom 32 of the 256 coalitions:")
    for name in methods[1:]:
        error = fv.scoring.relative_l2(results[name], results["exact"])
        skill = fv.scoring.skill(results[name], results["exact"])
        console.print(f"  {name:12} relative error {error:6.1%}   skill {skill:+.2f}")
    console.print("Skill: 1 is exact, 0 is no better than paying everyone the same.")
    return results["exact"]


if __name__ == "__main__":
    main()
