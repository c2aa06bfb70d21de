"""The contract between estimators and whoever evaluates coalitions for them.

A plan is a generator: it yields a list of coalitions, is sent their utilities as an array in the same
order, and in the end returns its estimate. What is asked together is trained together. It never trains,
reads no files and no clock, and draws randomness only from the generator it is given.

A plan that spreads its trainings over several seeds yields trials instead: pairs of a coalition and a seed.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.values import Estimate

__all__ = ["Plan"]

Plan: TypeAlias = Generator[Sequence[Any], NDArray[np.float64], Estimate]
"""What an estimator is: yields coalitions as bitmasks, or trials, is sent their utilities, returns its estimate.

>>> import fedvalue as fv
>>> def halves(n, budget, rng) -> fv.Plan:
...     # What each reaches alone, and equal parts of what they reach together beyond that.
...     utilities = yield [0, *(1 << client for client in range(n)), (1 << n) - 1]
...     alone = utilities[1:-1] - utilities[0]
...     return fv.Estimate(alone + (utilities[-1] - utilities[0] - alone.sum()) / n)
>>> fv.value([0.0, 1.0, 2.0, 4.0], halves, budget=4).mean.tolist()
[1.5, 2.5]
"""
