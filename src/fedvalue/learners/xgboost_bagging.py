"""XGBoost by federated bagging: in every round each client grows trees on the ensemble so far, and the
server adds their average, weighted by the clients' rows.

An ensemble is a tuple of pieces with weights, each piece the trees that one client grew in one round. Its margin is
the weighted sum of the margins of its pieces, and every piece starts from margin 0 (an even chance, or the centre of the targets), so
the base score cannot be counted twice. The weights of a round add up to 1: a coalition of many learns no faster than a
single client, and what it reaches depends on who is in it. Pieces of round 1 are shared by all coalitions; what a
piece says about a data set is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from fedvalue._checks import whole
from fedvalue._extras import need
from fedvalue.errors import InputError
from fedvalue.learners._scores import outcomes
from fedvalue.learners.answers import chance_metrics
from fedvalue.learners.memory import available_memory
from fedvalue.learners.metrics import Metric
from fedvalue.outcome import Outcome
from fedvalue.scenarios import CLASSIFICATION, Dataset, Scenario
from fedvalue.training import Training

__all__ = ["Piece", "XGBoostBagging", "XGBoostSession"]

Margins = NDArray[np.float32]

# Rows are trained one by one on each core: more of them in a wave gain nothing and reach the store later.
_ROWS = 64
# Log odds, or multiples of the largest target: trees that go further make each other's errors larger, not smaller.
_LARGEST_MARGIN = 1e4
_TEST = -1  # the number under which pieces remember the test set; clients have theirs


class XGBoostBagging:
    """Federated bagging of boosted trees, by name 'xgboost'; classification and regression.

    In every round a client grows `trees` trees (for each class, where there are more than two), one after the other,
    each at the rate `eta`. Of the rules of training only rounds and seed apply; others are refused. Features are
    numbers of any shape. Trees are added, not averaged parameter by parameter, so gradient methods do not apply.
    """

    averages = False
    rules = ("rounds",)
    own_metrics: Mapping[str, Metric] = {}

    def __init__(
        self,
        name: str = "xgboost",
        *,
        trees: int = 5,
        depth: int = 4,
        eta: float = 0.2,
        l2: float = 1.0,
        subsample: float = 0.8,
        columns: float = 0.8,
        min_child_weight: float = 1.0,
    ) -> None:
        self.name = name
        self.xgboost = need("xgboost", "The model 'xgboost'")
        whole("trees", trees, 1)
        whole("depth", depth, 1)
        for option, number in (("l2", l2), ("min_child_weight", min_child_weight)):
            if not _is_number(number) or not 0 <= number < math.inf:
                raise InputError(f"{option} must be a number of at least 0. Got {number!r}.")
        for option, share in (("eta", eta), ("subsample", subsample), ("columns", columns)):
            if not _is_number(share) or not 0 < share <= 1:
                raise InputError(f"{option} must be a number above 0 and at most 1. Got {share!r}.")
        self.trees = trees
        self.parameters = {
            "max_depth": depth,
            "eta": float(eta),
            "lambda": float(l2),
            "subsample": float(subsample),
            "colsample_bytree": float(columns),
            "min_child_weight": float(min_child_weight),
        }

    def identity(self) -> Mapping[str, Any]:
        return {"model": "xgboost", "joined": "weighted average", "trees": self.trees, **self.parameters}

    def beyond(self, scenario: Scenario, training: Training) -> Mapping[str, Any] | None:
        """Of a regression the largest target: a model that goes far beyond it is refused."""
        if scenario.classes:
            return {}
        return {"largest": _largest_target(scenario)} if all(data.here for data in scenario.clients) else None

    def session(
        self, scenario: Scenario, training: Training, device: str, memory: int | None
    ) -> XGBoostSession:
        scenario.need_single("The model 'xgboost'")
        if scenario.vocabulary:
            raise InputError(
                "The model 'xgboost' needs numbers. This scenario holds text: use 'text-mean' or 'lstm'."
            )
        training.allow_only(
            self.rules,
            "the model 'xgboost', which grows trees and has no gradient steps",
            "Its own options are trees, depth, eta, …: --model-option eta=0.1, or XGBoostBagging(eta=0.1).",
        )
        return XGBoostSession(self, scenario, training, memory)


class Piece:
    """The trees that one client grew in one round; remembers its margins on each data set."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster
        self._margins: dict[int, Margins] = {}

    def raw(self) -> bytes:
        """The trees in XGBoost's own format (UBJSON)."""
        return bytes(self.booster.save_raw(raw_format="ubj"))

    def margins(self, number: int, x: Margins, outputs: int) -> Margins:
        """What the trees add to the margins of a data set: samples × outputs."""
        if number not in self._margins:
            found = self.booster.inplace_predict(x, predict_type="margin", validate_features=False)
            self._margins[number] = np.asarray(found, dtype=np.float32).reshape(len(x), outputs)
        return self._margins[number]


