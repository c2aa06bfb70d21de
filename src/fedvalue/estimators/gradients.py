"""Gradient methods: values from one recorded FedAvg run of all clients, without further training.

The run offers games over models put together from the clients' updates (`TraceViews`). OR and λ-MR are
ordinary estimators on these games; GTG walks through them by truncated orders; DIG-FL is an additive game
made of gradients. They value what the recorded run tells about a client, not what trainings without it
would have given: guarantee biased, no standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import whole
from fedvalue.coalitions import full_mask
from fedvalue.errors import MethodError
from fedvalue.estimators._plan import Plan
from fedvalue.estimators.exact import exact_mc
from fedvalue.estimators.permutation import permutation, running_change
from fedvalue.values import Estimate

__all__ = ["TraceViews", "dig_fl", "gtg", "lambda_mr", "one_round"]

Array = NDArray[np.float64]
Game = Callable[[Sequence[int]], Array]

# 2**12: up to twelve clients all reconstructed models are evaluated; with more, orders are sampled.
_MODELS = 4096
_GTG_LEAST, _GTG_WINDOW = 30, 10  # orders before convergence is judged, and running means it is judged by


class TraceViews(Protocol):
    """The games of one recorded run; rounds are counted from 1."""

    n: int
    rounds: int

    @property
    def weights(self) -> Array:
        """w_i = |D_i| / Σ_j |D_j|."""
        ...

    def whole_run(self, masks: Sequence[int]) -> Array:
        """Utilities of M_S = θ⁰ + Σ_t Σ_{i∈S} w_i^S Δ_i^t."""
        ...

    def round(self, t: int, masks: Sequence[int]) -> Array:
        """Utilities of M_S^t = θ^{t−1} + Σ_{i∈S} w_i^S Δ_i^t."""
        ...

    def loss_drops(self) -> Array:
        """⟨∇ℓ(θ^{t−1}), θ^{t−1} − θ_i^t⟩: a row per round, a column per client."""
        ...


_SAMPLED = (
    "The updates combine into too many models to evaluate them all, so random orders of the clients stand for them. "
    "The option models=NUMBER allows more."
)


def one_round(trace: TraceViews, rng: np.random.Generator, *, models: int = _MODELS) -> Estimate:
    """OR (Song et al. 2019): the Shapley value of v(S) = U(θ⁰ + Σ_t Σ_{i∈S} w_i^S Δ_i^t).

    Where 2^n exceeds `models`, random orders with at most that many reconstructed models replace the
    exact value, and `details["sampled"]` says so.
    """
    return _shapley(trace.n, trace.whole_run, rng, models)


def lambda_mr(
    trace: TraceViews,
    rng: np.random.Generator,
    *,
    lam: float = 0.98,
    first_power: int = 1,
    models: int = _MODELS,
) -> Estimate:
    """λ-MR (Song et al. 2019; Wei et al. 2020): φ = Σ_{t=1}^T λ^t φ^t, later rounds counting less.

    φ^t is the Shapley value of v_t(S) = U(θ^{t−1} + Σ_{i∈S} w_i^S Δ_i^t), v_t(∅) = U(θ^{t−1}). As published, rounds are
    counted from 1 and the first has weight λ. With `first_power=0` its weight is 1, as in the code of the IPSS
    paper's authors: the same values divided by λ. With `lam=1` they add up to the gain of the whole run.
    Where 2^n exceeds `models`, every round is sampled as in OR.
    """
    _check("lam", lam, "a number above 0, at most 1", _is_number(lam) and 0 < lam <= 1)
    first_power = whole("The option 'first_power'", first_power, 0, 1, error=MethodError)
    phi = np.zeros(trace.n)
    for t in range(1, trace.rounds + 1):
        of_round = _shapley(trace.n, _round(trace, t), rng, models)
        phi += lam ** (t - 1 + first_power) * of_round.mean
    return replace(of_round, mean=phi, details={"rounds": trace.rounds, **of_round.details})


def gtg(
    trace: TraceViews,
    rng: np.random.Generator,
    *,
    skip: float = 0.01,
    truncation: float = 0.001,
    convergence: float = 0.05,
    permutations: int = 1000,
) -> Estimate:
    """GTG-Shapley (Liu et al. 2022): per round, truncated orders until the running means stand still.

    A round with |v_t(N) − v_t(∅)| ≤ `skip` counts nothing. Orders come in sweeps of n, each client first in
    one of them; an order ends, its other clients credited with 0, when |v_t(N) − v_t(prefix)| < `truncation`.
    A round ends after more than 30 orders when the last 10 running means deviate from the last one by
    at most `convergence` (relative, mean over clients), or with the sweep that reaches `permutations`
    (ours: the published rule need not end). Only evaluated utilities are remembered, never truncated ones.
    """
    for name, number in {"skip": skip, "truncation": truncation, "convergence": convergence}.items():
        _check(name, number, "a number of at least 0", _is_number(number) and number >= 0)
    permutations = whole("The option 'permutations'", permutations, 1, error=MethodError)
    grand = full_mask(trace.n)
    phi = np.zeros(trace.n)
    orders: list[int] = []
    models = 0
    for t in range(1, trace.rounds + 1):
        v = _Memory(_round(trace, t))
        v.learn([0, grand])
        marginals = np.empty((0, trace.n))
        if abs(v[grand] - v[0]) > skip:
            while len(marginals) < permutations and not _converged(marginals, convergence):
                marginals = np.vstack([marginals, _sweep(v, trace.n, truncation, rng)])
            phi += marginals.mean(0)
        orders.append(len(marginals))
        models += len(v)
    return Estimate(phi, details={"permutations": orders, "models": models})


def dig_fl(
    trace: TraceViews, rng: np.random.Generator, *, clip: bool = False, rescale: bool = False
) -> Estimate:
    """DIG-FL (Wang et al. 2022), first order: φ_i = Σ_t w_i ⟨∇ℓ(θ^{t−1}), θ^{t−1} − θ_i^t⟩.

    By how much client i's updates lower the loss ℓ on the test set, whatever the metric of the game. With
    `clip` the authors' variant: negative parts become 0 and every round is normalised to a sum of 1.

    Published are these numbers, drops of the loss. To compare them with values in another unit, `rescale` multiplies
    them by one factor so that they add up to v(N) − v(∅) of the recorded run. Where that factor is not positive (the run lowered the
    loss and the utility, or neither changed) it would turn the ranking round, and is refused.
    """
    _check("clip", clip, "true or false", isinstance(clip, bool))
    _check("rescale", rescale, "true or false", isinstance(rescale, bool))
    of_round = trace.weights * trace.loss_drops()
    if clip:
        of_round = np.maximum(of_round, 0.0)
        total = of_round.sum(1, keepdims=True)
        of_round = np.divide(of_round, total, out=np.zeros_like(of_round), where=total > 0)
    phi, details = of_round.sum(0), {"rounds": trace.rounds}
    if rescale:
        return Estimate(phi * _to_the_gain(trace, float(phi.sum())), details=details)
    return Estimate(phi, details=details, unit="share" if clip else "loss")


def _to_the_gain(trace: TraceViews, total: float) -> float:
    """The factor that makes values with this total add up to what the whole run gained."""
    start, end = trace.whole_run([0, full_mask(trace.n)])
    gain = float(end - start)
    if not gain * total > 0:
        raise MethodError(
            "DIG-FL's values can be rescaled only where they and v(N) − v(∅) add up to something of the same sign. "
            f"The values add up to {total:.4g}, v(N) − v(∅) is {gain:.4g}: leave the option 'rescale' out and use the "
            "ranking only."
        )
    return gain / total


def _round(trace: TraceViews, t: int) -> Game:
    return lambda masks: trace.round(t, masks)


def _shapley(n: int, game: Game, rng: np.random.Generator, models: int) -> Estimate:
    """Exact where `models` covers all coalitions, by random orders and their reverses where it does not."""
    models = whole("The option 'models'", models, n + 1, error=MethodError)
    if 1 << n <= models:
        return Estimate(_ask(game, exact_mc(n, 1 << n, rng)).mean, details={"sampled": False})
    sampled = _ask(game, permutation(n, models, rng))
    return Estimate(sampled.mean, details={"sampled": True, **sampled.details}, notes=(_SAMPLED,))


def _ask(game: Game, plan: Plan) -> Estimate:
    """Runs an ordinary plan on a game of the trace."""
    try:
        ask = next(plan)
        while True:
            ask = plan.send(game(ask))
    except StopIteration as done:
        estimate: Estimate = done.value
        return estimate


class _Memory(dict[int, float]):
    """The utilities of one round that have been evaluated."""

    def __init__(self, game: Game) -> None:
        self.game = game

    def learn(self, masks: Sequence[int]) -> None:
        unknown = [mask for mask in dict.fromkeys(masks) if mask not in self]
        if unknown:
            self.update(zip(unknown, self.game(unknown).tolist(), strict=True))


def _sweep(v: _Memory, n: int, truncation: float, rng: np.random.Generator) -> Array:
    """Marginal contributions in n orders, client j the first of the j-th; they advance side by side."""
    orders = [[j, *(int(i) for i in rng.permutation([i for i in range(n) if i != j]))] for j in range(n)]
    prefix = [0] * n
    marginals = np.zeros((n, n))
    live = list(range(n))
    for place in range(n):
        live = [j for j in live if abs(v[full_mask(n)] - v[prefix[j]]) >= truncation]
        grown = {j: prefix[j] | 1 << orders[j][place] for j in live}
        v.learn(list(grown.values()))
        for j, mask in grown.items():
            marginals[j, orders[j][place]] = v[mask] - v[prefix[j]]
            prefix[j] = mask
    return marginals


def _converged(marginals: Array, threshold: float) -> bool:
    """Whether the running means have come to rest, after more than 30 orders."""
    return len(marginals) > _GTG_LEAST and running_change(list(marginals), _GTG_WINDOW) <= threshold


def _is_number(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool) and isfinite(given)


def _check(name: str, given: Any, expected: str, good: bool) -> None:
    if not good:
        raise MethodError(f"The option {name!r} must be {expected}. Got {given!r}.")
