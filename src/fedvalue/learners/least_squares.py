"""Linear regression in closed form: every coalition is a sum of its clients' statistics, and a solve.

A client sends its sample count, means, XᵀX and Xᵀy, whatever model it was given. The model of a coalition
is therefore known after one round; further rounds send the same again and change nothing. A stack holds no
coefficients, only who has contributed to each row (a matrix rows × clients), so that taking, training and
averaging cost next to nothing and all the work is one batched solve per evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedvalue.errors import InputError
from fedvalue.learners._scores import outcomes
from fedvalue.learners._threads import one_thread
from fedvalue.learners.memory import available_memory
from fedvalue.learners.metrics import Metric
from fedvalue.outcome import Outcome
from fedvalue.scenarios import REGRESSION, Scenario
from fedvalue.training import Training

__all__ = ["LeastSquares", "LeastSquaresSession", "coefficients", "moments"]

Array = NDArray[np.float64]
Contributors = NDArray[np.bool_]

# Features are float32: a spread below a millionth of the offset is rounding, and the feature is constant.
_CONSTANT = 1e-12
_SOLVED_AT_ONCE = 4096
# Predictions that stay in the cache and are measured by one thread: several would wait for each other.
_MEASURED_AT_ONCE = 32_768

_FEWEST = 8


class LeastSquares:
    """Least squares with an intercept, by name 'least-squares'; regression only.

    Minimises the mean squared error plus `ridge`·‖w‖², w the coefficients of features standardised within
    the coalition; the intercept is free. The default ridge is far below any noise: where the data determine
    the coefficients they are those of ordinary least squares, and where they do not (fewer samples than
    features, collinear features) they are the ones of least norm among the equally good. A feature that is
    constant in a coalition has coefficient 0; one sample gives the constant model of its target. Units and
    offsets of features do not matter.

    Of the rules of training only rounds and seed apply; others are refused. Its clients send no updates of a
    model, so gradient methods do not apply.
    """

    averages = False
    rules = ("rounds",)
    draws = False
    own_metrics: Mapping[str, Metric] = {}

    def __init__(self, name: str = "least-squares", *, ridge: float = 1e-9) -> None:
        if not 0 < ridge < np.inf:
            raise InputError(f"ridge must be a positive number. Got {ridge}.")
        self.name = name
        self.ridge = float(ridge)

    def identity(self) -> Mapping[str, Any]:
        return {"model": "least-squares", "ridge": self.ridge}

    def beyond(self, scenario: Scenario, training: Training) -> Mapping[str, Any]:
        """Nothing: a coalition is the sum of its members' statistics."""
        return {}

    def session(
        self, scenario: Scenario, training: Training, device: str, memory: int | None
    ) -> LeastSquaresSession:
        if scenario.task != REGRESSION:
            raise InputError(
                f"The model 'least-squares' is for regression. The scenario {scenario.name!r} is a "
                f"{scenario.task}; use 'linear'."
            )
        if scenario.vocabulary:
            raise InputError("The model 'least-squares' needs numbers. This scenario holds text.")
        training.allow_only(
            self.rules,
            "the model 'least-squares', which is solved in closed form",
            "Its own option is ridge: --model-option ridge=0.1, or LeastSquares(ridge=0.1).",
        )
        return LeastSquaresSession(scenario, self.ridge, memory, self.own_metrics)


