"""The table behind `fedvalue plan`: how accurate the surrogate is, by number of clients and coalitions.

    python bench/advice.py DIR… --seeds 3 --out src/fedvalue/advice/accuracy.csv

Each DIR holds fully enumerated games: .npz files as `accuracy.py` takes them, and stores (.db) such as
`fedvalue reproduce` and `fedvalue run` leave behind, of which every game counts whose coalitions were all
trained, by ten clients or more. Every game is played with ten of its clients, evenly chosen, and again with fewer:
who stays away is just never asked. So every number of clients is measured on the same games.

Budgets are 2 + x·n coalitions, the same x for every n. A method's error on a game is its mean relative l2
error over the seeds; the table has the surrogate's geometric mean over the games and the bounds between which four of
five games lie. Other methods are played, too, and printed beside it. Then it is printed how well
`fedvalue.advice.expected` would have foretold each number of clients from the others; and, on the games that have more
than ten clients, how the error there compares with what ten of the same clients foretell.

    python bench/advice.py DIR… --expected --seeds 8 --out src/fedvalue/advice/expected.csv

measures errors against the values of the expected utility instead, on games whose `accuracy` has a row for each of many
trainings (`_expected.py` says how), and prints how well each game is foretold by the others.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedvalue as fv
from _expected import Played, play_again, read_again
from _table import table
from fedvalue.advice import (
    COLUMNS,
    EXPECTED_COLUMNS,
    SEVERAL_SEEDS,
    Cell,
    ExpectedCell,
    against_expected,
    expected,
)

CHOSEN = "surrogate"
METHODS = [CHOSEN, "ipss-balanced", "ipss", "cc-paired", "stratified-mc", "permutation", "loo", "equal"]
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
    parser.add_argument("--expected", action="store_true", help="against the values of the expected utility")
    arguments = parser.parse_args()
    if arguments.expected:
        return _measure_expected(arguments)
    tables = {name: utilities for d in arguments.dirs for name, utilities in read_games(d, arguments.metric)}
    if not tables:
        print(f"No complete game with {arguments.metric!r} was found.", file=sys.stderr)
        return 2
    tasks = [(name, _among(t, n), arguments.seeds) for name, t in tables.items() for n in _sizes(t)]
    tasks.sort(key=lambda task: -len(task[1]))
    with ProcessPoolExecutor(arguments.processes) as pool:
        runs = [run for found in pool.map(play, *zip(*tasks, strict=True)) for run in found]
    chosen = [run for run in runs if run.method == CHOSEN]
    cells = summary(run for run in chosen if run.clients in CLIENTS)
    _write(arguments.out, COLUMNS, cells)
    print(f"{len(tables)} games, {arguments.seeds} seeds. Relative l2 error, geometric mean over games\n")
    for n in CLIENTS:
        print(_table_of(n, runs), "\n")
    print(f"{CHOSEN}, foretold from the other numbers of clients: error of the foretold error, as a factor\n")
    print(_foretold(cells))
    print(f"\n{CHOSEN} with more clients: error relative to what ten of them foretell\n")
    print(_beyond(chosen))
    return 0


def _measure_expected(arguments: argparse.Namespace) -> int:
    games = [game for d in arguments.dirs for game in read_again(d, arguments.metric)]
    if not games:
        print(f"No game with rows of {arguments.metric!r} for several seeds was found.", file=sys.stderr)
        return 2
    tasks = [(g, n, arguments.seeds) for n in CLIENTS[::-1] for g in games if 1 << n <= g.rows.shape[1]]
    with ProcessPoolExecutor(arguments.processes) as pool:
        runs = [run for found in pool.map(play_again, *zip(*tasks, strict=True)) for run in found]
    cells = summary_expected(runs)
    _write(arguments.out, EXPECTED_COLUMNS, cells)
    print(f"{len(games)} games, {arguments.seeds} runs. Against the values of the expected utility\n")
    print(_expected_table(cells))
    print("\nEach game foretold by the others: error of the foretold error, as a factor\n")
    print(_foretold_games(runs))
    print("\nEach number of clients foretold by the others, likewise\n")
    print(_foretold_clients(cells))
    return 0


def _write(out: Path | None, columns: Sequence[str], cells: Iterable[Sequence[Any]]) -> None:
    if out is None:
        return
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_text(value) for value in cell] for cell in cells)


def summary_expected(runs: Iterable[Played]) -> list[ExpectedCell]:
    """The rows of the table, from what the games came to."""
    found: dict[tuple[str, int, int], list[Played]] = defaultdict(list)
    for run in runs:
        found[run[:3]].append(run)
    return [
        ExpectedCell(
            *key,
            len(of),
            *_middle([run.error for run in of]),
            *_middle([run.error / run.equal for run in of]),
            float(np.mean([run.luck for run in of])),
            _middle([run.test_row for run in of if run.test_row is not None] or [math.nan])[0],
        )
        for key, of in sorted(found.items())
    ]


def _expected_table(cells: Sequence[ExpectedCell]) -> str:
    rows = [
        [
            c.plan,
            str(c.clients),
            str(c.budget),
            str(c.games),
            f"{100 * c.error:.2f}",
            f"{100 * c.low:.2f} – {100 * c.high:.2f}",
            f"{1 - c.left:+.2f}",
            f"{c.luck:.0%}",
            f"{100 * c.test_row / math.sqrt(2000):.2f}",
        ]
        for c in cells
    ]
    header = ["plan", "n", "γ", "games", "error %", "four of five", "skill", "luck", "2,000 test rows add %"]
    return table(header, rows)


def _foretold_games(runs: Sequence[Played]) -> str:
    """Left out one after the other: the error itself, and where the error of the equal split is known."""
    errors, lefts = [], []
    for game in sorted({run.game for run in runs}):
        others = summary_expected(run for run in runs if run.game != game)
        for run in runs:
            if run.game == game and run.plan == SEVERAL_SEEDS:
                foretold = against_expected(run.clients, run.budget, cells=others)
                errors.append(abs(math.log(foretold.error / run.error)))
                lefts.append(abs(math.log((1 - foretold.skill) * run.equal / run.error)))
    return _misses({"error": errors, "from the equal split's": lefts})


def _foretold_clients(cells: Sequence[ExpectedCell]) -> str:
    misses = []
    for n in CLIENTS[1:-1]:
        others = [cell for cell in cells if cell.clients != n]
        for cell in cells:
            if cell.clients == n and cell.plan == SEVERAL_SEEDS:
                foretold = against_expected(n, cell.budget, cells=others).error
                misses.append(abs(math.log(foretold / cell.error)))
    return _misses({"error": misses})


def _misses(of: Mapping[str, Sequence[float]]) -> str:
    rows = [
        [name, *(f"{math.exp(np.percentile(m, p)):.2f}" for p in (50, 90, 100))] for name, m in of.items()
    ]
    return table(["", "median", "90 %", "largest"], rows)


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
    of_equal = fv.scoring.relative_l2(np.full(game.n, truth.mean()), truth)
    if not of_equal > 1e-9:  # all are worth the same: nothing to be found out
        return []
    runs = []
    for budget in budgets(game.n):
        for method in METHODS:
            try:
                errors = [
                    fv.scoring.relative_l2(fv.value(game, method, budget, seed).mean, truth)
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
    """The rows of the table, from the runs of one method."""
    found: dict[tuple[int, int], list[Run]] = defaultdict(list)
    for run in runs:
        found[run.clients, run.coalitions].append(run)
    return [
        Cell(*key, len(of), *_middle([run.error for run in of]), *_middle([run.left for run in of]))
        for key, of in sorted(found.items())
    ]


def _middle(numbers: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean, and the bounds that four of five lie between."""
    low, high = np.percentile(numbers, MIDDLE)
    return math.exp(float(np.mean(np.log(numbers)))), float(low), float(high)


