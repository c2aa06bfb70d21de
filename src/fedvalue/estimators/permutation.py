"""Values from random orders of the clients: permutation sampling and its truncated form (TMC)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import full_mask, prefix_masks
from fedvalue.estimators._plan import Plan
from fedvalue.values import Estimate

__all__ = ["permutation", "running_change", "tmc"]

Array = NDArray[np.float64]

_WINDOW = 100  # TMC's convergence is judged over this many orders


def permutation(n: int, budget: int, rng: np.random.Generator, *, balanced: bool = True) -> Plan:
    """The mean marginal contribution over random orders (Castro et al. 2009).

    Only whole orders are used, so every order counts alike and the mean is unbiased. `balanced` draws them
    in blocks in which every client takes every place equally often, each order followed by its reverse
    (in the spirit of Mitchell et al. 2022): where returns diminish, most of the variance is who comes first.
    Every single order is still uniformly random, so the mean stays unbiased.
    """
    orders: list[NDArray[np.intp]] = []
    masks = {0, full_mask(n)}
    for order in _orders(n, rng, balanced):
        masks = masks.union(prefix_masks(order))
        # More orders than evaluations bring nothing that is not yet known.
        if len(masks) > budget or len(orders) == budget:
            break
        orders.append(order)
    if balanced and len(orders) >= _block(n):  # part of a block would only unbalance the whole ones
        orders = orders[: len(orders) // _block(n) * _block(n)]
    asked = sorted({0, full_mask(n)}.union(*map(prefix_masks, orders)))
    utilities = dict(zip(asked, (yield asked), strict=True))
    marginals = np.array([_marginals(order, utilities) for order in orders])
    stderr, dof = _mean_error(marginals, _block(n) if balanced else 1)
    return Estimate(marginals.mean(0), stderr, dof, {"permutations": len(orders)})


def _orders(n: int, rng: np.random.Generator, balanced: bool) -> Iterator[NDArray[np.intp]]:
    """Random orders without end; balanced ones are the rotations of one and their reverses."""
    while True:
        base = rng.permutation(n)
        if not balanced:
            yield base
            continue
        # For even n every second rotation and the reverses make a Latin square; odd n takes all rotations.
        step = 2 if n % 2 == 0 else 1
        for offset in (0, *rng.permutation(np.arange(step, n, step))):
            rotated = np.roll(base, offset)
            yield rotated
            yield rotated[::-1]


def _block(n: int) -> int:
    """After how many balanced orders every client has taken every place equally often."""
    return n if n % 2 == 0 else 2 * n


def _marginals(order: NDArray[np.intp], utilities: dict[int, float]) -> Array:
    along = np.diff([utilities[mask] for mask in (0, *prefix_masks(order))])
    marginals = np.empty(len(order))
    marginals[order] = along
    return marginals


def _mean_error(marginals: Array, block: int) -> tuple[Array | None, Array | None]:
    """Standard error of the mean over independent blocks of orders.

    Single orders give nearly everything to whoever comes first; with fewer than 2n of them most clients have
    hardly been first, and their spread says nothing: no error is claimed then.
    """
    total, n = marginals.shape
    whole = total // block
    if whole < (2 if block > 1 else 2 * n):
        return None, None
    means = marginals[: whole * block].reshape(whole, block, n).mean(1)
    return means.std(0, ddof=1) / np.sqrt(total / block), np.full(n, whole - 1.0)


def tmc(
    n: int,
    budget: int,
    rng: np.random.Generator,
    *,
    tolerance: float = 0.01,
    patience: int = 5,
    convergence: float = 0.05,
) -> Plan:
    """Extended-TMC: truncated Monte Carlo (Ghorbani and Zou 2019).

    An order is cut short, its remaining clients credited with 0, when more than `patience` prefixes in a
    row are within `tolerance`·|v(N)| of v(N) (published: 1 %, 5; the paper's authors: 1e-4, 0). Ends when
    the budget is used up or the running means have converged: over the last 100 orders they changed by
    less than `convergence` on average. Orders advance side by side, so that every ask is a wide batch.
    """
    grand = full_mask(n)
    utilities = dict(zip((0, grand), (yield [0, grand]), strict=True))
    near = tolerance * abs(utilities[grand])
    finished: list[Array] = []
    while len(utilities) < budget and len(finished) < budget:
        if len(finished) > _WINDOW and running_change(finished, _WINDOW) < convergence:
            break
        # No more than the window of the convergence test at a time, or it could not save anything.
        width = min(_WINDOW, max(1, (budget - len(utilities)) // (n - 1)))
        orders = [rng.permutation(n) for _ in range(width)]
        done = yield from _walk(orders, utilities, budget, near, patience)
        if not done:
            break
        finished += done
    return Estimate(np.mean(finished, axis=0), details={"permutations": len(finished)})


def _walk(
    orders: list[NDArray[np.intp]],
    utilities: dict[int, float],
    budget: int,
    near: float,
    patience: int,
) -> Generator[Sequence[int], Array, list[Array]]:
    """Marginals of the orders that could be followed to their end or truncation within the budget."""
    grand = max(utilities)
    prefixes = [prefix_masks(order) for order in orders]
    marginals = [np.zeros(len(order)) for order in orders]
    close_in_a_row = [0] * len(orders)
    live = list(range(len(orders)))
    finished: list[int] = []
    for step in range(len(orders[0])):
        unknown: dict[int, None] = {}
        affordable = []
        for j in live:
            mask = prefixes[j][step]
            if mask not in utilities and mask not in unknown:
                if len(utilities) + len(unknown) >= budget:
                    continue  # the order cannot go on and is dropped: half an order would favour its head
                unknown[mask] = None
            affordable.append(j)
        asked = list(unknown)
        if asked:
            utilities.update(zip(asked, (yield asked), strict=True))
        live = []
        for j in affordable:
            before = utilities[prefixes[j][step - 1]] if step else utilities[0]
            now = utilities[prefixes[j][step]]
            marginals[j][orders[j][step]] = now - before
            close_in_a_row[j] = close_in_a_row[j] + 1 if abs(utilities[grand] - now) <= near else 0
            (finished if close_in_a_row[j] > patience else live).append(j)
    return [marginals[j] for j in sorted(finished + live)]


def running_change(finished: Sequence[Array], window: int) -> float:
    """By how much the running mean over orders moved in the last `window` of them.

    Relative to where it is now, averaged over clients; the largest in the window.
    """
    running = np.cumsum(finished, axis=0) / np.arange(1, len(finished) + 1)[:, None]
    change = np.abs(running[-window:] - running[-1]) / (np.abs(running[-1]) + 1e-12)
    return float(change.mean(axis=1).max())
