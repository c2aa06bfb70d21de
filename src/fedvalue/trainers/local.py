"""Training in this process: the coalitions of a wave advance together, wave after wave."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from fedvalue.coalition import members
from fedvalue.errors import InputError
from fedvalue.learners.base import AveragingSession, Learner, Session, Stack
from fedvalue.outcome import Outcome
from fedvalue.scenarios.base import Scenario
from fedvalue.trainers.base import Trace, need_updates
from fedvalue.training import (
    Training,
    canonical_masks,
    first_round,
    later_rounds,
    recorded_rounds,
    waves,
)

__all__ = ["LocalTrainer", "choose_device"]


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
    (data on the device) and the shared first round are kept for the next call.
    """

    def __init__(self, device: str = "auto", memory: int | None = None) -> None:
        self.device = device
        self.memory = memory
        self.stage: Callable[[str], None] = lambda text: None  # told what is being done, for people
        self._open: _Open | None = None

    def train(
        self, scenario: Scenario, learner: Learner, training: Training, masks: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        """Yields every coalition with its metrics, as soon as its wave is finished."""
        began = time.perf_counter()
        opened = self._opened(scenario, learner, training)
        session = opened.session
        asked: dict[int, list[int]] = {}
        for mask, trained in canonical_masks(scenario, masks).items():
            asked.setdefault(trained, []).append(mask)
        if 0 in asked:
            yield from _outcomes(session, [0], session.initial(), asked, began)
            began = time.perf_counter()
        needed = [mask for mask in asked if mask]
        opened.train_first(sorted({i for mask in needed for i in members(mask)}))
        for wave in waves(needed, session.rows):
            first, rows = opened.first, opened.rows
            models = later_rounds(session, scenario, training.rounds, wave, first, rows, self.stage)
            yield from _outcomes(session, wave, models, asked, began)
            began = time.perf_counter()

    def trace(self, scenario: Scenario, learner: Learner, training: Training) -> Trace:
        """Records the run of all clients that have data."""
        need_updates(learner)
        began = time.perf_counter()
        session = self._opened(scenario, learner, training).session
        clients, starts, local_models, end = recorded_rounds(session, scenario, training.rounds)
        seconds = time.perf_counter() - began
        of_rounds = tuple(starts), tuple(local_models)
        return Trace(cast(AveragingSession, session), clients, *of_rounds, end, seconds)

    def _opened(self, scenario: Scenario, learner: Learner, training: Training) -> _Open:
        key = (scenario.fingerprint, learner, training)
        if self._open is None or self._open.key != key:
            session = learner.session(scenario, training, choose_device(self.device), self.memory)
            self._open = _Open(key, session)
        return self._open


def choose_device(wanted: str) -> str:
    """'auto' is CUDA where there is one, then Apple's MPS, then the CPU; 'cuda:1' is the second of several."""
    import torch

    if wanted == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind, numbered, number = wanted.partition(":")
    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    present = {"cpu": 1, "cuda": cuda, "mps": int(torch.backends.mps.is_available())}
    if kind not in present or (numbered and not number.isdecimal()):
        raise InputError(
            f"The device must be auto, cpu, cuda or mps. Got {wanted!r}. One of several is written cuda:1."
        )
    if not present[kind]:
        raise InputError(
            f"The device {wanted!r} was asked for and this machine has none. Use --device auto or cpu."
        )
    if numbered and int(number) >= present[kind]:
        raise InputError(
            f"The device {wanted!r} was asked for and this machine has {present[kind]} of that kind, counted "
            f"from 0. Use a smaller number, or --device auto."
        )
    return wanted if kind == "cuda" else kind  # cpu:0 is the CPU


def _outcomes(
    session: Session, wave: Sequence[int], models: Stack, asked: dict[int, list[int]], began: float
) -> Iterator[tuple[int, Outcome]]:
    found = session.evaluate(models)
    seconds = (time.perf_counter() - began) / len(wave)
    for mask, metrics in zip(wave, found, strict=True):
        for same in asked[mask]:
            yield same, Outcome(metrics, seconds / len(asked[mask]), "local", session.device)
