"""Games that need no further training: their models are put together from one recorded run.

A recorded run (`Trace`) holds the global model θ^{t−1} before every round t and every client's model θ_i^t
after it, hence its update Δ_i^t = θ_i^t − θ^{t−1}. With w_i^S = |D_i| / Σ_{j∈S} |D_j|, any coalition S has a
model that it might have trained; evaluating it is all that a gradient method pays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import full_mask, members, membership
from fedvalue.errors import InputError, UtilityError
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.training._fedavg import canonical_masks
from fedvalue.training._measure import outcomes_of
from fedvalue.training._session import AveragingSession, Learner, Stack

__all__ = ["Trace", "TraceGames", "need_updates"]

Array = NDArray[np.float64]

_WHOLE_RUN = 0  # in place of a round number


@dataclass(frozen=True)
class Trace:
    """One recorded FedAvg run of all clients: what the gradient methods look at.

    `starts[t]` is the global model before round t+1 (a stack of one), `locals[t]` the clients' models after
    it (row r belongs to `clients[r]`); `end` is the final model. Clients without data have no row.
    """

    session: AveragingSession
    clients: tuple[int, ...]
    starts: tuple[Stack, ...]
    locals: tuple[Stack, ...]
    end: Stack
    seconds: float


def need_updates(learner: Learner) -> None:
    """Refuses a learner whose runs cannot be recorded for the gradient methods."""
    if not learner.averages:
        raise InputError(
            "Gradient methods do not apply to this model: its clients send no updates that could be "
            "averaged. Use a sampling method such as ipss."
        )


class _Evaluated(NamedTuple):
    utility: float
    seconds: float


class TraceGames:
    """The games of one recorded run, batched: many coalitions are one product of weights and updates.

    Clients without data change no model, and of clients with equal data it does not matter which takes part,
    exactly. The run and what was evaluated are kept for the next method: `seconds` is what the run took, 0
    before it is made, and `spared` what remembered evaluations would have taken, so that every method can be
    charged as if it had come alone.
    """

    def __init__(
        self,
        record: Callable[[], Trace],
        scenario: Scenario,
        rounds: int,
        utility: Callable[[Outcome], float],
        keep: Callable[[int, Outcome], None] | None = None,
        counted: Sequence[float] | None = None,
    ) -> None:
        self.record = record
        self.scenario = scenario
        self.rounds = rounds
        self.utility = utility
        self.keep = keep
        self.n = scenario.n
        self.seconds = 0.0
        self.spared = 0.0
        sizes = [len(data) for data in scenario.clients] if counted is None else counted
        self._sizes = np.array(sizes, dtype=np.float64)
        self._known: dict[int, dict[int, _Evaluated]] = {}

    @cached_property
    def trace(self) -> Trace:
        """The recorded run: made at the first use, so that a wrong option costs no training."""
        trace = self.record()
        outcome = self._outcome(trace)
        self.seconds = outcome.seconds
        if self.keep is not None:
            self.keep(full_mask(self.n), outcome)
        return trace

    @property
    def weights(self) -> Array:
        """w_i = |D_i| / Σ_j |D_j|, the weights of the recorded run."""
        weights: Array = self._sizes / self._sizes.sum()
        return weights

    def whole_run(self, masks: Sequence[int]) -> Array:
        """Utilities of M_S = θ⁰ + Σ_t Σ_{i∈S} w_i^S Δ_i^t."""
        return self._utilities(_WHOLE_RUN, masks)

    def round(self, t: int, masks: Sequence[int]) -> Array:
        """Utilities of M_S^t = θ^{t−1} + Σ_{i∈S} w_i^S Δ_i^t for t = 1..rounds; that of ∅ is v(θ^{t−1})."""
        return self._utilities(t, masks)

    def loss_drops(self) -> Array:
        """⟨∇ℓ(θ^{t−1}), θ^{t−1} − θ_i^t⟩ on the test loss ℓ: a row per round, a column per client."""
        drops = np.zeros((self.rounds, self.n))
        for t, (before, after) in enumerate(zip(self.trace.starts, self.trace.locals, strict=True)):
            drops[t, self.trace.clients] = self.trace.session.loss_drops(before, after)
        # Equal data, equal updates, up to the last bit: stacked rows may be added up in different orders.
        first = {data.fingerprint: i for i, data in reversed(list(enumerate(self.scenario.clients)))}
        same: Array = drops[:, [first[data.fingerprint] for data in self.scenario.clients]]
        return same

    def _outcome(self, trace: Trace) -> Outcome:
        """The recorded run is a training of the grand coalition: what came of it."""
        began = time.perf_counter()
        (outcome,) = outcomes_of(trace.session, trace.end)
        if not all(isfinite(number) for number in outcome.metrics.values()):
            raise UtilityError(
                "The recorded training of all clients diverged: its model gives numbers that are not finite. "
                "Lower the rate and run again.",
                members(full_mask(self.n)),
            )
        seconds = trace.seconds + time.perf_counter() - began
        return outcome._replace(seconds=seconds, backend="trace", device=trace.session.device)

    def _utilities(self, t: int, masks: Sequence[int]) -> Array:
        stands_for = canonical_masks(self.scenario, masks)
        wanted = dict.fromkeys(stands_for.values())
        known = self._known.setdefault(t, {})
        self.spared += sum(known[mask].seconds for mask in wanted if mask in known)
        missing = [mask for mask in wanted if mask not in known]
        rows = self.trace.session.rows
        for chunk in (missing[start : start + rows] for start in range(0, len(missing), rows)):
            known.update(zip(chunk, self._evaluate(t, chunk), strict=True))
        return np.array([known[stands_for[mask]].utility for mask in masks])

    def _evaluate(self, t: int, masks: list[int]) -> list[_Evaluated]:
        began = time.perf_counter()
        found = self.trace.session.evaluate(self._models(t, masks))
        seconds = (time.perf_counter() - began) / len(masks)
        utilities = [self.utility(Outcome(metrics)) for metrics in found]
        for mask, utility in zip(masks, utilities, strict=True):
            if not isfinite(utility):
                where = f"round {t}" if t else "all rounds"
                raise UtilityError(
                    f"The model of coalition {members(mask)}, put together from the updates of {where}, gives "
                    "numbers that are not finite. Lower the rate and run again.",
                    members(mask),
                )
        return [_Evaluated(utility, seconds) for utility in utilities]

    def _models(self, t: int, masks: list[int]) -> Stack:
        starts, local_models = self.trace.starts, self.trace.locals
        shares = self._shares(masks)
        first, last = (1, self.rounds) if t == _WHOLE_RUN else (t, t)
        models = starts[first - 1]
        for s in range(first, last + 1):
            models = self.trace.session.step(models, starts[s - 1], local_models[s - 1], shares)
        return models

    def _shares(self, masks: list[int]) -> Array:
        """w_i^S: a row per coalition, a column per client of the trace; zeros where nobody has data."""
        held = (membership(masks, self.n) * self._sizes)[:, self.trace.clients]
        shares: Array = held / np.maximum(held.sum(1, keepdims=True), 1.0)
        return shares
