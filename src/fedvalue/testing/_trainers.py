"""The conformance suite of trainers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Any, cast

from fedvalue.coalitions import full_mask, members
from fedvalue.errors import InputError
from fedvalue.learners import make_learner
from fedvalue.outcome import Outcome, of_model
from fedvalue.scenarios import Scenario
from fedvalue.testing._crowd import RULES, crowd
from fedvalue.testing._examiner import Examiner, are_close
from fedvalue.trainers import Closing, Reseeding, Trainer, is_meant
from fedvalue.training import Learner, Session, Training, canonical_masks, data_weights

__all__ = ["check_trainer"]

Metrics = dict[str, float]

_PLAIN_LOOP = "a coalition's model is that of FedAvg, one client and one round after the other"
_COMPANY = "a coalition's model does not depend on what else is asked for, in what order or in how many calls"


def check_trainer(
    make_trainer: Callable[..., Trainer],
    *,
    model: str | Learner | Callable[..., Any] = "mlp",
    scenario: Scenario | None = None,
    training: Training | None = None,
    tolerance: float = 1e-5,
) -> None:
    """Holds a trainer to its contract; raises a ConformanceError that says what it broke and with what input.

    `make_trainer()` gives a fresh trainer; if it takes `memory` (bytes), it is also asked for one with next to none.
    It trains every coalition of a small federation with a copy and a client without data (or of a `scenario` of your
    own with 3 to 6 clients), under the rules `training`; metrics must be those of a plain loop up to `tolerance`: a
    trainer may add in another order, which our own does not let depend on how it cuts the work (docs/scaling.md). The
    default model needs torch. A trainer that has `close` is closed.
    """
    place = crowd() if scenario is None else scenario
    if not 3 <= place.n <= 6:
        raise InputError(
            f"A scenario of 3 to 6 clients is needed: all coalitions are trained. Got {place.n}."
        )
    with _fresh(make_trainer) as trainer:
        examiner = Examiner(type(trainer).__name__)
    suite = _Suite(make_trainer, examiner, place, make_learner(model), training or RULES, tolerance)
    for check in _CHECKS:
        check(suite)


@contextmanager
def _fresh(make_trainer: Callable[..., Trainer], **options: Any) -> Iterator[Trainer]:
    """A trainer, closed in the end."""
    trainer = make_trainer(**options)
    try:
        yield trainer
    finally:
        if isinstance(trainer, Closing):
            trainer.close()


@dataclass(frozen=True)
class _Suite:
    """A trainer with something to train."""

    make_trainer: Callable[..., Trainer]
    examiner: Examiner
    scenario: Scenario
    learner: Learner
    training: Training
    tolerance: float

    @cached_property
    def reference(self) -> _PlainLoop:
        return _PlainLoop(self.learner, self.scenario, self.training)

    @property
    def everything(self) -> list[int]:
        return list(range(1 << self.scenario.n))

    def trainer(self, **options: Any) -> AbstractContextManager[Trainer]:
        return _fresh(self.make_trainer, **options)

    def train(
        self, trainer: Trainer, masks: Sequence[int], given: str, training: Training | None = None
    ) -> dict[int, Outcome]:
        """The outcomes of the coalitions, each of which must come exactly once."""
        with self.examiner.no_error("a trainer can train every coalition", given):
            outcomes = trainer.train(self.scenario, self.learner, training or self.training, masks)
            return self.examiner.collect(outcomes, masks, given)

    def as_reference(
        self, outcomes: dict[int, Outcome], rule: str, given: str, reference: _PlainLoop | None = None
    ) -> None:
        """The metrics are those of the plain loop."""
        for mask, outcome in outcomes.items():
            expected = (reference or self.reference).metrics(mask)
            # Of ∅ a trainer may also know what untrained models reach on average; that is of no single model.
            metrics = of_model(outcome.metrics)
            close = are_close(metrics, expected, self.tolerance)
            about = f"coalition {members(mask)}: {given}"
            self.examiner.expect(close, rule, about, expected, metrics)


class _PlainLoop:
    """FedAvg of one coalition after the other, as anyone would write it."""

    def __init__(self, learner: Learner, scenario: Scenario, training: Training) -> None:
        self.scenario = scenario
        self.rounds = training.rounds
        self.session: Session = learner.session(scenario, training, "cpu", None)
        self._trained: dict[int, Metrics] = {}

    def metrics(self, mask: int) -> Metrics:
        """Of the coalition's model after the last round; without data it is the initial one."""
        clients = tuple(i for i in members(mask) if len(self.scenario.clients[i]))
        key = sum(1 << i for i in clients)
        if key not in self._trained:
            model, of_one = self.session.initial(), [0] * len(clients)
            for t in range(1, self.rounds + 1) if clients else ():
                local = self.session.local(self.session.take(model, of_one), clients, t)
                model = self.session.average(local, of_one, data_weights(self.scenario, [clients]))
            self._trained[key] = dict(self.session.evaluate(model)[0])
        return self._trained[key]


