"""The suite of trainers, as a user sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from federations import digits
from marks import first_fast

import fedvalue as fv
from fedvalue.testing import ConformanceError, check_trainer
from fedvalue.trainers import LocalTrainer
from fedvalue.training import Trace, Training

pytestmark = pytest.mark.usefixtures("one_thread")

Pairs = Iterator[tuple[int, fv.Outcome]]


class Mine:
    """A trainer of one's own, which leaves the work to another."""

    def __init__(self, memory: int | None = None) -> None:
        self.memory = memory
        self.inner = LocalTrainer("cpu", memory)

    def train(self, scenario: Any, learner: Any, training: Training, masks: Sequence[int]) -> Pairs:
        yield from self.inner.train(scenario, learner, training, masks)

    def trace(self, scenario: Any, learner: Any, training: Training) -> Trace:
        return self.inner.trace(scenario, learner, training)


@pytest.mark.slow
@pytest.mark.parametrize("how", first_fast([{"model": "linear"}, {}]), ids=str)
def test_a_right_one_passes(how: dict[str, Any]) -> None:
    check_trainer(Mine, **how)


@pytest.mark.slow
def test_other_models_and_data() -> None:
    check_trainer(lambda: LocalTrainer("cpu"), model="linear", scenario=digits((20, 30, 10)))
    with pytest.raises(fv.InputError, match="3 to 6 clients"):
        check_trainer(Mine, scenario=digits((20, 30)))


@pytest.mark.slow
def test_what_has_close_is_closed() -> None:
    opened, closed = [], []

    class Closing(Mine):
        def __init__(self) -> None:
            super().__init__()
            opened.append(self)

        def close(self) -> None:
            closed.append(self)

    check_trainer(Closing, model="linear")
    assert opened == closed


def changing(change: Callable[[Any, Any, list[int], list[Any]], Pairs]) -> Any:
    """A trainer that does something to what it hands over: a function of it, the rules, the masks and the pairs."""

    class Broken(Mine):
        def train(self, scenario: Any, learner: Any, training: Training, masks: Sequence[int]) -> Pairs:
            pairs = list(super().train(scenario, learner, training, masks))
            yield from change(self, training, list(masks), pairs)

    return Broken


def better(pairs: list[Any], amount: Callable[[int], float]) -> Pairs:
    """Metrics that are larger by an amount that depends on the place."""
    for place, (mask, outcome) in enumerate(pairs):
        metrics = {name: value + amount(place) for name, value in outcome.metrics.items()}
        yield mask, outcome._replace(metrics=metrics)


class OneSeed(Mine):
    """Its session, once opened, is used whatever the rules."""

    def train(self, scenario: Any, learner: Any, training: Training, masks: Sequence[int]) -> Pairs:
        yield from super().train(scenario, learner, replace(training, seed=3), masks)


class Draws(Mine):
    calls = 0

    def train(self, scenario: Any, learner: Any, training: Training, masks: Sequence[int]) -> Pairs:
        Draws.calls += 1
        yield from better(
            list(super().train(scenario, learner, training, masks)), lambda j: 1e-9 * Draws.calls
        )


class Unweighted(Mine):
    """Averages clients alike, whatever their data."""

    def train(self, scenario: Any, learner: Any, training: Training, masks: Sequence[int]) -> Pairs:
        fewest = min(len(data) for data in scenario.clients if len(data))
        yield from super().train(scenario.thinned(fewest), learner, training, masks)


class Once(Mine):
    """Cannot be used after it was left."""

    busy = False

    def train(self, scenario: Any, learner: Any, training: Training, masks: Sequence[int]) -> Pairs:
        if self.busy and masks:
            raise RuntimeError("still training")
        self.busy = True
        yield from super().train(scenario, learner, training, masks)
        self.busy = False


class ShortTrace(Mine):
    def trace(self, scenario: Any, learner: Any, training: Training) -> Trace:
        return super().trace(scenario, learner, replace(training, rounds=1))


class OtherTrace(Mine):
    def trace(self, scenario: Any, learner: Any, training: Training) -> Trace:
        return super().trace(scenario, learner, replace(training, seed=9))


