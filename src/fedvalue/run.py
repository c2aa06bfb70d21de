"""Runs: the only place that knows both estimators and games.

Drives plans, counts their budgets, and asks each coalition once: memory first, then the store, then the
game. Several plans advance side by side and share every evaluation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from difflib import get_close_matches
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import BudgetError, InputError, MethodError
from fedvalue.estimators import ESTIMATORS, Method
from fedvalue.estimators.exact import exact_mc
from fedvalue.game import Game, GameLike, as_game
from fedvalue.ledger import Ledger
from fedvalue.plan import Plan
from fedvalue.progress import show_progress
from fedvalue.store import UtilityStore
from fedvalue.values import Estimate, Values

if TYPE_CHECKING:
    from fedvalue.federation import FederatedGame

__all__ = ["compare", "default_budget", "default_method", "methods", "value"]

StoreLike: TypeAlias = "UtilityStore | str | PathLike[str] | None"
Progress: TypeAlias = "bool | Callable[[int, int], None]"
"""True for a bar on the terminal, or a function of (coalitions done, coalitions asked)."""

_LARGEST_EXACT = 25  # 2**25 coalitions: what a table in memory still holds


def methods() -> list[Method]:
    """Every method with its description, guarantee and reference, in the order of the documentation.

    >>> [m.name for m in methods() if m.guarantee == "exact"]
    ['exact', 'exact-cc', 'exact-perm']
    """
    return list(ESTIMATORS.values())


def default_budget(n: int) -> int:
    """How many coalitions are evaluated when nothing is said: n·ln n, at least 32, at most all.

    >>> default_budget(10), default_budget(100), default_budget(3)
    (32, 461, 8)
    """
    return min(1 << n, max(32, math.ceil(n * math.log(n))))


def default_method(n: int, budget: int | None = None) -> str:
    """The method when nothing is said: exact where the budget covers all coalitions, else the surrogate.

    >>> default_method(10), default_method(5), default_method(10, budget=1024)
    ('surrogate', 'exact', 'exact')
    """
    limit = default_budget(n) if budget is None else budget
    return "exact" if n <= _LARGEST_EXACT and 1 << n <= limit else "surrogate"


def value(
    game: GameLike,
    method: str | None = None,
    budget: int | None = None,
    seed: int = 0,
    store: StoreLike = None,
    progress: Progress = False,
    **options: Any,
) -> Values:
    """What each client is worth in this game, by one method; without one, by `default_method`.

    `budget` counts distinct coalitions. With a `store` (a path), every evaluation is kept as it finishes
    and none is ever repeated; `surrogate` also learns from whatever else the store knows of the game.
    Options are those of the method.

    >>> table = [0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96]  # the paper's Table 1
    >>> value(table, method="exact").mean.round(2).tolist()
    [0.22, 0.32, 0.32]
    """
    the_game = as_game(game)
    if method is None:  # a budget that is no number is refused later, with everything else
        method = default_method(the_game.n, budget if _is_whole(budget, least=1) else None)
    request = _request(method, options)
    (result,) = _run(the_game, [request], budget, seed, store, progress, use_stored=True).values()
    return result


def compare(
    game: GameLike,
    methods: Sequence[str] | None = None,
    budget: int | None = None,
    seed: int = 0,
    store: StoreLike = None,
    progress: Progress = False,
) -> dict[str, Values]:
    """Several methods on one game, every evaluation shared between them.

    Each method has the budget to itself. Exact methods are the reference and always take all 2**n.
    Without `methods`: every one that the budget allows, the exact ones up to 20 clients, and the gradient
    methods where there is a training to record; all of them look at the same one.

    >>> results = compare([0.0, 1.0, 1.0, 3.0], methods=["exact", "equal"], budget=2)
    >>> [round(float(v), 2) for v in results["equal"].mean]
    [1.5, 1.5]
    """
    the_game = as_game(game)
    if methods is None:
        names = runnable_methods(the_game.n, budget, traces=getattr(the_game, "averages", False))
    else:
        names = list(dict.fromkeys([methods] if isinstance(methods, str) else methods))
    if not names:
        raise MethodError("methods must name at least one method.")
    return _run(the_game, [_request(name, {}) for name in names], budget, seed, store, progress)


def runnable_methods(n: int, budget: int | None, traces: bool = False) -> list[str]:
    """The methods that a budget allows for n clients, exact ones as far as they are quick to compute.

    Gradient methods are among them where the game `traces`, that is, can record a training.
    """
    limit = default_budget(n) if budget is None else budget
    return [
        m.name
        for m in ESTIMATORS.values()
        if (n <= 20 if m.guarantee == "exact" else m.minimum(n, {}) <= limit) and (traces or not m.view)
    ]


@dataclass
class _Request:
    """One method to run: its plan, what it may spend, what it has spent."""

    method: Method
    options: Mapping[str, Any]
    budget: int = 0
    exact: bool = False
    known: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    evaluations: int = 0
    seconds: float = 0.0


def _request(name: str, options: Mapping[str, Any]) -> _Request:
    method = ESTIMATORS.get(name)
    if method is None:
        near = get_close_matches(str(name), ESTIMATORS, n=3, cutoff=0.4)
        hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise MethodError(f"Unknown method {name!r}. {hint}Methods: {', '.join(ESTIMATORS)}.")
    known = method.options
    for option in options:
        if option not in known:
            raise MethodError(
                f"The method {name!r} has no option {option!r}. Its options: {', '.join(known) or 'none'}."
            )
    return _Request(method, options)


def _set_budget(request: _Request, n: int, budget: int | None) -> None:
    """What the request may spend, and whether that is everything."""
    method = request.method
    needs = method.minimum(n, request.options)
    if method.guarantee == "exact" and n > _LARGEST_EXACT:
        raise BudgetError(
            f"{method.name} needs all 2**{n} coalitions; up to {_LARGEST_EXACT} clients are supported. "
            "Choose a sampling method."
        )
    if method.guarantee == "exact" or method.view:  # what they cost does not depend on the budget
        request.budget = needs
        return
    request.budget = max(needs, default_budget(n)) if budget is None else budget
    if request.budget < needs:
        raise BudgetError(
            f"{method.name} needs a budget of at least {needs} coalitions for {n} clients. "
            f"Got {request.budget}."
        )
    request.exact = not method.fixed and request.budget >= 1 << n


def _run(
    game: Game,
    requests: Sequence[_Request],
    budget: int | None,
    seed: int,
    store: StoreLike,
    progress: Progress,
    use_stored: bool = False,
) -> dict[str, Values]:
    if budget is not None and not _is_whole(budget, least=1):
        raise BudgetError(f"The budget must be a whole number of coalitions, at least 1. Got {budget!r}.")
    if not _is_whole(seed, least=0):
        raise InputError(f"The seed must be a whole number, at least 0. Got {seed!r}.")
    budget, seed = None if budget is None else int(budget), int(seed)  # NumPy's integers are no JSON
    if (
        len(requests) == 1
        and requests[0].method.guarantee == "exact"
        and (budget or 1 << game.n) < 1 << game.n
    ):
        raise BudgetError(
            f"{requests[0].method.name} needs all {1 << game.n} coalitions of {game.n} clients. "
            f"Got a budget of {budget}. Leave the budget out or choose another method."
        )
    for request in requests:
        _set_budget(request, game.n, budget)
        if request.method.view and not hasattr(game, "trace_games"):
            raise MethodError(
                f"{request.method.name} needs a federated game (FederatedGame): it looks at the clients' updates "
                f"in a recorded training. Got a {type(game).__name__}, which has utilities only."
            )
    views = [request for request in requests if request.method.view]
    plans = [request for request in requests if not request.method.view]
    with ExitStack() as resources:
        if store is not None and not isinstance(store, UtilityStore):
            store = resources.enter_context(UtilityStore(store))
        report = resources.enter_context(show_progress(progress))
        ledger = Ledger(game, store, report)
        if use_stored:  # side by side, methods are compared by what they found out within the budget
            for request in requests:
                request.known = ledger.stored() if request.method.uses_known else {}
        # The recorded training is that of the grand coalition: recorded first, it is not trained again.
        estimates = _look(cast("FederatedGame", game), views, ledger, seed) if views else {}
        estimates |= _drive(game.n, plans, ledger, seed)
    noise = ledger.noise()
    return {
        request.method.name: _values(game, request, estimates[request.method.name], seed, noise)
        for request in requests
    }


def _is_whole(number: object, least: int) -> bool:
    return isinstance(number, (int, np.integer)) and not isinstance(number, bool) and int(number) >= least


def _values(game: Game, request: _Request, estimate: Estimate, seed: int, noise: float | None) -> Values:
    return Values(
        mean=estimate.mean,
        names=game.names,
        method=request.method.name,
        evaluations=request.evaluations,
        seconds=request.seconds,
        stderr=estimate.stderr,
        dof=estimate.dof,
        guarantee="exact" if request.exact else estimate.guarantee or request.method.guarantee,
        budget=request.budget,
        seed=seed,
        game_id=game.id,
        covariance=estimate.covariance,
        details=dict(estimate.details) | ({} if noise is None else {"training_noise": noise}),
    )


def _look(
    game: FederatedGame, requests: Sequence[_Request], ledger: Ledger, seed: int
) -> dict[str, Estimate]:
    """Every gradient method on the same recorded training, each charged as if it had come alone."""
    trace = game.trace_games(keep=ledger.keep)
    estimates: dict[str, Estimate] = {}
    for request in requests:
        assert request.method.view is not None
        began, shared, spared = time.perf_counter(), trace.seconds, trace.spared
        estimate = request.method.view(trace, np.random.default_rng(seed), **request.options)
        estimates[request.method.name] = estimate
        request.evaluations = 1
        request.seconds = time.perf_counter() - began + shared + trace.spared - spared
    return estimates


def _drive(n: int, requests: Sequence[_Request], ledger: Ledger, seed: int) -> dict[str, Estimate]:
    """Advances all plans together: what they ask in one step is evaluated as one batch."""
    plans = [_plan(n, request, seed) for request in requests]
    estimates: dict[int, Estimate] = {}
    asks: dict[int, Sequence[int]] = {}
    for j, plan in enumerate(plans):
        _step(j, plan, None, requests[j], asks, estimates)
    while asks:
        for j, ask in asks.items():
            _charge(requests[j], ask)
        ledger.learn(asks.values())
        for j, ask in list(asks.items()):
            answer = ledger.utilities(ask)
            requests[j].seconds += ledger.seconds(ask)
            del asks[j]
            _step(j, plans[j], answer, requests[j], asks, estimates)
    return {request.method.name: estimates[j] for j, request in enumerate(requests)}


def _plan(n: int, request: _Request, seed: int) -> Plan:
    rng = np.random.default_rng(seed)
    if request.exact:
        return exact_mc(n, request.budget, rng)
    assert request.method.plan is not None
    known = {"known": request.known} if request.known else {}
    return request.method.plan(n, request.budget, rng, **known, **request.options)


def _step(
    j: int,
    plan: Plan,
    answer: NDArray[np.float64] | None,
    request: _Request,
    asks: dict[int, Sequence[int]],
    estimates: dict[int, Estimate],
) -> None:
    """Sends the answer; the plan asks again or is done."""
    began = time.perf_counter()
    try:
        asks[j] = next(plan) if answer is None else plan.send(answer)
    except StopIteration as done:
        estimates[j] = done.value
    request.seconds += time.perf_counter() - began


def _charge(request: _Request, ask: Sequence[int]) -> None:
    """Counts distinct coalitions; a plan that asks for more than its budget is stopped."""
    if isinstance(ask, range):  # all coalitions of an exact method: a set of them would fill the memory
        request.evaluations = len(ask)
    else:
        request.asked.update(ask)
        request.evaluations = len(request.asked)
    if request.evaluations > request.budget:
        raise BudgetError(
            f"{request.method.name} asked for {request.evaluations} coalitions; its budget is "
            f"{request.budget}."
        )
