"""The cheap baselines that every comparison must carry: equal split and leave-one-out."""

from __future__ import annotations

import numpy as np

from fedvalue.coalitions import full_mask
from fedvalue.estimators._plan import Plan
from fedvalue.values import Estimate

__all__ = ["equal", "loo"]


def equal(n: int, budget: int, rng: np.random.Generator) -> Plan:
    """φ_i = (v(N) − v(∅))/n: everybody gets the same. A method that does not beat it has learnt nothing."""
    empty, grand = yield [0, full_mask(n)]
    return Estimate(np.full(n, (grand - empty) / n))


def loo(n: int, budget: int, rng: np.random.Generator) -> Plan:
    """Leave-one-out: φ_i = v(N) − v(N∖i). What the paper's authors run under the name DIG-FL."""
    grand = full_mask(n)
    utilities = yield [grand, *(grand ^ 1 << i for i in range(n))]
    return Estimate(utilities[0] - utilities[1:])
