"""Training on a Ray cluster: coalitions are independent, so their trainings spread over workers and machines.

Coalitions are cut into tasks (`_chunks`), each of which runs the local trainer in some worker (`_task`).
Data and model go into Ray's object store once. Outcomes are handed on as tasks finish, and there are never more
tasks than workers: a run that dies loses only what was in flight, and the driver holds next to nothing. What talks to
Ray is a child of this process (`_apart`), unless this process is connected to Ray already.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from fedvalue._extras import need
from fedvalue._text import plural
from fedvalue.coalitions import Trial
from fedvalue.errors import InputError
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.trainers import ClaimTrials, LocalTrainer, choose_device
from fedvalue.trainers.ray._apart import Apart, can_fork
from fedvalue.trainers.ray._chunks import Chunks
from fedvalue.trainers.ray._cluster import Cluster, check_address, open_cluster
from fedvalue.trainers.ray._folders import remove_abandoned
from fedvalue.trainers.ray._run import RayRun, SharedGame
from fedvalue.trainers.ray._task import TaskRules
from fedvalue.training import Learner, Trace, Training, canonical_trials, passes_of

__all__ = ["RayTrainer"]


class RayTrainer:
    """Trains in the workers of a Ray cluster, or of a Ray that is started on this machine and stopped again.

    `address` is that of a cluster: HOST:PORT, or auto for the one that this machine belongs to. `workers`
    bounds the tasks at a time; by default they fill the cluster. A task has `cpus_per_task` threads and
    `gpus_per_task` GPUs, trains on its GPU if it has one, and holds models up to `memory` bytes. It takes about
    `checkpoint` seconds (20, or more where a training takes long), after which its outcomes are handed on. Ray is stopped by `close`, at the end of a `with`
    block, or when the trainer is no longer used.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        cpus_per_task: float = 1,
        gpus_per_task: float = 0,
        device: str = "auto",
        memory: int | None = None,
        checkpoint: float | None = None,
    ) -> None:
        need("ray", "The trainer 'ray'")
        if checkpoint is not None and not 0 < checkpoint < float("inf"):
            raise InputError(f"checkpoint must be a number of seconds above 0. Got {checkpoint!r}.")
        if workers is not None and workers < 1:
            raise InputError(f"workers must be at least 1. Got {workers}.")
        if not cpus_per_task > 0 or not gpus_per_task >= 0:
            raise InputError(
                "A task needs more than 0 CPUs and at least 0 GPUs. "
                f"Got {cpus_per_task:g} CPUs and {gpus_per_task:g} GPUs."
            )
        self.address = address
        self.workers = workers
        self.cpus = cpus_per_task
        self.gpus = gpus_per_task
        self.device = _device(device, gpus_per_task)
        self.memory = memory
        self.checkpoint = None if checkpoint is None else float(checkpoint)
        self.stage: Callable[[str], None] = lambda text: None
        self._child: tuple[tuple[object, ...], Apart] | None = None
        self._cluster: Cluster | None = None
        self._game: SharedGame | None = None

    def __enter__(self) -> RayTrainer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def where(self) -> str:
        """On what and by whom coalitions are trained, in words."""
        at = f" at {self.address}" if self.address else ""
        workers = f" with {plural(self.workers, 'worker')}" if self.workers else ""
        return f"{self.device}, by Ray{at}{workers}"

    def close(self) -> None:
        """Disconnects from Ray, and stops it if it was started here."""
        if self._cluster is not None:
            self._cluster.close()
        if self._child is not None:
            _end(self._child[1])
        self._cluster = self._game = self._child = None

    def train(
        self, scenario: Scenario, learner: Learner, training: Training, masks: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        """Yields every coalition with its metrics, as soon as its task is finished."""
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
        """The same with several seeds, whose trials are shared out together."""
        asked = canonical_trials(scenario, claim(trials))
        if not asked:
            return
        stays = need("ray").is_initialized() or not can_fork()
        found = (self._here if stays else self._apart)(scenario, learner, training, asked)
        for trial, outcome in found:
            for same in asked[trial]:
                yield same, outcome._replace(seconds=outcome.seconds / len(asked[trial]))

    def _here(
        self, scenario: Scenario, learner: Learner, training: Training, asked: Mapping[Trial, Sequence[Trial]]
    ) -> Iterator[tuple[Trial, Outcome]]:
        """This process is Ray's driver."""
        passes = passes_of(scenario, training, {mask for mask, _ in asked})
        chunks = Chunks({trial: passes[trial[0]] for trial in asked}, self.checkpoint)
        run = self._run(scenario, learner, training, chunks)
        try:
            yield from run.outcomes()
        finally:
            if run.flying:
                self._give_up(run)
        run.complain(scenario, asked)

    def _apart(
        self, scenario: Scenario, learner: Learner, training: Training, asked: Mapping[Trial, Sequence[Trial]]
    ) -> Iterator[tuple[Trial, Outcome]]:
        """A child of this process is."""
        key = (scenario.fingerprint, learner)
        if self._child is None or self._child[0] != key:
            self.close()
            check_address(self.address)

            def answer(request: Any, send: Callable[[dict[str, Any]], None]) -> None:
                self.stage = lambda text: send({"stage": text})
                rules = Training(**request["training"])
                wanted = {(mask, seed): [(m, s) for m, s in same] for (mask, seed), same in request["asked"]}
                for trial, outcome in self._here(scenario, learner, rules, wanted):
                    send({"trial": trial, "outcome": outcome.to_plain()})

            child = Apart(answer, self.close)
            self._child = key, child
            weakref.finalize(self, _end, child)
        whole = False
        try:
            for message in self._child[1].messages(
                {"training": training.plain(), "asked": list(asked.items())}
            ):
                if "stage" in message:
                    self.stage(message["stage"])
                else:
                    mask, seed = message["trial"]
                    yield (mask, seed), Outcome.from_plain(message["outcome"])
            whole = True
        finally:
            if not whole:  # somebody does not wait for the rest, or there is none
                self.close()

    def trace(self, scenario: Scenario, learner: Learner, training: Training) -> Trace:
        """Records the run of all clients in this process: one training, whose models are needed here."""
        device = self.device if self.device == "cpu" else choose_device("auto")
        return LocalTrainer(device, self.memory).trace(scenario, learner, training)

    def _give_up(self, run: RayRun) -> None:
        """Ends what is in flight: nobody waits for it any more, and others may want the workers."""
        # Ray 2.60 can abort this process where a task ends while it is cancelled, so our own is rather ended whole.
        if run.cluster.folder is not None:
            self.close()
        else:
            run.cancel()

    def _run(self, scenario: Scenario, learner: Learner, training: Training, chunks: Chunks) -> RayRun:
        cluster = self._opened(scenario)
        room = cluster.need_room(self.cpus, self.gpus)
        key = (scenario.fingerprint, learner)
        if self._game is None or self._game.key != key:
            self._game = SharedGame(key, cluster.ray.put((scenario, learner)))
        # Without a bound, tasks share what is free: on a GPU those that share it, else those of a machine.
        sharing = max(1, int(1 / self.gpus)) if self.gpus else min(max(room), self.workers or max(room))
        parts = sharing if self.memory is None else 1
        task = TaskRules(training, self.device, self.memory, parts, max(1, int(self.cpus)))
        workers = self.workers or sum(room)
        return RayRun(cluster, self._game, chunks, task, workers, (self.cpus, self.gpus), self.stage)

    def _opened(self, scenario: Scenario) -> Cluster:
        if self._cluster is not None and not self._cluster.ray.is_initialized():
            self.close()  # somebody else has ended the connection
        if self._cluster is None:
            self.stage("starting Ray" if self.address is None else f"joining Ray at {self.address}")
            self._cluster = open_cluster(self.address, self.workers, self.cpus, scenario)
            weakref.finalize(self, self._cluster.close)
        return self._cluster


def _end(child: Apart) -> None:
    child.close()
    remove_abandoned()


def _device(wanted: str, gpus: float) -> str:
    """Tasks with a GPU train on it. Which one that is, is Ray's business."""
    if wanted not in ("auto", "cpu", "cuda"):
        raise InputError(
            f"With Ray the device must be auto, cpu or cuda: Ray says which GPU a task gets. Got {wanted!r}."
        )
    device = "cuda" if gpus else "cpu"
    if wanted not in ("auto", device):
        raise InputError(
            f"Tasks on {wanted} were asked for, with {gpus:g} GPUs each. Use --gpus-per-task 1 for tasks on GPUs, "
            "or 0 for tasks on CPUs, and leave the device out."
        )
    return device
