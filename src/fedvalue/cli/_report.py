"""What `fedvalue run` says besides the table: the game, what stands out, what it cost, what it guarantees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fedvalue.cli._console import count, plural
from fedvalue.cli._cost import Cost, cost_of, cost_of_all, duration, measured_speed
from fedvalue.cli._job import Job
from fedvalue.coalition import full_mask
from fedvalue.outcome import LOWER_IS_BETTER, Outcome
from fedvalue.scenarios.base import Scenario
from fedvalue.store import UtilityStore
from fedvalue.values import Values

__all__ = ["Result", "details", "heading", "make_result", "result_lines"]

_NAMED = 6  # clients in a sentence; more are counted


@dataclass(frozen=True)
class Result:
    """The values, what was trained for them just now, and what all clients and nobody reach."""

    values: Values
    trained_now: int
    cost_now: Cost
    of_all: float
    of_none: float
    exact: Cost
    exact_seconds: float | None

    @property
    def equal_split(self) -> float:
        """What everyone would get if nobody were looked at."""
        return (self.of_all - self.of_none) / self.values.n


def heading(job: Job) -> list[str]:
    """Who the clients are and how they train."""
    scenario, rules = job.scenario, job.game.training
    rows = sum(map(len, scenario.clients))
    repeats = f", {job.game.replicates} replicates" if job.game.replicates > 1 else ""
    return [
        f"{scenario.name}, partition {job.partition}: {scenario.n} clients, {count(rows)} rows to train on, "
        f"{count(len(scenario.test))} to test on.",
        f"{job.model}, {_rules(job)}, seed {rules.seed}{repeats}, on {job.where}.",
        *(f"Note: {warning}" for warning in scenario.details.get("warnings", ())),
    ]


def _rules(job: Job) -> str:
    """How clients train, as far as the model leaves that open."""
    rules = job.game.training
    rounds = f"{rules.rounds} round{'' if rules.rounds == 1 else 's'}"
    if job.model == "least-squares":
        return "solved in closed form"
    if job.model == "xgboost":
        return f"federated bagging with {rounds}"
    if rules.algorithm == "fedsgd":
        return f"fedsgd with {rounds}, rate {rules.rate:g}"
    extra = f", momentum {rules.momentum:g}" if rules.momentum else ""
    extra += f", mu {rules.mu:g}" if rules.mu else ""
    return (
        f"{rules.algorithm} with {rounds} × {rules.epochs} epochs, batch {rules.batch}, {rules.optimizer}, "
        f"rate {rules.rate:g}{extra}"
    )


def _known(job: Job, store: UtilityStore | None, replicate: int = 0) -> dict[int, Outcome]:
    """What was trained in this run or is in the store."""
    now = {mask: outcome for (mask, of), outcome in job.game.trained.items() if of == replicate}
    return now if store is None else {**now, **store.read(job.game.id, None, replicate)}


def make_result(job: Job, store: UtilityStore | None, values: Values) -> Result:
    """Puts the values into proportion; trains all clients together if the method did not."""
    from fedvalue.run import value

    trained_now = len(job.game.trained)
    cost_now = cost_of(job.scenario, job.game.training, {mask for mask, _ in job.game.trained})
    speed = measured_speed(job.scenario, job.game.training, _known(job, store))
    ends = (full_mask(job.scenario.n), 0)
    repeats = range(job.game.replicates)
    known = [_known(job, store, r) for r in repeats]
    if not all(mask in found for found in known for mask in ends):
        value(job.game, "equal", store=store)
        known = [_known(job, store, r) for r in repeats]
    of_all, of_none = (fmean(job.game.utility(found[mask]) for found in known) for mask in ends)
    exact = cost_of_all(job.scenario, job.game.training)
    seconds = None if speed is None else speed * exact.passes * job.game.replicates
    return Result(values, trained_now, cost_now, of_all, of_none, exact, seconds)


def details(job: Job, result: Result) -> dict[str, Any]:
    """What values.json says besides the values."""
    return {
        "metric": job.game.metric,
        "replicates": job.game.replicates,
        "utility_of_all": result.of_all,
        "utility_of_none": result.of_none,
        "equal_split": result.equal_split,
        "trained_now": result.trained_now,
        "exact_trainings": result.exact.trained * job.game.replicates,
        "exact_seconds_estimate": result.exact_seconds,
    }


def result_lines(job: Job, result: Result, guarantee: list[str]) -> list[str]:
    """Everything below the table."""
    values, metric = result.values, job.game.metric
    sign = -1 if metric.rsplit("/", 1)[-1] in LOWER_IS_BETTER else 1
    lines = [
        f"All clients together: {metric} {sign * result.of_all:.4f}; nobody: {sign * result.of_none:.4f}. "
        f"An equal split would give each {result.equal_split:+.4f}."
    ]
    unit = values.details.get("unit")
    if unit is not None and unit != metric:
        lines.append(f"The values of {values.method} are in another unit ({unit}) and do not add up to that.")
    if values.details.get("sampled") is True:
        lines.append(
            "The updates can be put together to too many models to evaluate all: random orders of the clients stand "
            "for them. --option models=NUMBER allows more."
        )
    lines += _stands_out(job.scenario, values)
    lines += _cost_lines(job, result)
    lines += guarantee
    noise = values.details.get("training_noise")
    if noise is not None:
        lines.append(
            f"Training noise: with other random numbers the {metric} of one training varies by {noise:.4f} "
            f"(standard deviation); values rest on the mean of {job.game.replicates} trainings of each coalition."
        )
    return lines


def _cost_lines(job: Job, result: Result) -> list[str]:
    values, replicates, now = result.values, job.game.replicates, result.cost_now
    stored = max(0, values.evaluations * replicates - result.trained_now)
    what = f"{count(values.evaluations)} of {plural(1 << values.n, 'coalition')}"
    if replicates > 1:
        what += f", {replicates} times each"
    if result.trained_now == 0:
        what += ", all from the store"
    elif stored:
        what += f", {count(stored)} from the store and {count(result.trained_now)} trained now"
    else:
        what += f", {plural(now.trained * replicates, 'training')} ({count(now.client_trainings * replicates)} local ones)"
    lines = [f"Cost: {what}, {duration(values.seconds)}."]
    if values.evaluations == 1 << values.n:
        spared = values.evaluations - result.exact.trained - 1
        if spared:
            lines.append(
                f"Clients with the same data, or without any, spared {plural(spared * replicates, 'training')}: "
                "such coalitions are the same training."
            )
    elif result.exact_seconds is not None:
        lines.append(
            f"Exact values would take {plural(result.exact.trained * replicates, 'training')}, about "
            f"{duration(result.exact_seconds)} extrapolated from these, or less: many are faster together."
        )
    return lines


def _stands_out(scenario: Scenario, values: Values) -> list[str]:
    exact = values.guarantee == "exact"
    named = dict(zip(values.names, values.mean.tolist(), strict=True))
    lines = []
    empty = [name for name, data in zip(values.names, scenario.clients, strict=True) if not len(data)]
    if empty:
        lines.append(f"No data: {_with_values(empty, named)}.")
    alike: dict[str, list[str]] = {}
    for name, data in zip(values.names, scenario.clients, strict=True):
        if len(data):
            alike.setdefault(data.fingerprint, []).append(name)
    for names in alike.values():
        if len(names) > 1:
            lines.append(f"Same data: {_with_values(names, named)}.")
    interval = values.interval()
    harmful = [
        name
        for i, name in enumerate(values.names)
        if named[name] < -1e-12 and name not in empty and (exact or interval is None or interval[i, 1] < 0)
    ]
    if harmful:
        surely = "" if exact or interval is not None else " by this estimate, which has no ±"
        lines.append(
            f"Below zero{surely}: {_with_values(harmful, named)}. The others train better models without."
        )
    return lines


def _with_values(names: list[str], values: Mapping[str, float]) -> str:
    shown = ", ".join(f"{name} ({values[name]:+.4f})" for name in names[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
