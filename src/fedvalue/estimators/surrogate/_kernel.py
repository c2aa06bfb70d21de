"""What the prior of the surrogate is made of: hyper-parameters, profiles over sizes, landmarks, the nugget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedvalue.by_size import BySize, signed_weights
from fedvalue.coalitions import membership, shapley_weights

__all__ = [
    "MEAN",
    "SD",
    "Array",
    "Coalitions",
    "Landmarks",
    "WITHOUT_LUCK",
    "Slopes",
    "luck_level_profile",
    "luck_who_profile",
    "noise_profile",
    "landmark_profile",
    "nugget",
    "nugget_prior",
    "nugget_rows",
    "product_profile",
    "size_profile",
    "subset_profile",
    "who_profile",
]

Array = NDArray[np.float64]
Slopes = dict[int, Array]

# Hyper-parameters, each with a normal prior: on the logarithm of weights and reaches, on powers directly.
# A reach says over which ratio of sizes utilities stay alike, a power how an effect grows with size.
(
    SIZE, SIZE_REACH, WHO_POWER, WHO_REACH, PAIR, PAIR_POWER, PAIR_REACH,
    ROUGH, ROUGH_POWER, FLOOR, ALONE, ALONE_REACH, LEFT_OUT, LEFT_OUT_REACH, TRIPLE, PRODUCT,
    NOISE, NOISE_POWER, LUCK_LEVEL, LUCK_WHO, LUCK_POWER,
) = range(21)  # fmt: skip
_PRIOR = {
    SIZE: (math.log(5.0), 2.0),
    SIZE_REACH: (math.log(1.8), 0.5),
    WHO_POWER: (-0.25, 0.5),
    WHO_REACH: (math.log(1.8), 0.5),
    PAIR: (math.log(0.1), 1.2),
    PAIR_POWER: (0.3, 0.6),
    PAIR_REACH: (math.log(1.2), 0.5),
    ROUGH: (math.log(0.1), 1.2),
    ROUGH_POWER: (-1.2, 1.2),
    FLOOR: (math.log(1e-4), 2.0),
    ALONE: (math.log(0.3), 1.0),
    ALONE_REACH: (math.log(1.2), 0.5),
    LEFT_OUT: (math.log(0.3), 1.0),
    LEFT_OUT_REACH: (math.log(1.2), 0.5),
    TRIPLE: (math.log(0.01), 1.5),
    PRODUCT: (math.log(0.03), 1.5),
    # The luck of training, measured on ten games trained 16 to 48 times: luck that all trainings of a seed have in
    # common, and that clients have with a seed, is in proportion to the luck of single trainings. How much luck clients
    # have of their own is left wide: games of another kind may have more of it, or less where many take part.
    NOISE: (-3.5, 2.0),
    NOISE_POWER: (-0.4, 0.4),
    LUCK_LEVEL: (0.0, 1.0),
    LUCK_WHO: (-0.2, 1.0),
    LUCK_POWER: (-0.5, 0.6),
}
WITHOUT_LUCK = NOISE  # this many come first: those of a game that was trained with one seed
MEAN: Array = np.array([_PRIOR[k][0] for k in range(len(_PRIOR))])
SD: Array = np.array([_PRIOR[k][1] for k in range(len(_PRIOR))])

_LEVEL = 10.0  # prior variance of the overall level, in units of the size term: as good as unknown
_JITTER = 1e-9
_LUCK_LEVEL_FLOOR, _LUCK_LEVEL_REACH = (
    0.3,
    1.5,
)  # a seed's level: alike from size 2 to N, less so for single clients
_LUCK_WHO_REACH = 3.0  # a client is lucky at all sizes: those of ten clients correlate by .6 and more


@dataclass(frozen=True)
class Coalitions:
    """Non-empty coalitions as a matrix of members, with what the prior needs to know about them.

    With `seed` they are trainings: which of the trainings of its coalition each of them is.
    """

    inside: Array
    seed: NDArray[np.intp] | None = None

    @classmethod
    def of(cls, masks: Sequence[int], n: int, seed: NDArray[np.intp] | None = None) -> Coalitions:
        return cls(membership(masks, n).astype(float), seed)

    @property
    def n(self) -> int:
        return int(self.inside.shape[1])

    @cached_property
    def size(self) -> NDArray[np.intp]:
        size: NDArray[np.intp] = self.inside.sum(1).astype(np.intp)
        return size

    @cached_property
    def contrast(self) -> Array:
        """z_i^S = 1{i ∈ S} − |S|/n."""
        return self.inside - self.size[:, None] / self.n

    def __len__(self) -> int:
        return len(self.inside)

    def __getitem__(self, rows: NDArray[np.intp] | slice) -> Coalitions:
        return Coalitions(self.inside[rows], None if self.seed is None else self.seed[rows])

    def same_seed(self, other: Coalitions) -> Array:
        """1 where both were trained with the same seed."""
        assert self.seed is not None
        assert other.seed is not None
        same: Array = (self.seed[:, None] == other.seed).astype(float)
        return same

    def same(self, other: Coalitions) -> Array:
        """1 where both are the same coalition."""
        shared = self.inside @ other.inside.T
        same: Array = ((shared == self.size[:, None]) & (shared == other.size)).astype(float)
        return same


@dataclass(frozen=True)
class Landmarks:
    """How clients differ by themselves and when left out, at unit deviation; None where that is unknown."""

    alone: Array | None = None
    left_out: Array | None = None

    @classmethod
    def seen_in(cls, coalitions: Coalitions, y: Array) -> Landmarks:
        n, size = coalitions.n, coalitions.size
        alone, left_out = size == 1, size == n - 1
        return cls(
            _deviation(coalitions.inside[alone], y[alone]),
            _deviation(1 - coalitions.inside[left_out], -y[left_out]),
        )


def _deviation(client: Array, amount: Array) -> Array | None:
    """Deviations from the mean, one row of `client` pointing out whose; None if there are none."""
    if len(amount) < 2 or client.shape[1] < 3:
        return None
    deviation = client.T @ (amount - amount.mean())
    spread = math.sqrt(float(deviation @ deviation) / (len(amount) - 1))
    return deviation / spread if spread > 1e-9 else None


def size_profile(q: Array, a: Array, b: Array, slopes: bool) -> tuple[Array, Slopes]:
    """A(s, t) of the size term on two lists of log sizes, and its slopes by hyper-parameter."""
    weight = math.exp(q[SIZE])
    alike, change = _smooth(_distance(a, b), math.exp(q[SIZE_REACH]))
    full = weight * (_LEVEL + alike)
    return full, {SIZE: full, SIZE_REACH: weight * change} if slopes else {}


def who_profile(q: Array, a: Array, b: Array, slopes: bool) -> tuple[Array, Slopes]:
    """Of what a single client does to a coalition, a power of its size."""
    scale = _who_scale(q, a, b)
    alike, change = _rough(_distance(a, b), math.exp(q[WHO_REACH]))
    full = scale * alike
    return full, {WHO_POWER: full * np.add.outer(a, b), WHO_REACH: scale * change} if slopes else {}


def subset_profile(order: int, q: Array, a: Array, b: Array, slopes: bool) -> tuple[Array, Slopes]:
    """Of pairs and triples, measured from the first size that has one; triples differ by their weight alone."""
    weight = PAIR if order == 2 else TRIPLE
    return _interaction(order, weight, q, a, b, slopes)


def product_profile(q: Array, a: Array, b: Array, slopes: bool) -> tuple[Array, Slopes]:
    """Of pairs whose interaction is the product of what the two do alone."""
    return _interaction(2, PRODUCT, q, a, b, slopes)


def _interaction(order: int, weight: int, q: Array, a: Array, b: Array, slopes: bool) -> tuple[Array, Slopes]:
    growth = np.add.outer(a, b) - 2 * math.log(order)
    scale = np.exp(q[weight] + (q[PAIR_POWER] - order) * growth)
    alike, change = _smooth(_distance(a, b), math.exp(q[PAIR_REACH]))
    full = scale * alike
    return full, {weight: full, PAIR_POWER: full * growth, PAIR_REACH: scale * change} if slopes else {}


def landmark_profile(
    weight: int, anchors: Array, q: Array, a: Array, b: Array, slopes: bool
) -> tuple[Array, Slopes]:
    """Of what is known at the anchors, where it vanishes: there it has been observed already."""
    scale = math.exp(q[weight]) * _who_scale(q, a, b)
    bridge, change = _anchored(a, b, anchors, math.exp(q[weight + 1]))
    full = scale * bridge
    if not slopes:
        return full, {}
    return full, {weight: full, WHO_POWER: full * np.add.outer(a, b), weight + 1: scale * change}


def noise_profile(q: Array, a: Array, b: Array, slopes: bool) -> tuple[Array, Slopes]:
    """Of the luck of a single training."""
    sizes = np.add.outer(a, b)
    full = np.exp(q[NOISE] + q[NOISE_POWER] * sizes)
    return full, {NOISE: full, NOISE_POWER: full * sizes} if slopes else {}


def luck_level_profile(q: Array, a: Array, b: Array, slopes: bool) -> tuple[Array, Slopes]:
    """Of what all trainings with a seed have in common."""
    alike = _LUCK_LEVEL_FLOOR + _rough(_distance(a, b), _LUCK_LEVEL_REACH)[0]
    full = np.exp(q[NOISE] + q[LUCK_LEVEL]) * alike
    return full, {NOISE: full, LUCK_LEVEL: full} if slopes else {}


def luck_who_profile(q: Array, a: Array, b: Array, slopes: bool) -> tuple[Array, Slopes]:
    """Of a client's luck with a seed, whichever coalition it is in."""
    sizes = np.add.outer(a, b)
    full = (
        np.exp(q[NOISE] + q[LUCK_WHO] + q[LUCK_POWER] * sizes) * _rough(_distance(a, b), _LUCK_WHO_REACH)[0]
    )
    return full, {NOISE: full, LUCK_WHO: full, LUCK_POWER: full * sizes} if slopes else {}


