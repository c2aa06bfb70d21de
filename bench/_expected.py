"""How far a budget's values are from those of the expected utility: what `fedvalue.advice` foretells for several seeds.

A game's table has a row for each seed. It is played by all its clients, and among fewer of them: who stays away is just
never asked, and each run draws others. For an estimate, which is linear in the utilities that it was told, φ̂ = W v,

    coalitions  W v̄ − φ̄: what it would get wrong if there were no luck; v̄ is the mean over all rows, φ̄ its values
    training    W_r (v_r − v̄), independent for each seed r: its expected square, over all rows of the table
    test        W c for the blocks c of test rows, where a table has them: what a single row would err by

The square of luck is averaged over all rows, not only those that were drawn, so that plans with as many seeds as there are
rows are judged like others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedvalue.advice import EQUAL, EXACT, ONE_SEED, SEVERAL_SEEDS
from fedvalue.coalitions import Trial
from fedvalue.estimators.exact import shapley_values
from fedvalue.estimators.surrogate import surrogate
from fedvalue.values import Estimate

PER_CLIENT = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
TEST_ROWS = 2000  # in all blocks together

Array = NDArray[np.float64]


class Again(NamedTuple):
    """A game trained with several seeds; `blocks` are the utilities on parts of the test rows, for one of them."""

    name: str
    rows: Array
    blocks: Array | None

    def among(self, clients: Sequence[int]) -> Again:
        """The game in which only these clients can take part."""
        masks = np.arange(1 << len(clients))
        columns = sum(((masks >> j & 1) << int(i) for j, i in enumerate(clients)), np.zeros_like(masks))
        return Again(
            self.name, self.rows[:, columns], None if self.blocks is None else self.blocks[:, columns]
        )


class Played(NamedTuple):
    """What a plan came to on a game: its error, the equal split's, the share of luck in its square, and a row's error."""

    plan: str
    clients: int
    budget: int
    game: str
    error: float
    equal: float
    luck: float
    test_row: float | None


def read_again(folder: Path, metric: str) -> Iterator[Again]:
    """The games of a folder that were trained with several seeds."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            if metric in arrays and arrays[metric].ndim == 2:
                rows = arrays[metric].astype(np.float64)
                rows[:, 0] = rows[:, 0].mean()  # v(∅) is a mean over untrained models
                yield Again(
                    path.stem, rows, arrays["blocks"].astype(np.float64) if "blocks" in arrays else None
                )


def budgets(n: int) -> list[int]:
    return [max(2, round(x * n)) for x in PER_CLIENT]


def play_again(game: Again, n: int, runs: int) -> list[Played]:
    """Every plan at every budget, among n of the clients, each run among others."""
    found: dict[tuple[str, int], list[Played]] = {}
    everyone = game.rows.shape[1].bit_length() - 1
    for run in range(runs):
        rng = np.random.default_rng(run)
        few = game.among(sorted(rng.choice(everyone, n, replace=False)))
        for played in _play(few, n, run):
            found.setdefault(played[:1] + played[2:3], []).append(played)
    return [_over_runs(of) for of in found.values()]


def _over_runs(of: Sequence[Played]) -> Played:
    rows = [p.test_row for p in of if p.test_row is not None]
    return of[0]._replace(
        error=float(np.mean([p.error for p in of])),
        equal=float(np.mean([p.equal for p in of])),
        luck=float(np.mean([p.luck for p in of])),
        test_row=float(np.mean(rows)) if rows else None,
    )


def _play(game: Again, n: int, run: int) -> Iterator[Played]:
    mean = game.rows.mean(0)
    truth = shapley_values(n, mean)
    length = float(np.linalg.norm(truth))
    equal = float(np.linalg.norm(truth - truth.mean())) / length

    def judged(plan: str, budget: int, weights: Array, trials: Sequence[Trial]) -> Played:
        squares = _squares(game, truth, weights, trials) / length**2
        error = float(np.sqrt(squares[:2].sum()))
        row = None if game.blocks is None else float(np.sqrt(squares[2]))
        return Played(plan, n, budget, game.name, error, equal, float(squares[1]) / error**2, row)

    pot = np.full((n, 2), [-1 / n, 1 / n])  # of which the luck is not counted: it is shared by all
    yield judged(EQUAL, 1, pot, [(0, 0), ((1 << n) - 1, 0)])._replace(error=equal, luck=0.0)
    every = [(mask, 0) for mask in range(1 << n)]
    yield judged(EXACT, 1 << n, np.array([shapley_values(n, unit) for unit in np.eye(1 << n)]).T, every)
    for budget in budgets(n):
        for plan in (SEVERAL_SEEDS, ONE_SEED):
            if plan == ONE_SEED and budget >= 1 << n:
                continue
            estimate, trials = _estimate(game, n, budget, run, 1 if plan == ONE_SEED else None)
            if estimate.linear is not None:
                yield judged(plan, budget, _weights(estimate, len(trials)), trials)


def _estimate(game: Again, n: int, budget: int, run: int, seeds: int | None) -> tuple[Estimate, list[Trial]]:
    rng = np.random.default_rng(run)
    rows = game.rows[rng.permutation(len(game.rows))]
    plan: Any = surrogate(n, budget, rng, seeds=seeds, most_seeds=len(rows))
    trials = [asked if isinstance(asked, tuple) else (asked, 0) for asked in next(plan)]
    try:
        plan.send(np.array([rows[seed, mask] for mask, seed in trials]))
    except StopIteration as done:
        return done.value, trials
    raise AssertionError("the surrogate asks once")


def _weights(estimate: Estimate, count: int) -> Array:
    """W: what each value takes from each utility."""
    assert estimate.linear is not None
    start = estimate.linear(np.zeros(count))
    return np.array([estimate.linear(unit) - start for unit in np.eye(count)]).T


def _squares(game: Again, truth: Array, weights: Array, trials: Sequence[Trial]) -> Array:
    """Squared errors from coalitions that were not trained, from the luck of training, and of a single test row."""
    masks, seeds = np.array([mask for mask, _ in trials]), np.array([seed for _, seed in trials])
    mean, count = game.rows.mean(0), len(game.rows)
    coalitions = float(((weights @ mean[masks] - truth) ** 2).sum())
    luck = 0.0
    for seed in set(seeds.tolist()):
        mine = seeds == seed
        luck += float(((weights[:, mine] @ (game.rows - mean)[:, masks[mine]].T) ** 2).sum()) / (count - 1)
    if game.blocks is None:
        return np.array([coalitions, luck, 0.0])
    of_blocks = weights @ game.blocks[:, masks].T
    return np.array([coalitions, luck, of_blocks.var(1, ddof=1).sum() * TEST_ROWS / len(game.blocks)])
