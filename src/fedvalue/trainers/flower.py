"""Training in a Flower federation: the data never leaves the clients' processes.

All coalitions advance together. In every round each node gets one message with the models of all coalitions
that contain it, trains them as one stack and returns them: a valuation takes as many message rounds as one
training has rounds, and a constant. A node that is in coalitions with nobody else gets one message for all rounds.
FedAvg's maths is that of `fedvalue.training`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import islice
from operator import and_
from typing import cast

import numpy as np

from fedvalue.coalition import members
from fedvalue.errors import InputError, UnavailableError, UtilityError
from fedvalue.learners.base import AveragingSession, Learner, Stack
from fedvalue.outcome import Outcome
from fedvalue.scenarios.base import Scenario
from fedvalue.trainers.base import Trace, need_updates
from fedvalue.trainers.flower_alone import Alone
from fedvalue.trainers.flower_clients import RemoteData, kind_of
from fedvalue.trainers.flower_evaluation import AtNodes
from fedvalue.trainers.flower_grid import Grid
from fedvalue.trainers.flower_nodes import Roster
from fedvalue.trainers.flower_session import FlowerSession, finite_rows, joined
from fedvalue.trainers.flower_stacks import Stacks
from fedvalue.training import Training, canonical_masks, first_round, later_rounds, recorded_rounds, waves

__all__ = ["FlowerTrainer"]

_ATTEMPTS = 3  # at coalitions whose clients failed and answer again
_MEMORY = 1 << 30  # bytes for models on the server, where nothing else is said
Asked = dict[int, list[int]]  # coalition that is trained → those that it stands for
Part = tuple[list[int], Stack]  # coalitions and their final models


class FlowerTrainer:
    """Trains at the nodes of a federation, reached by the Grid that Flower gives to a ServerApp.

    `deadline` bounds a round: who has not answered by then is left out. A message with the work of several rounds
    has as many times as long. Coalitions that need a client that was left out are tried again if it answers within
    `patience` seconds after the others are done; if not, an UnavailableError names it. `message_bytes` bounds
    the models in one message, `memory` those held at once.
    """

    def __init__(
        self,
        grid: Grid | None = None,
        roster: Roster | None = None,
        *,
        device: str = "cpu",
        memory: int | None = None,
        deadline: float = 600.0,
        patience: float = 120.0,
        message_bytes: int = 64 << 20,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        if grid is None and roster is None:
            raise InputError(
                "The Flower trainer works inside a Flower ServerApp and needs its grid. `fedvalue flower init` "
                "writes such an app, `fedvalue flower demo` shows one at work."
            )
        if deadline <= 0 or patience < 0 or message_bytes < 1:
            raise InputError(
                "deadline must be positive, patience not negative and message_bytes at least 1. "
                f"Got {deadline}, {patience}, {message_bytes}."
            )
        self.grid = cast(Grid, grid)
        self.roster = roster
        self.device = device
        self.memory = memory or _MEMORY
        self.deadline = deadline
        self.patience = patience
        self.message_bytes = message_bytes
        self.log = log
        self.stage: Callable[[str], None] = lambda text: None
        self._before = (roster.rounds, roster.messages) if roster else (0, 0)
        self._open: tuple[tuple[object, ...], FlowerSession] | None = None

    @property
    def message_rounds(self) -> int:
        """How often nodes were asked to train or evaluate: what a valuation in a federation mostly costs."""
        return self.roster.rounds - self._before[0] if self.roster else 0

    @property
    def messages(self) -> int:
        """How many messages went to nodes: each has one of them start an app."""
        return self.roster.messages - self._before[1] if self.roster else 0

    def train(
        self, scenario: Scenario, learner: Learner, training: Training, masks: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        """Yields every coalition with its metrics; those that miss a client come later, or not at all."""
        if not masks:
            return
        session = self._opened(scenario, learner, training)
        asked: Asked = {}
        for mask, trained in canonical_masks(scenario, masks).items():
            asked.setdefault(trained, []).append(mask)
        left = dict.fromkeys(asked)
        for _ in range(_ATTEMPTS):
            session.forget_losses()
            for mask, outcome in self._attempt(session, scenario, training, list(left)):
                for same in asked[mask]:
                    share = outcome._replace(seconds=outcome.seconds / len(asked[mask]))
                    yield same, share
                del left[mask]
            if not left or not self._back(session):
                break
        if left:
            raise _unavailable(session, scenario, [same for mask in left for same in asked[mask]])

    def trace(self, scenario: Scenario, learner: Learner, training: Training) -> Trace:
        """Records the run of all clients that have data; what was trained before is not trained again."""
        need_updates(learner)
        began = time.perf_counter()
        session = self._opened(scenario, learner, training)
        for _ in range(_ATTEMPTS):
            session.forget_losses()
            clients, starts, local_models, end = recorded_rounds(session, scenario, training.rounds)
            if finite_rows(end).all() or not self._back(session):
                break
        if not finite_rows(end).all():
            raise _unavailable(session, scenario, [(1 << scenario.n) - 1])
        seconds = time.perf_counter() - began
        recorded = tuple(starts), tuple(local_models)
        return Trace(cast(AveragingSession, session), clients, *recorded, end, seconds)

    def _attempt(
        self, session: FlowerSession, scenario: Scenario, training: Training, masks: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        """The coalitions that came to an end, wave by wave."""
        began = time.perf_counter()
        if 0 in masks:
            yield from self._measured(session, [([0], session.initial())], began)
            began = time.perf_counter()
        for parts in self._ended(session, scenario, training, [mask for mask in masks if mask]):
            yield from self._measured(session, parts, began)
            began = time.perf_counter()

    def _ended(
        self, session: FlowerSession, scenario: Scenario, training: Training, masks: Sequence[int]
    ) -> Iterator[list[Part]]:
        """What can be measured at once. Clients alone train while the first wave of the others advances."""
        alone = Alone(session, training.rounds, masks)
        together = self._advanced(session, scenario, training, [m for m in masks if m not in alone.masks])
        first = list(islice(together, 1))
        if session.evaluation is None:
            yield first
            yield alone.finished()
        else:  # nodes that are still training cannot measure; then one message round does for all
            yield [*first, *alone.finished()]
        for part in together:
            yield [part]

    def _advanced(
        self, session: FlowerSession, scenario: Scenario, training: Training, masks: Sequence[int]
    ) -> Iterator[Part]:
        clients = sorted({i for mask in masks for i in members(mask)})
        if not clients:
            return
        self.stage(f"round 1/{training.rounds}")
        first = first_round(session, clients)
        rows = {client: row for row, client in enumerate(clients)}
        for wave in waves(masks, session.rows):
            yield wave, later_rounds(session, scenario, training.rounds, wave, first, rows, self.stage)

    def _measured(
        self, session: FlowerSession, parts: Sequence[Part], began: float
    ) -> Iterator[tuple[int, Outcome]]:
        whole = [np.flatnonzero(finite_rows(models)).tolist() for _, models in parts]
        masks = [wave[row] for (wave, _), rows in zip(parts, whole, strict=True) for row in rows]
        if not masks:
            return
        models = joined([session.take(m, rows) for (_, m), rows in zip(parts, whole, strict=True)])
        try:
            found = session.evaluate(models)
        except UnavailableError:  # of these nothing can be told before the client is back
            return
        seconds = (time.perf_counter() - began) / len(masks)
        for mask, metrics in zip(masks, found, strict=True):
            yield mask, Outcome(metrics, seconds, "flower", session.device)

    def _back(self, session: FlowerSession) -> bool:
        """Whether a client that failed answers again in time, so that another attempt makes sense."""
        self.stage(f"waiting for clients {sorted(session.lost)}")
        return bool(session.roster.find_again(session.lost, self.patience))

    def _opened(self, scenario: Scenario, learner: Learner, training: Training) -> FlowerSession:
        key = (scenario.fingerprint, learner, training)
        if self._open is None or self._open[0] != key:
            if self.roster is None:
                self.roster = Roster.gather(self.grid, scenario.n, self.patience, self.log, kind_of(scenario))
            self.roster.check(scenario)
            self._open = key, self._session(scenario, learner, training, self.roster)
        return self._open[1]

    def _session(
        self, scenario: Scenario, learner: Learner, training: Training, roster: Roster
    ) -> FlowerSession:
        inner = cast(AveragingSession, learner.session(scenario, training, self.device, self.memory))
        stacks = Stacks(scenario, learner, training, self.message_bytes)
        at_nodes = AtNodes(stacks) if isinstance(scenario.test, RemoteData) else None
        return FlowerSession(inner, roster, stacks, self.deadline, self.memory, at_nodes)


def _unavailable(session: FlowerSession, scenario: Scenario, masks: Sequence[int]) -> UtilityError:
    if session.diverged and not session.lost:
        return _diverged(session, scenario, masks)
    reasons = {client: failure.reason for client, failure in sorted(session.lost.items())}
    told = [f"client {client} ({scenario.names[client]}) {reason}" for client, reason in reasons.items()]
    return UnavailableError(
        f"{len(masks)} coalitions could not be trained: {'; '.join(told[:6])}. What was finished is kept: start "
        "these nodes again and run the same valuation, or say missing='use-known' to value the others alone.",
        members(masks[0]),
        reasons,
    )


def _diverged(session: FlowerSession, scenario: Scenario, masks: Sequence[int]) -> UtilityError:
    """Nobody was away, so nobody is named as missing; who is part of all these coalitions is worth a look."""
    where = ", ".join(scenario.names[i] for i in sorted(session.diverged)[:6])
    shared = members(reduce(and_, masks))
    suspects = f" All of them have {', '.join(scenario.names[i] for i in shared[:6])}." if shared else ""
    return UtilityError(
        f"The training of {len(masks)} coalitions diverged: at {where} their models came to numbers that are not "
        f"finite.{suspects} The others are kept. Lower the rate, or ask whether a client manipulates its models.",
        members(masks[0]),
    )
