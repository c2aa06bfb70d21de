"""What it costs not to train small coalitions, and to train every coalition with a seed of its own.

    python bench/min_coalition.py [GAMES] [--least 1,2,3] [--budgets 32,64,128] [--runs 4] [--per-game]
    python bench/min_coalition.py GAMES --own-seeds

GAMES is a folder of fully enumerated games. The first command values each by `surrogate` with min_coalition = k, with one
seed, against its exact values:

    error     relative l2, geometric mean over games
    of equal  the same as a part of the error of paying everyone the same
    coverage  how often a 95 % interval holds the exact value, and in the worst game
    width     mean half-width / mean absolute error, median over games (2.5 if errors were normal and all the same)

Games in which a client has no data, or the same as another, are left out: with min_coalition they are refused.

The second takes games whose rows are trainings with other seeds, as in bench/truth.py, against the values of their mean: once
with the trainings spread over seeds as usual, once with a seed for each. There are fewer rows than trainings, so that each
takes its row at random.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fedvalue as fv
from _table import table
from fedvalue.estimators.exact import shapley_values

Array = NDArray[np.float64]
GAMES = Path(__file__).parents[2] / "shared" / "games"
NO_CHOICE = "freeride"  # clients without data and copies


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("games", type=Path, nargs="?", default=GAMES)
    parser.add_argument("--least", default="1,2,3")
    parser.add_argument("--budgets", default="32,64,128")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--own-seeds", action="store_true")
    parser.add_argument("--per-game", action="store_true")
    arguments = parser.parse_args()
    least, budgets = ([int(k) for k in text.split(",")] for text in (arguments.least, arguments.budgets))
    ways = ["shared", "own"] if arguments.own_seeds else [str(k) for k in least]
    judge = of_seeds if arguments.own_seeds else of_least
    games = [path for path in sorted(arguments.games.glob("*.npz")) if NO_CHOICE not in path.stem]
    lines, by_game = [], []
    for way in ways:
        for budget in budgets:
            found = [judge(path, way, budget, arguments.runs) for path in games]
            lines.append([f"{way}", str(budget), *summary(found)])
            by_game += [
                [path.stem, way, str(budget), *summary([one])] for path, one in zip(games, found, strict=True)
            ]
    header = [
        "seeds" if arguments.own_seeds else "at least",
        "γ",
        "error",
        "of equal",
        "coverage",
        "worst",
        "width",
    ]
    print(table(header, lines))
    if arguments.per_game:
        print(table(["game", *header], by_game))


def summary(found: Sequence[Array]) -> list[str]:
    error, equal, held, width = np.array(found).T
    means = np.exp(np.log(error).mean()), np.exp(np.log(error / equal).mean())
    return [
        f"{means[0]:.4f}",
        f"{means[1]:.2f}",
        f"{held.mean():.3f}",
        f"{held.min():.2f}",
        f"{np.median(width):.1f}",
    ]


def of_least(path: Path, way: str, budget: int, runs: int) -> Array:
    """Error, error of the equal split, coverage and width of one game without coalitions smaller than k."""
    with np.load(path) as arrays:
        utilities = arrays["accuracy"].astype(float)
    truth = shapley_values(utilities.size.bit_length() - 1, utilities)
    game = fv.TableGame(utilities)

    def valued(run: int) -> fv.Values:
        return fv.value(game, "surrogate", budget=budget, seed=run, min_coalition=int(way))

    return _judged(truth, valued, runs)


def of_seeds(path: Path, way: str, budget: int, runs: int) -> Array:
    """The same of a game trained with several seeds, against the values of its mean."""
    with np.load(path) as arrays:
        rows = arrays["accuracy"].astype(float)
    rows[:, 0] = rows[:, 0].mean()
    n = rows.shape[1].bit_length() - 1
    truth = shapley_values(n, rows.mean(0))

    def valued(run: int) -> fv.Values:
        rng = np.random.default_rng(run)
        if way == "own":
            again = fv.TableGame(rows[rng.integers(len(rows), size=budget)])
            return fv.value(again, "surrogate", budget=budget, seed=run, own_seeds=True)
        return fv.value(fv.TableGame(rows[rng.permutation(len(rows))]), "surrogate", budget=budget, seed=run)

    return _judged(truth, valued, runs)


def _judged(truth: Array, valued: Callable[[int], fv.Values], runs: int) -> Array:
    errors, held, widths = [], [], []
    for run in range(runs):
        values = valued(run)
        interval = values.interval()
        assert interval is not None
        apart = np.abs(values.mean - truth)
        errors.append(np.linalg.norm(apart) / np.linalg.norm(truth))
        held.append(((interval[:, 0] <= truth) & (truth <= interval[:, 1])).mean())
        widths.append((interval[:, 1] - interval[:, 0]).mean() / 2 / max(apart.mean(), 1e-12))
    equal = np.linalg.norm(truth - truth.mean()) / np.linalg.norm(truth)
    return np.array([np.mean(errors), equal, np.mean(held), np.mean(widths)])


if __name__ == "__main__":
    main()
