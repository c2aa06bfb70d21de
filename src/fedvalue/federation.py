"""The federated game: v(S) is the utility of the model that the clients of S train together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fedvalue.coalition import members
from fedvalue.errors import InputError, UtilityError
from fedvalue.identity import fingerprint
from fedvalue.learners import make_learner
from fedvalue.learners.base import Learner
from fedvalue.outcome import LOWER_IS_BETTER, METRICS, Outcome
from fedvalue.scenarios.base import Scenario
from fedvalue.trace_games import TraceGames
from fedvalue.trainers import make_trainer
from fedvalue.trainers.base import Trace, Trainer
from fedvalue.training import Training

__all__ = ["FederatedGame"]

_SEMANTICS = 1  # raised when the same rules come to mean another training


class FederatedGame:
    """Clients of a scenario, a model, rules of training, and the metric that counts.

    `metric` is one of the metrics of every outcome (accuracy, loss, …, or part/accuracy for a named part of
    the test set); where lower is better its negative is the utility. The store keeps all metrics, so
    another choice trains nothing again. With `replicates` > 1 every training is repeated with other random
    numbers; the utility is the mean.
    """

    def __init__(
        self,
        scenario: Scenario,
        model: str | Learner | Callable[..., Any] = "mlp",
        training: Training | None = None,
        *,
        metric: str | None = None,
        trainer: str | Trainer = "local",
        replicates: int = 1,
        **trainer_options: Any,
    ) -> None:
        if not isinstance(replicates, (int, np.integer)) or replicates < 1:
            raise InputError(f"replicates must be a whole number of at least 1. Got {replicates!r}.")
        self.scenario = scenario
        self.learner = make_learner(model)
        self.training = training or Training()
        self.metric = METRICS[scenario.task][0] if metric is None else metric
        if self.metric not in (known := _metrics(scenario)):
            raise InputError(f"Unknown metric {self.metric!r}. Metrics of this game: {', '.join(known)}.")
        self.trainer = make_trainer(trainer, **trainer_options)
        self.replicates = replicates
        self.n = scenario.n
        self.names = scenario.names
        self.doubts: tuple[str, ...] = getattr(self.learner, "doubts", ())
        self.id = "federation-" + fingerprint(self.description(), _SEMANTICS)[0][:24]

    def follow(self, stage: Callable[[str], None]) -> None:
        """Has the trainer say what it is doing, where it can: progress between finished coalitions."""
        if hasattr(self.trainer, "stage"):
            self.trainer.stage = stage

    def description(self) -> dict[str, Any]:
        """What identifies the game: data, model and rules; not the metric, names, backend or device."""
        return {
            "scenario": self.scenario.fingerprint,
            "learner": dict(self.learner.identity()),
            "training": self.training.identity(),
        }

    def utility(self, outcome: Outcome) -> float:
        """The metric that counts, negated where lower is better."""
        value = outcome.metrics.get(self.metric)
        if value is None:
            raise InputError(
                f"The metric {self.metric!r} is not among those of this game: {', '.join(outcome.metrics)}."
            )
        return -value if self.metric.rsplit("/", 1)[-1] in LOWER_IS_BETTER else value

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        """Trains the coalitions; one whose training diverged is refused when the others are done."""
        training = self.training.replicate(replicate)
        diverged: list[int] = []
        for mask, outcome in self.trainer.train(self.scenario, self.learner, training, masks):
            if all(math.isfinite(value) for value in outcome.metrics.values()):
                yield mask, outcome
            else:
                diverged.append(mask)
        if diverged:
            who = members(diverged[0])
            raise UtilityError(
                f"The training of coalition {who} ({', '.join(self.names[i] for i in who[:8])}) diverged: its "
                f"model gives numbers that are not finite ({len(diverged)} of {len(masks)} coalitions did). "
                "They were not stored; lower the rate and run again.",
                who,
            )

    def trace(self) -> Trace:
        """One recorded run of all clients, for the gradient methods."""
        return self.trainer.trace(self.scenario, self.learner, self.training)

    @property
    def averages(self) -> bool:
        """Whether there is anything to record: clients whose updates are averaged."""
        return self.learner.averages

    def trace_games(self, keep: Callable[[int, Outcome], None] | None = None) -> TraceGames:
        """The games that the gradient methods play on one run, recorded when the first of them begins.

        `keep` is handed the outcome of that run, which is a training of the grand coalition.
        """
        return TraceGames(self.trace, self.scenario, self.training.rounds, self.utility, keep)


def _metrics(scenario: Scenario) -> list[str]:
    """What every outcome is measured by: a wrong name is noticed before anything is trained."""
    names = METRICS[scenario.task]
    return [*names, *(f"{part}/{name}" for part in scenario.test_parts for name in names)]
