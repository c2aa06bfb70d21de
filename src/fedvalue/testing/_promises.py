"""What an estimator may promise besides the contract, and how far a run is from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fedvalue._checks import did_you_mean
from fedvalue.coalitions import mask_of, members
from fedvalue.errors import InputError
from fedvalue.testing.games import Array, KnownGame

__all__ = ["OF_ONE_RUN", "PROMISES", "TOLERANCE", "checked_promises", "relabelled", "violation"]

PROMISES = {
    "efficient": "the values add up to v(N) − v(∅)",
    "null": "a client that never changes a utility is worth 0",
    "symmetric": "two clients that no coalition can tell apart are worth the same",
    "anonymous": "all clients are worth the same where only the size of a coalition counts",
    "relabelled": "relabelling the clients relabels the values",
    "deterministic": "the values do not depend on the seed",
    "scaled": "utilities times a factor give values times that factor",
    "shifted": "a constant added to all utilities changes no value",
}
"""What `check_estimator` can hold an estimator to at every budget and every seed, up to rounding."""

OF_ONE_RUN = ("efficient", "null", "symmetric", "anonymous")
TOLERANCE = 1e-9  # for utilities of about 1 to 10


def checked_promises(promises: Iterable[str], known: Iterable[str] = PROMISES) -> frozenset[str]:
    """The promises, which must be among the known ones."""
    given, possible = frozenset(promises), list(known)
    for promise in sorted(given - set(possible)):
        raise InputError(
            f"Unknown promise {promise!r}. {did_you_mean(promise, possible)}Promises: {', '.join(possible)}."
        )
    return given


def violation(promise: str, game: KnownGame, mean: Array) -> float:
    """How far the values of one run are from a promise; 0 on a game to which it does not apply."""
    if promise == "efficient":
        return abs(float(mean.sum()) - game.gain)
    if promise == "null":
        return float(np.abs(mean[list(game.nulls)]).max(initial=0.0))
    if promise == "symmetric":
        return max((abs(float(mean[i] - mean[j])) for i, j in game.copies), default=0.0)
    return float(np.ptp(mean)) if game.only_size_counts else 0.0


def relabelled(game: KnownGame, new_place: Sequence[int]) -> KnownGame:
    """The game in which client i is client new_place[i]."""
    table = np.empty_like(game.table)
    for mask, utility in enumerate(game.table):
        table[mask_of(new_place[i] for i in members(mask))] = utility
    values = np.empty_like(game.values)
    values[list(new_place)] = game.values
    return KnownGame(f"{game}, relabelled", game.n, table, values)
