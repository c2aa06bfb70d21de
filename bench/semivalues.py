"""How well the surrogate estimates other semivalues than Shapley's, and whether their intervals hold.

    python bench/semivalues.py [GAMES] [--budgets 32,64,128] [--runs 2] [--per-game]
    python bench/semivalues.py --clients 50,200 [--runs 2]

GAMES is a folder of fully enumerated games, valued against their exact semivalues. With --clients, games are made up instead of
three kinds of clients, of which the best have more or better data and the worst may do harm: v saturates in what takes part, every
training has an error of its own, and n may be large, since exact semivalues are sums over how many of each kind take part.

    error     relative l2, geometric mean over games
    apart     the same after the mean of all clients is taken off, by what is left of the exact values: who is worth more
    coverage  how often a 95 % interval holds the exact value, and in the worst game
    width     mean half-width / mean absolute error, median over games
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fedvalue as fv
from _table import table
from fedvalue.by_size import BySize
from fedvalue.coalitions import full_mask, mask_of
from fedvalue.indices import read_index

Array = NDArray[np.float64]
GAMES = Path(__file__).parents[2] / "shared" / "games"
INDICES = ("shapley", "banzhaf", "beta(4,1)", "beta(16,1)", "beta(1,4)", "beta(1,16)", "leave-one-out")
NOISE = 0.003


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("games", type=Path, nargs="?", default=GAMES)
    parser.add_argument("--budgets", default="32,64,128")
    parser.add_argument("--clients", default="")
    parser.add_argument("--indices", default=";".join(INDICES), help="separated by semicolons")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--per-game", action="store_true")
    arguments = parser.parse_args()
    lines, by_game = [], []
    for name in arguments.indices.split(";"):
        for label, judged in _cases(arguments, name):
            lines.append([name, label, *summary([found for _, found in judged])])
            by_game += [[game, name, label, *summary([found])] for game, found in judged]
    header = ["index", "γ", "error", "apart", "coverage", "worst", "width"]
    print(table(header, lines))
    if arguments.per_game:
        print(table(["game", *header], by_game))


def _cases(arguments: argparse.Namespace, name: str) -> Sequence[tuple[str, list[tuple[str, Array]]]]:
    """For every budget its label, and the games with what was measured."""
    if arguments.clients:
        sizes = [int(n) for n in arguments.clients.split(",")]
        return [
            (
                f"{4 * n} (n = {n})",
                [(f"seed {seed}", of_kinds(n, seed, name, 4 * n)) for seed in range(arguments.runs)],
            )
            for n in sizes
        ]
    games = sorted(arguments.games.glob("*.npz"))
    return [
        (budget, [(path.stem, of_table(path, name, int(budget), arguments.runs)) for path in games])
        for budget in arguments.budgets.split(",")
    ]


def of_table(path: Path, name: str, budget: int, runs: int) -> Array:
    with np.load(path) as arrays:
        utilities = arrays["accuracy"].astype(float)
    game = fv.TableGame(utilities)
    truth = fv.value(game, "exact", index=name).mean
    return judged(truth, lambda run: fv.value(game, "surrogate", budget, run, index=name), runs)


def of_kinds(n: int, seed: int, name: str, budget: int) -> Array:
    """A made-up game of three kinds of clients."""
    rng = np.random.default_rng(seed)
    kind = rng.permutation(np.arange(n) % 3)
    brings = np.array([rng.uniform(1.5, 3), 1.0, rng.uniform(-0.3, 0.5)])
    reach, power = rng.uniform(0.05, 0.5) * n, rng.uniform(0.5, 2)

    def smooth(amount: Array) -> Array:
        curve: Array = 0.1 + 0.8 * (1 - (1 + np.maximum(amount, 0) / reach) ** -power)
        return curve

    def utility(clients: Sequence[int]) -> float:
        luck = np.random.default_rng([seed, *mask_of(clients).to_bytes(n // 8 + 1, "little")])
        return float(smooth(brings[kind[list(clients)]].sum())) + luck.normal(0, NOISE)

    by_size = read_index(name).weights(n)
    assert isinstance(by_size, BySize)
    truth = exact_of_kinds(by_size, kind, brings, smooth)
    whole = full_mask(
        n
    )  # errors matter where a size has few coalitions; of others the mean is next to nothing
    ends = [0, *(1 << i for i in range(n)), *(whole ^ 1 << i for i in range(n)), whole]
    members = [tuple(i for i in range(n) if mask >> i & 1) for mask in ends]
    errors = np.array([utility(of) - float(smooth(np.array(brings[kind[list(of)]].sum()))) for of in members])
    inside = np.array([[i in of for i in range(n)] for of in map(set, members)])
    size = inside.sum(1)
    weight = np.append(by_size.of_coalition, 0.0)
    truth = truth + errors @ np.where(inside, weight[size - 1][:, None], -weight[size][:, None])
    game = fv.FunctionGame(n, utility, batch=False)
    return judged(truth, lambda run: fv.value(game, "surrogate", budget, run, index=name), 1)


def exact_of_kinds(
    by_size: BySize, kind: NDArray[np.intp], brings: Array, smooth: Callable[[Array], Array]
) -> Array:
    """Sums over how many of each kind are among the others: so many coalitions are alike."""
    of_kind = np.zeros(len(brings))
    for k in range(len(brings)):
        others = np.bincount(kind, minlength=len(brings))
        others[k] -= 1
        counts = np.array(list(itertools.product(*(range(count + 1) for count in others))))
        amount, size = counts @ brings, counts.sum(1)
        log_chance = sum(_log_choose(others[j])[counts[:, j]] for j in range(len(brings)))
        log_chance -= _log_choose(int(others.sum()))[size]
        adds = smooth(amount + brings[k]) - smooth(amount)
        of_kind[k] = (by_size.chance[size] * np.exp(log_chance) * adds).sum()
    return of_kind[kind]


def _log_choose(n: int) -> Array:
    steps = np.arange(n)
    return np.append(0.0, np.cumsum(np.log((n - steps) / (steps + 1))))


def judged(truth: Array, valued: Callable[[int], fv.Values], runs: int) -> Array:
    """Error, error of who is worth more, coverage and width of one game."""
    found = []
    for run in range(runs):
        values = valued(run)
        interval = values.interval()
        assert interval is not None
        off = values.mean - truth
        found.append(
            [
                np.linalg.norm(off) / np.linalg.norm(truth),
                np.linalg.norm(off - off.mean()) / np.linalg.norm(truth - truth.mean()),
                ((interval[:, 0] <= truth) & (truth <= interval[:, 1])).mean(),
                (interval[:, 1] - interval[:, 0]).mean() / 2 / max(np.abs(off).mean(), 1e-12),
            ]
        )
    return np.mean(found, axis=0)


def summary(found: Sequence[Array]) -> list[str]:
    error, apart, held, width = np.array(found).T
    means = [f"{np.exp(np.log(np.maximum(part, 1e-6)).mean()):.4f}" for part in (error, apart)]
    return [*means, f"{held.mean():.3f}", f"{held.min():.2f}", f"{np.median(width):.1f}"]


if __name__ == "__main__":
    main()
