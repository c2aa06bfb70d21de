"""Semivalues: means of contributions with a weight for every size (Dubey, Neyman and Weber 1981)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import full_mask
from fedvalue.errors import InputError
from fedvalue.weights import MOST_COALITIONS, Weights

__all__ = ["banzhaf", "beta", "leave_one_out", "semivalue"]

Array = NDArray[np.float64]


def banzhaf(n: int) -> Array:
    """Every coalition of the others counts the same (Wang and Jia, Data Banzhaf, AISTATS 2023)."""
    return np.full(n, 2.0 ** (1 - n))


def beta(n: int, a: float, b: float) -> Array:
    """Beta(a, b)-Shapley (Kwon and Zou, AISTATS 2022): B(s + b, n − 1 − s + a) / B(a, b) for a coalition of s others."""
    from scipy.special import betaln

    s = np.arange(n)
    weights: Array = np.exp(betaln(s + b, n - 1 - s + a) - betaln(a, b))
    return weights


def semivalue(weight_of_size: Callable[[int], Array], n: int) -> Weights:
    """φ_i = Σ_{S∌i} weight(|S|)·[v(S∪i) − v(S)]."""
    if 1 << n > MOST_COALITIONS:
        raise InputError(
            f"These values of {n} clients rest on all 2^{n} coalitions; at most {MOST_COALITIONS:,} can be weighed. "
            "Leave-one-out and Shapley values need fewer."
        )
    masks = np.arange(1 << n)
    inside = masks >> np.arange(n)[:, None] & 1
    weight, size = weight_of_size(n), inside.sum(0)
    joins, stays = np.append(0.0, weight)[size], np.append(weight, 0.0)[size]
    return Weights(n, tuple(masks.tolist()), np.where(inside == 1, joins, -stays), np.eye(n))


def leave_one_out(n: int) -> Weights:
    """v(N) − v(N∖i): the semivalue that looks at one coalition."""
    everyone = full_mask(n)
    masks = (0, *(everyone ^ 1 << i for i in range(n)), everyone) if n > 1 else (0, 1)
    matrix = np.zeros((n, len(masks)))
    matrix[:, -1] = 1
    matrix[range(n), range(1, n + 1) if n > 1 else [0]] = -1
    return Weights(n, masks, matrix, np.eye(n))