def _all_coalitions(suite: _Suite) -> None:
    """Everything at once: as the plain loop has it, and the same training where the data are the same."""
    given = "all coalitions asked for at once"
    with suite.trainer() as trainer:
        outcomes = suite.train(trainer, suite.everything, given)
    suite.as_reference(outcomes, _PLAIN_LOOP, given)
    stands_for = canonical_masks(suite.scenario, suite.everything)
    rule = (
        "coalitions with the same data are one training: clients without data change nothing, and copies take each "
        "other's place, to the last bit"
    )
    for mask, trained in stands_for.items():
        one, other = dict(outcomes[mask].metrics), dict(outcomes[trained].metrics)
        given = f"coalitions {members(mask)} and {members(trained)}"
        suite.examiner.expect(one == other, rule, given, other, one)
    rule = "an outcome says where it was computed and how long it took"
    for mask, outcome in outcomes.items():
        told = outcome.backend and outcome.device and outcome.seconds > 0
        given = f"coalition {members(mask)}"
        suite.examiner.expect(told, rule, given, "backend, device and seconds", outcome[1:])


def _company(suite: _Suite) -> None:
    grand = full_mask(suite.scenario.n)
    with suite.trainer() as trainer:
        for masks in ([grand, 6, 5, 1], [3, 0, 1]):
            outcomes = suite.train(trainer, masks, f"asked {masks}")
            suite.as_reference(outcomes, _COMPANY, f"in the call for {masks}")
    with suite.trainer() as trainer:
        suite.as_reference(suite.train(trainer, [grand], "asked for alone"), _COMPANY, "asked for alone")


def _asked_twice_or_not_at_all(suite: _Suite) -> None:
    with suite.trainer() as trainer:
        suite.train(trainer, [], "no coalition")
        suite.train(trainer, [7, 0, 7, 3, 0, 3], "coalitions named twice: 7, 0, 7, 3, 0, 3")


def _memory(suite: _Suite) -> None:
    if "memory" not in signature(suite.make_trainer).parameters:
        return
    with suite.trainer(memory=1) as trainer:
        outcomes = suite.train(trainer, [0, 1, 5, 6, 7], "memory=1")
    suite.as_reference(outcomes, "memory bounds what is held at once, not the result", "memory=1")


def _seeds(suite: _Suite) -> None:
    masks = [0, 3, 7, 6]
    runs = []
    for _ in range(2):
        with suite.trainer() as trainer:
            outcomes = suite.train(trainer, masks, f"asked {masks}")
            runs.append({mask: dict(outcome.metrics) for mask, outcome in outcomes.items()})
    rule = "two fresh trainers give the same models for the same seed, to the last bit"
    suite.examiner.expect(runs[0] == runs[1], rule, f"asked {masks}", runs[0], runs[1])
    other = replace(suite.training, seed=suite.training.seed + 1)
    with suite.trainer() as trainer:
        suite.train(trainer, [7], "the first seed")
        outcomes = suite.train(trainer, [3, 7], "another seed", other)
    reference = _PlainLoop(suite.learner, suite.scenario, other)
    suite.as_reference(outcomes, "the rules of each call are kept to", f"seed={other.seed}", reference)


