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

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import did_you_mean
from fedvalue.by_size import AnyWeights
from fedvalue.errors import InputError
from fedvalue.indices._core import MOST_CLIENTS, least_core, nucleolus
from fedvalue.indices._semivalues import banzhaf, beta, leave_one_out, own_sizes, uniform
from fedvalue.indices._weighted import weighted

__all__ = ["INDICES", "SHAPLEY", "Index", "IndexLike", "read_index", "title_of"]

Array: TypeAlias = "NDArray[np.float64]"
SHAPLEY = "shapley"
_MOST_OF_BETA = 1e6


@dataclass(frozen=True)
class Index:
    """A solution concept: `weights(n)` where values are weighted sums of utilities, else `solve(table)` from all 2^n of them.

    `adds_up`: whether the values share v(N) − v(∅) among the clients; `anonymous`: whether clients that contribute alike are worth
    the same.
    """

    name: str
    title: str
    adds_up: bool
    weights: Callable[[int], AnyWeights] | None = None
    solve: Callable[[Array], Array] | None = None
    anonymous: bool = True
    most_clients: int | None = None

    def check_clients(self, n: int) -> None:
        """Refuses more clients than it can be computed for, before anything is trained."""
        if self.most_clients is not None and n > self.most_clients:
            raise InputError(
                f"The index {self.name} is computed for up to {self.most_clients} clients. Got {n}: each of the 2^n coalitions is a "
                "constraint."
            )


IndexLike: TypeAlias = "str | Index | Mapping[str, float] | Sequence[float]"

INDICES: dict[str, str] = {
    SHAPLEY: "the mean contribution over all orders of joining; adds up to v(N) − v(∅)",
    "banzhaf": "the mean contribution over all coalitions of the others, each counting the same",
    "beta(A,B)": "a mean of contributions by size: beta(16,1) looks at small coalitions, beta(1,16) at large ones",
    "sizes(W0,W1,…)": "a mean of contributions in which coalitions of 0, 1, … others count in proportion to these n numbers",
    "leave-one-out": "what all would lose without the client",
    "weighted(NAME=W,…)": "Shapley values of clients of unequal weight; the others have weight 1",
    "least-core": "shares with which the most dissatisfied coalition is as content as possible; the most equal ones",
    "nucleolus": "shares that content the most dissatisfied coalitions one after the other",
}
"""How each is written, and what it is."""

_WRITTEN = re.compile(r"\s*([a-z-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


def read_index(given: IndexLike, names: Sequence[str] = ()) -> Index:
    """A solution concept by its name, such as "banzhaf" or "beta(4,1)"; a dict from clients to weights means weighted Shapley values,
    a list of n numbers how much coalitions of 0, 1, … others count.

    >>> read_index("beta(4, 1)").title
    'Beta(4, 1)-Shapley values'
    """
    if isinstance(given, Index):
        return given
    if isinstance(given, Mapping):
        return _weighted(given, names)
    if isinstance(given, np.ndarray):
        return _own_sizes(np.atleast_1d(given).tolist(), names)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return _own_sizes(given, names)
    found = _WRITTEN.fullmatch(given) if isinstance(given, str) else None
    name, options = (found[1], found[2]) if found else ("", None)
    if name == "beta":
        return _beta(options)
    if name == "sizes":
        return _own_sizes([] if options is None else options.split(","), names)
    if name == "weighted":
        return _weighted(_pairs(options), names)
    if name not in _PLAIN or options is not None:
        hint = did_you_mean(name or given, [*_PLAIN, "beta", "sizes", "weighted"])
        raise InputError(f"Expected an index: {', '.join(INDICES)}. Got {given!r}. {hint}".rstrip())
    return _PLAIN[name]


def title_of(name: str) -> str:
    """What values by this index are called; of names that are written nowhere here, the name."""
    if name.startswith("weighted"):
        return "Weighted Shapley values"
    if name.startswith("sizes"):
        return "Semivalues by size"
    try:
        return read_index(name).title
    except InputError:
        return f"Values by {name}"


def _beta(options: str | None) -> Index:
    try:
        a, b = map(float, (options or "").split(","))
    except ValueError:
        raise InputError(
            f"Beta-Shapley values need two numbers, as in beta(16,1). Got {options!r}."
        ) from None
    if not (1 / _MOST_OF_BETA <= a <= _MOST_OF_BETA and 1 / _MOST_OF_BETA <= b <= _MOST_OF_BETA):
        raise InputError(
            f"The numbers of beta must be above 0, from a millionth to a million. Got {a:g} and {b:g}."
        )
    return Index(
        f"beta({_digits(a)},{_digits(b)})",
        f"Beta({a:g}, {b:g})-Shapley values",
        a == b == 1,
        partial(beta, a=a, b=b),
    )


def _own_sizes(given: Sequence[object], names: Sequence[str]) -> Index:
    """How much each size counts, in proportion; without names it is not known how many clients there are."""
    counts = [_number(part) for part in given]
    usable = counts and all(math.isfinite(count) and count >= 0 for count in counts) and max(counts) > 0
    if not usable:
        raise InputError(
            "sizes needs a number from 0 for each size of a coalition of others, not all of them 0, as in sizes(3,2,1). "
            f"Got {str(list(given))[:80]}."
        )
    index = Index(
        f"sizes({','.join(map(_digits, counts))})",
        "Semivalues by size",
        len(set(counts)) == 1,
        partial(own_sizes, counts=counts),
    )
    if names:
        own_sizes(len(names), counts)  # refuses another number of them
    return index


def _number(given: object) -> float:
    """The number; nan where it is none."""
    plain = given.strip() if isinstance(given, str) else given
    try:
        return math.nan if isinstance(plain, bool) or plain is None else float(plain)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _digits(number: float) -> str:
    """All its digits, so that two numbers are never written alike."""
    return repr(number).removesuffix(".0")


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
    omega = np.array([_number(given.get(name, 1.0)) for name in names])
    if not (np.isfinite(omega) & (omega >= 1e-3) & (omega <= 1e3)).all():
        raise InputError(
            f"Weights of clients must be numbers from 0.001 to 1,000. Got {str(dict(given))[:80]}: a client that is to get nothing is left out."
        )
    written = ",".join(
        f"{name}={_digits(weight)}"
        for name, weight in zip(names, omega.tolist(), strict=True)
        if name in given
    )
    return Index(
        f"weighted({written})", "Weighted Shapley values", True, partial(weighted, omega), anonymous=False
    )


_PLAIN = {
    index.name: index
    for index in (
        Index(SHAPLEY, "Shapley values", True, uniform),
        Index("banzhaf", "Banzhaf values", False, banzhaf),
        Index("leave-one-out", "Leave-one-out values", False, leave_one_out),
        Index("least-core", "Least core", True, solve=least_core, most_clients=MOST_CLIENTS),
        Index("nucleolus", "Nucleolus", True, solve=nucleolus, most_clients=MOST_CLIENTS),
    )
}