def _who_scale(q: Array, a: Array, b: Array) -> Array:
    scale: Array = np.exp((q[WHO_POWER] - 1) * np.add.outer(a, b))
    return scale


def _distance(a: Array, b: Array) -> Array:
    distance: Array = np.abs(np.subtract.outer(a, b))
    return distance


def _smooth(distance: Array, reach: float) -> tuple[Array, Array]:
    """exp(−d²/2ℓ²) and its slope in log ℓ."""
    u = (distance / reach) ** 2
    alike = np.exp(-u / 2)
    return alike, alike * u


def _rough(distance: Array, reach: float) -> tuple[Array, Array]:
    """Matérn 3/2, (1 + √3 d/ℓ)·exp(−√3 d/ℓ), and its slope in log ℓ."""
    u = math.sqrt(3) / reach * distance
    decay = np.exp(-u)
    return (1 + u) * decay, u * u * decay


def _anchored(a: Array, b: Array, anchors: Array, reach: float) -> tuple[Array, Array]:
    """Matérn 3/2 conditioned to vanish at the anchors, and its slope in log ℓ.

    At the anchors the landmarks have been observed: the term is about the other sizes alone.
    """
    (ab, d_ab), (a_, d_a), (b_, d_b), (pp, d_pp) = (
        _rough(_distance(x, y), reach) for x, y in ((a, b), (a, anchors), (anchors, b), (anchors, anchors))
    )
    inverse = np.linalg.inv(pp + _JITTER * np.eye(len(anchors)))
    left, right = a_ @ inverse, inverse @ b_
    return ab - left @ b_, d_ab - d_a @ right - left @ d_b + left @ d_pp @ right


