"""The conformance suite of estimators."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, signature
from numbers import Integral
from typing import Any

import numpy as np

from fedvalue._checks import whole
from fedvalue.errors import BudgetError
from fedvalue.estimators import Method, Plan
from fedvalue.run import as_method, check_options, value
from fedvalue.testing._guarantees import check_average, check_changed_games, check_known_games, judge
from fedvalue.testing._promises import PROMISES, TOLERANCE, checked_promises
from fedvalue.testing._subject import Answer, Subject, look_up
from fedvalue.testing.games import Array, random_table
from fedvalue.values import Estimate, Values

__all__ = ["check_estimator"]

_FEW = 4  # up to so many clients, every single budget is tried
_MANY = 70  # clients: their bitmasks do not fit into 64 bits


def check_estimator(
    method: str | Method | Callable[..., Plan],
    *,
    options: Mapping[str, Any] | None = None,
    promises: Iterable[str] = (),
    smallest: int = 1,
) -> None:
    """Holds an estimator to its contract; raises a ConformanceError that says what it broke and with what input.

    `method` is what `value` takes: a plan of your own, a `Method`, or a name. It is run with `options` on games with
    known values, from one client (`smallest`, where the options need more) to seventy, with budgets from its minimum
    to all coalitions. Its guarantee is tested: exact values must be the true ones, unbiased ones on average over
    seeds. What it `promises` besides (see `PROMISES`) is tested, too; an exact method promises everything.

    A method with a view is checked on a small recorded training, which needs torch.
    """
    described = as_method(method)
    chosen = dict(options or {})
    check_options(described, chosen)
    if described.view:
        from fedvalue.testing._views import check_view

        check_view(described, chosen, promises)
        return
    held_to = frozenset(PROMISES) if described.guarantee == "exact" else checked_promises(promises)
    subject = Subject(described, chosen, held_to, whole("smallest", smallest, 1, 5))
    for check in _CHECKS:
        check(subject)


def _description(subject: Subject) -> None:
    """What the method says of itself."""
    method, expect = subject.method, subject.examiner.expect
    for n in range(subject.smallest, 12):
        least = subject.minimum(n)
        possible = isinstance(least, Integral) and 1 <= least <= 1 << n
        rule = "the minimum is a budget that can be given"
        expect(possible, rule, f"n={n}", f"a whole number from 1 to {1 << n}", repr(least))
    bare = [name for name, default in _defaults(method).items() if default is Parameter.empty]
    expect(
        not bare,
        "every option has a default",
        f"its options {method.options}",
        "defaults",
        f"none for {bare}",
    )
    taken = sorted(set(signature(value).parameters) & set(method.options))
    rule = "options have other names than the parameters of `value`"
    expect(not taken, rule, f"its options {method.options}", "other names", f"{taken} taken")


def _few_clients(subject: Subject) -> None:
    """From one client on, with every budget there is."""
    for n in range(subject.smallest, _FEW + 1):
        game = random_table(n, 7)
        last = 1 << n if subject.method.fixed else (1 << n) - 1  # beyond, a run takes the exact method
        for budget in range(subject.minimum(n), last + 1):
            judge(subject, game, subject.run_on(game, budget))


def _many_clients(subject: Subject) -> None:
    """Bitmasks are Python's integers, of any width."""
    if subject.method.guarantee == "exact":
        return

    def answer(masks: Sequence[int]) -> Array:
        return np.array([1 - 1 / (1 + int(mask).bit_count()) + 0.01 * (int(mask) & 1) for mask in masks])

    subject.run(_MANY, answer, subject.a_budget(_MANY, 3 * _MANY), 0, "a game of many clients")


def _randomness(subject: Subject) -> None:
    """All randomness comes from the generator: the same seed gives the same, whatever else is drawn."""
    game = subject.a_game()
    budget = subject.a_budget(game.n, 20)
    before = _global_state()
    first = subject.run_on(game, budget, 1)
    rule = "a plan draws from the generator it is given and from nothing else"
    untouched = before == _global_state()
    subject.examiner.expect(untouched, rule, first.given, "global generators as they were", "one has moved")
    subject.expect_same(first, subject.run_on(game, budget, 1), "the same seed")
    plans = [subject.plan(game.n, budget, 1) for _ in range(2)]
    for estimate in _in_turns(plans, look_up(game.table)):
        subject.expect_same(
            first, replace(first, estimate=estimate), "two plans of one seed, advanced in turns"
        )
    for seed in range(2, 6) if "deterministic" in subject.promises else ():
        subject.expect_same(
            first, subject.run_on(game, budget, seed), f"promised: {PROMISES['deterministic']}"
        )


