"""The suite of games, as a user sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import fedvalue as fv
from fedvalue.testing import ConformanceError, check_game


class Sizes:
    """A game of one's own: a coalition is worth the square root of its size."""

    n = 5
    names = ("a", "b", "c", "d", "e")
    id = "sizes-5"
    doubts: tuple[str, ...] = ()
    replicates = 1

    def utility(self, outcome: fv.Outcome) -> float:
        return outcome.metrics["root"]

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, fv.Outcome]]:
        for mask in masks:
            yield mask, fv.Outcome({"root": mask.bit_count() ** 0.5})


def test_a_right_one_passes() -> None:
    check_game(Sizes())
    check_game(Sizes(), masks=[0, 3, 31], same=[Sizes()], different=[fv.TableGame(np.arange(32.0))])


def test_what_is_asked_of_the_suite_must_exist() -> None:
    with pytest.raises(fv.InputError, match="coalitions of 5 clients"):
        check_game(Sizes(), masks=[32])


def broken(**members: Any) -> Any:
    return type("Broken", (Sizes,), members)()


def evaluating(change: Callable[[int, list[int], fv.Outcome], Iterator[tuple[int, Any]]]) -> Any:
    """A game that does something to each pair that it yields."""

    def evaluate(self: Any, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Any]]:
        for mask, outcome in Sizes.evaluate(self, masks, replicate):
            yield from change(mask, list(masks), outcome)

    return broken(evaluate=evaluate)


RNG = np.random.default_rng(0)
ONE = {"root": 0.0}


def one_dictionary(mask: int, masks: list[int], outcome: fv.Outcome) -> Iterator[tuple[int, Any]]:
    ONE.update(outcome.metrics)
    yield mask, fv.Outcome(ONE)


class NewId(Sizes):
    """Another id whenever it was used."""

    id = "first"

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, fv.Outcome]]:
        self.id += "+"
        yield from super().evaluate(masks, replicate)


class Drained(Sizes):
    """Works once for every coalition."""

    def __init__(self) -> None:
        self.left = set(range(32))

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, fv.Outcome]]:
        for mask in masks:
            self.left.remove(mask)
        yield from super().evaluate(masks, replicate)


@pytest.mark.parametrize(
    ("game", "rule"),
    [
        (broken(n=0), r"Broken: n is a whole number of at least 1(.*\n)*.*got: +0"),
        (broken(names=("a", "b")), r"names are different texts(.*\n)*.*a tuple of 5"),
        (broken(names=("a", "b", "c", "d", "a")), "names are different texts"),
        (broken(names=list("abcde")), "names are different texts"),
        (broken(id=""), "the id is text"),
        (broken(id=7), "the id is text"),
        (broken(replicates=0), "replicates is a whole number"),
        (broken(doubts="all"), "doubts are texts"),
        (fv.Outcome({}), "a game has n, names"),
        (evaluating(lambda m, ms, o: iter([(m, o)] * (m != 31))), r"exactly once(.*\n)*.*nothing for \[\(0, 1, 2, 3, 4\)\]"),
        (evaluating(lambda m, ms, o: iter([(m, o), (m, o)])), r"exactly once(.*\n)*.*\(\) twice"),
        (evaluating(lambda m, ms, o: iter([(m ^ 8, o)])), r"exactly once(.*\n)*.*that were asked for"),
        (evaluating(lambda m, ms, o: iter([(m, 0.5)])), r"comes with an Outcome(.*\n)*.*got: +0\.5"),
        (evaluating(lambda m, ms, o: iter([(m, fv.Outcome({}))])), "metrics by name"),
        (evaluating(lambda m, ms, o: iter([(m, fv.Outcome({"root": np.nan}))])), r"with an Outcome.*\n.*\(\)\n.*finite metrics"),
        (evaluating(lambda m, ms, o: iter([(m, o._replace(seconds=-1.0))])), "seconds of at least 0"),
        (evaluating(lambda m, ms, o: iter([(m, o._replace(device=None))])), "backend and device as text"),
        (evaluating(lambda m, ms, o: iter([(m, fv.Outcome({"root": RNG.random()}))])), r"same utility whenever(.*\n)*.*coalition"),
        (evaluating(lambda m, ms, o: iter([(m, fv.Outcome({"root": float(len(ms))}))])), r"same utility whenever(.*\n)*.*company"),
        (evaluating(one_dictionary), "an outcome that was handed over is not changed any more"),
        (broken(utility=lambda self, outcome: float("inf")), r"the utility is a finite number\n.*coalition \(\)"),
        (broken(utility=lambda self, outcome: outcome.metrics["accuracy"]), "KeyError: 'accuracy'"),
        (broken(evaluate=lambda self, masks, replicate=0: iter([(0, fv.Outcome({"root": 0.0}))])), r"no coalition\n.*that were asked for"),
        (NewId(), "evaluating changes nothing in the id"),
        (Drained(), "KeyError"),
    ],
)  # fmt: skip
def test_a_broken_game_is_told_what_it_broke(game: Any, rule: str) -> None:
    with pytest.raises(ConformanceError, match=rule):
        check_game(game)


def test_a_noisy_game_may_say_so() -> None:
    noisy = evaluating(lambda m, ms, o: iter([(m, fv.Outcome({"root": RNG.random()}))]))
    check_game(noisy, deterministic=False)


def test_the_utility_is_the_metric_that_is_named() -> None:
    named = {"metric": "root", "stored_as": "root", "higher_is_better": True, "retrain": False}
    check_game(broken(**named))
    for wrong in ({"higher_is_better": False}, {"stored_as": "loss"}):
        with pytest.raises(ConformanceError, match="the utility is the metric that the game names"):
            check_game(broken(**named | wrong))


def test_ids_tell_games_apart() -> None:
    with pytest.raises(
        ConformanceError, match=r"the id is the same for the same(.*\n)*.*made anew(.*\n)*.*sizes-5"
    ):
        check_game(Sizes(), same=[broken(id="sizes-6")])
    with pytest.raises(ConformanceError, match=r"another one for others(.*\n)*.*a different game"):
        check_game(Sizes(), different=[broken(n=5)])


def test_utilities_come_from_what_the_store_keeps() -> None:
    """Not from what the game remembers of the outcomes it handed out."""

    class Remembers(Sizes):
        def __init__(self) -> None:
            self.known: dict[int, float] = {}

        def utility(self, outcome: fv.Outcome) -> float:
            return self.known[id(outcome.metrics)]

        def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, fv.Outcome]]:
            for mask, outcome in super().evaluate(masks, replicate):
                self.known[id(outcome.metrics)] = outcome.metrics["root"]
                yield mask, fv.Outcome(outcome.metrics)

    with pytest.raises(
        ConformanceError,
        match=r"passed to `value`, with a store|the store gives back the utilities that were kept",
    ):
        check_game(Remembers())