class LeastSquaresSession:
    """See `fedvalue.training._fedavg._session.Session`. Computes in float64 with NumPy, on the CPU.

    Nothing in it is random: all seeds give the same models.
    """

    device = "cpu"
    reseeds = True

    def __init__(
        self, scenario: Scenario, ridge: float, memory: int | None, own_metrics: Mapping[str, Metric]
    ) -> None:
        self.n = scenario.n
        self.ridge = ridge
        self.own_metrics = own_metrics
        scenario.need_single("The model 'least-squares'")
        test_x = _flat(scenario.test.x)
        # Moments about the centre of the test set lose no digits to large offsets. The solution is the same.
        self.centre_x = test_x.mean(0)
        self.untrained = scenario.scale.centre
        self.centre_y = float(scenario.test.y.mean(dtype=np.float64))
        self.moments = np.stack(
            [moments(_flat(c.x) - self.centre_x, c.y - self.centre_y) for c in scenario.clients]
        )
        self.test_x = np.ascontiguousarray((test_x - self.centre_x).T)
        self.test_y = torch.from_numpy(scenario.test.y.astype(np.float64))
        self.parts = {name: torch.from_numpy(rows) for name, rows in scenario.test_parts.items()}
        self.solve_bytes = int(8 * 4 * self.moments[0].size)
        affordable = (memory or available_memory(self.device)) // self.solve_bytes
        self.solved_at_once = int(np.clip(affordable, 1, _SOLVED_AT_ONCE))
        self.measured_at_once = max(1, _MEASURED_AT_ONCE // self.test_x.shape[1])
        self.rows = self.solved_at_once * self.n

    def memory(self, rows: int) -> int:
        """An upper estimate of the bytes that so many local trainings side by side take."""
        return rows * self.n + min(rows, self.solved_at_once) * self.solve_bytes

    def initial(self) -> Contributors:
        return np.zeros((1, self.n), dtype=bool)

    def take(self, stack: Contributors, rows: Sequence[int]) -> Contributors:
        return stack[np.asarray(rows, dtype=np.intp)]

    def local(self, stack: Contributors, owners: Sequence[int], t: int) -> Contributors:
        sent = np.zeros((len(owners), self.n), dtype=bool)
        sent[np.arange(len(owners)), np.asarray(owners, dtype=np.intp)] = True
        return sent

    def reseeded(
        self, stack: Contributors, owners: Sequence[int], seeds: Sequence[int | None], t: int
    ) -> Contributors:
        return self.local(stack, owners, t)

    def average(self, stack: Contributors, groups: Sequence[int], weights: Sequence[float]) -> Contributors:
        """The statistics of a group are added up; they weigh every client by its data already."""
        group = np.asarray(groups, dtype=np.intp)
        row, client = np.nonzero(stack)
        joined = np.zeros((int(group.max(initial=-1)) + 1, self.n), dtype=bool)
        joined[group[row], client] = True
        return joined

    def evaluate(self, stack: Contributors) -> list[dict[str, float]]:
        return [dict(outcome.metrics) for outcome in self._outcomes(stack, told=False)]

    def outcomes(self, stack: Contributors) -> list[Outcome]:
        return self._outcomes(stack, told=True)

    def _outcomes(self, stack: Contributors, told: bool) -> list[Outcome]:
        found: list[Outcome] = []
        for some in _chunks(len(stack), self.solved_at_once):
            intercept, slope = self.models(stack[some])
            for few in _chunks(len(slope), self.measured_at_once):
                said = torch.from_numpy(intercept[few, None] + _product(slope[few], self.test_x))[..., None]
                with one_thread():  # several wait for each other longer than they compute
                    found += outcomes(said, self.test_y, REGRESSION, self.parts, self.own_metrics, told=told)
        return found

    def models(self, stack: Contributors) -> tuple[Array, Array]:
        """Intercepts and slopes of the rows, for features about the centre of the test set."""
        # One client after the other, so that the sum does not depend on how many others there are. A product of matrices
        # may add up in any order.
        pooled = np.einsum("rk,kab->rab", stack.astype(np.float64), self.moments, optimize=False)
        intercept, slope = coefficients(pooled, self.ridge)
        # Without data there is nothing to solve: the untrained model says the centre of the targets' scale.
        return np.where(_samples(pooled) > 0, intercept + self.centre_y, self.untrained), slope


def moments(x: Array, y: Array) -> Array:
    """ZᵀZ for Z = [1 x y]: sample count, sums and second moments in one matrix that adds up over clients.

    >>> moments(np.array([[1.0], [3.0]]), np.array([2.0, 6.0])).tolist()
    [[2.0, 4.0, 8.0], [4.0, 10.0, 20.0], [8.0, 20.0, 40.0]]
    """
    z = np.column_stack([np.ones(len(y)), x, y]).astype(np.float64, copy=False)
    product: Array = z.T @ z
    return product


def _samples(pooled: Array) -> Array:
    """How many samples stand behind each matrix of moments."""
    return pooled[:, 0, 0]


def coefficients(pooled: Array, ridge: float) -> tuple[Array, Array]:
    """Intercepts (C) and slopes (C × d) from C matrices of moments, all solved at once.

    The equations are solved for standardised features: their matrix is that of the correlations, the ridge
    has one meaning for all of them, and nothing is singular.

    >>> intercept, slope = coefficients(moments(np.array([[1.0], [3.0]]), np.array([2.0, 6.0]))[None], 1e-9)
    >>> [round(float(number), 6) + 0.0 for number in (intercept[0], slope[0, 0])]
    [0.0, 2.0]
    """
    count = np.maximum(_samples(pooled), 1.0)
    mean = pooled[:, 0, 1:] / count[:, None]
    centred = pooled[:, 1:, 1:] - count[:, None, None] * mean[:, :, None] * mean[:, None, :]
    features = np.arange(centred.shape[1] - 1)
    spread = centred[:, features, features]
    varies = spread > _CONSTANT * pooled[:, features + 1, features + 1]
    scale = np.where(varies, 1 / np.sqrt(np.where(varies, spread, 1.0)), 0.0)
    matrix = centred[:, :-1, :-1] * scale[:, :, None] * scale[:, None, :]
    matrix[:, features, features] = 1 + ridge
    right = centred[:, :-1, -1] * scale
    slope = (scale * np.linalg.solve(matrix, right[:, :, None])[:, :, 0]).astype(np.float64, copy=False)
    return mean[:, -1] - (mean[:, :-1] * slope).sum(1), slope


def _product(rows: Array, matrix: Array) -> Array:
    """rows @ matrix. For a few rows other kernels are used, with another last bit, so there are always several."""
    filled = np.concatenate([rows, np.zeros((max(0, _FEWEST - len(rows)), rows.shape[1]))])
    product: Array = (filled @ matrix)[: len(rows)]
    return product


def _chunks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))


def _flat(x: NDArray[Any]) -> Array:
    return x.reshape(len(x), math.prod(x.shape[1:])).astype(np.float64)  # −1 fails without rows
