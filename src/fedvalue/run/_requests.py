"""What is asked of a run: methods, each with its options and what it may spend."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fedvalue._checks import whole
from fedvalue.by_size import AnyWeights
from fedvalue.coalitions import Trial
from fedvalue.errors import BudgetError, FedvalueError, InputError, MethodError
from fedvalue.estimators import ESTIMATORS, Method, Plan, extra_trainings
from fedvalue.games import Certain, Game, Reseeded, Traceable
from fedvalue.indices import SHAPLEY, Index, IndexLike, read_index
from fedvalue.run._methods import (
    LARGEST_EXACT,
    MethodLike,
    as_method,
    check_options,
    default_budget,
    default_method,
)
from fedvalue.weights import Blocks, blocks_of, owen

__all__ = [
    "Request",
    "admit",
    "checked_budget",
    "by_index",
    "can_give",
    "grouped",
    "plan_of",
    "refuse_two_ways",
    "request",
    "usual_method",
    "with_least",
    "with_own_seeds",
    "with_seeds",
]

_LEAST, _OWN_SEEDS = "min_coalition", "own_seeds"  # options of methods


@dataclass
class Request:
    """One method to run: its plan, what it may spend, what it has spent."""

    method: Method
    options: Mapping[str, Any]
    budget: int = 0
    exact: bool = False
    known: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    asked: set[int] | range = field(default_factory=set)
    trials: set[Trial] = field(default_factory=set)
    asks: list[Sequence[int] | Sequence[Trial]] = field(default_factory=list)  # as the plan yielded them
    most_seeds: int | None = 1
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    blocks: Blocks | None = None
    index: Index = field(default_factory=partial(read_index, SHAPLEY))
    weights: AnyWeights | None = None  # how utilities are summed up to values; None: to Shapley values
    seconds: float = 0.0
    idle: int = 0

    @property
    def least(self) -> int:
        """How many clients a coalition must have to be trained; ∅ is none."""
        least = self.options.get(_LEAST, 1)
        return least if isinstance(least, int) else 1  # which the method refuses

    @property
    def exact_of_one_seed(self) -> bool:
        """Whether all coalitions are trained with the first seed, and some with others, to see how much is luck."""
        return self.method.guarantee == "exact" and self.most_seeds is None

    @property
    def evaluations(self) -> int:
        """Distinct coalitions, or trainings of coalitions with several seeds, that were asked for so far."""
        return len(self.trials) if self.trials else len(self.asked)


def request(method: MethodLike, options: Mapping[str, Any]) -> Request:
    """A method with its options, which it must have."""
    found = as_method(method)
    check_options(found, options)
    return Request(found, options)


def usual_method(game: Game, budget: int | None, seeds: int | None = None) -> str:
    """The method when nothing is said of it, whatever is said of the number of seeds."""
    there_are = game.seeds if isinstance(game, Reseeded) else 1
    if seeds is not None and (seeds > 1 or there_are is None):  # others show the luck of one seed
        return "surrogate"
    return default_method(game.n, budget, 1 if seeds == 1 else there_are)


def grouped(
    asked: Request, names: Sequence[str], groups: Mapping[str, Sequence[str | int]] | None
) -> Request:
    """The request for values in groups of clients, given by name or number; as it is where nobody shares a group."""
    asked.blocks = blocks_of(names, groups)
    if asked.blocks is None or groups is None:
        return asked
    if not asked.method.uses_weights:
        raise MethodError(f"{asked.method.name} cannot value clients in groups. Methods that can: {_able()}.")
    asked.weights = owen(len(names), asked.blocks)
    asked.groups = {
        group: tuple(name if isinstance(name, str) else names[name] for name in clients)
        for group, clients in groups.items()
    }
    return asked


def by_index(asked: Request, names: Sequence[str], index: IndexLike) -> Request:
    """The request for values by another index than Shapley's; as it is where that is asked for."""
    found = read_index(index, names)
    if found.name == SHAPLEY:
        return asked
    if asked.blocks is not None:
        raise MethodError("Values in groups are Owen values. Leave the groups out, or the index.")
    if not can_give(asked.method, found):
        able = "exact" if found.weights is None else _able()
        raise MethodError(
            f"{asked.method.name} cannot give the index {found.name}. Methods that can: {able}."
        )
    found.check_clients(len(names))
    asked.index, asked.weights = found, None if found.weights is None else found.weights(len(names))
    return asked


