"""Inference for the surrogate: from utilities of some coalitions to values with a posterior covariance.

Hyper-parameters θ are not fixed but averaged over: their posterior is found by L-BFGS (the scale of the
process is integrated out analytically, inverse-gamma), approximated by a normal around its mode, and sampled
with antithetic draws whose importance weights are clipped. Values are those at the mode, which does not depend
on draws; their covariance is that of the mixture around it, uncertainty about θ included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedvalue.estimators.surrogate._kernel import MEAN, SD, WITHOUT_LUCK, Coalitions, Landmarks, nugget
from fedvalue.estimators.surrogate._prior import (
    Prior,
    UnfitError,
    at_hand,
    cholesky,
    half_solve,
    inverse,
    solve,
)
from fedvalue.estimators.surrogate._target import Target
from fedvalue.estimators.surrogate._terms import Term, luck, shows_interactions, terms

__all__ = ["Likelihood", "Posterior", "posterior", "scale_given", "spread_given", "weights_given"]

Array = NDArray[np.float64]

_SHAPE, _RATE = 0.5, 0.05  # of the inverse-gamma prior of the scale: weak, about the variance of the data
_ITERATIONS = 40
_BOUND = 4.0  # prior deviations that a hyper-parameter may move
_STEP = 0.05  # prior deviations, for the curvature at the mode
_FLATTEST = (
    0.5  # of the curvature, in prior units: a direction the data say nothing about is not explored further
)
_CLIP = 1.5  # of log importance weights around their median: no single draw decides
_CAUTION = math.sqrt(0.5)  # length of the draws: at 1, small budgets had too wide intervals on real games
_SUBSET = 320  # points that hyper-parameters are fitted to; inference uses all


@dataclass(frozen=True)
class Posterior:
    """Values without v(∅)'s part, their covariance, and the prior at the most likely hyper-parameters.

    `weights` says how much each utility counts in each value (a row per client). `training` is the part of the
    covariance that comes from the luck of training (None: trained with one seed).
    """

    mean: Array
    covariance: Array
    prior: Prior
    weights: Array
    training: Array | None = None


class Likelihood:
    """Minus the log posterior density of the hyper-parameters, up to a constant, with its gradient."""

    def __init__(self, coalitions: Coalitions, y: Array, parts: list[Term]) -> None:
        self.y = y
        self.parts = parts
        sizes, self.index = np.unique(coalitions.size, return_inverse=True)
        self.log_size = np.log(sizes)
        self.grid = np.ix_(self.index, self.index)
        self.likeness = [part.likeness(coalitions, coalitions) for part in parts]
        self.of_size = (np.arange(len(sizes))[:, None] == self.index).astype(float)
        self.same = None if coalitions.seed is None else coalitions.same(coalitions)

    def value(self, q: Array) -> float:
        """Minus the log density."""
        return _density(q, self.y, cholesky(self._kernel(q, slopes=False)[0]))[0]

    def scale(self, q: Array) -> float:
        """The scale of the process given the hyper-parameters."""
        return 1 / _density(q, self.y, cholesky(self._kernel(q, slopes=False)[0]))[2]

    def __call__(self, q: Array) -> tuple[float, Array]:
        """The same with its gradient; a large number instead of infinity, which L-BFGS does not like."""
        kernel, slopes, nugget_slopes, jitter_slope = self._kernel(q, slopes=True)
        try:
            factor = cholesky(kernel)
            density, alpha, sharpness = _density(q, self.y, factor)
        except UnfitError:
            return 1e10, np.zeros(len(q))
        change = inverse(factor) - sharpness * np.outer(alpha, alpha)  # ∂/∂K, twice
        diagonal = self.of_size @ (np.diag(change) if self.same is None else (change * self.same).sum(1))
        gradient = np.zeros(len(q))
        for likeness, of_part in zip(self.likeness, slopes, strict=True):
            by_size = self.of_size @ (change * likeness) @ self.of_size.T
            for k, slope in of_part.items():
                gradient[k] += np.vdot(by_size, slope)
        for k, slope in nugget_slopes.items():
            gradient[k] += diagonal @ slope
        gradient[0] += jitter_slope * diagonal.sum()
        return density, gradient / 2 + (q - MEAN[: len(q)]) / SD[: len(q)] ** 2

    def _kernel(
        self, q: Array, slopes: bool
    ) -> tuple[Array, list[dict[int, Array]], dict[int, Array], float]:
        kernel = np.zeros((len(self.y), len(self.y)))
        of_parts = []
        for part, likeness in zip(self.parts, self.likeness, strict=True):
            profile, of_part = part.profile(q, self.log_size, self.log_size, slopes)
            kernel += profile[self.grid] * likeness
            of_parts.append(of_part)
        variance, nugget_slopes, jitter = nugget(q, self.log_size)
        if self.same is None:
            kernel[np.diag_indices(len(kernel))] += variance[self.index] + jitter
        else:
            kernel += (variance[self.index] + jitter) * self.same
            kernel[np.diag_indices(len(kernel))] += jitter
        return kernel, of_parts, nugget_slopes, jitter * _logistic(q[0])


def _density(q: Array, y: Array, factor: Array) -> tuple[float, Array, float]:
    """Minus the log density of the hyper-parameters, K⁻¹y, and the inverse of the scale."""
    alpha = solve(factor, y)
    shape, rate = _SHAPE + len(y) / 2, _RATE + max(float(y @ alpha), 0.0) / 2
    away = (q - MEAN[: len(q)]) / SD[: len(q)]
    density = float(np.log(np.diag(factor)).sum() + shape * math.log(rate) + away @ away / 2)
    if not math.isfinite(density):
        raise UnfitError
    return density, alpha, shape / rate


def posterior(
    coalitions: Coalitions, y: Array, noise: Array | None = None, target: Target | None = None
) -> Posterior:
    """The posterior of the Shapley values, v(∅) left out, given standardised utilities.

    `noise` is the variance of the error of each utility, 0 where it is exact. Hyper-parameters are fitted
    to exact utilities only, and to a subset of them where there are many. With a `target` its values take the place of the
    Shapley values.
    """
    distinct, mean_y = _distinct(coalitions, y)
    landmarks = Landmarks.seen_in(distinct, mean_y)
    parts = terms(coalitions.n, landmarks, shows_interactions(distinct))
    if coalitions.seed is not None:
        parts += luck(coalitions.n)
    chosen = _subset(coalitions, noise)
    likelihood = Likelihood(coalitions[chosen], y[chosen], parts)
    count = WITHOUT_LUCK if coalitions.seed is None else len(MEAN)
    mode, at_mode = _mode(likelihood, MEAN[:count], SD[:count])
    spread = _spread(likelihood, mode)
    noise_ratio = None if noise is None else noise / likelihood.scale(mode)
    prior = Prior(parts, mode, coalitions.n, target)
    quick = replace(prior, parts=at_hand(parts, coalitions))  # not kept: it holds matrices
    mean, covariance, _ = _values_given(quick, coalitions, y, noise_ratio)
    found = [(0.0, mean, covariance)]
    for draw in _draws(len(y), count):
        q = mode + SD[:count] * (spread @ draw)
        try:
            mean, covariance, density = _values_given(replace(quick, q=q), coalitions, y, noise_ratio)
            if len(chosen) < len(y):
                density = likelihood.value(q)
        except UnfitError:
            continue
        found.append((at_mode - density + draw @ draw / 2, mean, covariance))
    weights = weights_given(prior, coalitions, noise_ratio)
    training = None if coalitions.seed is None else _luck_of(prior, coalitions, y, weights)
    return Posterior(found[0][1], _covariance(found), prior, weights, training)


def _distinct(coalitions: Coalitions, y: Array) -> tuple[Coalitions, Array]:
    """Every coalition once, with the mean of its utilities over seeds."""
    if coalitions.seed is None:
        return coalitions, y
    inside, index = np.unique(coalitions.inside, axis=0, return_inverse=True)
    return Coalitions(inside), np.bincount(index.ravel(), y) / np.bincount(index.ravel())


def _subset(coalitions: Coalitions, noise: Array | None) -> NDArray[np.intp]:
    """Points to fit hyper-parameters to: all, or the grand coalition and a fixed random choice."""
    exact = np.arange(len(coalitions)) if noise is None else np.flatnonzero(noise == 0)
    if len(exact) <= _SUBSET:
        return exact
    rng = np.random.default_rng(0)  # which points are left out is no source of variation between runs
    largest = exact[np.argmax(coalitions.size[exact])]
    return np.unique(np.append(rng.choice(exact, _SUBSET, replace=False), largest))


def _mode(likelihood: Likelihood, mean: Array, sd: Array) -> tuple[Array, float]:
    from scipy.optimize import minimize

    bounds = list(zip(mean - _BOUND * sd, mean + _BOUND * sd, strict=True))
    options = {"maxiter": _ITERATIONS}
    found = minimize(likelihood, mean, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if not found.fun < 1e9:
        raise UnfitError
    return found.x, float(found.fun)


def _spread(likelihood: Likelihood, mode: Array) -> Array:
    """A square root of the covariance of the hyper-parameters around their mode, in prior units."""
    rows = []
    for k in range(len(mode)):
        step = np.zeros(len(mode))
        step[k] = _STEP * SD[k]
        rows.append((likelihood(mode + step)[1] - likelihood(mode - step)[1]) / (2 * step[k]))
    curvature = np.array(rows) * np.outer(SD[: len(mode)], SD[: len(mode)])
    eigenvalues, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    # The symmetric root: unlike single eigenvectors it does not jump where eigenvalues coincide.
    root: Array = (vectors / np.sqrt(np.maximum(eigenvalues, _FLATTEST))) @ vectors.T
    return root


@lru_cache
def _draws(points: int, count: int) -> Array:
    """Pairs of opposite standard normal draws; fewer where each costs more."""
    pairs = (
        32 if points <= 100 else 16 if points <= 300 else 8 if points <= 1000 else 4 if points <= 3000 else 2
    )
    half = _normal_draws(count)[:pairs]
    both: Array = np.stack([half, -half], axis=1).reshape(2 * pairs, -1)
    return _CAUTION * both


@lru_cache
def _normal_draws(count: int) -> Array:
    """Two sets of normal vectors, orthogonal to each other within a set."""
    rng = np.random.default_rng(0)
    blocks = []
    for _ in range(2):
        gaussian = rng.standard_normal((count, count))
        directions, _ = np.linalg.qr(gaussian)
        directions = directions * np.sign(directions[0])
        blocks.append(directions.T * np.linalg.norm(gaussian, axis=0)[:, None])
    return np.vstack(blocks)


def _values_given(
    prior: Prior, coalitions: Coalitions, y: Array, noise_ratio: Array | None
) -> tuple[Array, Array, float]:
    """Mean and covariance of the Shapley values under a prior, and minus the log density of that prior."""
    rows = prior.rows(coalitions)
    factor = _factor(prior, coalitions, noise_ratio)
    density, alpha, sharpness = _density(prior.q, y, factor)
    explained = half_solve(factor, rows.T)
    shape = _SHAPE + len(y) / 2
    scale = shape / (shape - 1) / sharpness  # the mean of the inverse gamma
    mean, covariance = rows @ alpha, scale * (prior.values() - explained.T @ explained)
    if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
        raise UnfitError
    return mean, covariance, density


def weights_given(prior: Prior, coalitions: Coalitions, noise_ratio: Array | None = None) -> Array:
    """How much the utility of each coalition counts in each value, under a prior: a row per client."""
    weights: Array = solve(_factor(prior, coalitions, noise_ratio), prior.rows(coalitions).T).T
    return weights


def scale_given(prior: Prior, coalitions: Coalitions, y: Array) -> float:
    """The scale of the process under a prior, by which its covariances are multiplied."""
    return 1 / _density(prior.q, y, _factor(prior, coalitions, None))[2]


def spread_given(
    prior: Prior, coalitions: Coalitions, utilities: Array, noise_ratio: Array | None = None
) -> Array:
    """How the scales of several processes with this prior go together: by utilities of each, in columns.

    Its diagonal is, up to one factor for all, what `scale_given` says of each by itself.
    """
    apart = utilities - utilities.mean(0)
    explained = half_solve(_factor(prior, coalitions, noise_ratio), apart)
    spread: Array = _RATE * apart.T @ apart / len(apart) + explained.T @ explained
    return spread


def _factor(prior: Prior, coalitions: Coalitions, noise_ratio: Array | None) -> Array:
    kernel = prior.utilities(coalitions)
    if noise_ratio is not None:
        kernel[np.diag_indices(len(kernel))] += noise_ratio
    return cholesky(kernel)


def _luck_of(prior: Prior, coalitions: Coalitions, y: Array, weights: Array) -> Array:
    """The covariance of the luck of training in the values, which are weighted sums of the utilities."""
    of_luck = replace(prior, parts=[part for part in prior.parts if part.is_luck])
    luck: Array = (
        scale_given(prior, coalitions, y) * weights @ of_luck.between(coalitions, coalitions) @ weights.T
    )
    return luck


def _covariance(found: list[tuple[float, Array, Array]]) -> Array:
    """Of the mixture of all draws around the values at the mode: what is not known given θ, and about θ."""
    log_weight = np.array([weight for weight, _, _ in found])
    weight = np.exp(np.clip(log_weight - np.median(log_weight), -_CLIP, _CLIP))
    weight /= weight.sum()
    apart = np.array([mean for _, mean, _ in found]) - found[0][1]
    covariance: Array = sum(w * c for w, (_, _, c) in zip(weight, found, strict=True))
    covariance = covariance + (apart.T * weight) @ apart
    covariance = (covariance + covariance.T) / 2
    np.fill_diagonal(covariance, np.maximum(np.diag(covariance), 1e-14))
    return covariance


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))
