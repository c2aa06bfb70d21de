"""How accurate every method is for the same number of evaluated coalitions.

    python bench/accuracy.py DIR --budgets 16,32,64,128 --seeds 20

DIR holds fully enumerated games: .npz files with an array of 2**n utilities, entry m for the coalition with
bitmask m. Every registered method that is not exact (or those of --methods) runs on every game, budget and seed,
against the exact values. A budget such as 3n stands for 2 + 3n coalitions, for games of different size. A method's error on a game is its mean relative l2 error over the seeds; over games the
geometric mean is taken, so that no game counts more because it is harder. Skill is
1 − error / error of the equal split (0: no better than paying everyone the same), over games likewise.

Methods with standard errors get a second table: in which share of the runs there was a 95 % interval, how
often it held the true value (mean over games, and the worst game), and its half-width relative to the mean
absolute error (about 2.5 where errors are normal and the interval is neither too wide nor too narrow).

With --peers the estimators of shapiq and pyDVL run too, all that are installed or those that are named; `peers.py` says how
they are kept to the budget, and `--apart` what they are helped with. Further tables then say what each took, set `surrogate` (or
the first of --methods) against the best peer in each game, and our methods against their namesakes: ratio of the errors above,
± 95 % from the spread over seeds (jackknife); below 1 ours is the more accurate.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedvalue as fv
from _peer_tables import best_peer_table, namesake_table, seconds_table
from _table import table
from peers import PEERS, installed_peers, missing_packages, peer_values

LEVEL = 0.95


class Case(NamedTuple):
    """A game and its exact values."""

    name: str
    game: fv.TableGame
    truth: NDArray[np.float64]


class Score(NamedTuple):
    """One run of one method, its CPU seconds included. The last three are None where the run gave no interval."""

    game: str
    method: str
    budget: str
    seed: int
    error: float
    skill: float
    seconds: float
    covered: float | None = None
    half_width: float | None = None
    absolute_error: float | None = None


@dataclass(frozen=True)
class Summary:
    """What the runs of a method at a budget amount to."""

    error: float
    skill: float
    with_interval: float
    coverage: float | None
    worst_coverage: float | None
    width_per_error: float | None


def main() -> int:
    arguments = _arguments()
    peers = [] if arguments.peers is None else arguments.peers or installed_peers()
    wrong = _wrong_peers(peers)
    if wrong:
        print(wrong, file=sys.stderr)
        return 2
    cases = load_cases(arguments.dir, arguments.array)
    if not cases:
        print(f"No .npz file in {arguments.dir} holds 2**n numbers as {arguments.array!r}.", file=sys.stderr)
        return 2
    ours = arguments.methods or [m.name for m in fv.methods() if m.guarantee != "exact" and not m.view]
    names = ours + peers
    run = partial(
        scores_of, arguments.dir, arguments.array, ours, peers, arguments.slow_seeds, arguments.apart
    )
    # Large budgets take longest, so they come first.
    tasks = [(budget, seed) for budget in reversed(arguments.budgets) for seed in range(arguments.seeds)]
    scores = list(_in_parallel(run, tasks, arguments.processes))

    note = f"{arguments.array}, mean of {arguments.seeds} seeds"
    if arguments.per_game:
        for case in cases:
            of_game = summaries(score for score in scores if score.game == case.name)
            print(f"{case.name}: relative l2 error and skill ({note})\n")
            print(_accuracy_table(of_game, names, arguments.budgets), "\n")
    overall = summaries(scores)
    print(f"Relative l2 error and skill, geometric mean over {len(cases)} games ({note})\n")
    print(_accuracy_table(overall, names, arguments.budgets))
    print("\n–: the method needs a larger budget\n")
    slow = [name for name in peers if PEERS[name].slow]
    if slow and arguments.slow_seeds < arguments.seeds:
        print(f"{', '.join(slow)}: {arguments.slow_seeds} of the {arguments.seeds} seeds\n")
    print(f"{LEVEL:.0%} intervals of the methods that have them\n")
    print(_interval_table(overall, names, arguments.budgets))
    if peers:
        errors = {(s.method, s.budget, s.game, s.seed): s.error for s in scores}
        print("\nCPU seconds of a run, median (of the method alone: no training)\n")
        seconds = {(s.method, s.budget, s.game, s.seed): s.seconds for s in scores}
        print(seconds_table(seconds, names, arguments.budgets))
        print(
            f"\nError of {ours[0]} relative to the best peer in each game (below 1: ours is more accurate)\n"
        )
        print(best_peer_table(errors, ours[0], peers, arguments.budgets))
        namesakes = namesake_table(errors, arguments.budgets)
        if namesakes:
            print("\nError relative to the namesake in a peer (below 1: ours is more accurate)\n")
            print(namesakes)
    if arguments.json:
        report = {"games": [case.name for case in cases], "array": arguments.array, "seeds": arguments.seeds}
        arguments.json.write_text(json.dumps(report | _plain(overall, scores), indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dir", type=Path, metavar="DIR", help="folder with .npz games")
    parser.add_argument("--budgets", type=_listed, default=_listed("16,32,64,128"), metavar="γ,γ,…")
    parser.add_argument(
        "--methods", type=_listed, metavar="NAME,NAME,…", help="default: all that are not exact"
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--array", default="accuracy", help="which array of the files is the utility")
    parser.add_argument(
        "--peers",
        type=_listed,
        nargs="?",
        const=[],
        metavar="NAME,NAME,…",
        help="also run shapiq and pyDVL; by name, only these",
    )
    parser.add_argument(
        "--slow-seeds", type=int, default=2, help="seeds of peers that take seconds a run (default 2)"
    )
    parser.add_argument(
        "--apart",
        action="store_true",
        help="give peers a game without the step from ∅, and add it afterwards",
    )
    parser.add_argument(
        "--per-game", action="store_true", help="a table for each game before the overall one"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write summaries, overall and per game")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def _wrong_peers(names: Sequence[str]) -> str:
    """What keeps these peers from running, in a sentence; nothing where nothing does."""
    if names and missing_packages():
        return (
            f"--peers needs {' and '.join(missing_packages())}. Run `make peers`, then use "
            ".venv-peers/bin/python; or: pip install -e '.[peers]'."
        )
    unknown = [name for name in names if name not in installed_peers()]
    if unknown:
        return f"Not among the peers that are installed: {', '.join(unknown)}. There are {', '.join(installed_peers())}."
    return ""


def _listed(text: str) -> list[str]:
    return text.split(",")


def coalitions(budget: str, n: int) -> int:
    """How many coalitions a budget means for n clients: 24, or 2.2n beside the empty and the grand one."""
    return 2 + round(float(budget[:-1]) * n) if budget.endswith("n") else int(budget)


@lru_cache(maxsize=1)
def load_cases(folder: Path, array: str) -> list[Case]:
    """The fully enumerated games of a folder with their exact values."""
    cases = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            utilities = arrays[array] if array in arrays else np.zeros(0)
        if utilities.ndim == 1 and len(utilities) > 1 and not len(utilities) & (len(utilities) - 1):
            game = fv.TableGame(utilities)
            cases.append(Case(path.stem, game, fv.value(game, "exact").mean))
    return cases


def scores_of(
    folder: Path,
    array: str,
    methods: Sequence[str],
    peers: Sequence[str],
    slow_seeds: int,
    apart: bool,
    budget: str,
    seed: int,
) -> list[Score]:
    """All methods on all games, at one budget and with one seed."""
    scores = []
    for case in load_cases(folder, array):
        count = coalitions(budget, case.game.n)
        for name in methods:
            began = time.process_time()
            try:
                found = fv.value(case.game, name, count, seed)
            except fv.BudgetError:
                continue
            seconds = time.process_time() - began
            scores.append(_score(case, name, budget, seed, seconds, found.mean, found.interval(LEVEL)))
        for name in peers:
            if PEERS[name].slow and seed >= slow_seeds:
                continue
            result = peer_values(name, case.game.utilities, count, seed, apart=apart)
            if result is not None:
                scores.append(_score(case, name, budget, seed, result.seconds, result.values, None))
    return scores


def _score(
    case: Case,
    method: str,
    budget: str,
    seed: int,
    seconds: float,
    mean: NDArray[np.float64],
    interval: NDArray[np.float64] | None,
) -> Score:
    error, skill = fv.scoring.relative_l2(mean, case.truth), fv.scoring.skill(mean, case.truth)
    score = Score(case.name, method, budget, seed, error, skill, seconds)
    if interval is None:
        return score
    distance = np.abs(mean - case.truth)
    half_width = (interval[:, 1] - interval[:, 0]) / 2
    rounding = 1e-12 * np.abs(case.truth).max()
    return score._replace(
        covered=float((distance <= half_width + rounding).mean()),
        half_width=float(half_width.mean()),
        absolute_error=float(distance.mean()),
    )


def _in_parallel(run: Any, tasks: Sequence[tuple[str, int]], processes: int) -> Iterator[Score]:
    """The scores of all tasks, with a progress bar where stderr is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    with ProcessPoolExecutor(processes) as pool:
        finished = as_completed([pool.submit(run, *task) for task in tasks])
        for future in track(
            finished,
            "budgets × seeds",
            total=len(tasks),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        ):
            yield from future.result()


