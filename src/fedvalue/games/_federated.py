"""The federated game: v(S) is the utility of the model that the clients of S train together."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from fedvalue._checks import checked_init, expect, whole
from fedvalue._extras import is_installed
from fedvalue.coalitions import Trial, members
from fedvalue.errors import InputError, UtilityError
from fedvalue.games._base import MOST_REPLICATES
from fedvalue.games._disclosure import by_rule, shown_to_others
from fedvalue.games._empty import EmptyCoalition, EmptyLike
from fedvalue.games._members import Members, translation
from fedvalue.games._test_parts import TestPart, test_parts_of
from fedvalue.learners import make_learner
from fedvalue.learners.losses import LossLike, losing
from fedvalue.learners.metrics import MetricLike, Metrics, count_by, further_metrics, measuring
from fedvalue.outcome import Outcome, empty_rule
from fedvalue.scenarios import Scenario
from fedvalue.store import fingerprint
from fedvalue.trainers import (
    Apart,
    Claim,
    ClaimTrials,
    LocalTrainer,
    Staged,
    Trainer,
    make_trainer,
    train_trials,
    with_seed,
)
from fedvalue.training import (
    Doubtful,
    Learner,
    Pooling,
    Seedless,
    Separable,
    StartingLearner,
    Trace,
    TraceGames,
    Training,
    counted_rows,
    same_data,
    seconds_per_pass_of,
    usual_training,
    work_of_all,
)
from fedvalue.values import Disclosure
from fedvalue.yardsticks import Baseline, Empty

__all__ = ["FederatedGame", "id_of_named"]

_ARGUMENTS = ("model", "training", "loss", "metric", "metrics", "retrain", "trainer", "replicates")
_SEMANTICS = 1  # raised when the same rules come to mean another training


@checked_init
class FederatedGame:
    """Clients of a scenario, a model, rules of training, and the metric that counts.

    `loss` is what models are trained by where it is not cross-entropy or the squared error: a name, a function (outputs,
    labels) → loss of every sample, a `Loss`, or package.module:function. It is part of what identifies the game.

    `metric` is one of the metrics of every outcome (accuracy, loss, …, or part/accuracy for a named part of
    the test set), one of scikit-learn's by name (log_loss, f1_macro, recall[3] for class 3), or one of your own: a
    `Metric`, a function (outputs, labels) → number, or package.module:function. `metrics`, a list or a dict by name, are
    measured besides, and can be counted later. Where lower is better its negative is the utility. The store keeps all metrics, so
    another choice trains nothing again, except a metric of your own that came after the trainings: with
    `retrain` they are made again and get it, without it they are refused. With `replicates` > 1 every training is
    repeated with other random numbers; the utility is the mean.

    `empty` is v(∅), what a coalition without any data is worth. Values are counted from there. "initial": the mean over
    untrained models; "majority": the best constant answer, by the training rows, measured on the test rows; "chance":
    guessing; or a number, in the metric that counts. It changes no training.

    >>> import fedvalue as fv
    >>> scenario = fv.load_scenario("synthetic", clients=3, samples=20)
    >>> game = fv.FederatedGame(scenario, training=fv.Training(rounds=2), metric="r2")
    >>> game.names, fv.value(game, "exact-cc").evaluations
    (('client-0', 'client-1', 'client-2'), 8)
    """

    def __init__(
        self,
        scenario: Scenario,
        model: str | Learner | Callable[..., Any] = "mlp",
        training: Training | None = None,
        *,
        loss: LossLike | None = None,
        metric: MetricLike | None = None,
        metrics: Metrics = (),
        retrain: bool = False,
        trainer: str | Trainer = "local",
        replicates: int = 1,
        empty: EmptyLike = "initial",
        **trainer_options: Any,
    ) -> None:
        expect(
            "The scenario", scenario, Scenario, "an fv.Scenario",
            "fv.load_scenario makes one by name, and fv.run values it by name.",
        )  # fmt: skip
        if training is not None:
            expect("training", training, Training, "an fv.Training", "Say fv.Training(rounds=4).")
        self.scenario = scenario
        self.learner = losing(make_learner(model), loss, scenario)
        self.training = training or usual_training(scenario, self.learner)
        further = further_metrics(metrics, scenario.task, scenario.test_parts)
        self._counted = count_by(metric, scenario.task, scenario.test_parts, further)
        own = self._counted.own
        measured = {one.stored_as: one for one in (*further.values(), *((own,) if own else ()))}
        self._measuring = measuring(self.learner, measured) if measured else self.learner
        self._tried = not measured
        expect("retrain", retrain, bool, "True or False")
        self.retrain = retrain
        self.trainer = make_trainer(trainer, trainer_options, also=_ARGUMENTS)
        self.replicates = whole("replicates", replicates, 1, MOST_REPLICATES)
        self._empty = EmptyCoalition(empty, scenario, self._counted)
        self._without_data = sum(1 << i for i, data in enumerate(scenario.clients) if not len(data))
        self.n = scenario.n
        self.names, self.named = scenario.names, True
        self.doubts = self.learner.doubts if isinstance(self.learner, Doubtful) else ()
        self.doubts += tuple(doubt for one in measured.values() for doubt in one.doubts)
        self._first_model, later = self._start()
        self.doubts += later
        self.id = self._id()

    @property
    def seeds(self) -> int | None:
        """Trainings can be repeated with any number of seeds, unless that changes nothing or utilities are means over
        replicates anyway."""
        return None if self.replicates == 1 and not isinstance(self.learner, Seedless) else 1

    @property
    def random(self) -> bool:
        """Whether another training of a coalition would give another model."""
        return not isinstance(self.learner, Seedless) or self.learner.draws

    @property
    def test_rows(self) -> int:
        """How many test rows models are measured on."""
        return len(self.scenario.test)

    def parts_of_test(self) -> tuple[TestPart, ...]:
        """The test rows of each client, where the test set consists of the clients' own."""
        return test_parts_of(self.scenario, self._counted, self._empty)

    def disclosure(self, trials: Collection[Trial], is_complete: bool = True) -> Disclosure | None:
        """What left each client in a run that made these trainings; where all rows are here, what would have. None for
        a model that needs the rows themselves.
        """
        if isinstance(self.learner, Pooling):
            return None
        apart = isinstance(self.trainer, Apart)
        sent = (
            self.trainer.sent(self.names, self.training.algorithm)
            if isinstance(self.trainer, Apart)
            else by_rule(self.scenario, self.training, trials)
        )
        at_clients = not self.scenario.test.here
        clients = shown_to_others(self.scenario, self.training, trials, sent, at_clients)
        return Disclosure(clients, apart, is_complete)

    @property
    def metric(self) -> str:
        """The name of the metric that counts."""
        return self._counted.name

    @property
    def higher_is_better(self) -> bool:
        """Whether the utility is the metric itself and not its negative."""
        return self._counted.higher_is_better

    @property
    def stored_as(self) -> str:
        """The name under which outcomes hold the metric: with a fingerprint, where it is the user's own."""
        return self._counted.stored_as

    @property
    def empty(self) -> str:
        """The rule by which v(∅) is fixed; a number as =0.5."""
        return self._empty.rule

    @property
    def empty_as(self) -> str:
        """The name under which outcomes of coalitions without data hold what they are worth."""
        return self._empty.stored_as

    def is_empty(self, mask: int) -> bool:
        """Whether nobody in the coalition has data."""
        return not mask & ~self._without_data

    @property
    def idle(self) -> tuple[int, ...]:
        """Clients without data, which change no coalition."""
        return members(self._without_data)

    @property
    def alike(self) -> tuple[tuple[int, ...], ...]:
        """Groups of clients with the same data: of such a group, it does not matter who takes part."""
        return tuple(tuple(group) for group in same_data(self.scenario) if len(group) > 1)

    def empty_of(self, outcome: Outcome) -> Empty:
        """How v(∅) was fixed, from the outcome of a coalition without data."""
        return self._empty.described(outcome)

    @property
    def suspicious(self) -> tuple[str, ...]:
        """What was noticed about the clients' data when it was read."""
        return () if self.scenario.report is None else self.scenario.report.suspicious

    def baseline(self) -> Baseline | None:
        """What the best answer reaches that ignores the features; None where the test rows are elsewhere."""
        if not is_installed("torch"):  # a learner of one's own may do without
            return None
        from fedvalue.learners.answers import baseline_of

        return baseline_of(self.scenario, self._counted)

    def follow(self, on_stage: Callable[[str], None]) -> None:
        """Has the trainer say what it is doing, where it can: progress between finished coalitions."""
        if isinstance(self.trainer, Staged):
            self.trainer.stage = on_stage

    def exact_cost(self, seconds: Mapping[int, float]) -> tuple[int, float | None]:
        """Trainings for exact values, and their seconds, extrapolated from those of some coalitions."""
        everything = work_of_all(self.scenario, self.training)
        trained = {mask: took for mask, took in seconds.items() if not self.is_empty(mask)}
        speed = seconds_per_pass_of(self.scenario, self.training, trained)
        return everything.trained * self.replicates, None if speed is None else speed * everything.passes

    def description(self) -> dict[str, Any]:
        """What identifies the game: data, model and rules; not the metric, names, backend or device."""
        return {
            "scenario": self.scenario.fingerprint,
            "learner": {**self.learner.identity(), **self._first_model},
            "training": self.training.identity(),
        }

    @property
    def changed(self) -> bool:
        """Whether rows or the learner are not what they were when the game was made."""
        return self.scenario.changed or self.id != self._id()

    def _id(self) -> str:
        return _id_of(self.description())

    def members(self) -> Members | None:
        """Whose data the game is played with; None where a training may depend on others than its members."""
        learner, clients = self.learner, self.scenario.clients
        beyond = learner.beyond(self.scenario, self.training) if isinstance(learner, Separable) else None
        if beyond is None:
            return None
        digest = fingerprint(beyond, self._largest_weight())[0][:24]
        return Members(tuple(c.fingerprint for c in clients), tuple(map(len, clients)), digest)

    def _largest_weight(self) -> float | None:
        """The rows to which weights are clipped, which all clients decide together; None where nobody's are."""
        sizes, counted = list(map(len, self.scenario.clients)), counted_rows(self.scenario, self.training)
        clipped = self.training.weights == "clipped" and any(
            c < s for c, s in zip(counted, sizes, strict=True)
        )
        return max(counted) if clipped else None

    def kin(self, game_id: str, theirs: Members) -> Callable[[int], int | None] | None:
        """What coalitions of another game are in this one, where nothing but the clients differs.

        The id of a game says what it is made of: it must be the one that this game would have with those clients.
        """
        ours = self.members()
        if ours is None or ours.beyond != theirs.beyond:
            return None
        with_them = {**self.description(), "scenario": self.scenario.fingerprint_with(theirs.data)}
        return translation(theirs, ours) if game_id == _id_of(with_them) else None

    def adopted(self, mask: int, outcome: Outcome) -> Outcome:
        """An outcome of such a game as this one has it: the best constant answer is that of its own clients."""

        def of_anybody(name: str) -> bool:
            return empty_rule(name) != "majority"

        metrics = {name: number for name, number in outcome.metrics.items() if of_anybody(name)}
        rows = {name: row for name, row in outcome.rows.items() if of_anybody(name)}
        kept = outcome._replace(metrics=metrics, rows=rows)
        return self._empty.added_to(kept) if self.is_empty(mask) else kept

    def _start(self) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        if isinstance(self.learner, StartingLearner):
            return self.learner.start(self.scenario, self.training.seed)
        return {}, ()

    def utility(self, outcome: Outcome) -> float:
        """The metric that counts, negated where lower is better; of a coalition without data as `empty` has it."""
        value = outcome.metrics.get(self.empty_as, outcome.metrics.get(self.stored_as))
        if value is None:
            raise InputError(
                f"The metric {self.metric!r} is not among those of this game: {', '.join(outcome.metrics)}."
            )
        return value if self.higher_is_better else -value

    def evaluate(
        self, masks: Sequence[int], replicate: int = 0, claim: Claim = list
    ) -> Iterator[tuple[int, Outcome]]:
        """Trains the coalitions; one whose training diverged is refused when the others are done.

        Only those that `claim` leaves to this process: asked wave by wave, or at once if the trainer cannot.
        """
        trials = [(mask, replicate) for mask in masks]
        for (mask, _), outcome in self.evaluate_trials(trials, with_seed(claim, replicate)):
            yield mask, outcome

    def evaluate_trials(
        self, trials: Sequence[Trial], claim: ClaimTrials = list
    ) -> Iterator[tuple[Trial, Outcome]]:
        """The same with several seeds, which the trainer trains in one go if it can."""
        given = (self.trainer, self.scenario, self._measuring, self.training)
        if (
            not self._tried and trials
        ):  # the untrained model is free, and tells whether the user's own metric works
            for _ in train_trials(*given, [(0, trials[0][1])]):
                self._tried = True
        diverged: list[int] = []
        for (mask, seed), outcome in train_trials(*given, trials, claim):
            if all(math.isfinite(value) for value in outcome.metrics.values()):
                outcome = self._empty.added_to(self._drawn(outcome)) if self.is_empty(mask) else outcome
                yield (mask, seed), outcome
            else:
                diverged.append(mask)
        if diverged:
            who = members(diverged[0])
            raise UtilityError(
                f"The training of coalition {who} ({', '.join(self.names[i] for i in who[:8])}) diverged: its "
                f"model gives numbers that are not finite ({len(diverged)} of {len(trials)} trainings did). "
                "They were not stored; lower the rate (of xgboost: eta, or raise l2) and run again.",
                who,
            )

    def _drawn(self, outcome: Outcome) -> Outcome:
        """The outcome of ∅ with the mean of untrained models, also from a trainer that knows only one of them."""
        if self.empty != "initial" or self.empty_as in outcome.metrics or not self.scenario.test.here:
            return outcome
        here = LocalTrainer("cpu").train(self.scenario, self._measuring, self.training, [0])
        ((_, local),) = here
        means = {name: number for name, number in local.metrics.items() if empty_rule(name)}
        rows = {name: row for name, row in local.rows.items() if empty_rule(name)}
        return outcome._replace(metrics={**outcome.metrics, **means}, rows={**outcome.rows, **rows})

    def trace(self) -> Trace:
        """One recorded run of all clients, for the gradient methods."""
        return self.trainer.trace(self.scenario, self._measuring, self.training)

    @property
    def averages(self) -> bool:
        """Whether there is anything to record: clients whose updates are averaged."""
        return self.learner.averages

    def trace_games(self, keep: Callable[[int, Outcome], None] | None = None) -> TraceGames:
        """The games that the gradient methods play on one run, recorded when the first of them begins.

        `keep` is handed the outcome of that run, which is a training of the grand coalition.
        """
        counted = counted_rows(self.scenario, self.training)
        return TraceGames(self.trace, self.scenario, self.training.rounds, self.utility, keep, counted)


def id_of_named(scenario: str, learner: Mapping[str, Any], training: Training) -> str:
    """The id of the game of a model that fedvalue has, from the fingerprint of its data and its rules."""
    return _id_of({"scenario": scenario, "learner": learner, "training": training.identity()})


def _id_of(description: Mapping[str, Any]) -> str:
    return "federation-" + fingerprint(description, _SEMANTICS)[0][:24]
