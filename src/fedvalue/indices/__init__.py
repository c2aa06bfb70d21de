"""Solution concepts besides the Shapley value: other answers to what a client is worth, from the same trainings.

A semivalue is a mean of a client's contributions v(S∪i) − v(S) with a weight for every size of S; the Shapley value is the one whose
values add up to v(N) − v(∅). Weighted Shapley values add up, too, and so do the least core and the nucleolus, which ask instead
that no coalition could have had much more by itself. All but these two are linear in v: whatever estimates utilities with an
interval gives them with one.

>>> table = np.array([0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96])
>>> read_index("banzhaf").weights(3).apply(table).round(4).tolist()
[0.215, 0.315, 0.315]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import did_you_mean
from fedvalue.errors import InputError
from fedvalue.indices._core import least_core, nucleolus
from fedvalue.indices._semivalues import banzhaf, beta, leave_one_out, semivalue
from fedvalue.indices._weighted import weighted
from fedvalue.weights import Weights, shapley

__all__ = ["INDICES", "SHAPLEY", "Index", "IndexLike", "read_index", "title_of"]

Array: TypeAlias = "NDArray[np.float64]"
SHAPLEY = "shapley"
MOST_CLIENTS_OF_CORE = 12  # each of the 2^n coalitions is a constraint


@dataclass(frozen=True)
class Index:
    """A solution concept: `weights(n)` where values are weighted sums of utilities, else `solve(table)` from all 2^n of them.

    `adds_up`: whether the values share v(N) − v(∅) among the clients; `anonymous`: whether clients that contribute alike are worth
    the same.
    """

    name: str
    title: str
    adds_up: bool
    weights: Callable[[int], Weights] | None = None
    solve: Callable[[Array], Array] | None = None
    anonymous: bool = True


IndexLike: TypeAlias = "str | Index | Mapping[str, float]"

INDICES: dict[str, str] = {
    SHAPLEY: "the mean contribution over all orders of joining; adds up to v(N) − v(∅)",
    "banzhaf": "the mean contribution over all coalitions of the others, each counting the same",
    "beta(A,B)": "a mean of contributions by size: beta(16,1) looks at small coalitions, beta(1,16) at large ones",
    "leave-one-out": "what all would lose without the client",
    "weighted(NAME=W,…)": "Shapley values of clients of unequal weight; the others have weight 1",
    "least-core": "shares with which the most dissatisfied coalition is as content as possible; the most equal ones",
    "nucleolus": "shares that content the most dissatisfied coalitions one after the other",
}
"""How each is written, and what it is."""

_WRITTEN = re.compile(r"\s*([a-z-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


def read_index(given: IndexLike, names: Sequence[str] = ()) -> Index:
    """A solution concept by its name, such as "banzhaf" or "beta(4,1)"; a dict from clients to weights means weighted Shapley values.

    >>> read_index("beta(4, 1)").title
    'Beta(4, 1)-Shapley values'
    """
    if isinstance(given, Index):
        return given
    if isinstance(given, Mapping):
        return _weighted(given, names)
    found = _WRITTEN.fullmatch(given) if isinstance(given, str) else None
    name, options = (found[1], found[2]) if found else ("", None)
    if name == "beta":
        return _beta(options)
    if name == "weighted":
        return _weighted(_pairs(options), names)
    if name not in _PLAIN or options is not None:
        hint = did_you_mean(name or given, [*_PLAIN, "beta", "weighted"])
        raise InputError(f"Expected an index: {', '.join(INDICES)}. Got {given!r}. {hint}".rstrip())
    return _PLAIN[name]


def title_of(name: str) -> str:
    """What values by this index are called; of names that are written nowhere here, the name."""
    if name.startswith("weighted"):
        return "Weighted Shapley values"
    try:
        return read_index(name).title
    except InputError:
        return f"Values by {name}"


def _beta(options: str | None) -> Index:
    parts = [part.strip() for part in (options or "").split(",")]
    try:
        a, b = (float(part) for part in parts)
    except ValueError:
        raise InputError(
            f"Beta-Shapley values need two numbers, as in beta(16,1). Got {options!r}."
        ) from None
    if not (0 < a <= 1e6 and 0 < b <= 1e6):
        raise InputError(f"The numbers of beta must be above 0, and at most a million. Got {a:g} and {b:g}.")
    return Index(
        f"beta({a:g},{b:g})",
        f"Beta({a:g}, {b:g})-Shapley values",
        a == b == 1,
        partial(semivalue, partial(beta, a=a, b=b)),
    )


def _pairs(options: str | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in (options or "").split(","):
        name, equals, number = part.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            equals = ""
        if not equals or name.strip() in found:
            raise InputError(
                f"Weights are written as weighted(NAME=NUMBER,…), each client once. Got {options or ''!r}."
            )
        found[name.strip()] = weight
    return found


def _weighted(given: Mapping[str, float], names: Sequence[str]) -> Index:
    strangers = [client for client in given if client not in names]
    if strangers or not given:
        who = f"There is no client {strangers[0]!r}. " if strangers else "No client has a weight. "
        raise InputError(
            f"{who}{did_you_mean(strangers[0], names) if strangers else ''}Clients: {', '.join(names[:12])}."
        )
    omega = np.array([given.get(name, 1.0) for name in names], np.float64)
    if not (np.isfinite(omega) & (omega >= 1e-3) & (omega <= 1e3)).all():
        raise InputError(
            f"Weights of clients must be numbers from 0.001 to 1,000. Got {dict(given)}: a client that is to get nothing is left out."
        )
    written = ",".join(
        f"{name}={weight:g}" for name, weight in zip(names, omega.tolist(), strict=True) if name in given
    )
    return Index(
        f"weighted({written})", "Weighted Shapley values", True, partial(weighted, omega), anonymous=False
    )


_PLAIN = {
    index.name: index
    for index in (
        Index(SHAPLEY, "Shapley values", True, shapley),
        Index("banzhaf", "Banzhaf values", False, partial(semivalue, banzhaf)),
        Index("leave-one-out", "Leave-one-out values", False, leave_one_out),
        Index("least-core", "Least core", True, solve=least_core),
        Index("nucleolus", "Nucleolus", True, solve=nucleolus),
    )
}
