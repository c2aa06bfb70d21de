"""One estimator under examination: how it is run, and what is true of every single run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import full_mask
from fedvalue.estimators import GUARANTEES, Method, Plan
from fedvalue.testing._examiner import Examiner, is_number
from fedvalue.testing.games import Array, KnownGame, random_table
from fedvalue.values import Estimate

__all__ = ["Answer", "Run", "Subject", "drive", "look_up"]

Answer = Callable[[Sequence[int]], Array]
"""Utilities of the coalitions that a plan asked for, in their order."""

_WITHIN_BUDGET = (
    "a plan asks for no more distinct coalitions than its budget; the smallest budget it works with is the `minimum` "
    "of its Method"
)
_MOST_STEPS = 10_000  # a plan that asks more often than this, beyond its budget, is taken not to end


def drive(plan: Plan, answer: Answer) -> Estimate:
    """Runs a plan to its end, with nothing in between: `answer` gives the utilities of what it asks for.

    >>> from fedvalue.estimators import ESTIMATORS
    >>> plan = ESTIMATORS["equal"].plan(2, 2, np.random.default_rng(0))
    >>> drive(plan, lambda masks: np.array([float(mask.bit_count()) for mask in masks])).mean.tolist()
    [1.0, 1.0]
    """
    sent: Array | None = None
    while True:
        try:
            ask = next(plan) if sent is None else plan.send(sent)
        except StopIteration as done:
            estimate: Estimate = done.value
            return estimate
        sent = answer(ask)


def look_up(table: Array) -> Answer:
    """Answers from a table of all utilities."""
    return lambda masks: table[np.fromiter(masks, np.int64, len(masks))]


@dataclass(frozen=True)
class Run:
    """What a plan returned, and the distinct coalitions that it asked for."""

    estimate: Estimate
    asked: frozenset[int]
    given: str

    @cached_property
    def mean(self) -> Array:
        """The values."""
        return np.asarray(self.estimate.mean, dtype=np.float64)


@dataclass(frozen=True)
class Subject:
    """An estimator with its options, and what it is held to besides the contract."""

    method: Method
    options: Mapping[str, Any] = field(default_factory=dict)
    promises: frozenset[str] = frozenset()
    smallest: int = 1

    @cached_property
    def examiner(self) -> Examiner:
        """Speaks in the name of the method and its options."""
        return Examiner(", ".join([self.method.name, *(f"{k}={v!r}" for k, v in self.options.items())]))

    def minimum(self, n: int) -> int:
        """The smallest budget that the method says it works with."""
        return self.method.minimum(n, self.options)

    def budgets(self, n: int) -> list[int]:
        """From the smallest that the method takes to one short of everything, in a few steps."""
        least = self.minimum(n)
        return sorted({least, *(max(least, part) for part in (n + 2, 1 << n - 1, (1 << n) - 1))})

    def a_budget(self, n: int, wanted: int) -> int:
        """About so many coalitions, or what the method needs."""
        return max(self.minimum(n), wanted)

    def a_game(self) -> KnownGame:
        """Without structure, of five clients."""
        return random_table(5, 3)

    def plan(self, n: int, budget: int, seed: int, **more: Any) -> Plan:
        """A plan that has not begun."""
        given = f"n={n}, budget={budget}, seed={seed}"
        assert self.method.plan is not None
        rule = "a plan is a generator function of (n, budget, rng) and its options: it yields coalitions"
        with self.examiner.no_error(rule, given):
            plan = self.method.plan(n, budget, np.random.default_rng(seed), **more, **self.options)
        came = f"{type(plan).__name__} {plan!r}"
        self.examiner.expect(isinstance(plan, Generator), rule, given, "a generator", came)
        return plan

    def run_on(self, game: KnownGame, budget: int, seed: int = 0, **more: Any) -> Run:
        """A run on one of the games with known values."""
        return self.run(game.n, look_up(game.table), budget, seed, f"the game {game}", **more)

    def run(self, n: int, answer: Answer, budget: int, seed: int, where: str, **more: Any) -> Run:
        """A run in which every ask and the estimate are checked."""
        given = f"n={n}, budget={budget}, seed={seed} on {where}"
        asked: set[int] = set()
        steps = 0

        def checked(ask: Any) -> Array:
            nonlocal steps
            steps += 1
            self._check_ask(n, ask, given)
            asked.update(ask)
            self.examiner.expect(len(asked) <= budget, _WITHIN_BUDGET, given, f"at most {budget}", len(asked))
            ends = steps <= _MOST_STEPS + budget
            self.examiner.expect(ends, "a plan comes to an end", given, "an Estimate", f"{steps} asks")
            utilities = np.array(answer(ask), dtype=np.float64)
            utilities.flags.writeable = False  # a run may hand out the table of the game itself
            return utilities

        plan = self.plan(n, budget, seed, **more)
        with self.examiner.no_error("a plan works with every budget from its minimum up", given):
            estimate = drive(plan, checked)
        self.check_estimate(n, estimate, given)
        more_known = len((more.get("known") or {}).keys() - asked)
        counted = estimate.known_before
        rule = "known_before counts utilities that were known besides those asked for"
        self.examiner.expect(0 <= counted <= more_known, rule, given, f"0 to {more_known}", counted)
        return Run(estimate, frozenset(asked), given)

    def expect_same(self, one: Run, other: Run, why: str) -> None:
        """Two runs must agree in everything, to the last bit."""
        rule = f"the same result every time, to the last bit ({why})"
        asked, again = sorted(one.asked), sorted(other.asked)
        self.examiner.expect(asked == again, rule, one.given, f"asks {asked}", f"asks {again}")
        for part in ("mean", "stderr", "dof", "covariance"):
            first, second = getattr(one.estimate, part), getattr(other.estimate, part)
            same = (first is None) == (second is None) and (first is None or np.array_equal(first, second))
            self.examiner.expect(same, rule, one.given, f"{part} {first}", f"{part} {second}")

    def _check_ask(self, n: int, ask: Any, given: str) -> None:
        rule = "a plan yields lists of coalitions as bitmasks: bit i is set when client i takes part"
        if isinstance(ask, range) and ask == range(1 << n):
            return
        listed = isinstance(ask, Sequence | np.ndarray) and not isinstance(ask, str | bytes)
        self.examiner.expect(listed, rule, given, "a list of whole numbers", repr(ask))
        whole = (int, np.integer)
        for mask in ask:
            right = isinstance(mask, whole) and not isinstance(mask, bool) and 0 <= mask <= full_mask(n)
            if not right:
                raise self.examiner.broken(rule, given, f"whole numbers from 0 to {full_mask(n)}", repr(mask))

    def check_estimate(self, n: int, estimate: Any, given: str) -> None:
        """What is true of every estimate, whatever the method."""
        expect = self.examiner.expect
        kind = type(estimate).__name__
        expect(isinstance(estimate, Estimate), "a plan returns an Estimate", given, "an Estimate", kind)
        for name in ("mean", "stderr", "dof"):
            self._check_vector(name, getattr(estimate, name), n, given)
        if estimate.covariance is not None:
            self._check_covariance(estimate, n, given)
        self._check_rest(estimate, given)

    def _check_vector(self, name: str, vector: Any, n: int, given: str) -> None:
        if vector is None and name != "mean":
            return
        rule = f"`{name}` holds a number for each client"
        with self.examiner.no_error(rule, given):
            numbers: NDArray[np.float64] = np.asarray(vector, dtype=np.float64)
        self.examiner.expect(numbers.shape == (n,), rule, given, f"shape ({n},)", f"shape {numbers.shape}")
        if name == "dof":
            self.examiner.expect((numbers > 0).all(), "`dof` is positive", given, "above 0", numbers)
            return
        finite, negative = np.isfinite(numbers).all(), name == "stderr" and (numbers < 0).any()
        self.examiner.expect(finite, f"`{name}` is finite", given, "finite numbers", numbers)
        self.examiner.expect(not negative, "`stderr` is not negative", given, "at least 0", numbers)

    def _check_covariance(self, estimate: Estimate, n: int, given: str) -> None:
        covariance = np.asarray(estimate.covariance, dtype=np.float64)
        rule = "`covariance` is a symmetric matrix over the clients whose diagonal is the square of `stderr`"
        shape = covariance.shape
        self.examiner.expect(shape == (n, n), rule, given, f"shape ({n}, {n})", f"shape {shape}")
        self.examiner.expect(estimate.stderr is not None, rule, given, "a stderr beside it", "stderr is None")
        variances = np.square(np.asarray(estimate.stderr, dtype=np.float64))
        scale = max(1e-300, float(variances.max()))
        fits = np.allclose(np.diag(covariance), variances, rtol=1e-6, atol=1e-9 * scale)
        symmetric = np.allclose(covariance, covariance.T, rtol=1e-6, atol=1e-9 * scale)
        self.examiner.expect(fits and symmetric, rule, given, variances, np.diag(covariance))

    def _check_rest(self, estimate: Estimate, given: str) -> None:
        expect = self.examiner.expect
        guarantee, unit, notes = estimate.guarantee, estimate.unit, estimate.notes
        rule = "the guarantee of a run is one of the known words"
        expect(guarantee in (None, *GUARANTEES), rule, given, f"None or one of {GUARANTEES}", repr(guarantee))
        expect(unit is None or isinstance(unit, str), "the unit is text", given, "None or text", repr(unit))
        sentences = not isinstance(notes, str) and all(isinstance(note, str) for note in notes)
        expect(sentences, "notes are sentences", given, "a list of texts", repr(notes))
        forecast = list(estimate.forecast)
        fractions = all(is_number(part) and -1e-9 <= part <= 1 + 1e-9 for part in forecast)
        expect(fractions, "a forecast is a list of fractions", given, "numbers from 0 to 1", forecast)
        self.examiner.plain_data(dict(estimate.details), "details are plain data", given)
        self.examiner.plain_data(forecast, "a forecast is plain data", given)
