"""What an estimator guarantees and promises, tested on games with known values."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from fedvalue.testing._promises import OF_ONE_RUN, PROMISES, TOLERANCE, relabelled, violation
from fedvalue.testing._subject import Run, Subject, look_up
from fedvalue.testing.games import GAMES, Array, KnownGame, airport, random_table

__all__ = ["check_average", "check_changed_games", "check_known_games", "judge"]

_AVERAGED = 300  # runs over which an unbiased method must be right on average
_TRIED = 40  # of them tell whether a budget is large enough for the guarantee
# Standard errors of that average: a right method exceeds it once in a million checks, and a bias of a third of the
# spread of a single run is found.
_LARGEST_Z = 5.0


def check_known_games(subject: Subject) -> None:
    """A few budgets on every game with known values, each with a seed of its own."""
    games = [game for game in GAMES if game.n >= subject.smallest]
    runs = [(game, budget) for game in games for budget in subject.budgets(game.n)]
    for seed, (game, budget) in enumerate(runs):
        judge(subject, game, subject.run_on(game, budget, seed))


def judge(subject: Subject, game: KnownGame, run: Run) -> None:
    """What is exact is right, what is promised is kept."""
    expect = subject.examiner.expect
    if (run.estimate.guarantee or subject.method.guarantee) == "exact":
        right = np.allclose(run.mean, game.values, rtol=0, atol=TOLERANCE)
        expect(right, "exact values are the Shapley values", run.given, game.values, run.mean)
    for promise in subject.promises.intersection(OF_ONE_RUN):
        off = violation(promise, game, run.mean)
        expect(
            off <= TOLERANCE,
            f"promised: {PROMISES[promise]}",
            run.given,
            "0 off",
            f"{off:g} off in {run.mean}",
        )


def check_changed_games(subject: Subject) -> None:
    """Promises that compare a run with one on a changed game."""
    n = max(6, subject.smallest)
    # Sixteenths and powers of two: differences are scaled without rounding, choices are the same.
    table = np.random.default_rng(9).integers(0, 100, 1 << n) / 16
    budget = subject.a_budget(n, 30)
    plain = subject.run(n, look_up(table), budget, 0, "a random game")
    for factor, shift in ((4.0, 0.0), (-0.5, 0.0), (4.0, 3.0), (-0.5, -2.0)):
        promise = "shifted" if shift else "scaled"
        if promise in subject.promises:
            changed = f"a random game, its utilities times {factor} plus {shift}"
            run = subject.run(n, look_up(factor * table + shift), budget, 0, changed)
            _expect_close(subject, promise, run, factor * plain.mean, run.mean)
            one, other = plain.estimate.stderr, run.estimate.stderr
            if one is not None or other is not None:
                expected = np.full(n, np.nan) if one is None else abs(factor) * np.asarray(one)
                _expect_close(subject, promise, run, expected, np.full(n, np.nan) if other is None else other)
    if "relabelled" in subject.promises:
        game = subject.a_game()
        budget = subject.a_budget(game.n, 20)
        new_place = np.random.default_rng(1).permutation(game.n).tolist()
        before, after = subject.run_on(game, budget), subject.run_on(relabelled(game, new_place), budget)
        _expect_close(subject, "relabelled", after, before.mean, after.mean[new_place])


def _expect_close(subject: Subject, promise: str, run: Run, expected: Array, got: ArrayLike) -> None:
    close = np.allclose(expected, got, rtol=0, atol=10 * TOLERANCE)
    subject.examiner.expect(close, f"promised: {PROMISES[promise]}", run.given, expected, got)


def check_average(subject: Subject) -> None:
    """The mean over many seeds of an unbiased method is the true value. Runs that say they fell short do not count."""
    if subject.method.guarantee != "unbiased":
        return
    for game in (random_table(5, 11), airport([1.0, 4.0, 9.0, 16.0, 25.0, 36.0])):
        budget, means = _enough_budget(subject, game)
        means += _guaranteed(subject, game, budget, range(_TRIED, _AVERAGED))
        runs = np.array(means)
        deviation = np.maximum(runs.std(0, ddof=1) / sqrt(len(runs)), 1e-12)
        z = np.abs(runs.mean(0) - game.values) / deviation
        worst = int(z.argmax())
        subject.examiner.expect(
            z[worst] < _LARGEST_Z,
            "an unbiased method is right on average over seeds",
            f"n={game.n}, budget={budget}, seeds 0 to {_AVERAGED - 1} on the game {game}",
            f"client {worst} worth {game.values[worst]:.6g} ± {deviation[worst]:.2g} on average",
            f"{runs.mean(0)[worst]:.6g}, which is {z[worst]:.1f} standard errors off",
        )


def _enough_budget(subject: Subject, game: KnownGame) -> tuple[int, list[Array]]:
    """A budget at which most runs keep to the guarantee, and their values; with a small one, strata may be empty."""
    everything = 1 << game.n
    parts = (2 * game.n, everything // 2, everything * 4 // 5, everything - 2)
    for budget in sorted({subject.a_budget(game.n, part) for part in parts}):
        means = _guaranteed(subject, game, budget, range(_TRIED))
        if len(means) > 0.75 * _TRIED:
            return budget, means
    raise subject.examiner.broken(
        "an unbiased method keeps its guarantee at some budget below all coalitions",
        f"n={game.n}, budget={budget}, seeds 0 to {_TRIED - 1} on the game {game}",
        "most runs unbiased",
        f"{len(means)} of {_TRIED}; the others say that they are not",
    )


def _guaranteed(subject: Subject, game: KnownGame, budget: int, seeds: range) -> list[Array]:
    """The values of the runs that keep to what the method guarantees."""
    runs = (subject.run_on(game, budget, seed) for seed in seeds)
    return [run.mean for run in runs if run.estimate.guarantee in (None, "unbiased", "exact")]
