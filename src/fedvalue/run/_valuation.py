"""Drives plans, counts their budgets, and asks each coalition once: memory first, then the store, then the game.

Several plans advance side by side and share every evaluation.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from operator import index
from os import PathLike
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import checked_call, expect, whole
from fedvalue.coalitions import Trial, full_mask, members
from fedvalue.errors import BudgetError, FedvalueError, MethodError
from fedvalue.estimators import ESTIMATORS, Method, Plan
from fedvalue.games import (
    Game,
    GameLike,
    Reseeded,
    Traceable,
    as_game,
)
from fedvalue.indices import SHAPLEY, IndexLike, read_index
from fedvalue.run._complete import complete_values
from fedvalue.run._estimates import checked_estimate
from fedvalue.run._ledger import Ledger
from fedvalue.run._methods import MethodLike, check_types, runnable_methods
from fedvalue.run._observers import Observer, Observers, OnOutcome, OnStage, OnValues
from fedvalue.run._progress import progress_bar
from fedvalue.run._requests import (
    Request,
    admit,
    by_index,
    can_give,
    checked_budget,
    grouped,
    plan_of,
    request,
    usual_method,
    with_seeds,
)
from fedvalue.store import Store, UtilityStore
from fedvalue.values import Estimate, Values

__all__ = ["StoreLike", "compare", "run_requests", "value"]

_LAST_SEED = (1 << 63) - 1  # that a store can hold
_MOST_IDLE = 100_000  # asks that bring nothing new: more is a plan that never ends


class Trials(list[Trial]):
    """Trainings that a plan asked for, rather than coalitions."""


Ask: TypeAlias = "Sequence[int] | Trials"
StoreLike: TypeAlias = "Store | str | PathLike[str] | None"


@checked_call
def value(
    game: GameLike,
    method: MethodLike | None = None,
    budget: int | None = None,
    seed: int = 0,
    store: StoreLike = None,
    progress: bool = False,
    *,
    groups: Mapping[str, Sequence[str | int]] | None = None,
    index: IndexLike = SHAPLEY,
    on_stage: OnStage | None = None,
    on_outcome: OnOutcome | None = None,
    on_values: OnValues | None = None,
    **options: Any,
) -> Values:
    """What each client is worth in this game, by one method; without one, by `default_method`.

    `method` is a name, or a plan of your own: a generator function of (n, budget, rng) that yields lists of
    coalitions, is sent their utilities and returns an `Estimate`. `budget` counts distinct coalitions or, where trainings
    are spread over several seeds (`surrogate`, of games that can be trained again; `seeds=1`: over one), trainings. With a
    `store` (a path, or a `Store`), every evaluation is kept as it finishes and none is ever repeated; `surrogate`
    also learns from whatever else the store knows of the game. `options` are those of the method. `groups`, a dict from
    names to lists of clients, are parties that join as one: values are then Owen values. `index` is another solution concept than the
    Shapley value: "banzhaf", "beta(16,1)", "leave-one-out", a dict from clients to weights, "least-core" or "nucleolus".

    `progress` draws a bar. `on_outcome` is called with an `Evaluation` for every coalition that becomes known,
    `on_stage` with a text between them, `on_values` with the result.

    >>> table = [0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96]  # the paper's Table 1
    >>> value(table, method="exact").mean.round(2).tolist()
    [0.22, 0.32, 0.32]
    """
    the_game = as_game(game)
    budget = checked_budget(budget)
    seeds = options.pop("seeds", None)
    if seeds is not None:
        seeds = whole("The option 'seeds'", seeds, 1, error=MethodError)
    chosen = usual_method(the_game, budget, seeds) if method is None else method
    asked = grouped(request(chosen, with_seeds(chosen, options, seeds)), the_game.names, groups)
    asked = by_index(asked, the_game.names, index)
    # Any method values the first row of a table, if told so; exact values of a training are those of one seed anyway.
    first_row = seeds == 1 and isinstance(the_game, Reseeded) and the_game.seeds is not None
    observer = Observer(on_stage, on_outcome, on_values)
    (result,) = run_requests(
        the_game, [asked], budget, seed, store, progress, observer, use_stored=True, one_seed=first_row
    )
    return result


@checked_call
def compare(
    game: GameLike,
    methods: Iterable[MethodLike] | MethodLike | None = None,
    budget: int | None = None,
    seed: int = 0,
    store: StoreLike = None,
    progress: bool = False,
    *,
    index: IndexLike = SHAPLEY,
    on_stage: OnStage | None = None,
    on_outcome: OnOutcome | None = None,
    on_values: OnValues | None = None,
) -> dict[str, Values]:
    """Several methods on one game, by name or of your own, every evaluation shared between them.

    Each method has the budget to itself. Exact methods are the reference and always take all 2**n.
    Without `methods`: every one that the budget allows, the exact ones up to 20 clients, and the gradient
    methods where there is a training to record; all of them look at the same one. Federations are trained with one seed,
    as the methods were published; of a table with several rows, `surrogate` and `exact` use all.
    `index` is another solution concept than the Shapley value, as for `value`: by methods that can give it.

    >>> results = compare([0.0, 1.0, 1.0, 3.0], methods=["exact", "equal"], budget=2)
    >>> [round(float(v), 2) for v in results["equal"].mean]
    [1.5, 1.5]
    """
    the_game = as_game(game)
    budget = checked_budget(budget)
    if methods is None:
        traces = isinstance(the_game, Traceable) and the_game.averages
        wanted = read_index(index, the_game.names)
        chosen: Sequence[MethodLike] = [
            name
            for name in runnable_methods(the_game.n, budget, traces)
            if can_give(ESTIMATORS[name], wanted)
        ]
    else:
        several = isinstance(methods, Iterable) and not isinstance(methods, (str, Mapping))
        chosen = list(cast(Iterable[MethodLike], methods)) if several else [cast(MethodLike, methods)]
    asks = (by_index(request(method, {}), the_game.names, index) for method in chosen)
    requests = {asked.method: asked for asked in asks}
    names = [method.name for method in requests]
    twice = next((name for name in names if names.count(name) > 1), None)
    if not names or twice is not None:
        raise MethodError(
            "methods must name at least one method."
            if twice is None
            else f"Two methods are called {twice!r}. Give one of them another name with fv.Method."
        )
    observer = Observer(on_stage, on_outcome, on_values)
    any_seed = isinstance(the_game, Reseeded) and the_game.seeds is None
    results = run_requests(
        the_game, list(requests.values()), budget, seed, store, progress, observer, one_seed=any_seed
    )
    return dict(zip(names, results, strict=True))


def run_requests(
    game: Game,
    requests: Sequence[Request],
    budget: int | None,
    seed: int,
    store: StoreLike = None,
    progress: bool = False,
    observer: Observer | None = None,
    *,
    use_stored: bool = False,
    ends: bool = False,
    one_seed: bool = False,
) -> list[Values]:
    """The values by every request. With `ends`, v(∅) and v(N) are evaluated even if no method asked for them."""
    seed = admit(game, requests, budget, seed, one_seed=one_seed)
    views = [asked for asked in requests if asked.method.view]
    plans = [asked for asked in requests if not asked.method.view]
    with ExitStack() as resources:
        if store is not None and not (hasattr(store, "read") and hasattr(store, "append")):
            expect("store", store, (str, PathLike), "a path, or an object with read and append")
        if isinstance(store, (str, PathLike)):
            store = resources.enter_context(UtilityStore(store))
        shown = [resources.enter_context(progress_bar())] if progress else []
        observers = Observers([*shown, *([observer] if observer else [])])
        ledger = Ledger(game, store, observers)
        if use_stored:  # side by side, methods are compared by what they found out within the budget
            for asked in requests:
                asked.known = ledger.stored() if asked.method.uses_known else {}
        # The recorded training is that of the grand coalition: recorded first, it is not trained again.
        estimates = _look(game, views, ledger, seed) | _drive(game.n, plans, ledger, seed)
        if ends:
            ledger.learn([[0, full_mask(game.n)]])
        results = [
            complete_values(game, asked, estimates[asked.method], seed, ledger, ends) for asked in requests
        ]
        for values in results:
            observers.on_values(values)
    return results


def _look(game: Game, requests: Sequence[Request], ledger: Ledger, seed: int) -> dict[Method, Estimate]:
    """Every gradient method on the same recorded training, each charged as if it had come alone."""
    if not requests:
        return {}
    assert isinstance(game, Traceable)
    trace = game.trace_games(keep=ledger.keep)
    estimates: dict[Method, Estimate] = {}
    for asked in requests:
        assert asked.method.view is not None
        began, shared, spared = time.perf_counter(), trace.seconds, trace.spared
        try:
            estimate = asked.method.view(trace, np.random.default_rng(seed), **asked.options)
        except FedvalueError:
            raise
        except (Exception, SystemExit) as error:
            raise _failed(asked, error) from error
        estimates[asked.method] = checked_estimate(game.n, asked.method, estimate)
        asked.asked = {full_mask(game.n)}
        asked.seconds = time.perf_counter() - began + shared + trace.spared - spared
    return estimates


def _drive(n: int, requests: Sequence[Request], ledger: Ledger, seed: int) -> dict[Method, Estimate]:
    """Advances all plans together: what they ask in one step is evaluated as one batch."""
    plans = [plan_of(n, asked, seed) for asked in requests]
    estimates: dict[Method, Estimate] = {}
    asks: dict[int, Ask] = {}
    for j, plan in enumerate(plans):
        _step(n, j, plan, None, requests[j], asks, estimates)
    while asks:
        for j, ask in asks.items():
            _charge(requests[j], ask)
        ledger.learn(ask for ask in asks.values() if not isinstance(ask, Trials))
        for j, ask in list(asks.items()):
            answer = ledger.learn_trials(ask) if isinstance(ask, Trials) else ledger.utilities(ask)
            # What is left once the budget is spent is arithmetic, which may take minutes.
            if requests[j].evaluations >= requests[j].budget:
                ledger.observers.on_stage(f"computing values by {requests[j].method.name}")
            masks = {mask for mask, _ in ask} if isinstance(ask, Trials) else ask
            requests[j].seconds += ledger.seconds(masks)
            del asks[j]
            _step(n, j, plans[j], answer, requests[j], asks, estimates)
    return estimates


def _step(
    n: int,
    j: int,
    plan: Plan,
    answer: NDArray[np.float64] | None,
    asked: Request,
    asks: dict[int, Ask],
    estimates: dict[Method, Estimate],
) -> None:
    """Sends the answer; the plan asks again or is done."""
    began = time.perf_counter()
    try:
        asks[j] = _asked(n, asked, next(plan) if answer is None else plan.send(answer))
    except StopIteration as done:
        estimates[asked.method] = checked_estimate(n, asked.method, done.value)
    except FedvalueError:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(asked, error) from error
    asked.seconds += time.perf_counter() - began


def _failed(asked: Request, error: BaseException) -> MethodError:
    """What a method raised, in words; what one of ours raises is a fault, and not to be explained away."""
    if ESTIMATORS.get(asked.method.name) is asked.method:
        check_types(asked.method, asked.options)
        raise error
    said = f": {error}" if str(error) else ""
    return MethodError(f"{asked.method.name} failed: {type(error).__name__}{said}.")


def _asked(n: int, asked: Request, ask: Any) -> Ask:
    """What a plan asked for: coalitions, or trials where the method may use seeds."""
    if not (isinstance(ask, Sequence) and len(ask) and isinstance(ask[0], tuple)):
        return _coalitions(n, asked.method, ask, asked.least)
    most = asked.most_seeds
    if not asked.method.uses_seeds or any(not isinstance(t, tuple) or len(t) != 2 for t in ask):
        raise MethodError(
            f"{asked.method.name} must yield lists of coalitions as bitmasks (bit i set: client i takes part). Pairs of a "
            "coalition and a seed are for methods with uses_seeds=True (fv.Method)."
        )
    masks = _coalitions(n, asked.method, [mask for mask, _ in ask], asked.least)
    trials = Trials(
        (mask, whole("A seed", seed, 0, _LAST_SEED)) for mask, (_, seed) in zip(masks, ask, strict=True)
    )
    if most is not None and any(seed >= most for _, seed in trials):
        raise MethodError(f"{asked.method.name} asked for a seed beyond the {most} that the game has.")
    return trials


def _coalitions(n: int, method: Method, ask: Any, least: int) -> Sequence[int]:
    """What a plan asked for, as bitmasks; all coalitions may come as a range, which is not looked through."""
    if isinstance(ask, range) and ask == range(1 << n) and least == 1:
        return ask
    if (
        isinstance(ask, range) and ask
    ):  # its ends are all there is to look at: it may be longer than the memory
        _refuse_beyond(n, method, (ask[0], ask[-1]))
    try:
        masks = [] if isinstance(ask, str | bytes) else [index(mask) for mask in ask]
    except TypeError:
        masks = []
    if not isinstance(ask, Sequence | np.ndarray) or len(masks) != len(ask):
        raise MethodError(
            f"{method.name} must yield lists of coalitions as bitmasks (bit i set: client i takes part). "
            f"Got {str(ask)[:80]!r}."
        )
    small = next((mask for mask in masks if 0 < mask.bit_count() < least), None)
    if small is not None:
        raise MethodError(
            f"{method.name} asked for the coalition {members(small)}, and no coalition of fewer than {least} clients may be trained."
        )
    _refuse_beyond(n, method, masks)
    return masks


def _refuse_beyond(n: int, method: Method, masks: Sequence[int]) -> None:
    if masks and not (min(masks) >= 0 and max(masks) <= full_mask(n)):
        wrong = next(mask for mask in masks if not 0 <= mask <= full_mask(n))
        raise MethodError(
            f"{method.name} asked for the coalition {wrong}; the bitmasks of {n} clients go from 0 to {full_mask(n)}."
        )


def _charge(asked: Request, ask: Ask) -> None:
    """Counts distinct coalitions, or trainings of them; a plan that asks for more than its budget is stopped."""
    before = asked.evaluations
    asked.asks.append(ask)
    if isinstance(ask, Trials):
        asked.trials.update(trial for trial in ask if trial[0])  # ∅ is not trained
    elif isinstance(ask, range):  # all coalitions of an exact method: a set of them would fill the memory
        asked.asked = ask
    elif isinstance(asked.asked, set):
        asked.asked.update(ask)
    asked.idle = asked.idle + 1 if asked.evaluations == before else 0
    if asked.idle > _MOST_IDLE:
        raise MethodError(
            f"{asked.method.name} asked {_MOST_IDLE:,} times in a row for nothing that it did not know, and was stopped. "
            "A plan must return its Estimate, also where the budget is not spent."
        )
    if asked.evaluations > asked.budget:
        raise BudgetError(
            f"{asked.method.name} asked for {asked.evaluations} {'trainings' if asked.trials else 'coalitions'}; "
            f"its budget is {asked.budget}."
        )
