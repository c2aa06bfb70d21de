"""What a Ray worker does: the local trainer on the trials of one task.

Failures come back as plain data, together with what was finished before: exceptions of a user's own classes
may not survive the way, and no training is given up because another one failed.
"""

from __future__ import annotations

import math
import platform
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedvalue._version import __version__
from fedvalue.coalitions import Trial, members
from fedvalue.errors import FedvalueError, UtilityError
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.trainers import LocalTrainer
from fedvalue.training import Begun, Learner, Training

__all__ = ["FATAL", "MEMORY", "RAISED", "TaskReport", "TaskRules", "train_chunk"]

FATAL, MEMORY, RAISED = "fatal", "memory", "raised"
"""Why a task failed: as every other would, of too little memory, or of anything else."""


@dataclass(frozen=True)
class TaskRules:
    """How a task trains. `memory` (bytes; None: what is free) is divided by `parts`."""

    training: Training
    device: str
    memory: int | None
    parts: int
    threads: int


@dataclass(frozen=True)
class TaskReport:
    """What was trained, and why the rest was not: one of the kinds above, and a sentence; `together`: as one stack."""

    outcomes: list[tuple[Trial, Outcome]]
    kind: str = ""
    reason: str = ""
    together: bool = False


@dataclass(frozen=True)
class _Kept:
    """What the last task leaves to the next one of this worker: data in place, and the first round."""

    key: tuple[object, ...]
    begun: frozenset[Begun]
    scenario: Scenario
    learner: Learner
    trainer: LocalTrainer


_kept: _Kept | None = None


def train_chunk(version: str, game: Sequence[Any], rules: TaskRules, trials: Sequence[Trial]) -> TaskReport:
    """Makes these trainings of the game that `game[0]` refers to.

    The reference is followed here and not by Ray: another release of fedvalue is noticed before any of it is read.
    """
    global _kept
    if version != __version__:
        return TaskReport(
            [],
            FATAL,
            f"The worker on {platform.node()} has fedvalue {__version__}, the run was started with {version}. "
            "Install the same release on every machine of the cluster.",
        )
    outcomes: list[tuple[Trial, Outcome]] = []
    try:
        _settle(rules.threads)
        begun = frozenset((i, seed) for mask, seed in trials for i in members(mask))
        _kept = kept = _opened(game[0], rules, begun)
        found = kept.trainer.train_trials(kept.scenario, kept.learner, rules.training, trials)
        for trial, outcome in found:
            outcomes.append((trial, outcome._replace(backend="ray")))
    except Exception as error:  # whatever the user's own model raises
        _kept = None  # what it holds may be what fills the memory
        return TaskReport(outcomes, *_told(error))
    return TaskReport(outcomes, together=kept.trainer.steps_together)


def _settle(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    # Arrays in Ray's object store are read-only. Sessions only read them; torch warns all the same.
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")


def _opened(reference: Any, rules: TaskRules, begun: frozenset[Begun]) -> _Kept:
    """The trainer of the last task, if it has made these first local trainings; else a new one."""
    key = (reference.hex(), rules)
    if _kept is not None and _kept.key == key and begun <= _kept.begun:
        return _kept
    from fedvalue.learners.memory import available_memory

    memory = (available_memory(rules.device) if rules.memory is None else rules.memory) // rules.parts
    # A task hands over its outcomes when it is over: nothing is gained by finishing some of them earlier.
    trainer = LocalTrainer(rules.device, max(1, memory), checkpoint=math.inf)
    return _Kept(key, begun, *_game(reference), trainer)


def _game(reference: Any) -> tuple[Scenario, Learner]:
    import ray

    try:
        scenario, learner = ray.get(reference)
    except Exception as error:  # the module of a user's own model is missing, or its code fails
        raise FedvalueError(
            f"The worker on {platform.node()} cannot load data and model: {type(error).__name__}: {error}. What "
            "the model needs must be installed on every machine of the cluster."
        ) from error
    return scenario, learner


def _told(error: Exception) -> tuple[str, str]:
    """The kind of failure, and what to say."""
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower() or _cannot_allocate(error):
        return MEMORY, f"{type(error).__name__} on {platform.node()}"
    if isinstance(error, FedvalueError) and not isinstance(error, UtilityError):
        return FATAL, str(error)
    return RAISED, f"{type(error).__name__}: {error}"


def _cannot_allocate(error: Exception) -> bool:
    """Torch has an error class of its own for full GPUs only."""
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
