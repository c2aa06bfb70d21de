"""The table behind `fedvalue plan`: how accurate each method is by number of clients and coalitions.

    python bench/advice.py DIR… --seeds 3 --out src/fedvalue/accuracy.csv

Each DIR holds fully enumerated games: .npz files as `accuracy.py` takes them, and stores (.db) such as
`fedvalue reproduce` and `fedvalue run` leave behind, of which every game counts whose coalitions were all
trained, by ten clients or more. Every game is played with ten of its clients, evenly chosen, and again with fewer:
who stays away is just never asked. So every number of clients is measured on the same games.

Budgets are 2 + x·n coalitions, the same x for every n. A method's error on a game is its mean relative l2
error over the seeds; the table has the geometric mean over the games and the bounds between which four of five
games lie. Then it is printed how well `fedvalue.accuracy` would have foretold each number of clients from the
others, with the coordinate that it uses and with coalitions per client; and, on the games that have more than ten
clients, how the error there compares with what ten of the same clients foretell.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedvalue as fv
from _table import table
from fedvalue.accuracy import COLUMNS, Cell, expected, position

METHODS = ["surrogate", "ipss-balanced", "ipss", "cc", "stratified-mc", "permutation", "loo", "equal"]
CLIENTS = [3, 4, 6, 8, 10]
MORE = [12, 14, 16]  # not in the table: too few games have so many
PER_CLIENT = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32]
MIDDLE = (10, 90)  # percentiles of the games: four of five lie between them


class Run(NamedTuple):
    """A method's mean error on a game at a budget, and in parts of the equal split's."""

    method: str
    clients: int
    coalitions: int
    game: str
    error: float
    left: float


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dirs", type=Path, nargs="+", metavar="DIR", help="folders with .npz and .db files")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--metric", default="accuracy", help="array or metric that is the utility")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the table goes, as CSV")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    tables = {name: utilities for d in arguments.dirs for name, utilities in read_games(d, arguments.metric)}
    if not tables:
        print(f"No complete game with {arguments.metric!r} was found.", file=sys.stderr)
        return 2
    tasks = [(name, _among(t, n), arguments.seeds) for name, t in tables.items() for n in _sizes(t)]
    tasks.sort(key=lambda task: -len(task[1]))
    with ProcessPoolExecutor(arguments.processes) as pool:
        runs = [run for found in pool.map(play, *zip(*tasks, strict=True)) for run in found]
    cells = summary(run for run in runs if run.clients in CLIENTS)
    if arguments.out:
        with arguments.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows([_text(value) for value in cell] for cell in cells)
    print(f"{len(tables)} games, {arguments.seeds} seeds. Relative l2 error, geometric mean over games\n")
    for n in sorted({cell.clients for cell in cells}):
        print(_table_of(n, cells), "\n")
    print("Foretold from the other numbers of clients: error of the foretold error, as a factor\n")
    print(_foretold(cells))
    print("\nError with more clients, relative to what ten of them foretell (geometric mean, 10 %, 90 %)\n")
    print(_beyond(runs))
    return 0


def read_games(folder: Path, metric: str) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Names and utilities of the complete games of a folder."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            if metric in arrays and arrays[metric].ndim == 1:
                yield path.stem, arrays[metric].astype(np.float64)
    for path in sorted(folder.glob("*.db")):
        with fv.UtilityStore(path, create=False) as store:
            for game in store.games():
                if game.coalitions != 1 << game.n or game.n < max(CLIENTS):
                    continue
                outcomes = store.read(game.id)
                if all(metric in outcome.metrics for outcome in outcomes.values()):
                    yield game.id, np.array([outcomes[m].metrics[metric] for m in range(1 << game.n)])


def _sizes(utilities: NDArray[np.float64]) -> list[int]:
    return [n for n in CLIENTS + MORE if 1 << n <= len(utilities)]


def _among(utilities: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """The game in which only n of the clients can take part."""
    everyone = len(utilities).bit_length() - 1
    chosen = np.rint(np.linspace(0, everyone - 1, n)).astype(np.int64)
    masks = np.arange(1 << n)
    return utilities[sum((masks >> j & 1) << int(i) for j, i in enumerate(chosen))]


def play(name: str, utilities: NDArray[np.float64], seeds: int) -> list[Run]:
    """Every method at every budget on one game."""
    game = fv.TableGame(utilities)
    truth = fv.value(game, "exact").mean
    of_equal = fv.metrics.relative_l2(np.full(game.n, truth.mean()), truth)
    if not of_equal > 1e-9:  # all are worth the same: nothing to be found out
        return []
    runs = []
    for budget in budgets(game.n):
        for method in METHODS:
            try:
                errors = [
                    fv.metrics.relative_l2(fv.value(game, method, budget, seed).mean, truth)
                    for seed in range(1 if method in ("equal", "loo") else seeds)
                ]
            except fv.BudgetError:
                continue
            error = max(float(np.mean(errors)), 1e-6)  # of rounding, where a game has ties
            runs.append(Run(method, game.n, budget, name, error, error / of_equal))
    return runs


def budgets(n: int) -> list[int]:
    """From the empty and the grand coalition alone to 32 more for every client, short of all coalitions."""
    return sorted({g for x in PER_CLIENT if (g := 2 + round(x * n)) < 1 << n})


def summary(runs: Iterable[Run]) -> list[Cell]:
    """The rows of the table."""
    found: dict[tuple[str, int, int], list[Run]] = defaultdict(list)
    for run in runs:
        found[run.method, run.clients, run.coalitions].append(run)
    return [
        Cell(*key, len(of), *_middle([run.error for run in of]), *_middle([run.left for run in of]))
        for key, of in sorted(found.items(), key=lambda item: (METHODS.index(item[0][0]), item[0][1:]))
    ]


def _middle(numbers: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean, and the bounds that four of five lie between."""
    low, high = np.percentile(numbers, MIDDLE)
    return math.exp(float(np.mean(np.log(numbers)))), float(low), float(high)


