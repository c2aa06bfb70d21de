"""The least core and the nucleolus: shares of v(N) − v(∅) that leave no coalition too dissatisfied.

The excess of a coalition is what its members could have had by themselves less what they get together, v(S) − v(∅) − x(S). Among all
shares that add up, those of the least core make the largest excess as small as possible; given are the ones nearest to the equal
split, as Yan and Procaccia (AAAI 2021) propose. The nucleolus (Schmeidler 1969) then makes the second largest excess as small as
possible, and so on, which leaves one answer. Here a client may get less than it reaches alone where others would have to pay for
it: strictly speaking, that is the prenucleolus.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import UtilityError

__all__ = ["MOST_CLIENTS", "least_core", "nucleolus"]

Array = NDArray[np.float64]
MOST_CLIENTS = 12  # each of the 2^n coalitions is a constraint
_NOTHING = 1e-9  # of the largest utility, and of the price of a constraint
_PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def least_core(table: Array) -> Array:
    """The most equal shares of the least core, from the utilities of all coalitions by bitmask."""
    from scipy.linalg import null_space

    n, unit, total, v, inside = _game(table)
    equal = np.full(n, total / n)
    if n == 1:
        return equal * unit
    epsilon, _ = _smallest_excess(inside, v, [np.ones(n)], [total])
    # Shares are the equal split and something that adds up to 0: the shortest that contents all coalitions.
    basis = null_space(np.ones((1, n)))
    lacking = v - epsilon - _NOTHING - inside @ equal
    shares: Array = unit * (equal + basis @ _shortest(inside @ basis, lacking))
    return shares


def nucleolus(table: Array) -> Array:
    """The nucleolus, from the utilities of all coalitions by bitmask: a linear program for each excess that is settled."""
    from scipy.linalg import null_space

    n, unit, total, v, inside = _game(table)
    settled, shares = [np.ones(n)], [total]  # x(S) is known of these: first of all clients together
    while len(settled) < n:
        undecided = np.abs(inside @ null_space(np.array(settled))).max(1) > _NOTHING
        epsilon, prices = _smallest_excess(inside[undecided], v[undecided], settled, shares)
        # A constraint with a price is tight in every solution: its coalition has this excess for good.
        tight = np.flatnonzero(undecided)[prices > _NOTHING]
        for row, utility in zip(inside[tight], v[tight], strict=True):
            if np.linalg.matrix_rank([*settled, row]) > len(settled):
                settled.append(row)
                shares.append(float(utility) - epsilon)
    found: Array = unit * np.linalg.solve(np.array(settled), np.array(shares))
    return found


def _game(table: Array) -> tuple[int, float, float, Array, Array]:
    """The number of clients; the unit in which v(N) and v(S) are, v(∅) being 0; who is in S, the coalitions between ∅ and N."""
    n = (len(table) - 1).bit_length()
    gains = table - table[0]
    unit = float(np.abs(gains).max()) or 1.0
    inside = (np.arange(1, len(table) - 1)[:, None] >> np.arange(n) & 1).astype(float)
    return n, unit, float(gains[-1] / unit), gains[1:-1] / unit, inside


def _smallest_excess(
    inside: Array, v: Array, settled: Sequence[Array], shares: Sequence[float]
) -> tuple[float, Array]:
    """The least ε with x(S) + ε ≥ v(S) for all S, given what some get together, and the price of each constraint."""
    from scipy.optimize import linprog

    n = inside.shape[1]
    found = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=-np.column_stack([inside, np.ones(len(v))]),
        b_ub=-v,
        A_eq=np.column_stack([np.array(settled), np.zeros(len(settled))]),
        b_eq=np.array(shares),
        bounds=(None, None),
        method="highs",
        options=_PRECISE,
    )
    if not found.success:
        raise UtilityError(f"No shares could be computed from these utilities: {found.message}")
    return float(found.x[-1]), -found.ineqlin.marginals


def _shortest(a: Array, b: Array) -> Array:
    """The shortest y with A·y ≥ b: least-distance programming (Lawson and Hanson 1974, chapter 23)."""
    from scipy.optimize import nnls

    target = np.append(np.zeros(a.shape[1]), 1.0)
    stacked = np.vstack([a.T, b])
    found, _ = nnls(stacked, target)
    residual = stacked @ found - target
    shortest: Array = -residual[:-1] / residual[-1]
    return shortest
