"""Runs: the only place that knows both estimators and games.

Drives plans, counts their budgets, and asks each coalition once: memory first, then the store, then the
game. Several plans advance side by side and share every evaluation.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from difflib import get_close_matches
from inspect import Parameter, signature
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalition import members
from fedvalue.errors import BudgetError, FedvalueWarning, MethodError, UtilityError
from fedvalue.estimators import ESTIMATORS, Method
from fedvalue.estimators.exact import exact_mc
from fedvalue.game import Game, GameLike, TableGame, as_game
from fedvalue.outcome import Outcome
from fedvalue.plan import Plan
from fedvalue.progress import show_progress
from fedvalue.store import UtilityStore
from fedvalue.values import Estimate, Values

__all__ = ["compare", "default_budget", "methods", "value"]

StoreLike: TypeAlias = "UtilityStore | str | PathLike[str] | None"
Progress: TypeAlias = "bool | Callable[[int, int], None]"
"""True for a bar on the terminal, or a function of (coalitions done, coalitions asked)."""

_COMMIT_SECONDS = 0.01  # finished outcomes wait at most this long before they are written
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


def value(
    game: GameLike,
    method: str = "ipss",
    budget: int | None = None,
    seed: int = 0,
    store: StoreLike = None,
    progress: Progress = False,
    **options: Any,
) -> Values:
    """What each client is worth in this game, by one method.

    `budget` counts distinct coalitions. With a `store` (a path), every evaluation is kept as it finishes
    and none is ever repeated. Options are those of the method.

    >>> table = [0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96]  # the paper's Table 1
    >>> value(table, method="exact").mean.round(2).tolist()
    [0.22, 0.32, 0.32]
    """
    (result,) = _run(as_game(game), [_request(method, options)], budget, seed, store, progress).values()
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
    Without `methods`: every one that the budget allows, and the exact ones up to 20 clients.

    >>> results = compare([0.0, 1.0, 1.0, 3.0], methods=["exact", "equal"], budget=2)
    >>> [round(float(v), 2) for v in results["equal"].mean]
    [1.5, 1.5]
    """
    the_game = as_game(game)
    names = runnable_methods(the_game.n, budget) if methods is None else list(dict.fromkeys(methods))
    if not names:
        raise MethodError("methods must name at least one method.")
    return _run(the_game, [_request(name, {}) for name in names], budget, seed, store, progress)


def runnable_methods(n: int, budget: int | None) -> list[str]:
    """The methods that a budget allows for n clients, exact ones as far as they are quick to compute."""
    limit = default_budget(n) if budget is None else budget
    return [
        m.name
        for m in ESTIMATORS.values()
        if (n <= 20 if m.guarantee == "exact" else m.minimum(n, {}) <= limit)
    ]


@dataclass
class _Request:
    """One method to run: its plan, what it may spend, what it has spent."""

    method: Method
    options: Mapping[str, Any]
    budget: int = 0
    exact: bool = False
    asked: set[int] = field(default_factory=set)
    evaluations: int = 0
    seconds: float = 0.0


def _request(name: str, options: Mapping[str, Any]) -> _Request:
    method = ESTIMATORS.get(name)
    if method is None:
        near = get_close_matches(str(name), ESTIMATORS, n=3, cutoff=0.4)
        hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise MethodError(f"Unknown method {name!r}. {hint}Methods: {', '.join(ESTIMATORS)}.")
    known = [p.name for p in signature(method.plan).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
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
    if method.guarantee == "exact":
        if n > _LARGEST_EXACT:
            raise BudgetError(
                f"{method.name} needs all 2**{n} coalitions; up to {_LARGEST_EXACT} clients are supported. "
                "Choose a sampling method."
            )
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
) -> dict[str, Values]:
    if isinstance(budget, bool) or (budget is not None and (int(budget) != budget or budget < 1)):
        raise BudgetError(f"The budget must be a whole number of coalitions, at least 1. Got {budget!r}.")
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
    with ExitStack() as resources:
        if store is not None and not isinstance(store, UtilityStore):
            store = resources.enter_context(UtilityStore(store))
        report = resources.enter_context(show_progress(progress))
        ledger = _Ledger(game, store, report)
        estimates = _drive(game.n, requests, ledger, seed)
    return {
        request.method.name: _values(game, request, estimate, seed)
        for request, estimate in zip(requests, estimates, strict=True)
    }


