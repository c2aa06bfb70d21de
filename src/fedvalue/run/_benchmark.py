"""Methods side by side: how close each comes to the exact values of a game, over several seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from fedvalue import scoring
from fedvalue._checks import checked_call, whole
from fedvalue.errors import BudgetError, InputError, MethodError
from fedvalue.estimators import ESTIMATORS
from fedvalue.games import Game, GameLike, Reseeded, as_game
from fedvalue.indices import SHAPLEY, Index, IndexLike, read_index
from fedvalue.run._methods import MethodLike, as_method, default_budget
from fedvalue.run._observers import Observer, OnStage
from fedvalue.run._requests import by_index, can_give, request
from fedvalue.run._valuation import run_requests, value
from fedvalue.values import Values

__all__ = ["Benchmark", "Score", "benchmark"]

LARGEST_TRUTH = 24  # clients; beyond that the exact values take minutes
_BASELINE = "equal"


@dataclass(frozen=True)
class Score:
    """One method: means over the seeds, and the deviation of the error between them. nan: no truth to compare.

    Of a game with rows for several seeds, `relative_error` is that against the exact values of the first, and
    `expected_error` that against those of the mean over all; None where there is one row.
    """

    method: str
    evaluations: float
    relative_error: float
    relative_error_sd: float | None
    skill: float
    kendall: float
    payout_error: float
    seconds: float
    guarantee: str
    expected_error: float | None = None


@dataclass(frozen=True)
class Benchmark:
    """The methods, the best first, and for those that could not be run the reason. Of Shapley values the equal split is
    always in it.
    """

    clients: int
    budget: int
    seeds: int
    scores: tuple[Score, ...]
    not_run: dict[str, str]
    index: str = SHAPLEY

    @property
    def has_truth(self) -> bool:
        """Whether the exact values were computed, and there are errors."""
        return self.clients <= LARGEST_TRUTH

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = asdict(self)
        return {**plain, "scores": list(plain["scores"])}


@checked_call
def benchmark(
    game: GameLike,
    methods: Iterable[MethodLike] | None = None,
    budget: int | None = None,
    seeds: Sequence[int] = (0,),
    on_stage: OnStage | None = None,
    *,
    index: IndexLike = SHAPLEY,
) -> Benchmark:
    """Compares methods with the exact values of a game; without names, all that need no recorded training.

    Exact methods are those of one seed. Of a game with rows for several seeds, `surrogate` spreads its trainings over
    them, and errors are also told against the exact values of the mean utility, which are the expected values.
    `index` is another solution concept, as for `value`: methods that can give it, against the exact values by it.

    >>> found = benchmark([0.0, 1.0, 1.0, 3.0], ["ipss"], budget=3)
    >>> [score.method for score in found.scores]
    ['equal', 'ipss']
    """
    Observer(on_stage=on_stage)
    the_game, tell = as_game(game), on_stage or (lambda text: None)
    if isinstance(seeds, str) or not isinstance(seeds, Sequence) or not len(seeds):
        raise InputError(f"seeds must be a list of at least one whole number. Got {seeds!r}.")
    limit = whole(
        "The budget", default_budget(the_game.n) if budget is None else budget, 1, error=BudgetError
    )
    wanted = read_index(index, the_game.names)
    able = [m for m in ESTIMATORS.values() if not m.view and can_give(m, wanted)]
    names = able if methods is None else methods
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"methods must be a list of methods, such as ['ipss', 'surrogate']. Got {names!r}.")
    chosen = [as_method(method) for method in names]
    tell(f"exact values from {1 << the_game.n:,} coalitions")
    truth = _exact(the_game, wanted) if the_game.n <= LARGEST_TRUTH else None
    several = isinstance(the_game, Reseeded) and (the_game.seeds or 1) > 1
    expected = value(the_game, "exact", index=wanted) if truth is not None and several else None
    scores: list[Score] = []
    not_run: dict[str, str] = {}
    baseline = [as_method(_BASELINE)] if wanted.name == SHAPLEY else []
    for method in dict.fromkeys([*chosen, *baseline]):
        # Exact methods and the baseline are the reference: they take what they need.
        reference = method is ESTIMATORS[_BASELINE] or method.guarantee == "exact"
        try:
            runs = _runs(the_game, method, wanted, None if reference else limit, seeds, tell)
            scores.append(_score(runs, truth, expected, len(seeds)))
        except (BudgetError, MethodError) as error:  # gradient methods need more than a table
            not_run[method.name] = str(error)
    scores.sort(key=lambda score: (math.isnan(score.relative_error), score.relative_error))
    return Benchmark(the_game.n, limit, len(seeds), tuple(scores), not_run, wanted.name)


def _runs(
    game: Game, method: MethodLike, index: Index, budget: int | None, seeds: Sequence[int], tell: OnStage
) -> list[Values]:
    runs: list[Values] = []
    for seed in seeds:
        tell(f"{as_method(method).name}, seed {seed}")
        of_all = isinstance(game, Reseeded) and game.seeds is not None
        spread = of_all and as_method(method).guarantee != "exact"
        asked = by_index(request(method, {}), game.names, index)
        (found,) = run_requests(game, [asked], budget, seed, one_seed=not spread)
        runs.append(found)
        if runs[-1].guarantee == "exact":  # every seed gives the same
            break
    return runs


def _exact(game: Game, index: Index) -> Values:
    """The exact values of one seed."""
    asked = by_index(request("exact", {}), game.names, index)
    (found,) = run_requests(game, [asked], None, 0, one_seed=True)
    return found


def _score(runs: list[Values], truth: Values | None, expected: Values | None, seeds: int) -> Score:
    def mean_of(measure: Callable[[Values, Values], float]) -> float:
        return math.nan if truth is None else fmean(measure(run, truth) for run in runs)

    errors = [] if truth is None else [scoring.relative_l2(run, truth) for run in runs]
    sd = (stdev(errors) if len(errors) > 1 else 0.0) if errors and seeds > 1 else None
    return Score(
        method=runs[0].method,
        evaluations=fmean(run.evaluations for run in runs),
        relative_error=mean_of(scoring.relative_l2),
        relative_error_sd=sd,
        skill=mean_of(scoring.skill),
        kendall=mean_of(scoring.kendall),
        payout_error=mean_of(scoring.payout_error),
        seconds=fmean(run.seconds for run in runs),
        guarantee=runs[0].guarantee,
        expected_error=None
        if expected is None
        else fmean(scoring.relative_l2(run, expected) for run in runs),
    )
