"""The plan of a job before anything is trained: what would be asked, and what that would take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.cli._console import count, plural
from fedvalue.cli._cost import Cost, cost_of, cost_of_all, duration, size
from fedvalue.cli._job import Job
from fedvalue.cli._measure import seconds_per_pass
from fedvalue.coalition import full_mask
from fedvalue.estimators import ESTIMATORS
from fedvalue.outcome import UTILITY, Outcome
from fedvalue.run import default_budget, value
from fedvalue.store import UtilityStore

__all__ = ["Plan", "check_method", "make_plan", "plan_lines"]

_LARGEST_EXACT = 25  # clients; more are refused by the run
_SPREAD = 256
_LARGEST_LISTED = 16  # clients; all coalitions of more are counted, not listed


@dataclass(frozen=True)
class Plan:
    """What a run would do. `asks` > 1: the method decides as it goes, and this is one way it may go.

    `models` are those that a gradient method puts together from one training, and evaluates.
    """

    job: Job
    coalitions: int
    asks: int
    stored: int
    cost: Cost
    exact: Cost
    seconds: float
    exact_seconds: float
    memory: int | None
    models: int

    def to_dict(self) -> dict[str, Any]:
        cost = self.cost
        return {
            **self.job.record(),
            "plan": {
                "coalitions": self.coalitions,
                "asks": self.asks,
                "stored": self.stored,
                "trainings": cost.trained * self.job.game.replicates,
                "client_trainings": cost.client_trainings * self.job.game.replicates,
                "first_round": cost.first_round,
                "per_later_round": cost.per_later_round,
                "seconds_estimate": self.seconds,
                "exact_trainings": self.exact.trained * self.job.game.replicates,
                "exact_seconds_estimate": self.exact_seconds,
                "memory_estimate": self.memory,
                "models_put_together": self.models,
            },
        }


class _EnoughError(Exception):
    """The method began to ask, so its name, options and budget are accepted."""


class _Sketch:
    """Stands in for the game: every coalition is answered at once, and who was asked for is noted."""

    replicates = 1
    doubts: tuple[str, ...] = ()
    id = "sketch"

    def __init__(self, names: tuple[str, ...], check: bool = False) -> None:
        self.check = check
        self.names = names
        self.n = len(names)
        self.asks: list[list[int]] = []

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        if self.check:
            raise _EnoughError
        self.asks.append(list(masks))
        for mask in masks:
            yield mask, Outcome({UTILITY: mask.bit_count() / self.n})

    def utility(self, outcome: Outcome) -> float:
        return outcome.metrics[UTILITY]

    def trace_games(self, keep: Any = None) -> Any:
        raise _EnoughError


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


def check_method(job: Job) -> None:
    """Refuses a method, an option or a budget that cannot be, before anything is trained or written."""
    ask, n = job.ask, job.scenario.n
    if _is_exact(job) and _LARGEST_LISTED < n <= _LARGEST_EXACT:
        return  # nothing to refuse, and very many coalitions to list
    method = ESTIMATORS.get(ask.method)
    if method is not None and method.view is not None and not job.game.averages:
        job.game.trace()  # says why there is nothing to record
    with suppress(_EnoughError):
        value(_Sketch(job.scenario.names, check=True), ask.method, ask.budget, ask.seed, **ask.options)


def make_plan(job: Job, store: UtilityStore | None) -> Plan:
    """Drives the method on a stand-in for the game, then trains a small part of it to measure the time."""
    masks, asks = _asked(job)
    scenario, training, replicates = job.scenario, job.game.training, job.game.replicates
    everything = cost_of_all(scenario, training)
    if masks is None:
        masks, cost, coalitions, stored = _spread(scenario.n), everything, 1 << scenario.n, 0
        passes = everything.passes * replicates
    else:
        cost, coalitions = cost_of(scenario, training, masks), len(masks)
        known = [set(store.read(job.game.id, masks, r)) if store else set() for r in range(replicates)]
        stored = len(set.intersection(*known))
        left = [[mask for mask in masks if mask not in found] for found in known]
        passes = sum(cost_of(scenario, training, missing).passes for missing in left)
    models = _put_together(job)
    speed = seconds_per_pass(scenario, job.game.learner, training, job.device, masks)
    of_all = speed  # many coalitions are faster together than a few
    if coalitions < 1 << scenario.n:
        of_all = seconds_per_pass(scenario, job.game.learner, training, job.device, _spread(scenario.n))
    return Plan(
        job=job,
        coalitions=coalitions,
        asks=asks,
        stored=stored,
        cost=cost,
        exact=everything,
        seconds=speed * passes + of_all * models * len(scenario.test),
        exact_seconds=of_all * everything.passes * replicates,
        memory=_memory(job, cost),
        models=models,
    )


def plan_lines(plan: Plan) -> list[str]:
    """The plan in words."""
    job, cost = plan.job, plan.cost
    replicates = job.game.replicates
    stored = f", {count(plan.stored)} of them in the store" if plan.stored else ""
    lines = [
        f"Plan: {job.ask.method}, {count(plan.coalitions)} of {count(1 << job.scenario.n)} coalitions{stored}."
    ]
    if plan.asks > 1:
        lines.append(
            "The method decides as it goes: other utilities may lead it to fewer or other coalitions."
        )
    lines.append(
        f"Trainings: {count(cost.trained * replicates)}"
        + (f", {replicates} for each coalition" if replicates > 1 else "")
        + f"; local trainings of clients: {count(cost.client_trainings * replicates)} ({cost.first_round} in "
        f"round 1, shared by all, then {count(cost.per_later_round)} in each of {plural(cost.rounds - 1, 'round')})."
    )
    if plan.models:
        lines.append(f"Models put together from its updates and evaluated: about {count(plan.models)}.")
    shared = ", shared by the workers of Ray" if job.ask.backend == "ray" else ""
    lines.append(
        f"Time: about {duration(plan.seconds)} on {job.device}{shared}, estimated from a short measurement."
    )
    if plan.coalitions < 1 << job.scenario.n:
        lines.append(
            f"Exact values: {count(plan.exact.trained * replicates)} trainings, about "
            f"{duration(plan.exact_seconds)}, estimated likewise."
        )
    if plan.memory is not None:
        bound = f", kept below {size(job.ask.memory)}" if job.ask.memory else ""
        lines.append(f"Memory: about {size(plan.memory)} for models and data{bound}.")
    lines.append("Nothing was run.")
    return lines


def _asked(job: Job) -> tuple[list[int] | None, int]:
    """The coalitions that the method asks for and in how many steps; None for all of very many."""
    ask, n = job.ask, job.scenario.n
    method = ESTIMATORS.get(ask.method)
    if method is not None and method.view is not None:
        return [full_mask(n)], 1  # one recorded training of all clients
    if _is_exact(job) and n > _LARGEST_LISTED:
        return None, 1
    sketch = _Sketch(job.scenario.names)
    value(sketch, ask.method, ask.budget, ask.seed, **ask.options)
    masks = list(dict.fromkeys(mask for masks in sketch.asks for mask in masks))
    return masks, len(sketch.asks)


def _put_together(job: Job) -> int:
    """How many models a gradient method evaluates besides the training that it records."""
    method = ESTIMATORS.get(job.ask.method)
    if method is None or method.view is None:
        return 0
    sketch = _TraceSketch(job.scenario.n, job.game.training.rounds)
    method.view(sketch, np.random.default_rng(job.ask.seed), **job.ask.options)
    return len(sketch.models)


def _is_exact(job: Job) -> bool:
    """Whether all coalitions are asked for."""
    method, n = ESTIMATORS.get(job.ask.method), job.scenario.n
    budget = default_budget(n) if job.ask.budget is None else job.ask.budget
    return method is not None and (method.guarantee == "exact" or (budget >= 1 << n and not method.fixed))


def _spread(n: int) -> list[int]:
    """Some of all coalitions, for measuring: odd steps, so that every client is in about half of them."""
    step = max(1, (1 << n) // _SPREAD) | 1
    return list(range(1, 1 << n, step))


def _memory(job: Job, cost: Cost) -> int | None:
    """An upper estimate of what models and data take, for learners that say what a model takes."""
    session: Any = job.game.learner.session(job.scenario, job.game.training, job.device, job.ask.memory)
    if not hasattr(session, "memory"):
        return None
    rows = max(1, cost.first_round, min(session.rows, cost.per_later_round))
    data = [*job.scenario.clients, job.scenario.test]
    return int(session.memory(rows)) + sum(part.x.nbytes + part.y.nbytes for part in data)