def can_give(method: Method, index: Index) -> bool:
    """Whether a method gives values by this index; all give Shapley values."""
    return index.name == SHAPLEY or (method.solves if index.weights is None else method.uses_weights)


def _able() -> str:
    """The methods that give other sums of utilities than Shapley values."""
    return ", ".join(name for name, method in ESTIMATORS.items() if method.uses_weights)


def with_seeds(method: MethodLike, options: Mapping[str, Any], seeds: int | None) -> Mapping[str, Any]:
    """The options of a method with the number of seeds that its trainings are spread over; None: as the method likes."""
    if seeds is None:
        return options
    count, found = whole("seeds", seeds, 1), as_method(method)
    if "seeds" in options:
        raise MethodError("The number of seeds was given twice. Leave it out of the options of the method.")
    if "seeds" in found.options:
        return {**options, "seeds": count}
    if count > 1:
        raise MethodError(
            f"{found.name} trains with one seed. Leave seeds out, or choose a method that spreads its trainings over "
            "several: surrogate."
        )
    return options


def with_least(method: MethodLike, options: Mapping[str, Any], least: int) -> Mapping[str, Any]:
    """The options of a method that trains no coalition of fewer clients than `least`; 1: any."""
    count, found = whole(_LEAST, least, 1), as_method(method)
    if count == 1:
        return options
    if _LEAST in options:
        raise MethodError(f"{_LEAST} was given twice. Leave it out of the options of the method.")
    if _LEAST not in found.options:
        why = (
            "looks at the updates of single clients"
            if found.view
            else "needs small coalitions, or does not avoid them"
        )
        raise MethodError(
            f"{found.name} {why}. With {_LEAST}={count} choose surrogate or surrogate-adaptive, which extrapolate what "
            "clients do there and say how far that may be off."
        )
    return {**options, _LEAST: count}


def with_own_seeds(method: MethodLike, options: Mapping[str, Any], own_seeds: bool) -> Mapping[str, Any]:
    """The options of a method that trains every coalition with a seed of its own, if that is wanted."""
    if not own_seeds:
        return options
    found = as_method(method)
    if _OWN_SEEDS not in found.options:
        raise MethodError(
            f"{found.name} trains several coalitions with the same seed. With {_OWN_SEEDS} choose surrogate."
        )
    return {**options, _OWN_SEEDS: True}


def _refuse_disguised(game: Game, asked: Request) -> None:
    """Coalitions that have enough members, of which too few have data of their own."""
    if asked.least == 1 or not isinstance(game, Certain):
        return
    same = [game.names[group[0]] for group in game.alike]
    who = [
        *(f"{game.names[i]} has no data" for i in game.idle),
        *(f"another client has the data of {s}" for s in same),
    ]
    if who:
        raise MethodError(
            f"{_LEAST}={asked.least} counts the members of coalitions, but {' and '.join(who[:3])}: a coalition with such a member "
            "would be trained on the data of fewer clients. Leave such clients out."
        )


def refuse_two_ways(replicates: object, seeds: object) -> None:
    """Trainings are repeated in one way."""
    if isinstance(replicates, int) and replicates > 1 and isinstance(seeds, int) and seeds > 1:
        raise InputError(
            f"{replicates} replicates and {seeds} seeds are two ways to train again: replicates train every coalition "
            "that many times, seeds spread the budget over that many seeds. Give one of them."
        )


def admit(
    game: Game, requests: Sequence[Request], budget: int | None, seed: int, *, one_seed: bool = False
) -> int:
    """Sets what every request may spend, and gives the seed; what cannot be is refused before anything is evaluated.

    With `one_seed`, games that can be trained with several seeds are trained with one.
    """
    budget = checked_budget(budget)
    everything = 1 << game.n
    alone = requests[0].method if len(requests) == 1 else None
    if alone is not None and alone.guarantee == "exact" and (budget or everything) < everything:
        raise BudgetError(
            f"{alone.name} needs all {everything} coalitions of {game.n} clients. "
            f"Got a budget of {budget}. Leave the budget out or choose another method."
        )
    for asked in requests:
        asked.most_seeds = _seeds(game, asked, one_seed)
        _refuse_disguised(game, asked)
        # Among others, exact values are the reference, whatever the others may spend.
        in_company = alone is None and asked.method.guarantee == "exact"
        _set_budget(asked, game.n, None if in_company else budget)
        if asked.method.view and not isinstance(game, Traceable):
            raise MethodError(
                f"{asked.method.name} needs a federated game (FederatedGame): it looks at the clients' updates "
                f"in a recorded training. Got a {type(game).__name__}, which has utilities only."
            )
    return whole("The seed", seed, 0)


