"""What the paper's authors ran under a published name where that is not the published method.

Three methods on the recorded training and one way to draw random numbers, each under a name of its own: the variant
`authors` of an experiment asks for them. They follow what the authors' public code computes; nothing of it is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import full_mask, membership
from fedvalue.errors import MethodError
from fedvalue.estimators import ESTIMATORS, Method
from fedvalue.estimators.gradients import lambda_mr, one_round
from fedvalue.games import FederatedGame
from fedvalue.outcome import Outcome
from fedvalue.training import TraceGames
from fedvalue.values import Estimate

__all__ = ["METHODS", "OwnNumbers", "known_methods", "lambda_mr_zero", "or_fresh", "tmc_rounds"]

Array = NDArray[np.float64]
_MODELS = 4096  # as OR and λ-MR: up to twelve clients, nothing is sampled
_LEAST_ORDERS = 5


class _ZeroStart:
    """The games of the rounds with v_t(∅) = U(0), the utility of a network whose parameters are all 0.

    As published it is U(θ^{t−1}), so that a round counts what it adds. From 0, every round counts all that was learned
    up to it, and values over T rounds are about T times as large.
    """

    def __init__(self, trace: TraceGames) -> None:
        self.trace = trace
        self.n = trace.n
        self.rounds = trace.rounds
        self.weights = trace.weights
        self._zero: float | None = None

    @property
    def zero(self) -> float:
        """U(0)."""
        if self._zero is None:
            recorded = self.trace.trace
            nothing = recorded.session.average(recorded.starts[0], [0], [0.0])
            self._zero = _utilities(self.trace, nothing)[0]
        return self._zero

    def round(self, t: int, masks: Sequence[int]) -> Array:
        """Utilities of the models of round t; those of coalitions without data are U(0)."""
        found = self.trace.round(t, masks)
        without_data = membership(masks, self.n) @ self.weights == 0
        return np.where(without_data, self.zero, found)

    def whole_run(self, masks: Sequence[int]) -> Array:
        """As recorded."""
        return self.trace.whole_run(masks)

    def loss_drops(self) -> Array:
        """As recorded."""
        return self.trace.loss_drops()


class _FreshStart(_ZeroStart):
    """The game of the whole run with the updates added to another random model than the one that they started from."""

    def __init__(self, trace: TraceGames, seed: int) -> None:
        super().__init__(trace)
        self.seed = seed

    def whole_run(self, masks: Sequence[int]) -> Array:
        """Utilities of θ' + Σ_t Σ_{i∈S} w_i^S Δ_i^t, θ' a fresh random model."""
        session = self.trace.trace.session
        some = [masks[first : first + session.rows] for first in range(0, len(masks), session.rows)]
        return np.array([utility for few in some for utility in _utilities(self.trace, self._models(few))])

    def _models(self, masks: Sequence[int]) -> object:
        recorded = self.trace.trace
        held = (membership(masks, self.n) * self.weights)[:, recorded.clients]
        total = held.sum(1, keepdims=True)
        shares = np.divide(held, total, out=np.zeros_like(held), where=total > 0)
        models = recorded.session.drawn([self.seed])  # type: ignore[attr-defined]
        for before, after in zip(recorded.starts, recorded.locals, strict=True):
            models = recorded.session.step(models, before, after, shares)
        return models


def lambda_mr_zero(
    trace: TraceGames, rng: np.random.Generator, *, lam: float = 0.98, models: int = _MODELS
) -> Estimate:
    """λ-MR with an all-zero network as v_t(∅), and powers of λ from 0."""
    return lambda_mr(_ZeroStart(trace), rng, lam=lam, first_power=0, models=models)


def or_fresh(trace: TraceGames, rng: np.random.Generator, *, models: int = _MODELS) -> Estimate:
    """OR with the updates added to a fresh random model, one for all coalitions."""
    seed = int(rng.integers(1 << 31))
    return one_round(_FreshStart(trace, seed), rng, models=models)


def tmc_rounds(
    trace: TraceGames, rng: np.random.Generator, *, orders: int | None = None, tolerance: float = 1e-4
) -> Estimate:
    """TMC on the reconstructed models of every round, from an all-zero network; the rounds added up.

    `orders` random orders in every round, √2^n and at least 5 unless said. One is cut short, its other clients credited
    with 0, when its prefix is within `tolerance` of v_t(N).
    """
    if orders is not None and orders < 1:
        raise MethodError(f"The option 'orders' must be a whole number from 1. Got {orders!r}.")
    count = max(_LEAST_ORDERS, isqrt(1 << trace.n)) if orders is None else orders
    start = _ZeroStart(trace)
    phi = np.zeros(trace.n)
    for t in range(1, trace.rounds + 1):
        phi += _truncated_orders(start, t, count, tolerance, rng) / count
    return Estimate(phi, details={"rounds": trace.rounds, "orders": count})


def _truncated_orders(
    start: _ZeroStart, t: int, count: int, tolerance: float, rng: np.random.Generator
) -> Array:
    """The sum of the marginal contributions over some orders in round t."""
    empty, grand = start.round(t, [0, full_mask(start.n)])
    total = np.zeros(start.n)
    for _ in range(count):
        before, mask = empty, 0
        for client in rng.permutation(start.n):
            if abs(grand - before) < tolerance:
                break
            mask |= 1 << int(client)
            (now,) = start.round(t, [mask])
            total[client] += now - before
            before = now
    return total


def _utilities(trace: TraceGames, models: object) -> list[float]:
    return [trace.utility(Outcome(metrics)) for metrics in trace.trace.session.evaluate(models)]


class OwnNumbers(FederatedGame):
    """The game with random numbers of its own for every coalition, where the usual one has them in common.

    The authors' trainings are not seeded. Here the numbers of a coalition follow from the seed of the rules and from the
    coalition, so that they come out again; those of N are the recorded run's.
    """

    def _id(self) -> str:
        return f"{super()._id()}-own"

    def evaluate(
        self, masks: Sequence[int], *rest: object, **others: object
    ) -> Iterator[tuple[int, Outcome]]:
        """Every coalition with the seed that has its number."""
        common = (0, full_mask(self.n))
        trials = [(mask, 0 if mask in common else mask) for mask in masks]
        for (mask, _), outcome in self.evaluate_trials(trials):
            yield mask, outcome


_CODE = "the code of the paper's authors"
_RAN_AS: dict[str, tuple[Callable[..., Estimate], str]] = {
    "lambda-mr-zero": (lambda_mr_zero, "λ-MR from an all-zero network, powers of λ from 0"),
    "or-fresh": (or_fresh, "OR from a fresh random model"),
    "tmc-rounds": (tmc_rounds, "TMC on the models of every round, from an all-zero network"),
}
METHODS: dict[str, Method] = {
    name: Method(name, None, about, "biased", _CODE, fixed=True, view=view)
    for name, (view, about) in _RAN_AS.items()
}


def known_methods() -> dict[str, Method]:
    """The methods of the library and those above, by name."""
    return {**ESTIMATORS, **METHODS}