Ensemble: TypeAlias = tuple[tuple[Piece, float], ...]


class XGBoostSession:
    """See `fedvalue.training._fedavg._session.Session`. Runs on the CPU, one client's trees on each core."""

    device = "cpu"
    reseeds = True

    def __init__(
        self, learner: XGBoostBagging, scenario: Scenario, training: Training, memory: int | None
    ) -> None:
        self.xgboost = learner.xgboost
        self.own_metrics = learner.own_metrics
        self.scenario = scenario
        self.seed = training.seed
        # Two classes are told apart by one margin, as XGBoost does; more have one each.
        self.outputs = scenario.classes if scenario.classes > 2 else 1
        self.parameters = {**learner.parameters, **_objective(scenario.classes), **_FIXED}
        self.trees = learner.trees
        self.features = {_TEST: _flat(scenario.test), **dict(enumerate(map(_flat, scenario.clients)))}
        self.largest = _LARGEST_MARGIN * (1.0 if scenario.classes else _largest_target(scenario))
        self.matrices: dict[int, Any] = {}
        self.test_y = torch.from_numpy(scenario.test.y)
        self.parts = {name: torch.from_numpy(rows) for name, rows in scenario.test_parts.items()}
        self.row_bytes = 4 * self.outputs * sum(len(x) for x in self.features.values()) + 100_000
        budget = memory or available_memory(self.device)
        self.rows = int(np.clip(budget // self.row_bytes, 1, _ROWS))

    def memory(self, rows: int) -> int:
        """An upper estimate of the bytes that so many local trainings side by side take."""
        return rows * self.row_bytes

    def initial(self) -> list[Ensemble]:
        return [()]

    def take(self, stack: list[Ensemble], rows: Sequence[int]) -> list[Ensemble]:
        return [stack[row] for row in rows]

    def local(self, stack: list[Ensemble], owners: Sequence[int], t: int) -> list[Ensemble]:
        return self.reseeded(stack, owners, [None] * len(owners), t)

    def reseeded(
        self, stack: list[Ensemble], owners: Sequence[int], seeds: Sequence[int | None], t: int
    ) -> list[Ensemble]:
        """Rows of one client run one after the other: they share its binned features."""
        rows_of: dict[int, list[int]] = {}
        for row, owner in enumerate(owners):
            rows_of.setdefault(owner, []).append(row)

        def grow(owner: int) -> list[Piece]:
            return [self._grow(stack[row], owner, seeds[row], t) for row in rows_of[owner]]

        grown = list(stack)
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            for owner, pieces in zip(rows_of, pool.map(grow, rows_of), strict=True):
                for row, piece in zip(rows_of[owner], pieces, strict=True):
                    grown[row] = (*stack[row], (piece, 1.0))
        return grown

    def average(
        self, stack: list[Ensemble], groups: Sequence[int], weights: Sequence[float]
    ) -> list[Ensemble]:
        """What the rows of a group have in common, and the average of the trees that they have grown since."""
        joined: list[dict[Piece, float]] = [{} for _ in range(max(groups, default=-1) + 1)]
        for ensemble, group, weight in zip(stack, groups, weights, strict=True):
            for piece, of_piece in ensemble:
                joined[group][piece] = joined[group].get(piece, 0.0) + weight * of_piece
        return [tuple(pieces.items()) for pieces in joined]

    def evaluate(self, stack: list[Ensemble]) -> list[dict[str, float]]:
        return [dict(outcome.metrics) for outcome in self._outcomes(stack, told=False)]

    def outcomes(self, stack: list[Ensemble]) -> list[Outcome]:
        return self._outcomes(stack, told=True)

    def _outcomes(self, stack: list[Ensemble], told: bool) -> list[Outcome]:
        found: list[Outcome] = []
        for ensemble in stack:
            margins = self.margins(ensemble, _TEST)
            if np.abs(margins).max(initial=0.0) > self.largest:
                margins = np.full_like(margins, np.nan)  # which a game refuses as diverged
            outputs = torch.from_numpy(margins)
            if self.scenario.classes == 2:  # margin m is the log odds of class 1: logits 0 and m
                outputs = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
            of_test = (self.test_y, self.scenario.task, self.parts, self.own_metrics, self.scenario.scale)
            found += outcomes(outputs[None], *of_test, told=told)
        return found

    def guesses(self) -> dict[str, float]:
        """Without trees all classes are equally likely, and none of them is the answer for coming first."""
        return chance_metrics(self.scenario) if self.scenario.task == CLASSIFICATION else {}

    def margins(self, ensemble: Ensemble, number: int) -> NDArray[np.float64]:
        """The ensemble's margins on a client's data or the test set: samples × outputs."""
        x = self.features[number]
        total = np.zeros((len(x), self.outputs))
        for piece, weight in ensemble:
            total += weight * piece.margins(number, x, self.outputs)
        return total

    def _grow(self, ensemble: Ensemble, owner: int, seed: int | None, t: int) -> Piece:
        matrix = self._matrix(owner)
        start = self.margins(ensemble, owner).astype(np.float32)
        matrix.set_base_margin(start if self.outputs > 1 else start[:, 0])
        rules = {**self.parameters, "seed": self._seed(owner, t, seed)}
        return Piece(self.xgboost.train(rules, matrix, num_boost_round=self.trees))

    def _matrix(self, owner: int) -> Any:
        """A client's data, whose features XGBoost bins once for all rows and rounds."""
        if owner not in self.matrices:
            labels = self.scenario.scale.scaled(self.scenario.clients[owner].y)
            self.matrices[owner] = self.xgboost.DMatrix(self.features[owner], label=labels, nthread=1)
        return self.matrices[owner]

    def _seed(self, owner: int, t: int, seed: int | None = None) -> int:
        """Depends on the client's data and the round, never on the coalition: common random numbers."""
        data = int(self.scenario.clients[owner].fingerprint[:16], 16)
        return int(
            np.random.SeedSequence([self.seed if seed is None else seed, data, t]).generate_state(1)[0] >> 1
        )


# One thread per training: sums are then added in the same order on every machine.
_FIXED = {"tree_method": "hist", "nthread": 1, "verbosity": 0}


def _objective(classes: int) -> dict[str, Any]:
    """The loss, and the base score that is margin 0."""
    if classes == 0:
        return {"objective": "reg:squarederror", "base_score": 0.0}
    if classes == 2:
        return {"objective": "binary:logistic", "base_score": 0.5}
    return {"objective": "multi:softprob", "num_class": classes, "base_score": 0.0}


def _largest_target(scenario: Scenario) -> float:
    return max((float(np.abs(data.y).max(initial=0.0)) for data in scenario.clients), default=0.0) or 1.0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _flat(data: Dataset) -> Margins:
    width = math.prod(data.x.shape[1:])  # −1 fails without rows
    return np.ascontiguousarray(data.x.reshape(len(data), width), dtype=np.float32)
