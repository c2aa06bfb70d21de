"""Which method and which budget: advice from measured accuracy, before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedvalue._checks import whole
from fedvalue._text import count, duration, percent, plural
from fedvalue.advice._accuracy import (
    COLUMNS,
    Cell,
    Expected,
    equal_split,
    expected,
    largest_measured,
    measured,
)
from fedvalue.advice._luck import luck_left, luck_statement
from fedvalue.errors import BudgetError, InputError
from fedvalue.run import default_method

__all__ = ["COLUMNS", "Advice", "Cell", "Choice", "Expected", "advise", "equal_split", "expected", "measured"]

_EXACT = "exact"
_MOST_CLIENTS = 100_000
_MOST_TRIED = 1000  # clients, by bench/overhead.py
_LITTLE_SKILL = 0.2
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
    """What to run; what half and twice the trainings, and all, would buy; what to beware of.

    Errors are those against the exact values of one seed. `luck_left` is what is left of their error against the values
    to be expected over seeds, where the trainings are spread over seeds; None where that was not measured. `equal_split` is
    the relative error to expect where everyone is paid the same: what a method has to beat.
    """

    clients: int
    cost: float | None
    choice: Choice
    half: Choice | None
    twice: Choice | None
    exact: Choice | None
    equal_split: float
    warnings: tuple[str, ...]
    luck_left: float | None = None

    @property
    def command(self) -> str:
        """The command line that follows the advice."""
        budget = f"--method {self.choice.method} --budget {self.choice.coalitions}"
        return (
            f"fedvalue run --clients {self.clients} {'--exact' if self.choice.method == _EXACT else budget}"
        )

    def rows(self) -> dict[str, Choice]:
        """The choice beside its alternatives, each once: half, this, twice, exact."""
        all_rows = {"half": self.half, "this": self.choice, "twice": self.twice, "exact": self.exact}
        rows: dict[str, Choice] = {}
        for name, choice in all_rows.items():
            if choice is not None and choice not in rows.values():
                rows[name] = choice
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """The advice in words."""
        choice, error = self.choice, self.choice.expected
        everything = f"2^{self.clients}" if self.clients > 40 else count(1 << self.clients)
        time = "" if choice.seconds is None else f", about {duration(choice.seconds)}"
        what = f"{choice.method} with {count(choice.coalitions)} of {everything} coalitions{time}."
        if choice.method == _EXACT:
            accuracy = "Exact values of one seed: no error of estimation."
        else:
            accuracy = (
                f"Expected relative error: {percent(error.error)} % (four of five games: {percent(error.low)} to "
                f"{percent(error.high)} %, larger where clients differ more). "
                f"Paying everyone the same: {percent(self.equal_split)} %."
            )
        notes = [f"Note: {warning}" for warning in self.warnings]
        return "\n".join([f"{plural(self.clients, 'client')}: {what}", accuracy, self.luck, *notes])

    @property
    def luck(self) -> str:
        """What another seed would do to the values, as far as that was measured."""
        choice = self.choice
        return luck_statement(self.clients, choice.coalitions - 1, choice.method == _EXACT)


def advise(
    clients: int,
    *,
    minutes: float | None = None,
    budget: int | None = None,
    target: float | None = None,
    cost: float | None = None,
) -> Advice:
    """What to run in the `minutes` there are, or with a `budget` of coalitions, and the error to expect.

    That is `exact` where all coalitions can be evaluated, else `surrogate`, which had the smallest error of all methods
    wherever it was measured. With a `target` instead, a relative error, the smallest budget that is expected to reach
    it. `cost` is the seconds that all trainings take together, divided by their number. The empty coalition trains
    nothing.

    >>> print(advise(10, minutes=30, cost=20))
    10 clients: surrogate with 91 of 1,024 coalitions, about 30 min.
    Expected relative error: 1.0 % (four of five games: 0.17 to 11 %, larger where clients differ more). Paying everyone the same: 12 %.
    That is against the exact values of one seed, which are luck themselves. Against the values to be expected, trainings over several seeds erred by 34% of what all coalitions of one seed did.
    """
    clients = whole("The number of clients", clients, 1, _MOST_CLIENTS)
    if sum(given is not None for given in (minutes, budget, target)) != 1:
        raise InputError("Give one of three: the minutes available, a budget of coalitions, or a target.")
    if cost is not None:
        _above_zero("The cost of a training", cost, "a number above 0, in seconds")
    if minutes is not None:
        budget = _affordable(minutes, cost)
    if target is not None:
        choice = _reaching(clients, target)
    else:
        choice = _with(clients, whole("The budget", budget, 2, error=BudgetError))
    return _around(clients, cost, choice)


def _affordable(minutes: float, cost: float | None) -> int:
    """The coalitions that can be evaluated in that time; the empty one trains nothing."""
    _above_zero("The time", minutes, "a number above 0, in minutes")
    if cost is None:
        raise InputError("With minutes, the cost of a training in seconds is needed, too.")
    trainings = int(min(60 * minutes / cost + 1e-9, _MOST_TRAININGS))
    if trainings < 1:
        raise InputError(
            f"Not even one training fits into {minutes:g} minutes at {cost:g} seconds each. Give more time, or make "
            "trainings shorter: fewer rounds, fewer rows, a smaller model."
        )
    return trainings + 1


def _with(clients: int, budget: int) -> Choice:
    """What to do with a budget."""
    if (method := default_method(clients, budget)) == _EXACT:
        return Choice(method, 1 << clients, None, Expected())
    return Choice(method, budget, None, expected(clients, budget))


def _all(clients: int) -> Choice | None:
    """All coalitions, where there are not too many."""
    choice = _with(clients, 1 << min(clients, 64))
    return choice if choice.method == _EXACT else None


def _reaching(clients: int, target: float) -> Choice:
    """The smallest budget that is expected to err by the target at most."""
    _above_zero("The target", target, "a relative error above 0, such as 0.05")
    low, high = 2, largest_measured(clients)
    best = _with(clients, high)
    if best.expected.error > target:
        if (exact := _all(clients)) is not None:
            return exact
        raise InputError(
            f"No measured budget reaches an error of {target:g} with {clients} clients: {best.coalitions} coalitions "
            f"by {best.method} are expected to err by {best.expected.error:.2g}. Choose a larger target."
        )
    while low < high:
        middle = (low + high) // 2
        if _with(clients, middle).expected.error <= target:
            high = middle
        else:
            low = middle + 1
    return _with(clients, low)


def _around(clients: int, cost: float | None, choice: Choice) -> Advice:
    trainings = choice.coalitions - 1
    half = _with(clients, trainings // 2 + 1) if trainings > 1 else None
    twice = _with(clients, 2 * trainings + 1) if choice.method != _EXACT else None
    exact = _all(clients)

    def timed(of: Choice) -> Choice:
        return of if cost is None else replace(of, seconds=(of.coalitions - 1) * cost)

    return Advice(
        clients=clients,
        cost=cost,
        choice=timed(choice),
        half=half and timed(half),
        twice=twice and timed(twice),
        exact=exact and timed(exact),
        equal_split=equal_split(clients),
        warnings=tuple(_warnings(clients, choice)),
        luck_left=None if choice.method == _EXACT else luck_left(clients, choice.coalitions - 1),
    )


def _warnings(clients: int, choice: Choice) -> Iterable[str]:
    if choice.method == _EXACT:
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
            f"are those of {nearest} with proportionally many coalitions."
        )
    if clients > _MOST_TRIED:
        yield f"No method was tried with more than {_MOST_TRIED:,} clients."
    if not choice.expected.coalitions_measured:
        yield "More coalitions than were measured for so many clients: the true error is the given one or smaller."
    if choice.expected.skill < _LITTLE_SKILL:
        yield "Hardly better than paying everyone the same, which needs one training."


def _above_zero(what: str, given: object, expected: str) -> None:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < math.inf:
        raise InputError(f"{what} must be {expected}. Got {given!r}.")
