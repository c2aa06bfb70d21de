"""Which method and which budget: advice from measured accuracy, before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedvalue.accuracy import Expected, expected, measured, position
from fedvalue.errors import BudgetError, InputError
from fedvalue.run import default_method, runnable_methods

__all__ = ["BASELINE", "EXACT", "Advice", "Choice", "advise"]

EXACT, BASELINE = "exact", "equal"
_MOST_CLIENTS = 100_000
_MOST_TRIED = 1000  # clients, by bench/overhead.py
_LITTLE_SKILL = 0.2
_LEVEL = 1.1
_MOST_TRAININGS = 10**15  # more are not told apart: no time that somebody has is longer


@dataclass(frozen=True)
class Choice:
    """A method and its budget; `seconds` where the cost of a training is known."""

    method: str
    coalitions: int
    seconds: float | None
    expected: Expected


@dataclass(frozen=True)
class Advice:
    """What to run; what half and twice the trainings, and all, would buy; other methods; what to beware of."""

    clients: int
    cost: float | None
    choice: Choice
    half: Choice | None
    twice: Choice | None
    exact: Choice | None
    others: tuple[Choice, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def advise(
    clients: int,
    *,
    minutes: float | None = None,
    budget: int | None = None,
    target: float | None = None,
    cost: float | None = None,
) -> Advice:
    """The method with the smallest expected error for the `minutes` there are, or for a `budget` of coalitions.

    With a `target` instead, a relative error, the smallest budget that is expected to reach it. `cost` is the
    seconds that all trainings take together, divided by their number. The empty coalition trains nothing.

    >>> found = advise(10, minutes=30, cost=20)
    >>> found.choice.method, found.choice.coalitions, found.exact.coalitions
    ('surrogate', 91, 1024)
    """
    _whole("The number of clients", clients, 1, _MOST_CLIENTS)
    if sum(given is not None for given in (minutes, budget, target)) != 1:
        raise InputError(
            "Say one of the three: the minutes that there are, a budget of coalitions, or a target."
        )
    if cost is not None:
        _above_zero("The cost of a training", cost, "seconds")
    if minutes is not None:
        budget = _affordable(minutes, cost)
    if target is not None:
        choice = _reaching(clients, target)
    else:
        assert budget is not None
        _whole("The budget", budget, 2, None, BudgetError)
        choice = _best(clients, budget)
    return _around(clients, cost, choice)


def _affordable(minutes: float, cost: float | None) -> int:
    """The coalitions that can be evaluated in that time; the empty one trains nothing."""
    _above_zero("The time", minutes, "minutes")
    if cost is None:
        raise InputError("With minutes, the cost of a training in seconds is needed, too.")
    trainings = int(min(60 * minutes / cost + 1e-9, _MOST_TRAININGS))
    if trainings < 1:
        raise InputError(
            f"Not even one training fits into {minutes:g} minutes at {cost:g} seconds each. Give more time, or make "
            "trainings shorter: fewer rounds, fewer rows, a smaller model."
        )
    return trainings + 1


def _best(clients: int, budget: int) -> Choice:
    """Exact where the budget covers all coalitions, else the method with the smallest expected error.

    Methods within a tenth of it are level, and the one that is listed first in the table is taken.
    """
    if default_method(clients, budget) == EXACT:
        return Choice(EXACT, 1 << clients, None, Expected())
    choices = _choices(clients, budget)
    least = min(choice.expected.error for choice in choices)
    return next(choice for choice in choices if choice.expected.error <= _LEVEL * least)


def _choices(clients: int, budget: int) -> list[Choice]:
    """All measured methods that the budget allows, in the order of the table."""
    allowed = runnable_methods(clients, budget)
    names = [name for name in dict.fromkeys(cell.method for cell in measured()) if name in allowed]
    return [Choice(name, budget, None, expected(name, clients, budget)) for name in names]


def _reaching(clients: int, target: float) -> Choice:
    """The smallest budget whose best method is expected to err by the target at most."""
    _above_zero("The target", target, "of the norm of the values, such as 0.05")
    low, high = 2, _largest_measured(clients)
    if _best(clients, high).expected.error > target:
        if default_method(clients, 1 << min(clients, 64)) == EXACT:
            return _best(clients, 1 << clients)
        best = _best(clients, high)
        raise InputError(
            f"No measured budget reaches an error of {target:g} with {clients} clients: {best.coalitions} coalitions "
            f"by {best.method} are expected to err by {best.expected.error:.2g}. Choose a larger target."
        )
    while low < high:
        middle = (low + high) // 2
        if _best(clients, middle).expected.error <= target:
            high = middle
        else:
            low = middle + 1
    return _best(clients, low)


def _largest_measured(clients: int) -> int:
    """As many coalitions as the table reaches to for this number of clients, or all."""
    if clients == 1:
        return 2
    reach = math.expm1(max(position(cell.clients, cell.coalitions) for cell in measured()))
    largest = 2 + int(reach * clients * math.log(clients))
    return 1 << clients if clients < largest.bit_length() else largest


def _around(clients: int, cost: float | None, choice: Choice) -> Advice:
    trainings = choice.coalitions - 1
    exact = _best(clients, 1 << clients) if default_method(clients, 1 << min(clients, 64)) == EXACT else None
    half = _best(clients, trainings // 2 + 1) if trainings > 1 else None
    twice = _best(clients, 2 * trainings + 1) if choice.method != EXACT else None

    def timed(of: Choice) -> Choice:
        return of if cost is None else replace(of, seconds=(of.coalitions - 1) * cost)

    others = [] if choice.method == EXACT else _choices(clients, choice.coalitions)
    others.sort(key=lambda other: other.expected.error)
    return Advice(
        clients=clients,
        cost=cost,
        choice=timed(choice),
        half=half and timed(half),
        twice=twice and timed(twice),
        exact=exact and timed(exact),
        others=tuple(timed(other) for other in others if other.method != choice.method),
        warnings=tuple(_warnings(clients, choice)),
    )


def _warnings(clients: int, choice: Choice) -> Iterable[str]:
    if choice.method == EXACT:
        return
    numbers = sorted({cell.clients for cell in measured()})
    if choice.coalitions < clients + 2:
        yield (
            f"Fewer than {clients + 2:,} coalitions: not every client is trained alone even once. Make trainings shorter "
            "(fewer rounds, fewer rows, a smaller model), find more time, or value groups of clients as one."
        )
    if not choice.expected.clients_measured:
        nearest = numbers[0] if clients < numbers[0] else numbers[-1]
        yield (
            f"Extrapolated: games with {numbers[0]} to {numbers[-1]} clients were measured; the errors for {clients:,} "
            f"are those of {nearest} with as many coalitions for their number."
        )
    if clients > _MOST_TRIED:
        yield f"No method was tried with more than {_MOST_TRIED:,} clients."
    if not choice.expected.coalitions_measured:
        yield "More coalitions than were measured for so many clients: the error is as given, or less."
    if choice.expected.skill < _LITTLE_SKILL and choice.method != BASELINE:
        yield "No better than the equal split to speak of, which needs one training."


def _whole(
    what: str, given: object, least: int, most: int | None, kind: type[InputError] = InputError
) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < least or (most and given > most):
        bounds = f"at least {least}" if most is None else f"from {least} to {most:,}"
        raise kind(f"{what} must be a whole number, {bounds}. Got {given!r}.")


def _above_zero(what: str, given: object, unit: str) -> None:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < math.inf:
        raise InputError(f"{what} must be a number above 0, in {unit}. Got {given!r}.")