def _values(game: Game, request: _Request, estimate: Estimate, seed: int) -> Values:
    return Values(
        mean=estimate.mean,
        names=game.names,
        method=request.method.name,
        evaluations=request.evaluations,
        seconds=request.seconds,
        stderr=estimate.stderr,
        dof=estimate.dof,
        guarantee="exact" if request.exact else request.method.guarantee,
        budget=request.budget,
        seed=seed,
        game_id=game.id,
        details=dict(estimate.details),
    )


def _drive(n: int, requests: Sequence[_Request], ledger: _Ledger, seed: int) -> list[Estimate]:
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
    return [estimates[j] for j in range(len(plans))]


def _plan(n: int, request: _Request, seed: int) -> Plan:
    rng = np.random.default_rng(seed)
    if request.exact:
        return exact_mc(n, request.budget, rng)
    return request.method.plan(n, request.budget, rng, **request.options)


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


class _Ledger:
    """Every utility known in this run."""

    def __init__(self, game: Game, store: UtilityStore | None, report: Callable[[int, int], None]) -> None:
        self.game = game
        self.store = store
        self.report = report
        self.known: dict[int, float] = {}
        self.took: dict[int, float] = {}
        # A table is its own memory; a copy of it as a dict would be a hundred times as large.
        self.table = game.utilities if isinstance(game, TableGame) and store is None else None
        if store is not None:
            if game.doubts:
                warnings.warn(
                    f"The store recognises this game by its code, which refers to {', '.join(game.doubts)}; "
                    "changes in there go unnoticed. Pass key='…' to FunctionGame to name the game yourself.",
                    FedvalueWarning,
                    stacklevel=5,
                )
            store.register(game.id, game.n, {"names": list(game.names), "metric": game.metric})

    def learn(self, asks: Iterable[Sequence[int]]) -> None:
        """Makes sure that everything asked is known, evaluating in one batch what is not."""
        if self.table is not None:
            return
        missing = list(dict.fromkeys(m for ask in asks for m in ask if m not in self.known))
        if self.store is not None and missing:
            for mask, outcome in self.store.read(self.game.id, missing).items():
                self._remember(mask, outcome)
            missing = [mask for mask in missing if mask not in self.known]
        if missing:
            self._evaluate(missing)

    def utilities(self, ask: Sequence[int]) -> NDArray[np.float64]:
        if self.table is not None:
            if isinstance(ask, range) and len(ask) == len(self.table):
                return self.table
            return self.table[np.fromiter(ask, np.int64, len(ask))]
        return np.fromiter((self.known[mask] for mask in ask), np.float64, len(ask))

    def seconds(self, ask: Sequence[int]) -> float:
        """What evaluating these took, now or when they were stored."""
        return sum(self.took[mask] for mask in ask) if self.took else 0.0

    def _evaluate(self, missing: list[int]) -> None:
        done_before, total = len(self.known), len(self.known) + len(missing)
        unwritten: list[tuple[int, Outcome]] = []
        written = time.monotonic()
        self.report(done_before, total)
        try:
            for mask, outcome in self.game.evaluate(missing):
                self._remember(mask, outcome)
                unwritten.append((mask, outcome))
                if self.store is not None and time.monotonic() - written >= _COMMIT_SECONDS:
                    self.store.append(self.game.id, unwritten)
                    unwritten, written = [], time.monotonic()
                self.report(len(self.known), total)
        finally:  # also when a coalition fails or the user interrupts: nothing finished is lost
            if self.store is not None and unwritten:
                self.store.append(self.game.id, unwritten)
        lost = [mask for mask in missing if mask not in self.known]
        if lost:
            raise UtilityError(
                f"The game returned nothing for {len(lost)} coalitions, the first {members(lost[0])}.",
                members(lost[0]),
            )

    def _remember(self, mask: int, outcome: Outcome) -> None:
        utility = outcome.metrics.get(self.game.metric)
        if utility is None or not math.isfinite(utility):
            raise UtilityError(
                f"The utility of a coalition must be a finite number. Got {self.game.metric} = {utility} "
                f"for coalition {members(mask)}. It was not stored.",
                members(mask),
            )
        self.known[mask] = float(utility)
        self.took[mask] = outcome.seconds