def nugget(q: Array, log_size: Array) -> tuple[Array, Slopes, float]:
    """What sizes, members and pairs leave unexplained of v(S), its slopes, and the jitter beside it."""
    rough = np.exp(q[ROUGH] + 2 * q[ROUGH_POWER] * log_size)
    floor = np.full(len(log_size), math.exp(q[FLOOR]))
    slopes = {ROUGH: rough, ROUGH_POWER: 2 * log_size * rough, FLOOR: floor}
    return rough + floor, slopes, _JITTER * (1 + math.exp(q[SIZE]))


def nugget_rows(coalitions: Coalitions, variance: Array, of_coalition: Array | None = None) -> Array:
    """Cov(φ_i, v(T)) by the nugget of v(T) alone: its weight in the definition of the Shapley value, or in one by
    other weights of coalitions by size.
    """
    weights = shapley_weights(coalitions.n) if of_coalition is None else of_coalition
    return (variance[:, None] * signed_weights(coalitions.inside, weights)).T


def nugget_prior(n: int, variance: Array, by_size: BySize | None = None) -> Array:
    """Cov(φ_i, φ_j) by nuggets alone, `variance` being that of sizes 1..n, summed over all 2^n coalitions."""
    size = np.arange(1, n + 1)
    counts = np.ones(n) if by_size is None else n * by_size.chance  # every size, in units of the mean
    weight = shapley_weights(n) if by_size is None else by_size.of_coalition
    with_i = counts * weight
    without, one_of_two = np.append(with_i[1:], 0.0), np.append(counts[:-1] * weight[1:], 0.0)
    # Among coalitions of size s: both in, both out, one of the two; the last has a minus from either side.
    both = (size - 1) * with_i + (n - 1 - size) * without - 2 * (n - size) * one_of_two
    off = float(variance @ both) / (n * (n - 1))
    diagonal = float(variance @ (with_i + without)) / n
    return off + (diagonal - off) * np.eye(n)
