"""Which method and which budget: advice from measured accuracy, before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedvalue._checks import whole
from fedvalue.advice._accuracy import (
    COLUMNS,
    Cell,
    Expected,
    equal_split,
    expected,
    largest_measured,
    measured,
)
from fedvalue.advice._expected import (
    EQUAL,
    EXACT,
    EXPECTED_COLUMNS,
    ONE_SEED,
    SEVERAL_SEEDS,
    ExpectedCell,
    against_expected,
    expected_cells,
    largest_budget,
)
from fedvalue.advice._words import accuracy, what_dominates, what_one_seed_gives, what_to_run
from fedvalue.coalitions import MOST_CLIENTS
from fedvalue.errors import BudgetError, InputError
from fedvalue.estimators.surrogate import default_seeds
from fedvalue.run import default_method

__all__ = [
    "COLUMNS",
    "EQUAL",
    "EXACT",
    "EXPECTED_COLUMNS",
    "ONE_SEED",
    "SEVERAL_SEEDS",
    "Advice",
    "Cell",
    "Choice",
    "Expected",
    "ExpectedCell",
    "advise",
    "against_expected",
    "equal_split",
    "expected",
    "expected_cells",
    "measured",
]

_MOST_TRIED = 1000  # clients, by bench/overhead.py
_LITTLE_SKILL = 0.2
_MOST_TRAININGS = 10**15  # more are not told apart: no time that somebody has is longer


@dataclass(frozen=True)
class Choice:
    """A method and its budget, spread over so many seeds; `seconds` where the cost of a training is known."""

    method: str
    budget: int
    seeds: int
    trainings: int
    seconds: float | None
    expected: Expected


@dataclass(frozen=True)
class Advice:
    """What to run; what half and twice the trainings, one seed, and all coalitions of it would buy; what to beware of.

    Errors are those against the values of the expected utility; where one seed was asked for (`of_one_seed`), those
    against its exact values. `equal_split` is the relative error to expect where everyone is paid the same: what a method
    has to beat. Of `test_rows`, where their number is given, the luck is in the errors.
    """

    clients: int
    cost: float | None
    choice: Choice
    half: Choice | None
    twice: Choice | None
    one_seed: Choice | None
    exact: Choice | None
    equal_split: float
    warnings: tuple[str, ...]
    of_one_seed: bool = False
    test_rows: int | None = None

    @property
    def command(self) -> str:
        """The command line that follows the advice."""
        seeds = " --seeds 1" if self.of_one_seed else ""
        budget = f"--method {self.choice.method} --budget {self.choice.budget}{seeds}"
        return f"fedvalue run --clients {self.clients} {'--exact' if self.choice.method == EXACT else budget}"

    def rows(self) -> dict[str, Choice]:
        """The choice beside its alternatives, each once: half, this, twice, one seed, exact."""
        all_rows = {
            "half": self.half,
            "this": self.choice,
            "twice": self.twice,
            ONE_SEED: self.one_seed,
            EXACT: self.exact,
        }
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
        notes = [f"Note: {warning}" for warning in self.warnings]
        lines = [what_to_run(self), accuracy(self), what_dominates(self), what_one_seed_gives(self)]
        return "\n".join([*filter(None, lines), *notes])


def advise(
    clients: int,
    *,
    minutes: float | None = None,
    budget: int | None = None,
    target: float | None = None,
    cost: float | None = None,
    seeds: int | None = None,
    test_rows: int | None = None,
) -> Advice:
    """What to run in the `minutes` there are, or with a `budget` of trainings, and the error to expect.

    That is `surrogate` with its trainings spread over several seeds, and the error is that against the values of the
    expected utility. With a `target` instead, a relative error, the smallest budget that is expected to reach it. `cost`
    is the seconds that all trainings take together, divided by their number. With `test_rows`, how many there are, the
    error has their luck in it.

    `seeds=1` is about the exact values of one seed instead: `exact` where all coalitions can be evaluated, else
    `surrogate`; a budget counts distinct coalitions then, of which the empty one trains nothing.

    >>> advice = advise(10, minutes=30, cost=20)
    >>> advice.choice.budget, advice.choice.seeds, advice.choice.expected.error < advice.exact.expected.error
    (90, 11, True)
    """
    clients = whole("The number of clients", clients, 1, MOST_CLIENTS)
    if seeds is not None:
        whole("The number of seeds that advice is for", seeds, 1, 1)
    if test_rows is not None:
        test_rows = whole("The number of test rows", test_rows, 1)
    if sum(given is not None for given in (minutes, budget, target)) != 1:
        raise InputError("Give one of three: the minutes available, a budget of trainings, or a target.")
    if cost is not None:
        _above_zero("The cost of a training", cost, "a number above 0, in seconds")
    options = _Options(clients, seeds == 1, test_rows)
    if minutes is not None:
        budget = options.budget_of(_affordable(minutes, cost))
    if target is not None:
        choice = options.reaching(target)
    else:
        choice = options.with_budget(whole("The budget", budget, 2, error=BudgetError))
    return _around(options, cost, choice)


def _affordable(minutes: float, cost: float | None) -> int:
    """The trainings that fit into that time."""
    _above_zero("The time", minutes, "a number above 0, in minutes")
    if cost is None:
        raise InputError("With minutes, the cost of a training in seconds is needed, too.")
    trainings = int(min(60 * minutes / cost + 1e-9, _MOST_TRAININGS))
    if trainings < 1:
        raise InputError(
            f"Not even one training fits into {minutes:g} minutes at {cost:g} seconds each. Give more time, or make "
            "trainings shorter: fewer rounds, fewer rows, a smaller model."
        )
    return trainings


@dataclass(frozen=True)
class _Options:
    """What can be run for so many clients, and the error to expect of it."""

    clients: int
    of_one_seed: bool
    test_rows: int | None

    def seeds(self, budget: int) -> int:
        return 1 if self.of_one_seed else default_seeds(self.clients, budget, None)

    def budget_of(self, trainings: int) -> int:
        """The budget that makes so many trainings: with one seed it counts the empty coalition, which trains nothing."""
        return trainings + 1 if self.seeds(trainings + 1) == 1 else trainings

    def with_budget(self, budget: int) -> Choice:
        """What to do with a budget."""
        clients, seeds = self.clients, self.seeds(budget)
        if self.of_one_seed:
            if default_method(clients, budget) == EXACT:
                return Choice(EXACT, 1 << clients, 1, (1 << clients) - 1, None, Expected())
            return Choice("surrogate", budget, 1, budget - 1, None, expected(clients, budget))
        trainings = budget if seeds > 1 else min(budget, 1 << min(clients, 64)) - 1
        return Choice("surrogate", budget, seeds, trainings, None, self._against(budget, SEVERAL_SEEDS))

    def one_seed(self, trainings: int) -> Choice | None:
        """As many trainings with one seed, where they are not all of its coalitions."""
        budget = trainings + 1
        if self.of_one_seed or default_method(self.clients, budget) == EXACT or budget >> self.clients:
            return None
        return Choice("surrogate", budget, 1, trainings, None, self._against(budget, ONE_SEED))

    def all_of_one_seed(self) -> Choice | None:
        """All coalitions, where there are not too many."""
        everything = 1 << min(self.clients, 64)
        if default_method(self.clients, everything) != EXACT:
            return None
        error = Expected() if self.of_one_seed else self._against(everything, EXACT)
        return Choice(EXACT, everything, 1, everything - 1, None, error)

    def equal_split(self) -> float:
        if self.of_one_seed or self.clients == 1:
            return equal_split(self.clients)
        return against_expected(self.clients, 1, EQUAL).error

    def reaching(self, target: float) -> Choice:
        """The smallest budget that is expected to err by the target at most."""
        _above_zero("The target", target, "a relative error above 0, such as 0.05")
        low = 2
        high = largest_measured(self.clients) if self.of_one_seed else largest_budget(self.clients)
        best = self.with_budget(high)
        if best.expected.error > target:
            if self.of_one_seed and (exact := self.all_of_one_seed()) is not None:
                return exact
            raise InputError(
                f"No measured budget reaches an error of {target:g} with {self.clients} clients: {best.trainings} "
                f"trainings by {best.method} are expected to err by {best.expected.error:.2g}. Choose a larger target."
                + (" More test rows would help." if best.expected.mostly == "test" else "")
            )
        while low < high:
            middle = (low + high) // 2
            if self.with_budget(middle).expected.error <= target:
                high = middle
            else:
                low = middle + 1
        return self.with_budget(low)

    def _against(self, budget: int, plan: str) -> Expected:
        return against_expected(self.clients, budget, plan, self.test_rows)


def _around(options: _Options, cost: float | None, choice: Choice) -> Advice:
    trainings, exact = choice.trainings, options.all_of_one_seed()
    half = options.with_budget(options.budget_of(trainings // 2)) if trainings > 1 else None
    twice = options.with_budget(options.budget_of(2 * trainings)) if choice.method != EXACT else None
    one_seed = options.one_seed(trainings)

    def timed(of: Choice) -> Choice:
        return of if cost is None else replace(of, seconds=of.trainings * cost)

    return Advice(
        clients=options.clients,
        cost=cost,
        choice=timed(choice),
        half=half and timed(half),
        twice=twice and timed(twice),
        one_seed=one_seed and timed(one_seed),
        exact=exact and timed(exact),
        equal_split=options.equal_split(),
        warnings=tuple(_warnings(options, choice)),
        of_one_seed=options.of_one_seed,
        test_rows=options.test_rows,
    )


def _warnings(options: _Options, choice: Choice) -> Iterable[str]:
    if choice.method == EXACT:
        return
    clients = options.clients
    table = measured() if options.of_one_seed else expected_cells()
    numbers = sorted({cell.clients for cell in table})
    if choice.trainings < clients + 1:
        yield (
            f"Fewer than {clients + 1:,} trainings: not every client is trained alone even once. Make trainings shorter "
            "(fewer rounds, fewer rows, a smaller model), find more time, or value groups of clients as one."
        )
    if not choice.expected.clients_measured:
        nearest = numbers[0] if clients < numbers[0] else numbers[-1]
        yield (
            f"Extrapolated: games with {numbers[0]} to {numbers[-1]} clients were measured; the errors for {clients:,} "
            f"are those of {nearest} with proportionally many trainings."
        )
    if clients > _MOST_TRIED:
        yield f"No method was tried with more than {_MOST_TRIED:,} clients."
    if not choice.expected.coalitions_measured:
        yield "More trainings than were measured for so many clients: the true error is the given one or smaller."
    if choice.expected.skill < _LITTLE_SKILL:
        yield "Hardly better than paying everyone the same, which needs one training."


def _above_zero(what: str, given: object, expected: str) -> None:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < math.inf:
        raise InputError(f"{what} must be {expected}. Got {given!r}.")
