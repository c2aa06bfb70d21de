"""Group testing (Extended-GTB, Jia et al. 2019)."""

from __future__ import annotations

import numpy as np

from fedvalue.coalitions import full_mask, membership, random_subset
from fedvalue.estimators._plan import Plan
from fedvalue.values import Estimate

__all__ = ["gtb"]


def gtb(n: int, budget: int, rng: np.random.Generator, *, center: bool = False) -> Plan:
    """Random tests, differences of values from them, and values that fit all differences.

    Z = 2 Σ_{k<n} 1/k; a test draws a size k with chance (1/k + 1/(n−k))/Z and then k clients; over T tests
    ΔU_ij = (Z/T) Σ_t u_t (β_ti − β_tj). The published last step looks for φ with Σφ = v(N) − v(∅) and
    |φ_i − φ_j − ΔU_ij| ≤ ε for the smallest feasible ε. All ΔU come from the same tests, so
    ΔU_ij = g_i − g_j with g_i = (Z/T) Σ_t u_t β_ti: ε = 0 is feasible, and its only solution is g shifted to
    the right sum. That closed form replaces the linear program (a test compares the two).

    Adding a constant to v changes none of the expectations but much of the spread: `center=True` measures
    utilities from v(N), which on learning curves cuts the error many times. Published: False.

    Tests are drawn until their distinct coalitions fill the budget; a coalition drawn again costs nothing
    and counts as a test again.
    """
    size = np.arange(1, n)
    q = 1 / size + 1 / (n - size)
    z = q.sum()
    masks = {0: 0, full_mask(n): 1}  # coalition → its place in the ask
    tests: list[int] = []
    for _ in range(50 * budget):  # ends long before, except where the budget is nearly all of 2**n
        mask = random_subset(n, int(rng.choice(size, p=q / z)), rng)
        if mask not in masks and len(masks) == budget:
            break
        tests.append(masks.setdefault(mask, len(masks)))
    asked = list(masks)
    utilities = yield asked
    u = utilities[tests] - (utilities[1] if center else 0.0)
    beta = membership(asked, n)[tests]
    g = z * (u[:, None] * beta).mean(0)
    phi = g + (utilities[1] - utilities[0] - g.sum()) / n
    stderr = dof = None
    if len(tests) > 1:
        per_test = z * u[:, None] * (beta - beta.mean(1, keepdims=True))
        stderr = per_test.std(0, ddof=1) / np.sqrt(len(tests))
        dof = np.full(n, len(tests) - 1.0)
    return Estimate(phi, stderr, dof, {"tests": len(tests)})
