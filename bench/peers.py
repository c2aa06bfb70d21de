"""Estimators of other packages, run by their own code on a table of utilities.

The rule for a fair comparison: everybody may evaluate the same number γ of distinct coalitions. Our methods count them. Some
peers do too; others count calls, some of them for coalitions they have seen before. So a peer runs on a game that remembers
what it was asked, and one that repeats itself is given the largest parameter (calls, orders or samples) with which it still
asks for at most γ distinct coalitions under that seed. What these peers ask for does not depend on the utilities and grows with
the parameter, so the search (galloping, then halving) runs once per seed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from _counting import Array, CountingTable, Run
from _peers_pydvl import sampler, stratified, vrds
from _peers_shapiq import approximator, shapleig, shapleig_is_there

__all__ = ["NAMESAKES", "PEERS", "PeerResult", "installed_peers", "missing_packages", "peer_values"]

_MOST_REPEATS = 20  # calls per distinct coalition after which a search for more ends


@dataclass(frozen=True)
class Peer:
    """A peer's estimator.

    `sure(n, γ)` is the parameter that γ coalitions pay for even when none comes twice; below `least` the
    peer has no result. One that never `repeats` a coalition needs no search. `slow` ones take seconds a run.
    """

    run: Run
    sure: Callable[[int, int], int] = lambda n, budget: budget
    least: int = 2
    repeats: bool = False
    slow: bool = False


class PeerResult(NamedTuple):
    """Values, the distinct coalitions that they took, and CPU seconds, those of finding the parameter left out."""

    values: Array
    coalitions: int
    seconds: float


def missing_packages() -> list[str]:
    """Which of the packages are not installed."""
    return [name for name in ("shapiq", "pydvl") if find_spec(name) is None]


def installed_peers() -> list[str]:
    """Names of the peers that can run here: ShaplEIG has packages of its own."""
    return [name for name in PEERS if name != SHAPLEIG or shapleig_is_there()]


def peer_values(
    name: str, utilities: Array, budget: int, seed: int, *, apart: bool = False
) -> PeerResult | None:
    """A peer's values with at most `budget` distinct coalitions, or None where that is too few for it.

    v(∅) counts in every client's value with weight −1/n and nowhere else. With `apart` the peer is given a game in which v(∅)
    is as high as v(N), and the difference is added to its values: the same values in the limit, from a game without a step.
    """
    shift = utilities[-1] - utilities[0] if apart else 0.0
    game = CountingTable(np.concatenate(([utilities[0] + shift], utilities[1:])))
    parameter = _largest_parameter(name, game.n, budget, seed)
    if parameter is None:
        return None
    began = time.process_time()
    values = _run(name, game, parameter, seed) + shift / game.n
    seconds = time.process_time() - began
    if len(game.seen) > budget:
        raise RuntimeError(f"{name} evaluated {len(game.seen)} coalitions of {budget}")
    return PeerResult(values, len(game.seen), seconds)


@cache
def _largest_parameter(name: str, n: int, budget: int, seed: int) -> int | None:
    def affordable(parameter: int) -> bool:
        game = CountingTable(np.zeros(1 << n))
        _run(name, game, parameter, seed)
        return len(game.seen) <= budget

    peer = PEERS[name]
    best = peer.sure(n, budget)
    if best < peer.least:
        return None
    if not peer.repeats:
        return best
    step, most = 1, _MOST_REPEATS * best
    while best + step <= most and affordable(best + step):
        best += step
        step *= 2
    while step := step // 2:
        if best + step <= most and affordable(best + step):
            best += step
    return best


def _run(name: str, game: CountingTable, parameter: int, seed: int) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PEERS[name].run(game, parameter, seed)


def _orders(n: int, budget: int) -> int:
    return (budget - 2) // max(n - 1, 1)


def _pairs_of_coalitions(n: int, budget: int) -> int:
    """A sample is a coalition with and without a client."""
    return (budget - 2) // 2


SHAPLEIG = "shapiq ShaplEIG"

PEERS: dict[str, Peer] = {
    "shapiq KernelSHAP": Peer(approximator("KernelSHAP")),
    "shapiq KernelSHAP paired": Peer(approximator("KernelSHAP", pairing_trick=True)),
    "shapiq LeverageSHAP": Peer(approximator("LeverageSHAP")),
    "shapiq UnbiasedKernelSHAP paired": Peer(approximator("UnbiasedKernelSHAP", pairing_trick=True)),
    "shapiq kADDSHAP paired": Peer(approximator("kADDSHAP", max_order=2, pairing_trick=True)),
    "shapiq PolySHAP": Peer(approximator("PolySHAP")),
    "shapiq SVARM paired": Peer(approximator("SVARM", pairing_trick=True)),
    "shapiq RegressionMSR": Peer(approximator("RegressionMSR", index="SV")),
    "shapiq ProxySHAP": Peer(approximator("ProxySHAP", index="SV", max_order=1)),
    "shapiq ProxySHAP adjusted": Peer(approximator("ProxySHAP", index="SV", max_order=1, adjustment=True)),
    "shapiq OddSHAP": Peer(approximator("OddSHAP"), least=10),
    "shapiq Permutation": Peer(
        approximator("PermutationSamplingSV", cost=lambda n, orders: 2 + orders * (n - 1)),
        _orders,
        least=1,
        repeats=True,
    ),
    "shapiq Stratified": Peer(approximator("StratifiedSamplingSV"), least=3, repeats=True),
    "shapiq Owen": Peer(approximator("OwenSamplingSV"), least=4, repeats=True),
    SHAPLEIG: Peer(
        # Its first design has n + 1 coalitions, and at least one has to follow.
        lambda game, more, seed: shapleig(game, game.n + 1 + more, seed),
        lambda n, budget: budget - n - 1,
        least=1,
        slow=True,
    ),
    "pyDVL permutation": Peer(sampler("PermutationSampler"), _orders, least=1, repeats=True),
    "pyDVL antithetic": Peer(sampler("AntitheticPermutationSampler"), _orders, least=1, repeats=True),
    "pyDVL stratified": Peer(stratified, _pairs_of_coalitions, least=1, repeats=True),
    "pyDVL VRDS": Peer(vrds, lambda n, budget: (budget - 2) // (2 * n), least=1, repeats=True),
    "pyDVL MSR": Peer(sampler("MSRSampler"), lambda n, budget: budget - 2, least=1, repeats=True),
}

NAMESAKES = (
    ("permutation", "shapiq Permutation"),
    ("permutation", "pyDVL permutation"),
    ("stratified-mc", "shapiq Stratified"),
    ("stratified-cc", "shapiq SVARM paired"),
    ("cc-paired", "shapiq SVARM paired"),
)
"""Our method, and the peer's that follows the same idea."""
