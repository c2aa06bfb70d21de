"""What a client would gain by claiming other numbers of rows, or by scaling its updates.

One training of all clients is recorded, with every client's model after every round. Its updates are then averaged again,
with other weights and for every coalition, as the gradient methods do: θ⁰ + Σ_t Σ_{i∈S} w_i^S Δ_i^t. That is a first-order
answer: clients do not train again from the model that other weights would have given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import as_array, checked_call, expect
from fedvalue._text import plain_table
from fedvalue.coalitions import membership
from fedvalue.errors import InputError
from fedvalue.games import FederatedGame
from fedvalue.outcome import Outcome
from fedvalue.training import Trace, counted
from fedvalue.weights import shapley

__all__ = ["Claim", "Claims", "what_if_claimed"]

Array = NDArray[np.float64]
_MOST_CLIENTS = 10
_FORMAT = "fedvalue.claims/1"


@dataclass(frozen=True)
class Claim:
    """A client that claims `rows` times its rows, or sends its updates `scale` times as long: its value and its share of all
    values above zero, as it is and then; `all_then` is what all clients together then reach.
    """

    client: str
    rows: float
    scale: float
    value: float
    value_then: float
    share: float
    share_then: float
    all_then: float

    @property
    def gain(self) -> float:
        """What the lie brings, in value."""
        return self.value_then - self.value

    @property
    def what(self) -> str:
        """The lie in words."""
        return f"rows × {self.rows:g}" if self.rows != 1 else f"updates × {self.scale:g}"


@dataclass(frozen=True)
class Claims:
    """What every client would gain by every lie, and what that rests on."""

    claims: tuple[Claim, ...]
    weights: str
    max_share: float

    @property
    def statement(self) -> str:
        """What the numbers are."""
        rule = "weights by rows" if self.weights == "rows" else f"{self.weights} weights"
        rule += f" of at most {self.max_share:.0%}" if self.max_share else ""
        return (
            f"By averaging the updates of one recorded training again, with {rule}: nobody trains again from the model that "
            "a lie would have given, so this shows what pays, not exactly how much."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"format": _FORMAT, **asdict(self), "statement": self.statement}

    def __str__(self) -> str:
        """A plain table."""
        rows = [
            [
                x.client,
                x.what,
                f"{x.value:+.4f}",
                f"{x.value_then:+.4f}",
                f"{x.share:.1%}",
                f"{x.share_then:.1%}",
            ]
            for x in self.claims
        ]
        head = ["client", "claims", "value", "then", "share", "then"]
        return f"{plain_table(head, rows)}\n{self.statement}"


@checked_call
def what_if_claimed(
    game: FederatedGame, rows: Sequence[float] = (0.1, 10.0, 50.0), scales: Sequence[float] = (10.0,)
) -> Claims:
    """What every client of a federated game would gain by claiming so many times its rows, or by scaling its updates.

    It records one training of all clients, unless that was recorded before, and evaluates about n·2^(n−1) averaged models
    for every factor; up to ten clients. A store keeps no models: from a store alone this is not known.

    >>> import fedvalue as fv
    >>> scenario = fv.load_scenario("synthetic", clients=3, samples=20)
    >>> game = fv.FederatedGame(scenario, training=fv.Training(rounds=2))
    >>> found = fv.what_if_claimed(game, rows=[10.0], scales=[])
    >>> [(claim.client, claim.what) for claim in found.claims]
    [('client-0', 'rows × 10'), ('client-1', 'rows × 10'), ('client-2', 'rows × 10')]
    """
    expect("game", game, FederatedGame, "an fv.FederatedGame", "result.what_if_claimed() is for jobs.")
    if game.n > _MOST_CLIENTS:
        raise InputError(
            f"Claims are looked at for up to {_MOST_CLIENTS} clients; their updates are averaged for all coalitions. Got "
            f"{game.n}."
        )
    factors = [*((f, 1.0) for f in _factors("rows", rows)), *((1.0, f) for f in _factors("scales", scales))]
    averages = _Averages(game, game.trace())
    honest = averages.values([1.0] * game.n, [1.0] * game.n)
    found = []
    for i, name in enumerate(game.names):
        for of_rows, of_updates in factors:
            claimed, scaled = [1.0] * game.n, [1.0] * game.n
            claimed[i], scaled[i] = of_rows, of_updates
            then = averages.values(claimed, scaled)
            found.append(
                Claim(
                    name,
                    of_rows,
                    of_updates,
                    float(honest[0][i]),
                    float(then[0][i]),
                    _share(honest[0], i),
                    _share(then[0], i),
                    then[1],
                )
            )
    return Claims(tuple(found), game.training.weights, game.training.max_share)


def _factors(name: str, given: Sequence[float]) -> list[float]:
    factors = as_array(given, name, np.float64)
    if factors.ndim != 1 or not (np.isfinite(factors) & (factors > 0)).all():
        raise InputError(f"{name} must be a list of factors above 0, such as [0.1, 10]. Got {given!r}.")
    return [float(factor) for factor in factors]


def _share(values: Array, i: int) -> float:
    above = np.maximum(values, 0.0)
    return float(above[i] / above.sum()) if above.any() else 0.0


class _Averages:
    """The utilities of all coalitions, from the updates of one recorded training."""

    def __init__(self, game: FederatedGame, trace: Trace) -> None:
        self.game = game
        self.trace = trace
        self.inside = membership(range(1 << game.n), game.n)[:, trace.clients].astype(float)
        self.weights = shapley(game.n)
        self._known: dict[bytes, float] = {}

    def values(self, claimed: Sequence[float], scaled: Sequence[float]) -> tuple[Array, float]:
        """Shapley values where clients claim so many times their rows and scale their updates, and what all reach."""
        training = self.game.training
        sizes = [len(data) * factor for data, factor in zip(self.game.scenario.clients, claimed, strict=True)]
        rows = counted([round(size) for size in sizes], training.weights, training.max_share)
        held = self.inside * np.array(rows)[list(self.trace.clients)]
        shares = held / np.maximum(held.sum(1, keepdims=True), 1e-300)
        shares *= np.array(scaled)[list(self.trace.clients)]
        missing = list(dict.fromkeys(row.tobytes() for row in shares if row.tobytes() not in self._known))
        self._known.update(zip(missing, self._utilities(missing), strict=True))
        utilities = np.array([self._known[row.tobytes()] for row in shares])
        return self.weights.apply(utilities), float(utilities[-1])

    def _utilities(self, missing: Sequence[bytes]) -> Iterator[float]:
        trace, width = self.trace, max(1, self.trace.session.rows)
        for start in range(0, len(missing), width):
            some = np.array([np.frombuffer(row) for row in missing[start : start + width]])
            models = trace.starts[0]
            for before, after in zip(trace.starts, trace.locals, strict=True):
                models = trace.session.step(models, before, after, some)
            for metrics in trace.session.evaluate(models):
                yield self.game.utility(Outcome(metrics))
