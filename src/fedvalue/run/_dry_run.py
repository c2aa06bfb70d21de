"""The dry run of a job: what would be asked, and what that would take, before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._text import count, duration, plural, size
from fedvalue.coalitions import full_mask
from fedvalue.games import lacking
from fedvalue.run._memory import parse_memory
from fedvalue.run._requests import Request, admit, plan_of, request
from fedvalue.store import UtilityStore
from fedvalue.trainers import seconds_per_pass
from fedvalue.training import Weighed, Work, work_of, work_of_all

if TYPE_CHECKING:
    from fedvalue.run._job import Job

__all__ = ["DryRun", "dry_run"]

_SPREAD = 256
_MOST_IDLE = 100_000  # asks that bring nothing new: a plan that goes on so is stopped when it is run
_LARGEST_LISTED = 16  # clients; all coalitions of more are counted, not listed


@dataclass(frozen=True)
class DryRun:
    """What a run would do. `asks` > 1: the method decides as it goes, and this is one way it may go.

    `work` is what the asked coalitions take, `exact` what all would. `models` are those that a gradient method
    puts together from one training, and evaluates. `stored` of the coalitions are in the store already. `besides`
    what the method asks for, a run evaluates the untrained model and all clients.
    """

    job: Job
    coalitions: int
    asks: int
    stored: int
    work: Work
    exact: Work
    seconds: float
    exact_seconds: float
    memory: int | None
    models: int
    besides: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: the record of the run, and its plan."""
        replicates = self.job.prepared.game.replicates
        return {
            **self.job.record(),
            "plan": {
                "coalitions": self.coalitions,
                "asks": self.asks,
                "besides": list(self.besides),
                "stored": self.stored,
                "trainings": self.work.trained * replicates,
                "client_trainings": self.work.client_trainings * replicates,
                "first_round": self.work.first_round,
                "per_later_round": self.work.per_later_round,
                "seconds_estimate": self.seconds,
                "exact_trainings": self.exact.trained * replicates,
                "exact_seconds_estimate": self.exact_seconds,
                "memory_estimate": self.memory,
                "models_put_together": self.models,
            },
        }

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The plan in words."""
        game, work, everything = self.job.prepared.game, self.work, 1 << self.job.prepared.game.n
        stored = f", {count(self.stored)} of them in the store" if self.stored else ""
        name = request(self.job.method, self.job.options).method.name
        lines = [f"Plan: {name}, {count(self.coalitions)} of {count(everything)} coalitions{stored}."]
        if self.besides:
            lines.append(f"Also evaluated, for comparison: {' and '.join(self.besides)}.")
        if self.asks > 1:
            lines.append(
                "The method decides as it goes: other utilities may lead it to fewer or other coalitions."
            )
        lines.append(
            f"Trainings: {count(work.trained * game.replicates)}"
            + (f", {game.replicates} for each coalition" if game.replicates > 1 else "")
            + f"; local trainings of clients: {count(work.client_trainings * game.replicates)} ({work.first_round} in "
            f"round 1, shared by all, then {count(work.per_later_round)} in each of {plural(work.rounds - 1, 'round')})."
        )
        if self.models:
            lines.append(f"Models assembled from its updates and evaluated: about {count(self.models)}.")
        shared = ", shared by the workers of Ray" if self.job.backend == "ray" else ""
        lines.append(
            f"Time: about {duration(self.seconds)} on {self.job.prepared.device}{shared}, estimated from a short "
            "measurement."
        )
        if self.coalitions < everything:
            lines.append(
                f"Exact values: {count(self.exact.trained * game.replicates)} trainings, about "
                f"{duration(self.exact_seconds)}, estimated in the same way."
            )
        if self.memory is not None:
            limit = parse_memory(self.job.memory)
            bound = "" if limit is None else f", kept below {size(limit)}"
            lines.append(f"Memory: about {size(self.memory)} for models and data{bound}.")
        lines.append("Nothing was run.")
        return lines


def dry_run(job: Job) -> DryRun:
    """Drives the plan with made-up utilities, then trains a small part of the data to measure the time."""
    prepared = job.prepared
    scenario, game, training = prepared.scenario, prepared.game, prepared.game.training
    asked = request(job.method, job.options)
    admit(game, [asked], job.budget, job.seed)
    masks, asks = _asked(game.n, asked, job.seed)
    of_method = set(masks or ())
    coalitions = 1 << scenario.n if masks is None else len(of_method)
    besides: tuple[str, ...] = ()
    if masks is not None:  # a run evaluates these for comparison, whatever the method asks for
        ends = {0: "the untrained model", full_mask(game.n): "all clients together"}
        besides = tuple(name for mask, name in ends.items() if mask not in of_method)
        masks = list(dict.fromkeys([*masks, *ends]))
    everything = work_of_all(scenario, training)
    if masks is None:
        masks, work, stored = _spread(scenario.n), everything, 0
        passes = everything.passes * game.replicates
    else:
        work = work_of(scenario, training, masks)
        known = _stored(job, masks)
        stored = len(of_method.intersection(*known)) if known else 0
        left = [[mask for mask in masks if mask not in found] for found in known]
        passes = sum(work_of(scenario, training, missing).passes for missing in left)
        passes += work.passes * (game.replicates - len(known))
    models = _put_together(game.n, asked, training.rounds, job.seed)
    speed = seconds_per_pass(scenario, game.learner, training, prepared.device, masks)
    of_all = speed  # many coalitions are faster together than a few
    if coalitions < 1 << scenario.n:
        of_all = seconds_per_pass(scenario, game.learner, training, prepared.device, _spread(scenario.n))
    return DryRun(
        job=job,
        coalitions=coalitions,
        asks=asks,
        stored=stored,
        work=work,
        exact=everything,
        seconds=speed * passes + of_all * models * len(scenario.test),
        exact_seconds=of_all * everything.passes * game.replicates,
        memory=_memory(job, work),
        models=models,
        besides=besides,
    )


def _asked(n: int, asked: Request, seed: int) -> tuple[list[int] | None, int]:
    """The coalitions that the method asks for and in how many steps; None for all of very many."""
    if asked.method.view is not None:
        return [full_mask(n)], 1  # one recorded training of all clients
    if (asked.exact or asked.method.guarantee == "exact") and n > _LARGEST_LISTED:
        return None, 1
    plan, masks, asks, idle = plan_of(n, asked, seed), dict[int, None](), 0, 0
    try:
        ask = next(plan)
        while True:
            new = dict.fromkeys(int(mask) for mask in ask if mask not in masks)
            masks |= new
            asks += bool(new)
            idle = 0 if new else idle + 1
            # With its budget spent, a plan can ask for nothing new: what it makes of it all may take minutes.
            if idle > _MOST_IDLE or len(masks) >= asked.budget:
                plan.close()
                return list(masks), asks
            ask = plan.send(np.array([int(mask).bit_count() / n for mask in ask]))
    except StopIteration:
        return list(masks), asks


def _stored(job: Job, masks: list[int]) -> list[set[int]]:
    """For every replicate, which of these coalitions are in the store; nothing where there is none."""
    game, path = job.prepared.game, job.store_path
    if path is None or not path.exists():
        return []
    with UtilityStore(path, create=False) as store:
        stored = [store.read(game.id, masks, r) for r in range(game.replicates)]
    return [set(outcomes) - set(lacking(game, outcomes)) for outcomes in stored]


class _TraceSketch:
    """Stands in for a recorded run: notes which models a gradient method puts together and evaluates."""

    def __init__(self, n: int, rounds: int) -> None:
        self.n = n
        self.rounds = rounds
        self.weights = np.full(n, 1 / n)
        self.models: set[tuple[int, int]] = set()

    def whole_run(self, masks: Sequence[int]) -> NDArray[np.float64]:
        return self.round(0, masks)

    def round(self, t: int, masks: Sequence[int]) -> NDArray[np.float64]:
        self.models.update((t, mask) for mask in masks)
        return np.array([mask.bit_count() / self.n for mask in masks])

    def loss_drops(self) -> NDArray[np.float64]:
        return np.zeros((self.rounds, self.n))


def _put_together(n: int, asked: Request, rounds: int, seed: int) -> int:
    """How many models a gradient method evaluates besides the training that it records."""
    if asked.method.view is None:
        return 0
    sketch = _TraceSketch(n, rounds)
    asked.method.view(sketch, np.random.default_rng(seed), **asked.options)
    return len(sketch.models)


def _spread(n: int) -> list[int]:
    """Some of all coalitions, for measuring: odd steps, so that every client is in about half of them."""
    step = max(1, (1 << n) // _SPREAD) | 1
    return list(range(1, 1 << n, step))


def _memory(job: Job, work: Work) -> int | None:
    """An upper estimate of what models and data take, for learners that say what a model takes."""
    prepared = job.prepared
    session = prepared.game.learner.session(
        prepared.scenario, prepared.game.training, prepared.device, parse_memory(job.memory)
    )
    if not isinstance(session, Weighed):
        return None
    rows = max(1, work.first_round, min(session.rows, work.per_later_round))
    data = [*prepared.scenario.clients, prepared.scenario.test]
    return session.memory(rows) + sum(part.x.nbytes + part.y.nbytes for part in data)
