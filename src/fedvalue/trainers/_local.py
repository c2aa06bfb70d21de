"""Training in this process: the trials of a wave advance together, wave after wave."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import cast

from fedvalue._checks import positive, whole
from fedvalue._extras import is_installed
from fedvalue.coalitions import Trial, members
from fedvalue.errors import FedvalueWarning, InputError, UtilityError
from fedvalue.learners.metrics import measuring
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.trainers._base import Claim, ClaimTrials, with_seed
from fedvalue.training import (
    AveragingSession,
    Begun,
    Hindered,
    Learner,
    Pace,
    Ruled,
    Seeds,
    Session,
    Stack,
    Stepping,
    Trace,
    Training,
    canonical_trials,
    counted_rows,
    first_passes,
    first_round,
    later_rounds,
    measured,
    measured_untrained,
    need_updates,
    not_measured,
    passes_of,
    recorded_rounds,
    side_by_side,
    waves,
)

__all__ = ["LocalTrainer", "choose_device", "make_one_step"]


@dataclass
class _Open:
    """A session at work, and the first round of its clients: row `rows[i, k]` of `first` belongs to client i and seed k."""

    key: tuple[object, ...]
    session: Session
    pace: Pace
    first: Stack = None
    rows: dict[Begun, int] = field(default_factory=dict)
    seeds: dict[int, int | None] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def train_first(self, begun: Collection[Begun], seeds: Seeds) -> tuple[Stack, dict[Begun, int], float]:
        """These first local trainings and perhaps others, and the seconds that they took just now."""
        with self.lock:
            began = time.perf_counter()
            if set(begun) <= self.rows.keys():
                return self.first, self.rows, 0.0
            self.seeds |= seeds
            wanted = {*begun, *self.rows}
            if len(wanted) > self.session.rows:  # older ones leave, for they would fill the memory
                wanted = set(begun)
            in_order = sorted(wanted, key=lambda start: start[::-1])
            self.first = first_round(self.session, in_order, self.seeds)
            self.rows = {start: row for row, start in enumerate(in_order)}
            return self.first, self.rows, time.perf_counter() - began


class LocalTrainer:
    """Trains on this machine's CPU, CUDA or MPS device.

    `memory` (bytes) bounds how many models are held at once, `checkpoint` (seconds) how long finished models wait for
    those that are trained with them (about 20 by default, more where a training takes long); neither changes the
    result. The session (data on the device) and the shared first round are kept for the next call. With `warm_up` one step is made before anything is timed: the first step of
    a process takes a second or so, which is no cost of training.
    """

    def __init__(
        self,
        device: str = "auto",
        memory: int | None = None,
        *,
        checkpoint: float | None = None,
        warm_up: bool = False,
    ) -> None:
        self.device = device
        self.checkpoint = None if checkpoint is None else positive("checkpoint", checkpoint, "seconds")
        self.memory = None if memory is None else whole("memory (in bytes)", memory, 1)
        self.warm_up = warm_up
        self.stage: Callable[[str], None] = lambda text: None  # told what is being done, for people
        self._open: _Open | None = None
        self._opening = Lock()

    def train(
        self,
        scenario: Scenario,
        learner: Learner,
        training: Training,
        masks: Sequence[int],
        claim: Claim = list,
    ) -> Iterator[tuple[int, Outcome]]:
        """Yields every coalition with its metrics, as soon as its wave is finished.

        `claim` is asked before each wave which of its coalitions are left to this process. A model that cannot be
        measured, by a metric of the user's own, is complained about when the others are done.
        """
        trials = [(mask, 0) for mask in masks]
        for (mask, _), outcome in self.train_trials(scenario, learner, training, trials, with_seed(claim, 0)):
            yield mask, outcome

    def train_trials(
        self,
        scenario: Scenario,
        learner: Learner,
        training: Training,
        trials: Sequence[Trial],
        claim: ClaimTrials = list,
    ) -> Iterator[tuple[Trial, Outcome]]:
        """The same with several seeds, side by side where the learner's sessions can do that."""
        self._warm_up(scenario, learner, training)
        asked = canonical_trials(scenario, trials)
        failed: dict[Trial, UtilityError] = {}
        session = self._opened(scenario, learner, training).session
        for rules, seeds in side_by_side(session, training, list(asked)):
            some = {trial: same for trial, same in asked.items() if trial[1] in seeds}
            yield from self._trained(scenario, learner, rules, some, seeds, claim, failed)
        if failed:
            raise not_measured(scenario, failed)

    def _trained(
        self,
        scenario: Scenario,
        learner: Learner,
        training: Training,
        asked: Mapping[Trial, list[Trial]],
        seeds: Seeds,
        claim: ClaimTrials,
        failed: dict[Trial, UtilityError],
    ) -> Iterator[tuple[Trial, Outcome]]:
        """Trials with the given seeds in one session, and those that are the same training."""
        began = time.perf_counter()
        opened = self._opened(scenario, learner, training)
        session, pace = opened.session, opened.pace
        for number, seed in seeds.items():
            if (0, number) in asked and (untrained := claim(asked[0, number])):
                found, reasons = measured_untrained(session, seed=seed)
                result = (
                    {(mask, number): metrics for mask, metrics in found.items()},
                    {(mask, number): reason for mask, reason in reasons.items()},
                )
                yield from _outcomes(session, result, {(0, number): list(untrained)}, began, failed)
                began = time.perf_counter()
        passes = passes_of(scenario, training, {mask for mask, _ in asked})
        work = {trial: passes[trial[0]] for trial in asked if trial[0]}
        begun = {(i, number) for mask, number in work for i in members(mask)}
        first, rows, seconds = opened.train_first(begun, seeds)
        if seconds:
            later = training.rounds - 1 if _steps_together(session) else 0
            pace.began(first_passes(scenario, training, [client for client, _ in rows]), seconds, later)
        stands_for = {same: trial for trial, all_same in asked.items() for same in all_same}
        counted = counted_rows(scenario, training)
        for planned in waves(list(work), session.rows, work, pace.share):
            left: dict[Trial, list[Trial]] = {}
            for claimed in claim([same for trial in planned for same in asked[trial]]):
                left.setdefault(stands_for[claimed], []).append(claimed)
            wave = [trial for trial in planned if trial in left]
            if not wave:  # another process is at all of them
                continue
            models = later_rounds(
                session, scenario, training.rounds, wave, first, rows, seeds, self.stage, counted=counted
            )
            outcomes = list(_outcomes(session, measured(session, models, wave), left, began, failed))
            pace.took(sum(work[trial] for trial in wave), time.perf_counter() - began - seconds)
            yield from outcomes
            began, seconds = time.perf_counter(), 0.0

    def trace(self, scenario: Scenario, learner: Learner, training: Training) -> Trace:
        """Records the run of all clients that have data."""
        need_updates(learner)
        self._warm_up(scenario, learner, training)
        began = time.perf_counter()
        session = self._opened(scenario, learner, training).session
        clients, starts, local_models, end = recorded_rounds(
            session, scenario, training.rounds, counted_rows(scenario, training)
        )
        seconds = time.perf_counter() - began
        of_rounds = tuple(starts), tuple(local_models)
        return Trace(cast(AveragingSession, session), clients, *of_rounds, end, seconds)

    @property
    def steps_together(self) -> bool:
        """Whether models were trained as one stack: then a few of them take nearly as many steps as many."""
        return self._open is not None and _steps_together(self._open.session)

    def _warm_up(self, scenario: Scenario, learner: Learner, training: Training) -> None:
        if self.warm_up:
            self.warm_up = False
            make_one_step(scenario, learner, training, self.device)

    def _opened(self, scenario: Scenario, learner: Learner, training: Training) -> _Open:
        key = (scenario.fingerprint, learner, training)
        with self._opening:  # several threads may use one game
            if self._open is None or self._open.key != key:
                device = choose_device(self.device)
                session = learner.session(scenario, training, device, self.memory)
                if isinstance(session, Hindered) and session.note:
                    warnings.warn(session.note, FedvalueWarning, stacklevel=2)
                self._open = _Open(key, session, Pace(self.checkpoint, device))
            return self._open