def _in_turns(plans: Sequence[Plan], answer: Answer) -> list[Estimate]:
    """Plans with generators of their own, advanced in turns: what they share would show."""
    estimates: dict[int, Estimate] = {}
    utilities: dict[int, Array | None] = dict.fromkeys(range(len(plans)))
    while utilities:
        for j, sent in list(utilities.items()):
            try:
                utilities[j] = answer(next(plans[j]) if sent is None else plans[j].send(sent))
            except StopIteration as done:
                estimates[j] = done.value
                del utilities[j]
    return list(estimates.values())


def _global_state() -> tuple[Any, ...]:
    """Of the generators that everybody shares."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return random.getstate(), name, np.asarray(keys).tobytes(), *rest


def _options(subject: Subject) -> None:
    """Options are declared with their defaults: given explicitly, these change nothing."""
    game = subject.a_game()
    budget = subject.a_budget(game.n, 20)
    explicit = replace(subject, options={**_defaults(subject.method), **subject.options})
    subject.expect_same(subject.run_on(game, budget), explicit.run_on(game, budget), "defaults given or not")


def _defaults(method: Method) -> dict[str, Any]:
    parameters = signature(method.function).parameters
    return {name: parameters[name].default for name in method.options}


def _known_utilities(subject: Subject) -> None:
    """A method that uses_known takes utilities that it did not pay for, and makes something of them."""
    if not subject.method.uses_known:
        return
    game = subject.a_game()
    budget = subject.a_budget(game.n, 2 * game.n)
    plain = subject.run_on(game, budget)
    subject.expect_same(plain, subject.run_on(game, budget, known={}), "nothing known")
    known = {mask: (float(utility), 0.0) for mask, utility in enumerate(game.table)}
    informed = subject.run_on(game, budget, known=known)
    given = f"{informed.given}, all utilities known"
    rule = "a method that uses_known uses what is known, and counts it in known_before"
    counted = informed.estimate.known_before
    subject.examiner.expect(counted > 0, rule, given, "known_before above 0", counted)
    used = not np.array_equal(informed.mean, plain.mean)
    subject.examiner.expect(used, rule, given, "other values than without", informed.mean)


def _by_value(subject: Subject) -> None:
    """By the public entrance: the same values, counted, and refused below the minimum."""
    expect, options = subject.examiner.expect, subject.options
    game = subject.a_game()
    budget, least = subject.a_budget(game.n, 20), subject.minimum(game.n)
    plain = subject.run_on(game, budget, 3)
    given = f"value(game, method, budget={budget}, seed=3) on the game {game}"
    with subject.examiner.no_error("`value` takes the method, and JSON takes its values", given):
        values = value(game.table, subject.method, budget, 3, **options)
        again = Values.from_dict(json.loads(json.dumps(values.to_dict(), allow_nan=False)))
    same = again.mean.tolist() == plain.mean.tolist()
    expect(same, "`value` gives what the plan gives", given, plain.mean, again.mean)
    asked = len(plain.asked)
    expect(values.evaluations == asked, "distinct coalitions are counted", given, asked, values.evaluations)
    try:
        value(game.table, subject.method, least - 1, **options)
    except BudgetError:
        return
    raise subject.examiner.broken(
        "less than the minimum is refused", f"budget={least - 1}", "a BudgetError", "values"
    )


def _all_coalitions(subject: Subject) -> None:
    """A budget that covers everything makes a sampling method exact; a fixed one is run as it is."""
    game = subject.a_game()
    everything = 1 << game.n
    for budget in (everything, everything + 1, 1000):
        given = f"value(game, method, budget={budget}) on the game {game}, which has {everything} coalitions"
        values = value(game.table, subject.method, budget, **subject.options)
        exact = values.guarantee == "exact" and np.allclose(values.mean, game.values, rtol=0, atol=TOLERANCE)
        rule = "a budget of all coalitions gives exact values"
        subject.examiner.expect(exact or subject.method.fixed, rule, given, game.values, values.mean)
        spent = values.evaluations
        subject.examiner.expect(
            spent <= everything, "no coalition counts twice", given, f"≤ {everything}", spent
        )


# The quick ones first, so that a broken plan is told the simplest thing that is wrong with it.
_CHECKS = (
    _description,
    _few_clients,
    check_known_games,
    _randomness,
    _options,
    check_changed_games,
    _known_utilities,
    _by_value,
    _all_coalitions,
    _many_clients,
    check_average,
)
