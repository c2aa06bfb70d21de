"""The dry run of a job: what would be asked, and what that would take, before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._text import count, duration, plural, size
from fedvalue.coalitions import Trial, by_seed, full_mask
from fedvalue.games import Game, lacking
from fedvalue.run._adopt import adoptable
from fedvalue.run._memory import parse_memory
from fedvalue.run._requests import Request, admit, grouped, plan_of
from fedvalue.scenarios import bytes_in
from fedvalue.store import UtilityStore
from fedvalue.trainers import seconds_per_pass
from fedvalue.training import Weighed, Work, work_of_all, work_of_trials

if TYPE_CHECKING:
    from fedvalue.run._job import Job

__all__ = ["DryRun", "dry_run", "planned_trials", "stored_trials"]

_SPREAD = 256
_MOST_IDLE = 100_000  # asks that bring nothing new: a plan that goes on so is stopped when it is run
_LARGEST_LISTED = 16  # clients; all coalitions of more are counted, not listed


@dataclass(frozen=True)
class DryRun:
    """What a run would do. `asks` > 1: the method decides as it goes, and this is one way it may go.

    `work` is what the asked trainings take, `exact` what those of all coalitions would. `models` are those that a gradient
    method puts together from one training, and evaluates. Where trainings are spread over several `seeds`, `coalitions`
    are pairs of a coalition and a seed. `stored` of them are in the store already. `besides` what the method asks for, a
    run evaluates the untrained model and all clients. `luck`: trainings with other seeds by which exact values of one
    seed learn how much of them is luck.

    >>> import fedvalue as fv
    >>> plan = fv.Job("synthetic", clients=4, samples=20, budget=12).plan()
    >>> plan.coalitions, plan.work.trained, plan.exact.trained
    (12, 11, 15)
    """

    job: Job
    coalitions: int
    seeds: int
    asks: int
    stored: int
    work: Work
    exact: Work
    seconds: float
    exact_seconds: float
    memory: int | None
    models: int
    besides: tuple[str, ...] = ()
    luck: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: the record of the run, and its plan."""
        replicates = self.job.prepared.game.replicates
        return {
            **self.job.record(),
            "plan": {
                "coalitions": self.coalitions,
                "seeds": self.seeds,
                "asks": self.asks,
                "besides": list(self.besides),
                "stored": self.stored,
                "luck_trainings": self.luck,
                "trainings": self.work.trained,
                "client_trainings": self.work.client_trainings,
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
        name = self.job.request().method.name
        what = f"{count(self.coalitions)} of {count(everything)} coalitions"
        if self.luck:
            what = f"all {count(everything)} coalitions, and {plural(self.luck, 'training')} with other seeds to see how much "
            what += "is luck (--no-noise: none)"
        elif self.seeds > 1:
            what = f"{plural(self.coalitions, 'training')} of coalitions, spread over {self.seeds} seeds"
        lines = [f"Plan: {name}, {what}{stored}."]
        if self.besides:
            lines.append(f"Also evaluated, for comparison: {' and '.join(self.besides)}.")
        if self.asks > 1:
            lines.append(
                "The method decides as it goes: other utilities may lead it to fewer or other coalitions."
            )
        lines.append(
            f"Trainings: {count(work.trained)}"
            + (f", {game.replicates} for each coalition" if game.replicates > 1 else "")
            + f"; local trainings of clients: {count(work.client_trainings)} ({work.first_round} in round 1, shared by "
            f"{'all of a seed' if self.seeds > 1 or game.replicates > 1 else 'all'}{_later_rounds(work)})."
        )
        if self.models:
            lines.append(f"Models assembled from its updates and evaluated: about {count(self.models)}.")
        shared = ", shared by the workers of Ray" if self.job.backend == "ray" else ""
        lines.append(
            f"Time: about {duration(self.seconds)} on {self.job.prepared.device}{shared}, estimated from a short "
            "measurement."
        )
        if not self.luck and (self.coalitions < everything or self.seeds > 1):
            lines.append(
                f"Exact values{' of one seed' if self.job.one_seed is False else ''}: {count(self.exact.trained * game.replicates)} trainings, about "
                f"{duration(self.exact_seconds)}, estimated in the same way."
            )
        if self.memory is not None:
            limit = parse_memory(self.job.memory)
            bound = "" if limit is None else f", kept below {size(limit)}"
            lines.append(f"Memory: about {size(self.memory)} for models and data{bound}.")
        lines.append("Nothing was run.")
        return lines


def _later_rounds(work: Work) -> str:
    """What every round after the first takes, where there is one."""
    if work.rounds == 1:
        return ""
    where = "round 2" if work.rounds == 2 else f"each of {count(work.rounds - 1)} rounds"
    return f", then {count(work.per_later_round)} in {where}"


def dry_run(job: Job) -> DryRun:
    """Drives the plan with made-up utilities, then trains a small part of the data to measure the time."""
    prepared = job.prepared
    scenario, game, training = prepared.scenario, prepared.game, prepared.game.training
    asked = grouped(job.request(), game.names, job.groups)
    of_method, asks = planned_trials(game, asked, job.budget, job.seed)
    everything = work_of_all(scenario, training)
    ends = {0: "the untrained model", full_mask(game.n): "all clients together"}
    besides: tuple[str, ...] = ()
    if of_method is None:
        masks, seeds, stored, coalitions = _spread(scenario.n), 1, 0, 1 << scenario.n
        work, passes = _times(everything, game.replicates), everything.passes * game.replicates
    else:
        seeds = len({seed for mask, seed in of_method if mask}) or 1
        coalitions = sum(mask > 0 for mask, _ in of_method) if seeds > 1 else len(of_method)
        masks = list(dict.fromkeys(mask for mask, _ in of_method))
        besides = tuple(name for mask, name in ends.items() if mask not in masks)
        trials = [*of_method, *((mask, 0) for mask in ends if mask not in masks)]
        if game.replicates > 1:
            trials = [(mask, replicate) for replicate in range(game.replicates) for mask, _ in trials]
        known = stored_trials(game, job.store_path, trials)
        work = work_of_trials(scenario, training, trials)
        left = [trial for trial in trials if trial not in known]
        passes = (work_of_trials(scenario, training, left) if known else work).passes
        stored = _complete(of_method, known, game.replicates, seeds > 1)
    models = _put_together(game.n, asked, training.rounds, job.seed)
    speed = seconds_per_pass(scenario, game.learner, training, prepared.device, masks)
    of_all = speed  # many coalitions are faster together than a few
    if len(masks) < 1 << scenario.n:
        of_all = seconds_per_pass(scenario, game.learner, training, prepared.device, _spread(scenario.n))
    return DryRun(
        job=job,
        coalitions=coalitions,
        seeds=seeds,
        asks=asks,
        stored=stored,
        work=work,
        exact=everything,
        seconds=speed * passes + of_all * models * len(scenario.test),
        exact_seconds=of_all * everything.passes * game.replicates,
        memory=_memory(job, work),
        models=models,
        besides=besides,
        luck=max(0, coalitions - (1 << game.n) + 1) if asked.exact_of_one_seed and seeds > 1 else 0,
    )


def planned_trials(
    game: Game, asked: Request, budget: int | None, seed: int
) -> tuple[list[Trial] | None, int]:
    """What the method asks for, of one seed or several, and in how many steps; None for all of very many."""
    admit(game, [asked], budget, seed)
    n = game.n
    if asked.method.view is not None:
        return [(full_mask(n), 0)], 1  # one recorded training of all clients
    if (asked.exact or asked.method.guarantee == "exact") and n > _LARGEST_LISTED:
        return None, 1
    plan, trials, asks, idle = plan_of(n, asked, seed), dict[Trial, None](), 0, 0
    try:
        ask = next(plan)
        while True:
            pairs = [trial if isinstance(trial, tuple) else (int(trial), 0) for trial in ask]
            new = dict.fromkeys(trial for trial in pairs if trial not in trials)
            trials |= new
            asks += bool(new)
            idle = 0 if new else idle + 1
            # With its budget spent, a plan can ask for nothing new: what it makes of it all may take minutes.
            spent = len(trials) - ((0, 0) in trials and asked.most_seeds != 1)  # ∅ is not trained
            if idle > _MOST_IDLE or spent >= asked.budget:
                plan.close()
                return list(trials), asks
            ask = plan.send(np.array([mask.bit_count() / n for mask, _ in pairs]))
    except StopIteration:
        return list(trials), asks


def stored_trials(game: Game, path: Path | None, trials: Sequence[Trial]) -> set[Trial]:
    """Which of these are in the store; nothing where there is none."""
    if path is None or not path.exists():
        return set()
    found: set[Trial] = set()
    with UtilityStore(path, create=False) as store:
        for seed, masks in by_seed(trials).items():
            outcomes = store.read(game.id, masks, seed)
            found |= {(mask, seed) for mask in set(outcomes) - set(lacking(game, outcomes))}
        for _, of_kin in adoptable(store, game):
            found |= {(own, seed) for (_, seed), own in of_kin.items()}
    return found


def _complete(asked: list[Trial], known: set[Trial], replicates: int, trained: bool) -> int:
    """How many are known with all their replicates; with several seeds only what is trained counts."""
    return sum(
        all((mask, seed + r) in known for r in range(replicates))
        for mask, seed in asked
        if mask or not trained
    )


def _times(work: Work, replicates: int) -> Work:
    return Work(
        work.coalitions * replicates,
        work.trained * replicates,
        work.first_round * replicates,
        work.per_later_round * replicates,
        work.rounds,
        work.passes * replicates,
    )


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
    return session.memory(rows) + sum(bytes_in(part.x) + part.y.nbytes for part in data)