def _several_seeds(suite: _Suite) -> None:
    """Trials of several seeds in one go, for trainers that can: each as with its seed alone, and each once."""
    trials = [(7, 0), (3, 1), (7, 1), (0, 0), (6, 2)]
    with suite.trainer() as trainer:
        if not is_meant(trainer, "train_trials", "train"):
            return
        given = f"trials {trials}, pairs of a coalition and the number of a seed"
        with suite.examiner.no_error("a trainer can train with several seeds", given):
            rules = (suite.scenario, suite.learner, suite.training)
            found = list(cast(Reseeding, trainer).train_trials(*rules, trials))
    rule = "every trial comes exactly once"
    suite.examiner.expect(
        sorted(t for t, _ in found) == sorted(trials), rule, given, trials, [t for t, _ in found]
    )
    rule = "the seed with the number k is that of training.replicate(k)"
    for (mask, number), outcome in found:
        alone = _PlainLoop(suite.learner, suite.scenario, suite.training.replicate(number))
        suite.as_reference({mask: outcome}, rule, f"seed number {number}", alone)


def _two_readers(suite: _Suite) -> None:
    """Two readers of one trainer, under different rules: neither gets the other's models."""
    other = replace(suite.training, seed=suite.training.seed + 6)
    masks, given = [0, 1, 2, 6, 7], "two calls of train read in turns, under different seeds"
    with suite.trainer() as trainer:
        rules = (suite.training, other)
        readers = [trainer.train(suite.scenario, suite.learner, each, masks) for each in rules]
        with suite.examiner.no_error("trainings can be read side by side", given):
            pairs = list(zip(*readers, strict=True))
    references = (suite.reference, _PlainLoop(suite.learner, suite.scenario, other))
    for column, reference in enumerate(references):
        outcomes = suite.examiner.collect((pair[column] for pair in pairs), masks, given)
        rule = "readers of one trainer do not get each other's models"
        suite.as_reference(outcomes, rule, given, reference)


def _left_early(suite: _Suite) -> None:
    """A run that is interrupted closes the iterator: what came is right, and the trainer can go on."""
    given = "train left after the first coalition"
    with suite.trainer() as trainer:
        begun = trainer.train(suite.scenario, suite.learner, suite.training, suite.everything)
        mask, outcome = suite.examiner.first(begun, given)
        suite.as_reference({mask: outcome}, _PLAIN_LOOP, given)
        suite.as_reference(suite.train(trainer, [3, 7], f"after {given}"), _PLAIN_LOOP, f"after {given}")


def _trace(suite: _Suite) -> None:
    """A recorded run is the training of all, for learners whose models are averaged."""
    expect = suite.examiner.expect
    with suite.trainer() as trainer:
        if not suite.learner.averages:
            _no_trace(suite, trainer)
            return
        given = "trace of all clients"
        with suite.examiner.no_error("a trainer can record the training of all clients", given):
            trace = trainer.trace(suite.scenario, suite.learner, suite.training)
            metrics = trace.session.evaluate(trace.end)[0]
    with_data = tuple(i for i, data in enumerate(suite.scenario.clients) if len(data))
    rule = "a trace holds the clients that have data"
    expect(trace.clients == with_data, rule, given, with_data, trace.clients)
    rounds = (len(trace.starts), len(trace.locals))
    wanted = (suite.training.rounds, suite.training.rounds)
    expect(rounds == wanted, "a trace holds every round", given, wanted, rounds)
    expected = suite.reference.metrics(full_mask(suite.scenario.n))
    close = are_close(metrics, expected, suite.tolerance)
    expect(close, "a recorded run is the training of the grand coalition", given, expected, metrics)


def _no_trace(suite: _Suite, trainer: Trainer) -> None:
    try:
        trainer.trace(suite.scenario, suite.learner, suite.training)
    except InputError:
        return
    rule = "there is no trace of a learner that does not average"
    raise suite.examiner.broken(rule, "trace", "an InputError", "a trace")


_CHECKS = (
    _all_coalitions,
    _trace,
    _asked_twice_or_not_at_all,
    _company,
    _memory,
    _seeds,
    _several_seeds,
    _two_readers,
    _left_early,
)
