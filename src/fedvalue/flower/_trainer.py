"""Training in a Flower federation: the data never leaves the clients' processes.

All trials advance together. In every round each node gets one message with the models of all coalitions
that contain it, with whatever seeds, trains them as one stack and returns them: a valuation takes as many message rounds as one
training has rounds, and a constant. A node that is in coalitions with nobody else gets one message for all rounds.
FedAvg's maths is that of `fedvalue.training`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import cast

import numpy as np

from fedvalue._text import listed
from fedvalue.coalitions import Trial, mask_of, members
from fedvalue.errors import InputError, UnavailableError, UtilityError
from fedvalue.flower._arrays import finite_rows, from_arrays, joined, to_arrays
from fedvalue.flower._checkpoint import Checkpoint, Checkpoints
from fedvalue.flower._evaluation import StacksAtNodes
from fedvalue.flower._limits import Limits, Watch
from fedvalue.flower._lost import unavailable
from fedvalue.flower._messages import Grid
from fedvalue.flower._nodes import Nodes
from fedvalue.flower._packing import Stacks
from fedvalue.flower._reports import kind_of
from fedvalue.flower._roster import Roster
from fedvalue.flower._session import FlowerSession, need_arrays, need_built_in
from fedvalue.flower._tally import Tally
from fedvalue.flower._witness import Witness
from fedvalue.learners.metrics import Measuring
from fedvalue.outcome import Outcome
from fedvalue.replies import Book
from fedvalue.scenarios import Scenario
from fedvalue.trainers import ClaimTrials
from fedvalue.training import (
    UNTRAINED_MODELS,
    AveragingSession,
    Learner,
    Seeds,
    Stack,
    Telling,
    Trace,
    Training,
    canonical_trials,
    continued_rounds,
    counted_rows,
    first_round,
    later_rounds,
    measured,
    measured_untrained,
    need_updates,
    not_measured,
    recorded_rounds,
    side_by_side,
    waves,
)
from fedvalue.values import Disclosed

__all__ = ["FlowerTrainer"]

_ATTEMPTS = 3  # at coalitions whose clients failed and answer again
_MEMORY = 1 << 30  # bytes for models on the server, where nothing else is said
_Ended = tuple[list[Trial], Stack]  # trials and their final models


class FlowerTrainer:
    """Trains at the nodes of a federation, reached by the Grid that Flower gives to a ServerApp.

    `deadline` bounds a round: who has not answered by then is left out. A message with the work of several rounds
    has as many times as long. Coalitions that need a client that was left out are tried again if it answers within
    `patience` seconds after the others are done; if not, an UnavailableError names it. `message_bytes` bounds
    the models in one message, `memory` those held at once. `limits` say what is too much for one client to claim or send. With `checkpoints`, a folder, what is under way is kept there
    after every round, and another trainer with the same goes on from it. Clients whose keys the roster has must sign their replies, which
    are kept in the `book`.
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
        limits: Limits | None = None,
        log: Callable[[str], None] = lambda text: None,
        checkpoints: Checkpoints | None = None,
        book: Book | None = None,
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
        self.limits = limits or Limits()
        self._watch: Watch | None = None
        self.log = log
        self.checkpoints = checkpoints
        self.book = book
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

    def sent(self, names: Sequence[str], algorithm: str) -> list[Disclosed]:
        """What came from each client, counted since the app began."""
        return (self.roster.tally if self.roster else Tally()).sent(names, algorithm)

    def train(
        self, scenario: Scenario, learner: Learner, training: Training, masks: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        """Yields every coalition with its metrics; those that miss a client come later, or not at all."""
        trials = [(mask, 0) for mask in masks]
        for (mask, _), outcome in self.train_trials(scenario, learner, training, trials):
            yield mask, outcome

    def train_trials(
        self,
        scenario: Scenario,
        learner: Learner,
        training: Training,
        trials: Sequence[Trial],
        claim: ClaimTrials = list,
    ) -> Iterator[tuple[Trial, Outcome]]:
        """The same with several seeds: messages hold the models of all of them, if the learner's sessions can do that."""
        asked = canonical_trials(scenario, claim(trials))
        if not asked:
            return
        session = self._opened(scenario, learner, training)
        failed: dict[Trial, UtilityError] = {}  # whose models a metric of one's own could not measure
        for rules, seeds in side_by_side(session, training, list(asked)):
            some = {trial: same for trial, same in asked.items() if trial[1] in seeds}
            session = self._opened(scenario, learner, rules)
            yield from self._trained(session, scenario, rules.rounds, some, seeds, failed)
            if session.checkpoint is not None and not session.reseeds:
                session.checkpoint.remove()  # the next seed has a session, and files, of its own
        if failed:
            raise not_measured(scenario, failed)

    def _trained(
        self,
        session: FlowerSession,
        scenario: Scenario,
        rounds: int,
        asked: Mapping[Trial, list[Trial]],
        seeds: Seeds,
        failed: dict[Trial, UtilityError],
    ) -> Iterator[tuple[Trial, Outcome]]:
        """Trials with the given seeds in one session, and those that are the same training; in several attempts."""
        left = list(asked)
        session.seeds = seeds
        if self.checkpoints is not None:
            self.checkpoints.tell_of_others()
        for _ in range(_ATTEMPTS):
            session.nodes.forget_losses()
            for trial, outcome in self._attempt(session, scenario, rounds, list(left), seeds, failed):
                for same in asked[trial]:
                    yield same, outcome._replace(seconds=outcome.seconds / len(asked[trial]))
                left.remove(trial)
            left = [trial for trial in left if trial not in failed]
            if not left or not self._back(session):
                break
        if left:
            masks = list(dict.fromkeys(mask for trial in left for mask, _ in asked[trial]))
            raise unavailable(session.nodes, scenario, masks)

    def trace(self, scenario: Scenario, learner: Learner, training: Training) -> Trace:
        """Records the run of all clients that have data; what was trained before is not trained again."""
        need_updates(learner)
        began = time.perf_counter()
        session = self._opened(scenario, learner, training)
        everyone = [(mask_of(i for i, data in enumerate(scenario.clients) if len(data)), 0)]
        session.under_way, session.seeds = everyone, {}
        session.keeps_every_round = True  # what is looked at are the models of all clients after all rounds
        for _ in range(_ATTEMPTS):
            session.nodes.forget_losses()
            clients, starts, local_models, end = recorded_rounds(
                session, scenario, training.rounds, counted_rows(scenario, training)
            )
            if finite_rows(end).all() or not self._back(session):
                break
        session.keeps_every_round = False
        if not finite_rows(end).all():
            raise unavailable(session.nodes, scenario, [(1 << scenario.n) - 1])
        session.note_measured(everyone, end)
        seconds = time.perf_counter() - began
        recorded = tuple(starts), tuple(local_models)
        return Trace(cast(AveragingSession, session), clients, *recorded, end, seconds)

    def _attempt(
        self,
        session: FlowerSession,
        scenario: Scenario,
        rounds: int,
        trials: Sequence[Trial],
        seeds: Seeds,
        failed: dict[Trial, UtilityError],
    ) -> Iterator[tuple[Trial, Outcome]]:
        """The trials that came to an end, wave by wave; why one could not be measured goes into `failed`."""
        began = time.perf_counter()
        for number, seed in seeds.items():
            if (0, number) in trials:
                yield from self._untrained(session, number, seed, began, failed)
                began = time.perf_counter()
        for parts in self._ended(session, scenario, rounds, [trial for trial in trials if trial[0]], seeds):
            yield from self._measured(session, parts, began, failed)
            began = time.perf_counter()

    def _untrained(
        self,
        session: FlowerSession,
        number: int,
        seed: int | None,
        began: float,
        failed: dict[Trial, UtilityError],
    ) -> Iterator[tuple[Trial, Outcome]]:
        """∅, as in one process; where nodes measure, in one message round."""
        at_once = {} if session.measure is None else {"at_once": UNTRAINED_MODELS + 1}
        try:
            found, reasons = measured_untrained(session, seed=seed, **at_once)
        except UnavailableError:
            return
        failed.update({(mask, number): reason for mask, reason in reasons.items()})
        for mask, outcome in found.items():
            seconds = time.perf_counter() - began
            yield (mask, number), outcome._replace(seconds=seconds, backend="flower", device=session.device)

    def _ended(
        self, session: FlowerSession, scenario: Scenario, rounds: int, trials: Sequence[Trial], seeds: Seeds
    ) -> Iterator[list[_Ended]]:
        """What can be measured at once. Clients alone train while the first wave of the others advances."""
        alone, on_their_way = session.begin_alone(trials, rounds)
        others = [trial for trial in trials if trial not in alone]
        together = self._advanced(session, scenario, rounds, others, seeds)
        first = list(islice(together, 1))
        if session.measure is None:
            yield first
            yield session.finish_alone(alone, on_their_way)
        else:  # nodes that are still training cannot measure; then one message round does for all
            yield [*first, *session.finish_alone(alone, on_their_way)]
        for part in together:
            yield [part]

    def _advanced(
        self, session: FlowerSession, scenario: Scenario, rounds: int, trials: Sequence[Trial], seeds: Seeds
    ) -> Iterator[_Ended]:
        counted = counted_rows(scenario, session.training)
        under_way = session.take_wave(trials)
        if under_way is not None:
            wave, models = under_way.trials, from_arrays(under_way.models, like=session.initial())
            session.under_way = wave
            after = partial(session.keep_wave, wave)
            given = (rounds, wave, models, under_way.done, seeds, self.stage, after, counted)
            yield wave, continued_rounds(session, scenario, *given)
            trials = [trial for trial in trials if trial not in wave]
        begun = sorted({(i, number) for mask, number in trials for i in members(mask)})
        if not begun:
            return
        self.stage(f"round 1/{rounds}")
        first = first_round(session, begun, seeds)
        rows = {start: row for row, start in enumerate(begun)}
        for wave in waves(trials, session.rows):
            session.under_way = wave
            after = partial(session.keep_wave, wave)
            yield (
                wave,
                later_rounds(session, scenario, rounds, wave, first, rows, seeds, self.stage, after, counted),
            )

    def _measured(
        self,
        session: FlowerSession,
        parts: Sequence[_Ended],
        began: float,
        failed: dict[Trial, UtilityError],
    ) -> Iterator[tuple[Trial, Outcome]]:
        whole = [np.flatnonzero(finite_rows(models)).tolist() for _, models in parts]
        trials = [wave[row] for (wave, _), rows in zip(parts, whole, strict=True) for row in rows]
        if not trials:
            return
        models = joined([session.take(m, rows) for (_, m), rows in zip(parts, whole, strict=True)])
        session.note_measured(trials, models)
        try:
            found, reasons = measured(session, models, trials)
        except UnavailableError:  # of these nothing can be told before the client is back
            return
        failed.update(reasons)
        seconds = (time.perf_counter() - began) / len(trials)
        for trial, outcome in found.items():
            yield trial, outcome._replace(seconds=seconds, backend="flower", device=session.device)

    def _back(self, session: FlowerSession) -> bool:
        """Whether a client that failed answers again in time, so that another attempt makes sense."""
        lost = [session.nodes.roster.called(client) for client in sorted(session.nodes.lost)]
        self.stage(f"waiting for {listed(lost, 6)}")
        return session.nodes.find_again(self.patience)

    def _opened(self, scenario: Scenario, learner: Learner, training: Training) -> FlowerSession:
        key = (scenario.fingerprint, learner, training)
        if self._open is None or self._open[0] != key:
            if self.roster is None:
                self.roster = Roster.gather(self.grid, scenario.n, self.patience, kind_of(scenario), self.log)
            self.roster.check(scenario)
            self.limits.check_claims(self.roster, scenario)
            self._watch = self._watch or Watch(self.limits, self.roster)
            session = self.open_session(self.roster, scenario, learner, training)
            session.training = training
            session.watch = self._watch
            self._open = key, session
        return self._open[1]

    def open_session(
        self, roster: Roster, scenario: Scenario, learner: Learner, training: Training
    ) -> FlowerSession:
        """A session with these clients by our own messages; another kind of app needs another one."""
        own = learner.own_metrics.values() if isinstance(learner, Measuring) else ()
        need_built_in(scenario, [metric.name for metric in own])
        need_arrays(learner)
        inner = cast(AveragingSession, learner.session(scenario, training, self.device, self.memory))
        stacks = Stacks(scenario, learner, training, self.message_bytes)
        measure = StacksAtNodes(stacks, isinstance(inner, Telling)) if not scenario.test.here else None
        checkpoint = self.checkpoint_of(inner, scenario, learner, training)
        nodes = Nodes(roster, stacks, self.deadline, self._witness(roster, stacks))
        return FlowerSession(inner, nodes, self.memory, measure, checkpoint=checkpoint)

    def _witness(self, roster: Roster, stacks: Stacks) -> Witness | None:
        """Who looks at signatures, where keys are known."""
        keys = roster.signing_keys
        return Witness(keys, self.book, stacks.sitting(keys)) if any(keys) else None

    def checkpoint_of(
        self, inner: AveragingSession, scenario: Scenario, learner: Learner, training: Training
    ) -> Checkpoint | None:
        """Where such a session keeps what is under way, if anywhere."""
        if self.checkpoints is None or not isinstance(initial := inner.initial(), Mapping):
            return None
        identity = scenario.fingerprint, dict(learner.identity()), training.identity()
        return self.checkpoints.of(to_arrays(initial), *identity)
