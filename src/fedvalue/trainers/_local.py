"""Training in this process: the coalitions of a wave advance together, wave after wave."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from fedvalue._extras import is_installed
from fedvalue.coalitions import members
from fedvalue.errors import InputError, UtilityError
from fedvalue.learners.metrics import measuring
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.training import (
    AveragingSession,
    Learner,
    Ruled,
    Session,
    Stack,
    Trace,
    Training,
    canonical_masks,
    first_round,
    later_rounds,
    measured,
    measured_untrained,
    need_updates,
    not_measured,
    recorded_rounds,
    waves,
)

__all__ = ["LocalTrainer", "choose_device", "make_one_step"]


@dataclass
class _Open:
    """A session at work, and the first round of its clients: row `rows[i]` of `first` belongs to client i."""

    key: tuple[object, ...]
    session: Session
    first: Stack = None
    rows: dict[int, int] = field(default_factory=dict)

    def train_first(self, clients: Sequence[int]) -> None:
        """Makes sure that the first local trainings of these clients are there."""
        if not set(clients) <= self.rows.keys():
            all_clients = sorted({*clients, *self.rows})
            self.first = first_round(self.session, all_clients)
            self.rows = {client: row for row, client in enumerate(all_clients)}


class LocalTrainer:
    """Trains on this machine's CPU, CUDA or MPS device.

    `memory` (bytes) bounds how many models are held at once; it never changes the result. The session
    (data on the device) and the shared first round are kept for the next call. With `warm_up` one step is
    made before anything is timed: the first step of a process takes a second or so, which is no cost of training.
    """

    def __init__(self, device: str = "auto", memory: int | None = None, *, warm_up: bool = False) -> None:
        self.device = device
        self.memory = memory
        self.warm_up = warm_up
        self.stage: Callable[[str], None] = lambda text: None  # told what is being done, for people
        self._open: _Open | None = None

    def train(
        self, scenario: Scenario, learner: Learner, training: Training, masks: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        """Yields every coalition with its metrics, as soon as its wave is finished.

        A model that cannot be measured, by a metric of the user's own, is complained about when the others are done.
        """
        self._warm_up(scenario, learner, training)
        began = time.perf_counter()
        opened = self._opened(scenario, learner, training)
        session = opened.session
        asked: dict[int, list[int]] = {}
        for mask, trained in canonical_masks(scenario, masks).items():
            asked.setdefault(trained, []).append(mask)
        failed: dict[int, UtilityError] = {}
        if 0 in asked:
            yield from _outcomes(session, measured_untrained(session), asked, began, failed)
            began = time.perf_counter()
        needed = [mask for mask in asked if mask]
        opened.train_first(sorted({i for mask in needed for i in members(mask)}))
        for wave in waves(needed, session.rows):
            first, rows = opened.first, opened.rows
            models = later_rounds(session, scenario, training.rounds, wave, first, rows, self.stage)
            yield from _outcomes(session, measured(session, models, wave), asked, began, failed)
            began = time.perf_counter()
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
        if self._open is None or self._open.key != key:
            session = learner.session(scenario, training, choose_device(self.device), self.memory)
            self._open = _Open(key, session)
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
    result: tuple[dict[int, dict[str, float]], dict[int, UtilityError]],
    asked: dict[int, list[int]],
    began: float,
    failed: dict[int, UtilityError],
) -> Iterator[tuple[int, Outcome]]:
    found, reasons = result
    failed |= {same: reason for mask, reason in reasons.items() for same in asked[mask]}
    seconds = (time.perf_counter() - began) / (len(found) + len(reasons))
    for mask, metrics in found.items():
        for same in asked[mask]:
            yield same, Outcome(metrics, seconds / len(asked[mask]), "local", session.device)