def plan_of(n: int, asked: Request, seed: int) -> Plan:
    """The plan of an admitted request, not yet begun."""
    rng = np.random.default_rng(seed)
    method = ESTIMATORS["exact"] if asked.exact else asked.method
    assert method.plan is not None
    given: dict[str, Any] = {} if asked.weights is None else {"weights": asked.weights}
    given |= {} if asked.index.solve is None else {"solve": asked.index.solve}
    if asked.exact:
        return method.plan(n, asked.budget, rng, **given)
    given |= {"known": asked.known} if asked.known else {}
    if method.uses_seeds:
        given["most_seeds"] = asked.most_seeds
    try:
        plan = method.plan(n, asked.budget, rng, **given, **asked.options)
    except TypeError as error:  # of a function that takes something else
        raise MethodError(f"{method.name} cannot be called as plan(n, budget, rng): {error}.") from error
    except FedvalueError:
        raise
    except Exception as error:  # of a function of one's own that does more than to make a generator
        if ESTIMATORS.get(method.name) is method:
            raise
        raise MethodError(f"{method.name} failed: {type(error).__name__}: {error}.") from error
    if not isinstance(plan, Generator):
        raise MethodError(
            f"A method of your own is a generator function plan(n, budget, rng, *, option=…): it yields lists of "
            f"coalitions, is sent their utilities and returns an Estimate. {method.name} returned an "
            f"object of the type {type(plan).__name__}."
        )
    return plan


def checked_budget(budget: int | None) -> int | None:
    return None if budget is None else whole("The budget", budget, 1, error=BudgetError)


def _set_budget(asked: Request, n: int, budget: int | None) -> None:
    """What the request may spend, and whether that is everything."""
    method = asked.method
    needs = 1 << n if method.guarantee == "exact" else _minimum(n, asked)
    if method.guarantee == "exact" and n > LARGEST_EXACT:
        raise BudgetError(
            f"{method.name} needs all 2**{n} coalitions; up to {LARGEST_EXACT} clients are supported. "
            "Choose a sampling method."
        )
    several = asked.most_seeds != 1
    if method.guarantee == "exact" and several:  # ∅ is not trained
        every = (1 << n) - 1
        asked.budget = asked.most_seeds * every if asked.most_seeds else every + extra_trainings(n)
        if budget is None or budget >= asked.budget:
            return
        if asked.most_seeds:
            raise BudgetError(
                f"{method.name} needs all {every} coalitions with each of {asked.most_seeds} seeds, {asked.budget} trainings. "
                f"Got a budget of {budget}. Leave the budget out or choose another method."
            )
        asked.most_seeds = 1  # enough for the values of one seed, not for trainings that show its luck
    if method.guarantee == "exact" or method.view:  # what they cost does not depend on the budget
        asked.budget = needs
        return
    asked.budget = max(needs, default_budget(n, several)) if budget is None else budget
    if asked.budget < needs:
        raise BudgetError(
            f"{method.name} needs a budget of at least {needs} coalitions for {n} clients. Got {asked.budget}."
        )
    restricted = asked.least > 1 or asked.options.get(_OWN_SEEDS, False)
    asked.exact = not method.fixed and not several and not restricted and asked.budget >= 1 << n


def _minimum(n: int, asked: Request) -> int:
    """The smallest budget that the method works with, as it says itself."""
    method = asked.method
    try:
        needs = method.minimum(n, asked.options)
    except FedvalueError:
        raise
    except Exception as error:
        if ESTIMATORS.get(method.name) is method:
            raise  # a fault of ours, and not to be explained away
        raise MethodError(f"The minimum of {method.name} failed: {type(error).__name__}: {error}.") from error
    return whole(f"The minimum of {method.name}", needs, 0, error=MethodError)


def _seeds(game: Game, asked: Request, one_seed: bool) -> int | None:
    """How many seeds the method may use; None: any number."""
    if not asked.method.uses_seeds or not isinstance(game, Reseeded) or asked.options.get("seeds") == 1:
        return 1
    return 1 if one_seed or asked.options.get("noise") is False else game.seeds
