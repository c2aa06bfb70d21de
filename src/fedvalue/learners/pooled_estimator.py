"""A scikit-learn estimator as the model of a scenario: every coalition fits it to the pooled rows of its clients.

Nothing is trained in rounds: a stack holds only who has contributed to each row, and with which seed. All the work is
the fit when a row is measured. This is no federated learning; it says what the rows are worth, put together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue._imports import own_object
from fedvalue.errors import InputError
from fedvalue.learners.metrics import Metric
from fedvalue.learners.scikit import Answers, Recipe, is_estimator
from fedvalue.outcome import Outcome
from fedvalue.scenarios import CLASSIFICATION, Dataset, Scenario
from fedvalue.training import Training

__all__ = ["PooledEstimator", "named_estimator"]

_LEAST_ROWS = "least_rows"
_ROWS = 64  # a wave: what is measured before it reaches the store
_LEAST = 1e-15  # a probability of 0 has no logarithm

Contributors: TypeAlias = "list[tuple[frozenset[int], int]]"


class PooledEstimator:
    """Fits an estimator to the pooled rows of a coalition, by name 'sklearn:package.Class'; see `fedvalue.PooledGame`.

    Of the rules of training only the seed has an effect; others but rounds are refused. Its clients send no updates of a model, so
    gradient methods do not apply, and a federation that keeps rows apart cannot train it.
    """

    averages = False
    pools_rows = True
    rules = ("rounds",)  # of which one would do: each sends the same again
    own_metrics: Mapping[str, Metric] = {}

    def __init__(self, estimator: Any, least_rows: int = 1) -> None:
        self.recipe = Recipe(estimator, least_rows)
        self.name = type(estimator).__name__
        digest, self.doubts = self.recipe.identity()
        self._digest = digest[:24]
        if not self.recipe.draws:
            self.draws = False  # which says that the seed has no effect

    def identity(self) -> Mapping[str, Any]:
        return {"model": "pooled estimator", "estimator": self.name, "settings": self._digest}

    def beyond(self, scenario: Scenario, training: Training) -> Mapping[str, Any]:
        """Nothing: a model is made of the rows of its coalition."""
        return {}

    def session(
        self, scenario: Scenario, training: Training, device: str, memory: int | None
    ) -> PooledSession:
        task = CLASSIFICATION if self.recipe.is_classifier else "regression"
        if scenario.task != task:
            raise InputError(
                f"The estimator {self.name} is for {task}. The scenario {scenario.name!r} is a {scenario.task}."
            )
        if not scenario.test.here or not all(data.here for data in scenario.clients):
            raise InputError(
                f"The estimator {self.name} is fitted to pooled rows, and here they stay with their clients. Choose a "
                "model that is trained federatedly."
            )
        scenario.need_single(f"The estimator {self.name}")
        training.allow_only(
            self.rules,
            f"the estimator {self.name}, which is fitted to pooled rows",
            "Its own settings are options of the model: --model-option C=0.1.",
        )
        return PooledSession(self, scenario, training.seed)


class PooledSession:
    """See `fedvalue.training._fedavg._session.Session`. Runs on the CPU, one fit after the other."""

    device = "cpu"
    reseeds = True
    rows = _ROWS

    def __init__(self, learner: PooledEstimator, scenario: Scenario, seed: int) -> None:
        self.recipe = learner.recipe
        self.own_metrics = learner.own_metrics
        self.scenario = scenario
        self.seed = seed
        self.features = [_flat(data) for data in scenario.clients]
        self.test_x = _flat(scenario.test)

    def memory(self, rows: int) -> int:
        """The pooled rows and what is said about the test rows; models come one after the other."""
        pooled = sum(x.nbytes for x in self.features)
        return 2 * pooled + 8 * len(self.test_x) * max(self.scenario.classes, 1) * rows

    def initial(self) -> Contributors:
        return [(frozenset(), self.seed)]

    def take(self, stack: Contributors, rows: Sequence[int]) -> Contributors:
        return [stack[row] for row in rows]

    def local(self, stack: Contributors, owners: Sequence[int], t: int) -> Contributors:
        return self.reseeded(stack, owners, [None] * len(owners), t)

    def reseeded(
        self, stack: Contributors, owners: Sequence[int], seeds: Sequence[int | None], t: int
    ) -> Contributors:
        return [
            (frozenset([owner]), self.seed if seed is None else seed)
            for owner, seed in zip(owners, seeds, strict=True)
        ]

    def average(self, stack: Contributors, groups: Sequence[int], weights: Sequence[float]) -> Contributors:
        """Who is in a group: their rows are pooled when it is measured."""
        joined: Contributors = [(frozenset(), self.seed)] * (max(groups, default=-1) + 1)
        for (clients, seed), group in zip(stack, groups, strict=True):
            joined[group] = (joined[group][0] | clients, seed)
        return joined

    def evaluate(self, stack: Contributors) -> list[dict[str, float]]:
        return [dict(outcome.metrics) for outcome in self.outcomes(stack)]

    def outcomes(self, stack: Contributors) -> list[Outcome]:
        import torch

        from fedvalue.learners._scores import outcomes

        test, parts = self.scenario.test, self.scenario.test_parts
        said = np.stack([self._outputs(sorted(clients), seed) for clients, seed in stack])
        return outcomes(
            torch.from_numpy(said),
            torch.from_numpy(np.asarray(test.y)),
            self.scenario.task,
            {name: torch.from_numpy(rows) for name, rows in parts.items()},
            self.own_metrics,
        )

    def guesses(self) -> dict[str, float]:
        """Without rows all classes are equally likely, and none of them is the answer for coming first."""
        from fedvalue.learners.answers import chance_metrics

        return chance_metrics(self.scenario) if self.recipe.is_classifier else {}

    def _outputs(self, clients: Sequence[int], seed: int) -> NDArray[np.float64]:
        """What the model of these clients says about the test rows: logits, or targets; all alike without rows."""
        shape = len(self.test_x), max(self.scenario.classes, 1)
        held = [i for i in clients if len(self.scenario.clients[i])]
        if not held:
            return np.full(shape, 0.0 if self.recipe.is_classifier else self.scenario.scale.centre)
        y = np.concatenate([self.scenario.clients[i].y for i in held])
        model = self.recipe.fitted(np.concatenate([self.features[i] for i in held]), y, seed)
        everything = np.arange(len(self.test_x))
        if not self.recipe.is_classifier:
            answers = Answers(model, self.test_x, None).predict(everything)
            return np.asarray(answers, np.float64).reshape(shape)
        return self._logits(Answers(model, self.test_x, np.arange(self.scenario.classes)), everything)

    def _logits(self, asked: Answers, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """From probabilities, else from decision values, else from answers, which are then certain."""
        if hasattr(asked, "predict_proba"):
            return np.log(np.maximum(np.asarray(asked.predict_proba(rows), np.float64), _LEAST))
        if hasattr(asked, "decision_function"):
            said = np.asarray(asked.decision_function(rows), np.float64)
            return np.column_stack([np.zeros(len(said)), said]) if said.ndim == 1 else said
        certain = np.full((len(rows), self.scenario.classes), np.log(_LEAST))
        certain[rows, np.asarray(asked.predict(rows), np.int64)] = 0.0
        return certain


def named_estimator(model: str, settings: Mapping[str, Any]) -> PooledEstimator:
    """'sklearn:package.Class', or package.function of one's own, with its settings."""
    path = model.partition(":")[2].replace(":", ".")
    module, _, name = path.rpartition(".")
    own = {key: value for key, value in settings.items() if key != _LEAST_ROWS}
    expected = "a class of scikit-learn, or a function that returns an estimator"
    if not module:
        raise InputError(
            f"A model of scikit-learn is written as sklearn:package.Class, such as "
            f"sklearn:sklearn.linear_model.LogisticRegression. Got {model!r}."
        )
    kind = own_object(f"{module}:{name}", "model", expected)
    try:
        estimator = kind(**own)
    except TypeError as error:
        raise InputError(f"The model {model!r} cannot be made with these options: {error}.") from error
    if not is_estimator(estimator):
        raise InputError(f"The model {model!r} must be {expected}. It gave a {type(estimator).__name__}.")
    return PooledEstimator(estimator, settings.get(_LEAST_ROWS, 1))


def _flat(data: Dataset) -> NDArray[Any]:
    width = int(np.prod(data.x.shape[1:]))  # −1 fails without rows
    return np.ascontiguousarray(data.x.reshape(len(data), width))