def summaries(scores: Iterable[Score]) -> dict[tuple[str, str], Summary]:
    """Summaries by method and budget."""
    by_game: dict[tuple[str, str], dict[str, list[Score]]] = defaultdict(lambda: defaultdict(list))
    for score in sorted(scores, key=lambda score: score[:4]):
        by_game[score.method, score.budget][score.game].append(score)
    return {key: _summary(list(games.values())) for key, games in by_game.items()}


def _summary(games: list[list[Score]]) -> Summary:
    """Mean over the runs of each game, then over the games."""
    runs = [score for game in games for score in game]
    with_interval = [score for score in runs if score.covered is not None]
    coverages = [
        _mean(covered)
        for game in games
        if (covered := [score.covered for score in game if score.covered is not None])
    ]
    width = sum(score.half_width or 0.0 for score in with_interval)
    error = sum(score.absolute_error or 0.0 for score in with_interval)
    return Summary(
        error=_geometric_mean([_mean(score.error for score in game) for game in games]),
        skill=1 - _geometric_mean([1 - _mean(score.skill for score in game) for game in games]),
        with_interval=len(with_interval) / len(runs),
        coverage=_mean(coverages) if coverages else None,
        worst_coverage=min(coverages, default=None),
        width_per_error=width / error if error else None,
    )