def _steps_together(session: Session) -> bool:
    return isinstance(session, Stepping) and session.together


def make_one_step(scenario: Scenario, learner: Learner, training: Training, device: str) -> None:
    """A training as small as can be, after which others take their usual time."""
    client = next(i for i, data in enumerate(scenario.clients) if len(data))
    rules = replace(training, rounds=2, epochs=training.epochs if isinstance(learner, Ruled) else 1)
    plain = measuring(learner, {})  # so few rows say nothing about metrics of one's own
    for _ in LocalTrainer(device).train(scenario.thinned(training.batch), plain, rules, [1 << client]):
        pass


def choose_device(wanted: str) -> str:
    """'auto' is CUDA where there is one, then Apple's MPS, then the CPU; 'cuda:1' is the second of several."""
    if not isinstance(wanted, str):
        raise InputError(f"The device must be auto, cpu, cuda or mps. Got {wanted!r}.")
    present = _devices()
    if wanted == "auto":
        return next(kind for kind in ("cuda", "mps", "cpu") if present[kind])
    kind, numbered, number = wanted.partition(":")
    if kind not in present or (numbered and not number.isdecimal()):
        raise InputError(
            f"The device must be auto, cpu, cuda or mps. Got {wanted!r}. One of several is written cuda:1."
        )
    if not present[kind]:
        raise InputError(
            f"The device {wanted!r} was requested, but this machine has none. Use --device auto or cpu."
        )
    if numbered and int(number) >= present[kind]:
        raise InputError(
            f"The device {wanted!r} was requested, but this machine has {present[kind]} of that kind, counted "
            f"from 0. Use a smaller number, or --device auto."
        )
    return wanted if kind == "cuda" else kind  # cpu:0 is the CPU


def _devices() -> dict[str, int]:
    """How many devices of each kind there are. A learner that needs no torch has the CPU."""
    if not is_installed("torch"):
        return {"cpu": 1, "cuda": 0, "mps": 0}
    import torch

    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {"cpu": 1, "cuda": cuda, "mps": int(torch.backends.mps.is_available())}


def _outcomes(
    session: Session,
    result: tuple[Mapping[Trial, Outcome], Mapping[Trial, UtilityError]],
    asked: Mapping[Trial, list[Trial]],
    began: float,
    failed: dict[Trial, UtilityError],
) -> Iterator[tuple[Trial, Outcome]]:
    found, reasons = result
    failed |= {same: reason for trial, reason in reasons.items() for same in asked[trial]}
    seconds = (time.perf_counter() - began) / (len(found) + len(reasons))
    for trial, outcome in found.items():
        share = seconds / len(asked[trial])
        placed = Outcome(outcome.metrics, share, "local", session.device, outcome.rows)
        for same in asked[trial]:
            yield same, placed