ONE: dict[str, float] = {}


def one_dictionary(self: Any, training: Any, masks: list[int], pairs: list[Any]) -> Pairs:
    for mask, outcome in pairs:
        ONE.update(outcome.metrics)
        yield mask, outcome._replace(metrics=ONE)


@pytest.mark.parametrize(
    ("make", "rule"),
    first_fast([
        (changing(lambda s, t, ms, pairs: iter(pairs[:-1])), r"Broken: every coalition .* comes exactly once(.*\n)*.*nothing for"),
        (changing(lambda s, t, ms, pairs: iter(pairs * 2)), r"exactly once(.*\n)*.*\(\) twice"),
        (changing(lambda s, t, ms, pairs: iter([*pairs, (99, None)])), r"exactly once(.*\n)*.*got: +99"),
        (changing(one_dictionary), "an outcome that was handed over is not changed any more"),
        (changing(lambda s, t, ms, pairs: ((m, o._replace(seconds=0.0)) for m, o in pairs)), "where it was computed and how long"),
        (changing(lambda s, t, ms, pairs: better(pairs, lambda j: 0.01)), r"model is that of FedAvg.*\n.*coalition \(\)"),
        (changing(lambda s, t, ms, pairs: better(pairs, lambda j: 1e-9 * j)), r"same data are one training.*to the last bit"),
        (changing(lambda s, t, ms, pairs: better(pairs, lambda j: 0.01 * (len(ms) == 4))), r"does not depend on what else(.*\n)*.*in the call for"),
        (changing(lambda s, t, ms, pairs: better(pairs, lambda j: 0.01 if s.memory else 0.0)), r"memory bounds(.*\n)*.*memory=1"),
        (Unweighted, "model is that of FedAvg"),
        (Draws, "two fresh trainers give the same models for the same seed"),
        (OneSeed, r"the rules of each call are kept to\n.*seed=4"),
        (Once, r"RuntimeError: still training"),
        (ShortTrace, "a trace holds every round"),
        (OtherTrace, "a recorded run is the training of the grand coalition"),
    ], keep=5),
)  # fmt: skip
def test_a_broken_trainer_is_told_what_it_broke(make: Any, rule: str) -> None:
    with pytest.raises(ConformanceError, match=rule):
        check_trainer(make, model="linear")


@pytest.mark.slow
def test_what_does_not_average_has_no_trace() -> None:
    class Eager(Mine):
        def trace(self, scenario: Any, learner: Any, training: Training) -> Any:
            return "a trace"

    class Sums:
        averages = False

        def __init__(self) -> None:
            from fedvalue.learners import make_learner

            self.inner = make_learner("linear")

        def identity(self) -> Any:
            return self.inner.identity()

        def session(self, *given: Any) -> Any:
            return self.inner.session(*given)

    check_trainer(Mine, model=Sums())
    with pytest.raises(ConformanceError, match="there is no trace of a learner that does not average"):
        check_trainer(Eager, model=Sums())


class FirstSeed(LocalTrainer):
    """Trains all seeds in one go, as if they were the first one."""

    def train_trials(self, scenario, learner, training, trials, claim=list):  # type: ignore[no-untyped-def]
        seed_of = {}
        for mask, seed in dict.fromkeys(trials):
            seed_of.setdefault((mask, 0), []).append((mask, seed))
        for trial, outcome in super().train_trials(scenario, learner, training, list(seed_of)):
            for same in seed_of[trial]:
                yield same, outcome


class LosesASeed(LocalTrainer):
    def train_trials(self, scenario, learner, training, trials, claim=list):  # type: ignore[no-untyped-def]
        kept = [trial for trial in trials if trial[1] < 2]
        yield from super().train_trials(scenario, learner, training, kept, claim)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "rule"),
    [(FirstSeed, "that of training.replicate"), (LosesASeed, "every trial comes exactly once")],
)
def test_several_seeds_in_one_go(trainer: Any, rule: str) -> None:
    with pytest.raises(ConformanceError, match=rule):
        check_trainer(trainer, model="linear")
