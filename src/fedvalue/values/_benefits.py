"""Who benefits: what the data of each client does for the test rows of each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedvalue._checks import as_array, between, checked_init
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.values._values import Values

__all__ = ["NOT_TOLD", "Benefits", "benefits_in"]

NOT_TOLD = "What the data of each client does for the others is not known: "
"""A note of values begins so where test rows are the clients' own and there is no matrix."""

Array = NDArray[np.float64]
_ARRAYS = ("matrix", "weights", "stderr", "given_stderr", "gained_stderr", "balance_stderr")


@checked_init
@dataclass(frozen=True, eq=False)
class Benefits:
    """Values measured on the test rows of each client by itself: `matrix[i, j]` is what the data of client j (a column,
    named in `names`) does for client i (a row, named in `owners`), in the metric on i's rows.

    A client with no test rows of its own is a column and no row. `rows` are how many test rows each has, `weights` how
    much its row of the matrix counts in the metric of all: where that `adds_up` over test rows, the rows with these
    weights add up to the values.

    `stderr` has the standard error of every number, `given_stderr`, `gained_stderr` and `balance_stderr` those of the sums;
    None where there is no valid one. `dof` are the degrees of freedom behind them.

    >>> b = Benefits([[0.3, 0.1], [0.4, 0.2]], ("a", "b"), ("a", "b"), rows=(10, 30), weights=[0.25, 0.75])
    >>> b.given.round(3).tolist(), b.gained.round(3).tolist(), b.balance.round(3).tolist()
    ([0.3, 0.025], [0.025, 0.3], [0.275, -0.275])
    """

    matrix: Array
    owners: tuple[str, ...]
    names: tuple[str, ...]
    rows: tuple[int, ...]
    weights: Array
    adds_up: bool = True
    stderr: Array | None = None
    given_stderr: Array | None = None
    gained_stderr: Array | None = None
    balance_stderr: Array | None = None
    dof: float | None = None

    def __post_init__(self) -> None:
        for name in ("owners", "names"):
            object.__setattr__(self, name, tuple(str(client) for client in getattr(self, name)))
        object.__setattr__(self, "rows", tuple(int(count) for count in self.rows))
        p, n = len(self.owners), len(self.names)
        shapes = {"matrix": (p, n), "stderr": (p, n), "weights": (p,)}
        for name in _ARRAYS:
            if getattr(self, name) is not None or name in ("matrix", "weights"):
                array = as_array(getattr(self, name), f"Benefits.{name}", np.float64)
                if array.shape != shapes.get(name, (n,)) or not np.isfinite(array).all():
                    raise InputError(
                        f"Benefits.{name} must hold finite numbers in the shape {shapes.get(name, (n,))}. Got {array.shape}."
                    )
                object.__setattr__(self, name, array)
        if not set(self.owners) <= set(self.names) or len(set(self.owners)) < p or len(self.rows) != p:
            raise InputError(
                "The owners of test rows must be different clients, with a number of rows for each."
            )

    @property
    def given(self) -> Array:
        """What the data of each client does for all others, in the metric of all test rows."""
        return np.asarray(self.weights @ np.where(self._own, 0.0, self.matrix))

    @property
    def gained(self) -> Array:
        """What the data of all others does for each client, in the metric of all test rows; 0 without rows of its own."""
        by_row = self.weights * np.where(self._own, 0.0, self.matrix).sum(1)
        return np.asarray(by_row @ self._own)

    @property
    def kept(self) -> Array:
        """What the data of each client does for itself, in the metric of all test rows."""
        return np.asarray(self.weights @ np.where(self._own, self.matrix, 0.0))

    @property
    def balance(self) -> Array:
        """What each gives to others less what it gains from them: givers are above zero, takers below. Adds up to 0."""
        return self.given - self.gained

    @property
    def _own(self) -> NDArray[np.bool_]:
        return np.array([[owner == name for name in self.names] for owner in self.owners])

    def reach(self, stderr: ArrayLike | None, level: float = 0.95) -> Array | None:
        """How far intervals reach to either side; None where there is no standard error."""
        between("The level of an interval", level, 0, 1)
        if stderr is None:
            return None
        from scipy.special import ndtri, stdtrit

        tail = 0.5 + level / 2
        quantile = ndtri(tail) if self.dof is None else stdtrit(self.dof, tail)
        reach: Array = quantile * np.asarray(stderr, dtype=np.float64)
        return reach

    def statements(self) -> list[str]:
        """Who gives and who takes, as far as that is certain, in sentences."""
        reach, balance = self.reach(self.balance_stderr), self.balance
        sure = np.zeros(len(balance)) if reach is None else reach
        said = []
        for sign, verb in (
            (1, "give the others more than they gain from them"),
            (-1, "gain more than they give"),
        ):
            order = np.argsort(-sign * balance, kind="stable")
            who = [
                f"{self.names[j]} ({balance[j]:+.4f})"
                for j in order
                if sign * balance[j] > max(sure[j], 1e-12)
            ]
            if who:
                more = f" and {len(who) - 6} more" if len(who) > 6 else ""
                said.append(f"{', '.join(who[:6])}{more} {verb if len(who) > 1 else _singular(verb)}.")
        if not said:
            said.append(
                "Nobody gives more than it gains, or gains more than it gives, as far as these numbers tell."
            )
        if reach is None:
            said.append("These numbers have no ±: how far they may be off is not known.")
        if not self.adds_up:
            said.append(
                "The metric of all test rows does not follow from that of parts of them: rows of the matrix do not add up to the values."
            )
        without = [name for name in self.names if name not in self.owners]
        if without:
            said.append(
                f"What others do for {', '.join(without[:6])}{', …' if len(without) > 6 else ''} is not known: no test rows of its own."
            )
        return said

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `Benefits.from_dict` reads it back."""
        arrays = {name: None if (a := getattr(self, name)) is None else a.tolist() for name in _ARRAYS}
        sums = {name: getattr(self, name).tolist() for name in ("given", "gained", "kept", "balance")}
        return {
            "owners": list(self.owners),
            "names": list(self.names),
            "rows": list(self.rows),
            "adds_up": self.adds_up,
            "dof": self.dof,
            **arrays,
            **sums,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Benefits:
        """From what `to_dict` gave."""
        known: dict[str, Any] = {name: data[name] for name in ("adds_up", "dof", *_ARRAYS)}
        return cls(
            owners=tuple(data["owners"]), names=tuple(data["names"]), rows=tuple(data["rows"]), **known
        )


def _singular(verb: str) -> str:
    return (
        verb.replace("give the", "gives the")
        .replace("they gain", "it gains")
        .replace("gain more than they give", "gains more than it gives")
    )


def benefits_in(values: Values) -> Benefits:
    """Values on the test rows of each client by itself; refused where there are none."""
    if values.benefits is None:
        reason = next((note for note in values.notes if "does for the others is not known" in note), "")
        raise InputError(
            reason
            or "These values were measured on one test set for all clients. Who benefits shows in a run that tests by "
            "client: fedvalue run --test by-client, or test='by-client' in Python."
        )
    return values.benefits
