"""What a user must know about an estimator before choosing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, getdoc, signature
from typing import Any

from fedvalue.errors import MethodError
from fedvalue.estimators._plan import Plan
from fedvalue.values import Estimate

__all__ = ["GUARANTEES", "UNSTATED", "Method", "own_method"]

UNSTATED = "unstated"
"""The guarantee of a method that says nothing about it."""
GUARANTEES = ("exact", "unbiased", "biased", UNSTATED)


def _any_budget(n: int, options: Mapping[str, Any]) -> int:
    return 1


@dataclass(frozen=True)
class Method:
    """An estimator and what a user must know before choosing it.

    `guarantee` is exact, unbiased, biased or unstated. `minimum(n, options)` is the smallest budget it works with.
    A method whose plan is `fixed` is run as it is whatever the budget; the others become exact when the budget
    covers all 2**n coalitions.

    Gradient methods have no `plan` but a `view`: a function of the games on one recorded training, which
    only federated games offer. That training is all they cost, whatever the budget.

    A plan that `uses_known` takes utilities that are in the store anyway, as `known`: a mapping from
    coalitions to utilities and the variances of their errors, given by the run and not by the user. One that
    `uses_seeds` may yield trials, and takes as `most_seeds` how many seeds the game has (None: any number).
    One that `uses_weights` takes as `weights` how utilities are summed up to values, where those are not the Shapley values;
    one that `solves` takes as `solve` what makes them of all utilities.

    >>> import fedvalue as fv
    >>> def alone(n, budget, rng):
    ...     utilities = yield [0, *(1 << client for client in range(n))]
    ...     return fv.Estimate(utilities[1:] - utilities[0])
    >>> method = fv.Method("alone", alone, minimum=lambda n, options: n + 1)
    >>> try:
    ...     fv.value([0.0, 1.0, 2.0, 4.0], method, budget=2)
    ... except fv.BudgetError as error:
    ...     print(error)
    alone needs a budget of at least 3 coalitions for 2 clients. Got 2.
    """

    name: str
    plan: Callable[..., Plan] | None
    description: str = ""
    guarantee: str = UNSTATED
    reference: str = ""
    minimum: Callable[[int, Mapping[str, Any]], int] = _any_budget
    fixed: bool = False
    view: Callable[..., Estimate] | None = None
    uses_known: bool = False
    uses_seeds: bool = False
    uses_weights: bool = False
    solves: bool = False

    def __post_init__(self) -> None:
        if (self.plan is None) == (self.view is None):
            raise MethodError(f"A method has either a plan or a view. {self.name!r} has both or neither.")
        if not isinstance(self.name, str) or not self.name.strip():
            raise MethodError(f"A method needs a name. Got {self.name!r}.")
        if not callable(self.function) or not callable(self.minimum):
            raise MethodError(
                f"The plan of {self.name!r} must be a generator function, and its minimum a function of (n, options)."
            )
        if self.guarantee not in GUARANTEES:
            raise MethodError(
                f"The guarantee of {self.name!r} must be one of {', '.join(GUARANTEES)}. Got {self.guarantee!r}."
            )

    @property
    def function(self) -> Callable[..., Plan] | Callable[..., Estimate]:
        """The plan or the view."""
        function = self.plan or self.view
        assert function is not None
        return function

    @property
    def options(self) -> list[str]:
        """The names of the method's options: the keyword-only parameters of its function."""
        parameters = signature(self.function).parameters.values()
        names = [p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY]
        of_run = {"known"} if self.uses_known else set()
        of_run |= {"most_seeds"} if self.uses_seeds else set()
        of_run |= {"weights"} if self.uses_weights else set()
        of_run |= {"solve"} if self.solves else set()
        return [name for name in names if name not in of_run]


def own_method(plan: Callable[..., Plan]) -> Method:
    """The description of a plan that comes without one: its name and the first line of its docstring."""
    function = getattr(plan, "func", plan)  # of a functools.partial
    name = getattr(function, "__name__", type(plan).__name__).replace("_", "-")
    return Method(name, plan, (getdoc(function) or "").partition("\n")[0], fixed=True)
