"""The suite of estimators, as a user sees it: what is right passes, what is broken is told what it broke."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest

import fedvalue as fv
from fedvalue.coalitions import prefix_masks
from fedvalue.estimators import ESTIMATORS
from fedvalue.testing import PROMISES, ConformanceError, check_estimator

Generator = np.random.Generator


def orders(n: int, budget: int, rng: Generator, *, pairs: bool = True) -> fv.Plan:
    """Marginal contributions along random orders, each followed by its reverse."""
    total, followed = np.zeros(n), 0
    utility: dict[int, float] = {}
    while True:
        order = rng.permutation(n)
        for way in (order, order[::-1]) if pairs else (order,):
            masks = [0, *prefix_masks(way)]
            new = [mask for mask in masks if mask not in utility]
            if len(utility) + len(new) > budget or followed >= 2 * budget:
                return fv.Estimate(total / followed, details={"orders": followed})
            utility |= zip(new, (yield new), strict=True)
            total[way] += np.diff([utility[mask] for mask in masks])
            followed += 1


def one_order(n: int, options: Any) -> int:
    return n + 1


ORDERS = fv.Method("orders", orders, "", "unbiased", minimum=one_order)


def alone(n: int, budget: int, rng: Generator) -> fv.Plan:
    """What each client adds to nobody."""
    utilities = yield [0, *(1 << i for i in range(n))]
    return fv.Estimate(utilities[1:] - utilities[0])


ALONE = fv.Method("alone", alone, "", "biased", minimum=one_order)


class TestWhatIsRightPasses:
    def test_an_unbiased_method(self) -> None:
        check_estimator(ORDERS, promises=["efficient", "null", "scaled", "shifted"])
        check_estimator(ORDERS, options={"pairs": False}, promises=["efficient", "null"])

    def test_a_deterministic_one(self) -> None:
        check_estimator(ALONE, promises=PROMISES.keys() - {"efficient"})

    def test_a_bare_plan_that_takes_any_budget(self) -> None:
        def nothing(n: int, budget: int, rng: Generator) -> fv.Plan:
            yield [0]
            return fv.Estimate(np.zeros(n))

        check_estimator(nothing, promises=["null", "deterministic"])

    def test_partials_and_objects(self) -> None:
        class Alone:
            def __call__(self, n: int, budget: int, rng: Generator) -> fv.Plan:
                return alone(n, budget, rng)

        check_estimator(replace(ORDERS, plan=partial(orders, pairs=False)))
        check_estimator(replace(ALONE, plan=Alone()))

    def test_options_that_need_more_clients(self) -> None:
        check_estimator("k-greedy", options={"k": 3}, smallest=3)
        with pytest.raises(ConformanceError, match=r"k-greedy, k=3: .*\n.*n=1, (.*\n)*.*MethodError.*'k'"):
            check_estimator("k-greedy", options={"k": 3})

    def test_what_is_asked_of_the_suite_must_exist(self) -> None:
        with pytest.raises(fv.InputError, match=r"Unknown promise 'efficent'. Did you mean 'efficient'\?"):
            check_estimator(ALONE, promises=["efficent"])
        with pytest.raises(fv.MethodError, match="no option 'k'"):
            check_estimator(ALONE, options={"k": 2})
        with pytest.raises(fv.InputError, match="smallest must be a whole number from 1 to 5"):
            check_estimator(ALONE, smallest=6)


def returning(**changes: Any) -> Callable[..., fv.Plan]:
    """A plan whose estimate has something wrong with it."""

    def wrong(n: int, budget: int, rng: Generator) -> fv.Plan:
        yield [0]
        return fv.Estimate(**{"mean": np.zeros(n), **{k: v(n) for k, v in changes.items()}})

    return wrong


def asking(ask: Callable[[int], Any]) -> Callable[..., fv.Plan]:
    """A plan that asks for something strange."""

    def strange(n: int, budget: int, rng: Generator) -> fv.Plan:
        yield ask(n)
        return fv.Estimate(np.zeros(n))

    return strange


def overspending(n: int, budget: int, rng: Generator) -> fv.Plan:
    yield list(range(min(budget, 1 << n)))
    yield [(1 << n) - 1]
    return fv.Estimate(np.zeros(n))


def endless(n: int, budget: int, rng: Generator) -> fv.Plan:
    while True:
        yield [0]


def global_numpy(n: int, budget: int, rng: Generator) -> fv.Plan:
    yield [0]
    return fv.Estimate(np.random.random(n))  # noqa: NPY002


def own_generator(n: int, budget: int, rng: Generator) -> fv.Plan:
    yield [0]
    return fv.Estimate(np.random.default_rng().random(n))


CALLS = count()


def remembering(n: int, budget: int, rng: Generator) -> fv.Plan:
    yield [0]
    return fv.Estimate(np.full(n, float(next(CALLS))))


SHARED: list[float] = []


def sharing(n: int, budget: int, rng: Generator) -> fv.Plan:
    """Right when it runs alone: it clears what it left behind."""
    SHARED.clear()
    for _ in range(3):
        SHARED.append(float((yield [0])[0]))
    return fv.Estimate(np.full(n, sum(SHARED)))


def changing(n: int, budget: int, rng: Generator) -> fv.Plan:
    utilities = yield [0]
    utilities -= 1
    return fv.Estimate(np.zeros(n))


def narrow(n: int, budget: int, rng: Generator) -> fv.Plan:
    """Bitmasks of 64 bits."""
    yield [0, *(np.int64(1) << np.arange(n))]
    return fv.Estimate(np.zeros(n))


def needs_two(n: int, budget: int, rng: Generator) -> fv.Plan:
    yield [0]
    return fv.Estimate(np.array([0.0, 1.0]) if n < 2 else np.zeros(n))


def not_a_generator(n: int, budget: int, rng: Generator) -> list[int]:
    return [0]


def without_default(n: int, budget: int, rng: Generator, *, depth: int) -> fv.Plan:
    yield [0]
    return fv.Estimate(np.zeros(n))


def takes_the_seed(n: int, budget: int, rng: Generator, *, seed: int = 0) -> fv.Plan:
    yield [0]
    return fv.Estimate(np.zeros(n))


@pytest.mark.parametrize(
    ("plan", "rule"),
    [
        (overspending, r"no more distinct coalitions than its budget.*\n.*budget=1.*\n.*at most 1\n.*2"),
        (endless, "a plan comes to an end"),
        (asking(lambda n: [1 << n]), r"coalitions as bitmasks.*\n.*n=1.*\n.*from 0 to 1\n.*got: +2"),
        (asking(lambda n: [-1]), r"coalitions as bitmasks.*\n.*\n.*\n.*got: +-1"),
        (asking(lambda n: [0.0]), r"coalitions as bitmasks.*\n.*\n.*\n.*got: +0\.0"),
        (asking(lambda n: [(0,)]), r"coalitions as bitmasks.*\n.*\n.*\n.*got: +\(0,\)"),
        (asking(lambda n: 0), r"coalitions as bitmasks.*\n.*\n.*\n.*got: +0"),
        (returning(mean=lambda n: np.zeros(n + 1)), r"`mean` holds a number for each client\n.*n=1.*\n.*\(1,\)\n.*\(2,\)"),
        (returning(mean=lambda n: np.full(n, np.nan)), "`mean` is finite"),
        (returning(mean=lambda n: ["a"] * n), "`mean` holds a number"),
        (returning(stderr=lambda n: np.full(n, -1.0)), "`stderr` is not negative"),
        (returning(stderr=lambda n: np.zeros((n, n))[0:0]), "`stderr` holds a number for each client"),
        (returning(dof=lambda n: np.zeros(n)), "`dof` is positive"),
        (returning(covariance=lambda n: np.eye(n)), r"`covariance` .*\n.*\n.*stderr beside it"),
        (returning(covariance=np.eye, stderr=lambda n: np.full(n, 2.0)), "whose diagonal is the square"),
        (returning(details=lambda n: {"strata": np.int64(3)}), r"details are plain data.*\n.*\n.*JSON"),
        (returning(details=lambda n: {"spread": float("inf")}), "details are plain data"),
        (returning(guarantee=lambda n: "certain"), r"one of the known words.*\n(.*\n)*.*'certain'"),
        (returning(notes=lambda n: "one sentence"), "notes are sentences"),
        (returning(forecast=lambda n: [1.5]), "a forecast is a list of fractions"),
        (returning(known_before=lambda n: 3), "known_before counts"),
        (global_numpy, "draws from the generator it is given and from nothing else"),
        (own_generator, r"the same result every time.*\(the same seed\)"),
        (remembering, "the same result every time"),
        (sharing, r"the same result every time.*advanced in turns"),
        (changing, r"ValueError: .*read-only"),
        (needs_two, r"`mean` holds a number for each client\n.*n=1"),
        (not_a_generator, "a plan is a generator function"),
        (without_default, r"every option has a default(.*\n)*.*\['depth'\]"),
        (takes_the_seed, r"other names than the parameters of `value`(.*\n)*.*\['seed'\] taken"),
    ],
)  # fmt: skip
def test_a_broken_plan_is_told_what_it_broke(plan: Any, rule: str) -> None:
    with pytest.raises(ConformanceError, match=rule):
        check_estimator(plan)


def claims(plan: Any, **says: Any) -> fv.Method:
    return fv.Method("claimant", plan, **{"fixed": True, "minimum": one_order, **says})


@pytest.mark.parametrize(
    ("method", "promises", "rule"),
    [
        (claims(alone, guarantee="exact"), [], r"exact values are the Shapley values\n.*n=2, budget=3"),
        (claims(alone, guarantee="unbiased"), [], r"right on average over seeds\n(.*\n)*.*standard errors off"),
        (replace(ESTIMATORS["ipss"], guarantee="unbiased"), [], "right on average over seeds"),
        (replace(ESTIMATORS["k-greedy"], guarantee="unbiased"), [], "right on average over seeds"),
        (claims(alone, minimum=lambda n, options: 1 << n + 1), [], "the minimum is a budget that can be given"),
        (claims(narrow), [], r"coalitions as bitmasks.*\n.*n=70"),
        (claims(alone), ["efficient"], r"promised: the values add up(.*\n)*.*0 off\n.*off in"),
        (ESTIMATORS["equal"], ["null"], "promised: a client that never changes"),
        (ESTIMATORS["permutation"], ["symmetric"], "promised: two clients that no coalition"),
        (ESTIMATORS["permutation"], ["anonymous"], "promised: all clients are worth the same"),
        (ESTIMATORS["permutation"], ["deterministic"], "promised: the values do not depend on the seed"),
        (ESTIMATORS["permutation"], ["relabelled"], "promised: relabelling"),
        (ESTIMATORS["gtb"], ["shifted"], r"promised: a constant added.*\n.*plus 3\.0"),
        (claims(returning(mean=np.ones)), ["scaled"], "promised: utilities times a factor"),
    ],
)  # fmt: skip
def test_a_broken_claim_is_found_out(method: fv.Method, promises: list[str], rule: str) -> None:
    with pytest.raises(ConformanceError, match=rule):
        check_estimator(method, promises=promises)


def test_known_utilities_must_be_taken_and_used() -> None:
    def deaf(n: int, budget: int, rng: Generator, *, known: Any = None) -> fv.Plan:
        yield [0]
        return fv.Estimate(np.zeros(n), known_before=len(known) - 1 if known else 0)

    with pytest.raises(ConformanceError, match=r"uses what is known(.*\n)*.*other values than without"):
        check_estimator(claims(deaf, uses_known=True))
    with pytest.raises(ConformanceError, match=r"TypeError.*'known'"):
        check_estimator(claims(alone, uses_known=True))


def test_a_guarantee_that_is_always_taken_back_is_none() -> None:
    humble = claims(returning(guarantee=lambda n: "biased"), guarantee="unbiased")
    with pytest.raises(ConformanceError, match=r"keeps its guarantee at some budget(.*\n)*.*0 of 40"):
        check_estimator(humble)


class TestViews:
    def view(self, trace: Any, rng: Generator, *, noise: float = 0.0) -> fv.Estimate:
        return fv.Estimate(trace.loss_drops().sum(0) + noise * rng.random(trace.n))

    def test_a_right_one_passes(self) -> None:
        check_estimator(
            fv.Method("drops", None, view=self.view), promises=["null", "symmetric", "deterministic"]
        )

    @pytest.mark.parametrize(
        ("promise", "rule"),
        [
            ("null", "a client that never changes a utility is worth 0"),
            ("symmetric", "two clients that no coalition can tell apart"),
            ("deterministic", "the values do not depend on the seed"),
        ],
    )
    def test_a_broken_promise_is_found_out(self, promise: str, rule: str) -> None:
        with pytest.raises(ConformanceError, match=f"drops, noise=1.0: promised: {rule}"):
            check_estimator(
                fv.Method("drops", None, view=self.view), options={"noise": 1.0}, promises=[promise]
            )

    def test_what_cannot_be_checked_cannot_be_promised(self) -> None:
        with pytest.raises(fv.InputError, match="Unknown promise 'efficient'"):
            check_estimator("dig-fl", promises=["efficient"])


@pytest.mark.slow
def test_the_suites_need_neither_pytest_nor_hypothesis_nor_torch() -> None:
    code = """
import sys
sys.modules |= dict.fromkeys(["pytest", "hypothesis", "torch", "sklearn", "matplotlib"])  # cannot be imported
import fedvalue as fv
from fedvalue.testing import check_estimator, check_game, check_store, check_trainer
check_estimator("permutation")
check_game(fv.TableGame([0.0, 1.0, 1.0, 3.0]))
check_store(lambda: fv.UtilityStore("store.db"), persistent=True)
try:
    check_trainer(fv.trainers.LocalTrainer)
except fv.MissingExtraError as error:
    print(error)
"""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pip install 'fedvalue[torch]'" in done.stdout
