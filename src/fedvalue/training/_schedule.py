"""How the learning rate changes from round to round."""

from __future__ import annotations

import math

__all__ = ["SCHEDULES", "share_of_rate"]

SCHEDULES = ("constant", "linear", "cosine", "step")


def share_of_rate(
    t: int, rounds: int, schedule: str, warmup: int = 0, decay: float = 0.0, decay_every: int = 0
) -> float:
    """Which part of the rate counts in round t = 1, 2, …, the same for all steps of the round.

    It rises evenly through the `warmup` rounds and is whole in the one after them. From there it falls evenly or along
    half a cosine to 0, which the round after the last would have, or is multiplied by `decay` after every `decay_every`
    rounds.

    >>> [share_of_rate(t, 5, "linear", warmup=1) for t in range(1, 6)]
    [0.5, 1.0, 0.75, 0.5, 0.25]
    """
    if t <= warmup:
        return t / (warmup + 1)
    behind = t - warmup - 1
    passed = behind / max(1, rounds - warmup)
    if schedule == "linear":
        return 1 - passed
    if schedule == "cosine":
        return (1 + math.cos(math.pi * passed)) / 2
    return float(decay ** (behind // decay_every)) if schedule == "step" else 1.0
