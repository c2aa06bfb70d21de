"""How firm amounts are: the rule applied to values drawn from their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import InputError
from fedvalue.payout._parties import Parties
from fedvalue.payout._rules import Rule, half_widths
from fedvalue.precision import unknown
from fedvalue.values import Values

__all__ = ["DRAWS", "LEVEL", "Order", "Stability", "stability"]

Array: TypeAlias = "NDArray[np.float64]"
DRAWS = 4_000
LEVEL = 0.95
_SEED = 0
_CALLED = {
    "coalitions": "coalitions not trained",
    "training": "the luck of training",
    "test": "the luck of test rows",
}


@dataclass(frozen=True)
class Order:
    """Two clients that are neighbours by value, and how likely the lower one is truly worth more.

    `at_most`: the method does not say how the two errors hang together, so this is the worst case. `equal`: both
    have the same value for certain.
    """

    above: str
    below: str
    wrong: float
    at_most: bool = False
    equal: bool = False


@dataclass(frozen=True)
class Stability:
    """`ranges` are shares per client, `orders` neighbours by rank; None where the method cannot tell.

    `all_luck`: nothing is missing in them, neither the luck of training nor that of estimating.
    """

    statement: str
    draws: int
    seed: int
    joint: bool
    pays_nobody: float
    ranges: tuple[tuple[float, float], ...] | None
    orders: tuple[Order, ...] | None
    all_luck: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; the ranges stand with the clients as money."""
        orders = self.orders
        return {
            "statement": self.statement,
            "level": LEVEL,
            "draws": self.draws,
            "seed": self.seed,
            "joint": self.joint,
            "pays_nobody": self.pays_nobody,
            "orders": None if orders is None else [vars(order) for order in orders],
        }


def stability(parties: Parties, rule: Rule, least: float, draws: int) -> Stability:
    """Draws values, applies the rule to each draw, and looks at the middle 95% of every client's share."""
    values = parties.values
    if draws < 100:
        raise InputError(f"The range of a payout takes at least 100 draws. Got {draws}.")
    half = half_widths(values, LEVEL)
    if half is None:
        said = f"The method {values.method} gives no interval, so it is unknown how firm these amounts are."
        return Stability(said, 0, _SEED, False, 0.0, None, None)
    # Of one seed whose luck is not known, nothing is known about the order of two clients either.
    orders = None if values.random and values.stderr is None else _orders(values)
    within = half_widths(parties.drawn_from, LEVEL)  # members of a group may err where the group does not
    if not half.any() and (within is None or not within.any()):
        said = "The values are exact, so there is no estimation error."
        if values.random:
            said = (
                f"The values are {values.promise}, so there is no estimation error. Another seed would change them by an "
                "amount that is not known; the method surrogate trains with several seeds and has it in its intervals."
            )
        return Stability(said, 0, _SEED, True, 0.0, None, orders)
    joint = values.covariance is not None
    drawn = _drawn(parties.drawn_from, draws)
    weights, takes_part = rule.weigh(parties.of_drawn(drawn), half)
    paid = takes_part.any(axis=1)
    nobody = 1 - float(paid.mean())
    said = f"Ranges are the middle 95% of {draws:,} payouts with values drawn from their uncertainty, seed {_SEED}."
    if not joint:
        said += " Errors of different clients are assumed to be independent, because this method does not say how they are related."
    gaps = unknown(values)
    sure = not {"coalitions", "training"} & set(gaps)
    if gaps:
        said += f" Not in them, because not known: {' and '.join(_CALLED[name] for name in gaps)}."
    if nobody:
        said += f" In {_part(nobody)} of the draws the rule pays nobody; these are left out."
    if not paid.any():
        return Stability(said, draws, _SEED, joint, nobody, None, orders, sure)
    shares = parties.among_clients(_split(weights[paid], takes_part[paid], least), drawn[paid])
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(shares, [tail, 1 - tail], axis=0)
    ranges = tuple(zip(low.tolist(), high.tolist(), strict=True))
    return Stability(said, draws, _SEED, joint, nobody, ranges, orders, sure)


def _part(fraction: float) -> str:
    return "less than 0.1%" if fraction < 0.0005 else f"{fraction:.1%}"


def _drawn(values: Values, draws: int) -> Array:
    rng = np.random.default_rng(_SEED)
    assert values.stderr is not None
    if values.covariance is not None:
        # The symmetric root: unlike other factors it does not depend on the signs that a library happens to choose.
        power, direction = np.linalg.eigh(values.covariance)
        root = (direction * np.sqrt(np.maximum(power, 0.0))) @ direction.T
        noise = rng.standard_normal((draws, values.n)) @ root
        if values.dof is not None:  # all together: what they err by was estimated from the same few trainings
            least = float(np.maximum(values.dof, 1e-3).min())
            noise *= np.sqrt(least / rng.chisquare(least, (draws, 1))) if np.isfinite(least) else 1.0
        drawn: Array = values.mean + noise
        return drawn
    noise = rng.standard_normal((draws, values.n))
    if values.dof is not None:  # Student's t: a normal over the root of a mean of squares
        dof = np.where(np.isfinite(values.dof), np.maximum(values.dof, 1e-3), 1e9)
        noise /= np.sqrt(rng.chisquare(dof, (draws, values.n)) / dof)
    spread: Array = values.mean + noise * values.stderr
    return spread


def _split(weights: Array, takes_part: NDArray[np.bool_], least: float) -> Array:
    """`_money.split` in floats, for all draws at once."""
    weights = np.where(weights.any(axis=1, keepdims=True), weights, takes_part)
    raised = np.zeros(weights.shape, dtype=bool)
    while True:
        free = np.where(raised, 0.0, weights)
        left = 1 - least * raised.sum(axis=1, keepdims=True)
        total = free.sum(axis=1, keepdims=True)
        shares = np.where(raised, least, left * free / np.where(total > 0, total, 1.0))
        short = takes_part & ~raised & (shares < least - 1e-12)
        if not short.any():
            return shares
        raised |= short


def _orders(values: Values) -> tuple[Order, ...]:
    """Neighbours by value, and how likely their order is wrong."""
    from scipy.special import ndtr, stdtr

    ranked = np.argsort(-values.mean, kind="stable")
    rounding = 1e-12 * float(np.abs(values.mean).max())
    found = []
    for i, j in zip(ranked[:-1].tolist(), ranked[1:].tolist(), strict=True):
        names, apart = (values.names[i], values.names[j]), float(values.mean[i] - values.mean[j])
        right = values.probability_order(i, j)
        if right is not None:
            equal = right in (0.0, 0.5, 1.0) and apart <= rounding
            found.append(Order(*names, 0.5 if equal else 1 - right, equal=equal))
            continue
        assert values.stderr is not None
        spread = float(values.stderr[i] + values.stderr[j])
        z = -apart / spread if spread > 0 else (-np.inf if apart > 0 else 0.0)
        dof = np.inf if values.dof is None else float(min(values.dof[i], values.dof[j]))
        wrong = float(stdtr(dof, z) if np.isfinite(dof) and np.isfinite(z) else ndtr(z))
        found.append(Order(*names, wrong, at_most=True))
    return tuple(found)
