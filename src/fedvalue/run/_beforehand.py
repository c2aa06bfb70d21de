"""What a store knows of a game before anything is evaluated."""

from __future__ import annotations

import math

import numpy as np

from fedvalue.games import Game, Reading
from fedvalue.run._no_clients import has_any_seed
from fedvalue.store import Store

__all__ = ["known_beforehand"]


def known_beforehand(store: Store | None, game: Game, reading: Reading) -> dict[int, tuple[float, float]]:
    """Utilities in the store, and the variances of their errors.

    Where only r of R replicates are known, their mean errs by σ²(1/r − 1/R), σ² being the pooled variance of
    single evaluations; where that is not known either, only complete ones count.
    """
    if store is None:
        return {}
    replicates = game.replicates
    found: dict[int, list[float]] = {}
    for replicate in range(replicates):
        for mask, outcome in store.read(game.id, None, replicate).items():
            if reading.lacks_metric(mask, outcome):
                continue
            utility = float(game.utility(outcome))
            if math.isfinite(utility):
                found.setdefault(mask, []).append(utility)
    repeated = [
        np.var(seen, ddof=1) for mask, seen in found.items() if len(seen) > 1 and not reading.is_empty(mask)
    ]
    variance = float(np.mean(repeated)) if repeated else None
    if has_any_seed(game, reading):
        found.pop(0, None)  # of one seed; plans ask for the mean
    return {
        mask: (float(np.mean(seen)), (variance or 0.0) * (1 / len(seen) - 1 / replicates))
        for mask, seen in found.items()
        if len(seen) == replicates or variance is not None
    }