def _text(value: int | float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table_of(n: int, runs: Sequence[Run]) -> str:
    """The mean error of every method, by budget."""
    rows = []
    for method in METHODS:
        cells = summary(run for run in runs if (run.method, run.clients) == (method, n))
        errors = {cell.coalitions: f"{cell.error:.4f}" for cell in cells}
        rows.append([method, *(errors.get(budget, "–") for budget in budgets(n))])
    games = len({run.game for run in runs if run.clients == n})
    return table([f"n={n}, {games} games", *(f"γ={budget}" for budget in budgets(n))], rows)


def _foretold(cells: Sequence[Cell]) -> str:
    """Over all numbers of clients between two others: by which factor the foretold error misses."""
    misses = []
    for n in CLIENTS[1:-1]:
        others = [cell for cell in cells if cell.clients != n]
        for cell in cells:
            if cell.clients == n:
                foretold = expected(n, cell.coalitions, others).error
                misses.append(abs(math.log(foretold / cell.error)))
    return table(
        ["median", "90 %", "largest"], [[f"{math.exp(np.percentile(misses, p)):.2f}" for p in (50, 90, 100)]]
    )


def _beyond(runs: Sequence[Run]) -> str:
    """For every number of clients beyond the table: the factor over what ten clients foretell."""
    rows = []
    for n in MORE:
        factors, games = [], {run.game for run in runs if run.clients == n}
        for game in games:
            mine = [run for run in runs if run.game == game]
            few = [_alone(run) for run in mine if run.clients == max(CLIENTS)]
            more = [run for run in mine if run.clients == n]
            factors += [run.error / expected(n, run.coalitions, few).error for run in more]
        if factors:
            mean, low, high = _middle(factors)
            rows.append([str(n), str(len(games)), f"{mean:.2f}", f"{low:.2f} – {high:.2f}"])
    return table(["clients", "games", "mean factor", "four of five cases"], rows)


def _alone(run: Run) -> Cell:
    return Cell(run.clients, run.coalitions, 1, *[run.error] * 3, *[run.left] * 3)


if __name__ == "__main__":
    sys.exit(main())
