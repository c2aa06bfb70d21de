"""How far values are from those to be expected over seeds, measured against what the exact values of one seed err by.

`bench/truth.py` measured it on ten games with eight to ten clients that were trained with 16 to 48 seeds each.
"""

from __future__ import annotations

import numpy as np

__all__ = ["luck_left", "luck_statement"]

_TRAININGS = (32, 64, 128, 256)
_LEFT = (0.67, 0.42, 0.27, 0.22)
_CLIENTS = (8, 10)


def luck_left(clients: int, trainings: int) -> float | None:
    """The error of so many trainings spread over seeds, as a fraction of that of all coalitions of one seed.

    None where it was not measured.

    >>> luck_left(10, 64), round(luck_left(9, 91), 2), luck_left(20, 64)
    (0.42, 0.34, None)
    """
    if not _CLIENTS[0] <= clients <= _CLIENTS[1] or not _TRAININGS[0] <= trainings <= _TRAININGS[-1]:
        return None
    return float(np.exp(np.interp(np.log(trainings), np.log(_TRAININGS), np.log(_LEFT))))


def luck_statement(clients: int, trainings: int, exact: bool) -> str:
    """What another seed would do to the values, in words."""
    if exact:
        return (
            "Another seed would give others: exact values are those of one seed. In games with 8 to 10 clients, 64 "
            "trainings spread over eight seeds erred by 42 % as much."
        )
    left = luck_left(clients, trainings)
    if left is None:
        return (
            "That is against the exact values of one seed. Errors against the values to be expected over seeds were "
            "measured with 8 to 10 clients and 32 to 256 trainings only."
        )
    return (
        "That is against the exact values of one seed, which are luck themselves. Against the values to be expected, "
        f"trainings over several seeds erred by {left:.0%} of what all coalitions of one seed did."
    )
