"""A plan that leaves out what is known: after clients have joined, left or changed their data, the others are the same.

Coalitions of the others were trained before, by another plan: not the same ones, but as many, and the process is
conditioned on all of them. What it does not know is what the new clients add.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from fedvalue._checks import whole
from fedvalue.coalitions import full_mask, mask_of
from fedvalue.errors import MethodError
from fedvalue.estimators.surrogate._design import fixed_plan

__all__ = ["coalitions_of_others", "spared"]


def coalitions_of_others(n: int, budget: int, seed: int, new: Sequence[int]) -> int:
    """How many coalitions without the new clients the plan has, which must be known to leave them out.

    >>> coalitions_of_others(4, 8, 0, [3])
    4
    """
    return len(_of_others(fixed_plan(n, budget, np.random.default_rng(seed)), _mask_of_new(n, new)))


def spared(n: int, masks: Sequence[int], known: Collection[int], new: Sequence[int]) -> list[int]:
    """The plan without coalitions of others that are not known, if as many others are; else all of it.

    >>> spared(3, [0b000, 0b111, 0b001, 0b010, 0b100, 0b011], known=[0b001, 0b010, 0b011], new=[2])
    [0, 7, 1, 2, 4, 3]
    >>> spared(4, [0b0000, 0b1111, 0b0011, 0b1001], known=[0b0110], new=[3])
    [0, 15, 9]
    >>> spared(4, [0b0000, 0b1111, 0b0011, 0b1001], known=[], new=[3])
    [0, 15, 3, 9]
    """
    of_new = _mask_of_new(n, new)
    if len(_of_others(known, of_new)) < len(_of_others(masks, of_new)):
        return list(masks)
    return [mask for mask in masks if not mask or mask & of_new or mask in known]


def _of_others(masks: Collection[int], of_new: int) -> list[int]:
    return [mask for mask in masks if mask and not mask & of_new]


def _mask_of_new(n: int, new: Sequence[int]) -> int:
    given = [] if isinstance(new, str) else list(new)
    clients = [whole("A number in the option 'new'", i, 0, n - 1, error=MethodError) for i in given]
    if not clients or mask_of(clients) == full_mask(n):
        raise MethodError(
            f"The option 'new' lists some of the clients by their numbers, but not all. Got {new!r}."
        )
    return mask_of(clients)
