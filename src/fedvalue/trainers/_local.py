"""Training in this process: the coalitions of a wave advance together, wave after wave."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import cast

from fedvalue._checks import positive, whole
from fedvalue._extras import is_installed
from fedvalue.coalitions import members
from fedvalue.errors import InputError, UtilityError
from fedvalue.learners.metrics import measuring
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.trainers._base import Claim
from fedvalue.training import (
    CHECKPOINT_SECONDS,
    AveragingSession,
    Learner,
    Pace,
    Ruled,
    Session,
    Stack,
    Trace,
    Training,
    canonical_masks,
    first_passes,
    first_round,
    later_rounds,
    measured,
    measured_untrained,
    need_updates,
    not_measured,
    passes_of,
    recorded_rounds,
    waves,
)

__all__ = ["LocalTrainer", "choose_device", "make_one_step"]


@dataclass
class _Open:
    """A session at work, and the first round of its clients: row `rows[i]` of `first` belongs to client i."""

    key: tuple[object, ...]
    session: Session
    pace: Pace
    first: Stack = None
    rows: dict[int, int] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def train_first(self, clients: Sequence[int]) -> tuple[Stack, dict[int, int], float]:
        """The first local trainings of these clients and perhaps others, and the seconds that they took just now."""
        with self.lock:
            began = time.perf_counter()
            if set(clients) <= self.rows.keys():
                return self.first, self.rows, 0.0
            all_clients = sorted({*clients, *self.rows})
            self.first = first_round(self.session, all_clients)
            self.rows = {client: row for row, client in enumerate(all_clients)}
            return self.first, self.rows, time.perf_counter() - began


class LocalTrainer:
    """Trains on this machine's CPU, CUDA or MPS device.

    `memory` (bytes) bounds how many models are held at once, `checkpoint` (seconds) how long finished models wait for
    those that are trained with them; neither changes the result. The session (data on the device) and the shared
    first round are kept for the next call. With `warm_up` one step is made before anything is timed: the first step of
    a process takes a second or so, which is no cost of training.
    """

    def __init__(
        self,
        device: str = "auto",
        memory: int | None = None,
        *,
        checkpoint: float = CHECKPOINT_SECONDS,
        warm_up: bool = False,
    ) -> None:
        self.device = device
        self.checkpoint = positive("checkpoint", checkpoint, "seconds")
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
        self._warm_up(scenario, learner, training)
        began = time.perf_counter()
        opened = self._opened(scenario, learner, training)
        session, pace = opened.session, opened.pace
        canonical = canonical_masks(scenario, masks)
        asked: dict[int, list[int]] = {}
        for mask, trained in canonical.items():
            asked.setdefault(trained, []).append(mask)
        failed: dict[int, UtilityError] = {}
        if 0 in asked and (untrained := claim(asked[0])):
            yield from _outcomes(session, measured_untrained(session), {0: list(untrained)}, began, failed)
            began = time.perf_counter()
        work = passes_of(scenario, training, [mask for mask in asked if mask])
        clients = sorted({i for mask in work for i in members(mask)})
        first, rows, seconds = opened.train_first(clients)
        if seconds:
            pace.took(first_passes(scenario, training, rows), seconds)
        for planned in waves(list(work), session.rows, work, pace.share):
            left: dict[int, list[int]] = {}
            for claimed in claim([same for mask in planned for same in asked[mask]]):
                left.setdefault(canonical[claimed], []).append(claimed)
            wave = [mask for mask in planned if mask in left]
            if not wave:  # another process is at all of them
                continue
            models = later_rounds(session, scenario, training.rounds, wave, first, rows, self.stage)
            outcomes = list(_outcomes(session, measured(session, models, wave), left, began, failed))
            pace.took(sum(work[mask] for mask in wave), time.perf_counter() - began - seconds, wave=True)
            yield from outcomes
            began, seconds = time.perf_counter(), 0.0
        if failed:
            raise not_measured(scenario, failed)

    def trace(self, scenario: Scenario, learner: Learner, training: Training) -> Trace:
        """Records the run of all clients that have data."""
        need_updates(learner)
        self._warm_up(scenario, learner, training)
        began = time.perf_counter()
        session = self._opened(scenario, learner, training).session
        clients, starts, local_models, end = recorded_rounds(session, scenario, training.rounds)
        seconds = time.perf_counter() - began
        of_rounds = tuple(starts), tuple(local_models)
        return Trace(cast(AveragingSession, session), clients, *of_rounds, end, seconds)

    def _warm_up(self, scenario: Scenario, learner: Learner, training: Training) -> None:
        if self.warm_up:
            self.warm_up = False
            make_one_step(scenario, learner, training, self.device)

    def _opened(self, scenario: Scenario, learner: Learner, training: Training) -> _Open:
        key = (scenario.fingerprint, learner, training)
        with self._opening:  # several threads may use one game
            if self._open is None or self._open.key != key:
                session = learner.session(scenario, training, choose_device(self.device), self.memory)
                self._open = _Open(key, session, Pace(self.checkpoint))
            return self._open


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
    result: tuple[dict[int, Outcome], dict[int, UtilityError]],
    asked: dict[int, list[int]],
    began: float,
    failed: dict[int, UtilityError],
) -> Iterator[tuple[int, Outcome]]:
    found, reasons = result
    failed |= {same: reason for mask, reason in reasons.items() for same in asked[mask]}
    seconds = (time.perf_counter() - began) / (len(found) + len(reasons))
    for mask, outcome in found.items():
        share = seconds / len(asked[mask])
        for same in asked[mask]:
            yield same, outcome._replace(seconds=share, backend="local", device=session.device)
