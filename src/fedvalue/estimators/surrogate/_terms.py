"""The prior of the surrogate: a Gaussian process over coalitions whose Shapley values have a closed form.

The prior is a sum of independent terms, each of which factors into sizes and members:

    Cov(v(S), v(T)) = Σ_term A(|S|, |T|) · W(S, T)    + a nugget where S = T

    size      W = 1                       how utility grows with the number of clients
    who       W = Σ_i z_i^S z_i^T         which clients these are, z_i^S = 1{i ∈ S} − |S|/n
    pairs     W = Σ_{i<j} z_i^S z_j^S z_i^T z_j^T     which pairs of clients; triples likewise
    alone     W = X_S X_T                 X_S = Σ_{i∈S} x_i, x_i how client i does by itself
    left out  W = Y_S Y_T                 likewise, y_i how much v(N) loses without client i
    products  W = Q_S Q_T                 Q_S = Σ_{i<j} x_i x_j z_i^S z_j^S: who brings much takes from others

The Shapley value is linear in v. Only the sum-zero first-order part a_i(s) of v among coalitions of size s
matters, φ_i = (v(N) − v(∅))/n + 1/(n−1) Σ_{0<s<n} a_i(s), so every term enters Cov(φ_i, v(T)) as a weighted
mean of A over sizes times a number that depends on i and T: nothing ever enumerates 2^n coalitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedvalue.estimators.surrogate._kernel import (
    ALONE,
    LEFT_OUT,
    Array,
    Coalitions,
    Landmarks,
    Slopes,
    landmark_profile,
    luck_level_profile,
    luck_who_profile,
    noise_profile,
    product_profile,
    size_profile,
    subset_profile,
    who_profile,
)

__all__ = ["Level", "Term", "luck", "shows_interactions", "terms"]

Profile = Callable[[Array, Array, Array, bool], tuple[Array, Slopes]]


@dataclass(frozen=True)
class Level:
    """What a term says of the mean utility of a size, which Shapley values do not depend on and other semivalues do.

    The mean of W(S, T) over the coalitions S of size s is of_size[s − 1] · of(T); `tilt` is how `of` depends on who is in T, as
    `direction` of the term is told: it makes the covariance of the mean with what clients add.
    """

    of_size: Array
    of: Callable[[Coalitions], Array]
    tilt: Array | float = 0.0


@dataclass(frozen=True)
class Term:
    """One term A(s, t)·W(S, T) of the prior, and its part in the Shapley values.

    `profile` gives A on two lists of log sizes with its slopes by hyper-parameter; `likeness` gives W.
    Cov(φ, v(T)) = (Σ_s weight_s A(s, |T|)) · direction(T), the prior of φ (Σ weight A weight) · `prior`.
    """

    profile: Profile
    likeness: Callable[[Coalitions, Coalitions], Array]
    weight: Array
    direction: Callable[[Coalitions], Array]
    prior: Array
    level: Level | None = None
    is_luck: bool = False


def terms(n: int, landmarks: Landmarks, interactions: bool = True) -> list[Term]:
    """The terms of the prior for n > 1 clients; landmarks that are not known have none.

    Triples and products only with `interactions`: where the data cannot tell how these depend on size
    they would be extrapolated, and outliers among the clients make that dear.
    """
    inner = np.where(np.arange(1, n + 1) < n, 1 / (n - 1), 0.0)
    at_the_end = np.where(inner > 0, 0.0, 1 / n)
    found = [
        Term(size_profile, _ones, at_the_end, _everyone, np.ones((n, n)), _level_of(np.ones(n))),
        Term(who_profile, _shared, inner, lambda a: a.contrast.T, np.eye(n) - 1 / n),
        _subset_term(n, 2, inner),
    ]
    if landmarks.alone is not None:
        found.append(_landmark_term(landmarks.alone, ALONE, [0.0], inner))
    if landmarks.left_out is not None:
        found.append(_landmark_term(landmarks.left_out, LEFT_OUT, [0.0, math.log(n - 1)], inner))
    if interactions and n > 3:
        found.append(_subset_term(n, 3, inner))
        if landmarks.alone is not None:
            found.append(_product_term(landmarks.alone, inner))
    return found


def luck(n: int) -> list[Term]:
    """The terms of what differs between trainings of the same coalition: they are no part of the values."""
    nothing = np.zeros((n, n))

    def term(profile: Profile, likeness: Callable[[Coalitions, Coalitions], Array]) -> Term:
        return Term(profile, likeness, np.zeros(n), _no_direction, nothing, is_luck=True)

    return [
        term(luck_level_profile, lambda a, b: a.same_seed(b)),
        term(luck_who_profile, lambda a, b: a.same_seed(b) * _shared(a, b)),
        term(noise_profile, lambda a, b: a.same_seed(b) * a.same(b)),
    ]


def shows_interactions(coalitions: Coalitions) -> bool:
    """Whether enough small coalitions of several clients were seen beside the halves."""
    size, n = coalitions.size, coalitions.n
    return int(((size > 1) & (size < n // 2)).sum()) >= n // 2


def _ones(a: Coalitions, b: Coalitions) -> Array:
    return np.ones((len(a), len(b)))


def _everyone(a: Coalitions) -> Array:
    return np.ones((a.n, len(a)))


def _shared(a: Coalitions, b: Coalitions) -> Array:
    shared: Array = a.inside @ b.inside.T - np.outer(a.size, b.size) / a.n
    return shared


def _landmark_term(deviation: Array, weight: int, anchors: list[float], inner: Array) -> Term:
    centred = deviation - deviation.mean()
    return Term(
        partial(landmark_profile, weight, np.array(anchors)),
        lambda a, b: np.outer(a.inside @ deviation, b.inside @ deviation),
        inner,
        lambda a: np.outer(centred, a.inside @ deviation),
        np.outer(centred, centred),
    )


def _subset_term(n: int, order: int, inner: Array) -> Term:
    """Interactions of all pairs (order 2) or triples (3), independent of each other."""
    level = _level_of(_symmetric(n, order) / math.sqrt(math.comb(n, order)))
    if n <= order:  # nobody is outside: no first-order part that would tell clients apart
        nothing = np.zeros((n, n))
        return Term(partial(subset_profile, order), _subsets(order), 0 * inner, _no_direction, nothing, level)
    b = order / (n - order)
    with_i, all_subsets = math.comb(n - 1, order - 1), math.comb(n, order)
    with_both = math.comb(n - 2, order - 2) + (with_i - math.comb(n - 2, order - 2)) * np.eye(n)
    prior = (1 + b) ** 2 * with_both - 2 * b * (1 + b) * with_i + b * b * all_subsets
    return Term(
        partial(subset_profile, order),
        _subsets(order),
        inner * _first_order_part(n, order),
        lambda a: _sum_zero(_products_with(a.contrast, order), order).T,
        prior,
        level,
    )


def _level_of(of_size: Array) -> Level:
    """Of interactions that depend on size alone once all subsets are summed up."""
    return Level(of_size, lambda a: of_size[a.size - 1])


def _symmetric(n: int, order: int) -> Array:
    """Σ over all pairs or triples of Π z_i of a coalition of size 1..n, which is the same for all of a size."""
    size = np.arange(1, n + 1)
    outside = 1 - size / n
    if order == 2:
        pairs: Array = -size * outside / 2
        return pairs
    triples: Array = (size * outside**3 - (n - size) * (size / n) ** 3) / 3
    return triples


def _no_direction(a: Coalitions) -> Array:
    return np.zeros((a.n, len(a)))


def _product_term(deviation: Array, inner: Array) -> Term:
    """A single interaction of all pairs, in proportion to what both do alone."""
    n, x = len(deviation), deviation - deviation.mean()
    towards = _sum_zero(_products_with(x[None], 2), 2)[0]

    def amount(a: Coalitions) -> Array:
        total: Array = _products_with(a.contrast * x, 2).sum(1) / 2
        return total

    return Term(
        product_profile,
        lambda a, b: np.outer(amount(a), amount(b)),
        inner * _first_order_part(n, 2),
        lambda a: np.outer(towards, amount(a)),
        np.outer(towards, towards),
        Level(-(x @ x) / 2 * _symmetric(n, 2) / math.comb(n, 2), amount, towards),
    )


def _first_order_part(n: int, order: int) -> Array:
    """Coefficient a_i(s), s = 1..n, of an interaction Π z_j that contains i."""
    s = np.arange(1, n + 1)
    f = s / n
    if order == 2:  # the mean of the other factors, i being inside or outside
        inside, outside = (s - 1) / (n - 1) - f, s / (n - 1) - f
    else:
        pairs = (n - 1) * (n - 2)
        inside = (s - 1) * (s - 2) / pairs - 2 * f * (s - 1) / (n - 1) + f**2
        outside = s * (s - 1) / pairs - 2 * f * s / (n - 1) + f**2
    part: Array = (n - 1) / n * ((1 - f) * inside + f * outside)
    return part


def _subsets(order: int) -> Callable[[Coalitions, Coalitions], Array]:
    """Σ over subsets of that order of Π z_i^S z_i^T, by Newton's identities."""

    def likeness(a: Coalitions, b: Coalitions) -> Array:
        first = _shared(a, b)
        second: Array = (a.contrast**2) @ (b.contrast**2).T
        total: Array = first**2 - second
        if order == 2:
            return total / 2
        total = first**3 - 3 * first * second + 2 * (a.contrast**3) @ (b.contrast**3).T
        return total / 6

    return likeness


def _products_with(z: Array, order: int) -> Array:
    """For every row and every i: the sum of products over the subsets that contain i."""
    others: Array = z.sum(1, keepdims=True) - z
    if order == 2:
        return z * others
    squares: Array = (z**2).sum(1, keepdims=True) - z**2
    return z * (others**2 - squares) / 2


def _sum_zero(with_i: Array, order: int) -> Array:
    """What subsets say about i against the others: those with i count 1, those without −order/(n − order)."""
    n = with_i.shape[1]
    everything = with_i.sum(1, keepdims=True) / order
    against: Array = with_i - order / (n - order) * (everything - with_i)
    return against
