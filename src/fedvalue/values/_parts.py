"""What an estimator returns, and what a run cost: the parts that values are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Chain", "Cost", "Estimate"]


@dataclass(frozen=True)
class Estimate:
    """What an estimator returns: a value per client and, where one is valid, its standard error.

    `dof` are the degrees of freedom behind `stderr` (None: as good as infinitely many); `details` says
    in plain data what the method did (strata, permutations, …). `guarantee` replaces what the method
    promises in general, where this run fell short of it (or did better). `covariance` is that of all values
    together, where the method knows it. `parts` are the covariances that it is the sum of, where the method tells them
    apart: "coalitions" that were not trained, and the luck of "training".

    `linear` gives the values for other utilities of the same trainings, all else being equal: from an array whose first
    axis has what the plan asked for, in that order, to one whose first axis has the clients. Through it a run learns
    how far another sample of test rows would move the values. `spread` says how the errors of such other values compare:
    from an array of what the plan asked for (first axis) in several games (second) to a square matrix to which the
    covariances of the errors of those games' values are proportional, `covariance` being that of the game itself.

    `unit` is what the values are in, where that is not the utility of the game. `forecast[k - 1]` is by which
    fraction k more evaluations would narrow the widest interval. `known_before` counts utilities that the method
    took from the store beyond those it asked for. `notes` are sentences about this run that its user should read.

    >>> import fedvalue as fv
    >>> def alone(n, budget, rng):
    ...     utilities = yield [0, *(1 << client for client in range(n))]
    ...     said = "What clients do together is left out."
    ...     return fv.Estimate(utilities[1:] - utilities[0], notes=(said,))
    >>> fv.value([0.0, 1.0, 2.0, 4.0], alone, budget=3).mean.tolist()
    [1.0, 2.0]
    """

    mean: NDArray[np.float64]
    stderr: NDArray[np.float64] | None = None
    dof: NDArray[np.float64] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    guarantee: str | None = None
    covariance: NDArray[np.float64] | None = None
    unit: str | None = None
    forecast: Sequence[float] = ()
    known_before: int = 0
    notes: Sequence[str] = ()
    parts: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    linear: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    spread: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None


@dataclass(frozen=True)
class Cost:
    """What a run evaluated, counted as pairs of a coalition and a replicate.

    `trained` were evaluated now, `reused` came from the store. `exact_trainings` is how many trainings exact
    values take (coalitions that are the same training count once), `exact_seconds` an extrapolation from those
    made so far; both are None where the game cannot tell.

    >>> import tempfile
    >>> import fedvalue as fv
    >>> store = tempfile.mkdtemp() + "/store.db"
    >>> fv.value([0.0, 1.0, 1.0, 3.0], "exact", store=store).cost.trained
    4
    >>> fv.value([0.0, 1.0, 1.0, 3.0], "exact", store=store).cost.reused
    4
    """

    trained: int
    reused: int = 0
    exact_trainings: int | None = None
    exact_seconds: float | None = None


@dataclass(frozen=True)
class Chain:
    """Which rows of a store's chain values rest on: how many there were when the run began and when it ended.

    The links are the hashes of the last row of each: with them, nobody can exchange an earlier row unnoticed.
    """

    rows_before: int
    link_before: str
    rows: int
    link: str

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Chain:
        """From plain data, checked."""
        found = cls(**data)
        numbers, links = (found.rows_before, found.rows), (found.link_before, found.link)
        if any(type(n) is not int or n < 0 for n in numbers) or not all(isinstance(x, str) for x in links):
            raise ValueError(f"chain is {dict(data)!r}")
        return found
