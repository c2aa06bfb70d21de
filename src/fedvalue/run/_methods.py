"""Which method, and what it may spend."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, get_type_hints

import numpy as np

from fedvalue._checks import did_you_mean, expect, fits, in_words
from fedvalue._imports import own_object
from fedvalue.errors import MethodError
from fedvalue.estimators import ESTIMATORS, Method, Plan, own_method

__all__ = [
    "LARGEST_EXACT",
    "MethodLike",
    "as_method",
    "check_options",
    "check_types",
    "default_budget",
    "default_method",
    "methods",
    "runnable_methods",
]

MethodLike: TypeAlias = "str | Method | Callable[..., Plan]"
"""The name of a method, a method of one's own, or its plan alone."""

LARGEST_EXACT = 25  # clients: 2**25 coalitions are what a table in memory still holds
_QUICK_EXACT = 20
_SEEDS = 8  # of a game with few clients, all of whose coalitions can be trained with each of them
_OF_RUNS = ("method", "budget", "seed", "store", "progress", "on_stage", "on_outcome", "on_values")


def methods() -> list[Method]:
    """Every method with its description, guarantee and reference, in the order of the documentation.

    >>> [m.name for m in methods() if m.guarantee == "exact"]
    ['exact', 'exact-cc', 'exact-perm']
    """
    return list(ESTIMATORS.values())


def default_budget(n: int, several_seeds: bool = False) -> int:
    """How much is spent when nothing is said: n·ln n, at least 32 coalitions, at most all.

    Where it is spread over several seeds, at least 64 trainings: over eight seeds they err by half as much as 32 over
    four. Of few clients, as many as train all coalitions with eight seeds.

    >>> default_budget(10), default_budget(100), default_budget(3)
    (32, 461, 8)
    >>> default_budget(10, several_seeds=True), default_budget(100, True), default_budget(3, True)
    (64, 461, 56)
    """
    least, everything = (64, _SEEDS * ((1 << n) - 1)) if several_seeds else (32, 1 << n)
    return min(everything, max(least, math.ceil(n * math.log(n))))


def default_method(n: int, budget: int | None = None, seeds: int | None = 1) -> str:
    """The method when nothing is said: exact where the budget covers all coalitions with all seeds, else the surrogate.

    `seeds` is how many the game has. Where it has any number (None), the exact values of a single one are further from
    the expected values than those of the surrogate from fewer trainings over several.

    >>> default_method(10), default_method(5), default_method(10, budget=1024), default_method(10, 1024, seeds=8)
    ('surrogate', 'exact', 'exact', 'surrogate')
    """
    if seeds is None:
        return "surrogate"
    limit = default_budget(n, seeds > 1) if budget is None else budget
    return "exact" if n <= LARGEST_EXACT and seeds << n <= limit else "surrogate"


def runnable_methods(n: int, budget: int | None, traces: bool = False) -> list[str]:
    """The methods that a budget allows for n clients, exact ones as far as they are quick to compute.

    Gradient methods are among them where the game `traces`, that is, can record a training.
    """
    limit = default_budget(n) if budget is None else budget
    return [
        m.name
        for m in ESTIMATORS.values()
        if (n <= _QUICK_EXACT if m.guarantee == "exact" else m.minimum(n, {}) <= limit)
        and (traces or not m.view)
    ]


def as_method(method: MethodLike) -> Method:
    """A method by its name, by package.module:plan, as it is, or made of a plan.

    >>> as_method("ipss").guarantee
    'biased'
    """
    if isinstance(method, str) and ":" in method:
        expected = "a plan, which is a generator function of (n, budget, rng), or an fv.Method around one"
        method = own_object(method, "method", expected, lambda own: callable(own) or isinstance(own, Method))
    if isinstance(method, Method):
        return method
    if isinstance(method, str) and method in ESTIMATORS:
        return ESTIMATORS[method]
    if callable(method):
        return own_method(method)
    raise MethodError(
        f"Unknown method {method!r}. {did_you_mean(method, ESTIMATORS)}Methods: {', '.join(ESTIMATORS)}, or a plan "
        "of your own."
    )


def check_options(method: Method, options: Mapping[str, Any]) -> None:
    """Refuses options that the method does not have."""
    expect("options", options, Mapping, "a dict of options of the method", error=MethodError)
    known = method.options
    for option in options:
        if option == "noise" and option not in known:
            raise MethodError(
                f"How much is luck is measured apart for exact values only, and the method is {method.name}: leave --no-noise "
                "(the option noise) out, or give --exact (method='exact')."
            )
        if option not in known:
            hint = did_you_mean(option, [*known, *_OF_RUNS])
            if option in _OF_RUNS:
                hint = "It is an option of the run itself. "
            raise MethodError(
                f"The method {method.name!r} has no option {option!r}. {hint}Its options: {', '.join(known) or 'none'}."
            )


def check_types(method: Method, options: Mapping[str, Any]) -> None:
    """Refuses options of another type than the method says. Methods check theirs; this explains what they missed."""
    hints = get_type_hints(method.function)
    for name, given in options.items():
        plain = given.item() if isinstance(given, np.generic) else given
        plain = list(plain) if isinstance(plain, (tuple, range)) else plain
        also_float = (
            isinstance(plain, int) and not isinstance(plain, bool) and fits(1.5, hints.get(name, Any))
        )
        if not also_float and not fits(plain, hints.get(name, Any)):
            raise MethodError(
                f"The option {name!r} of {method.name} must be {in_words(hints[name])}. Got {given!r}."
            )