def _mean(numbers: Iterable[float]) -> float:
    return float(np.mean(list(numbers)))


def _geometric_mean(numbers: Iterable[float]) -> float:
    with np.errstate(divide="ignore"):  # an error of exactly 0 makes the mean 0
        return float(np.exp(np.mean(np.log(list(numbers)))))


Summaries = Mapping[tuple[str, str], Summary]


def _accuracy_table(found: Summaries, names: Sequence[str], budgets: Sequence[str]) -> str:
    def cells(name: str) -> Iterator[str]:
        for budget in budgets:
            summary = found.get((name, budget))
            yield f"{summary.error:.4f}" if summary else "–"
            yield f"{summary.skill:+.2f}" if summary else "–"

    header = [title for budget in budgets for title in (f"γ={budget}", "skill")]
    return table(["method", *header], ([name, *cells(name)] for name in names))


def _interval_table(found: Summaries, names: Sequence[str], budgets: Sequence[str]) -> str:
    rows = [
        [
            name,
            budget,
            f"{summary.with_interval:.0%}",
            f"{summary.coverage:.1%}",
            f"{summary.worst_coverage:.1%}",
            "–" if summary.width_per_error is None else f"{summary.width_per_error:.1f}",
        ]
        for name in names
        for budget in budgets
        if (summary := found.get((name, budget))) and summary.coverage is not None
    ]
    header = ["method", "γ", "runs with", "coverage", "worst game", "half-width / |error|"]
    return table(header, rows)


def _plain(overall: Summaries, scores: Sequence[Score]) -> dict[str, Any]:
    """Summaries as plain data; what is not a finite number becomes null."""

    def rows(found: Summaries) -> list[dict[str, Any]]:
        return [
            {"method": method, "budget": budget}
            | {
                key: value if value is None or math.isfinite(value) else None
                for key, value in vars(s).items()
            }
            for (method, budget), s in sorted(found.items())
        ]

    of_game: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        of_game[score.game].append(score)
    return {
        "overall": rows(overall),
        "per_game": {game: rows(summaries(of_game[game])) for game in sorted(of_game)},
    }


if __name__ == "__main__":
    sys.exit(main())