def _text(value: str | int | float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table_of(n: int, cells: Sequence[Cell]) -> str:
    found = {(cell.method, cell.coalitions): cell for cell in cells if cell.clients == n}
    games = max(cell.games for cell in found.values())
    rows = [
        [method, *(f"{c.error:.4f}" if (c := found.get((method, g))) else "–" for g in budgets(n))]
        for method in METHODS
    ]
    return table([f"n={n}, {games} games", *(f"γ={g}" for g in budgets(n))], rows)


def _foretold(cells: Sequence[Cell]) -> str:
    """For every number of clients between two others: by which factor the foretold error misses."""
    numbers = sorted({cell.clients for cell in cells})
    rows = []
    for method in METHODS:
        row = [method]
        for scale in (position, per_client):
            misses = [
                abs(math.log(expected(method, c.clients, c.coalitions, others, scale).error / c.error))
                for n in numbers[1:-1]
                for others in [tuple(cell for cell in cells if cell.clients != n)]
                for c in cells
                if c.method == method and c.clients == n
            ]
            row += [f"{math.exp(float(np.percentile(misses, p))):.2f}" for p in (50, 90, 100)]
        rows.append(row)
    return table(["method", "n ln n: median", "90 %", "largest", "n: median", "90 %", "largest"], rows)


def per_client(clients: int, coalitions: int) -> float:
    """The rival of `position`."""
    return math.log1p(max(0, coalitions - 2) / clients)


def _beyond(runs: Sequence[Run]) -> str:
    """For every method and number of clients beyond the table: the factor over what ten clients foretell."""
    rows = []
    for method in METHODS:
        row = [method]
        for n in MORE:
            factors, games = [], {run.game for run in runs if run.clients == n}
            for game in games:
                mine = [run for run in runs if (run.game, run.method) == (game, method)]
                few = tuple(_alone(run) for run in mine if run.clients == max(CLIENTS))
                more = [run for run in mine if run.clients == n]
                factors += [r.error / expected(method, n, r.coalitions, few).error for r in more]
            low, high = np.percentile(factors, MIDDLE) if factors else (math.nan, math.nan)
            mean = math.exp(float(np.mean(np.log(factors)))) if factors else math.nan
            row.append(f"{mean:.2f} ({low:.2f}, {high:.2f})")
        rows.append(row)
    counts = [len({run.game for run in runs if run.clients == n}) for n in MORE]
    return table(["method", *(f"n={n}, {c} games" for n, c in zip(MORE, counts, strict=True))], rows)


def _alone(run: Run) -> Cell:
    return Cell(run.method, run.clients, run.coalitions, 1, *[run.error] * 3, *[run.left] * 3)


if __name__ == "__main__":
    sys.exit(main())
