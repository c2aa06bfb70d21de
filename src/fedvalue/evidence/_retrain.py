"""Some coalitions trained again, drawn at random: only who trained what the store says can have these numbers."""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedvalue._files import json_ready
from fedvalue._text import one_line, plural
from fedvalue.coalitions import Trial
from fedvalue.errors import FedvalueError, InputError
from fedvalue.evidence._verdict import Check, sound, unchecked, undecided, wrong
from fedvalue.games import evaluate_trials
from fedvalue.outcome import of_model
from fedvalue.per_row import PerRow
from fedvalue.run import RULES, Job
from fedvalue.store import StoreUntil, UtilityStore
from fedvalue.trainers import choose_device
from fedvalue.values import Values

__all__ = ["job_of", "trained_again"]

_WHAT = "Trainings made again"
_ROUNDING = 1e-6  # relative, as stores take two trainings for the same
# What other versions or another kind of device may explain: a thousandth, or one test row that is answered otherwise.
_VERSIONS = 1e-3
# Of what test rows differ by: they are kept in two bytes each; and what other versions may explain.
_SPREAD, _OTHER_SPREAD = 0.02, 0.5
_ROWS = {"accuracy": 1, "balanced_accuracy": 3, "f1": 3, "auc": 3}  # rare classes weigh more
_OF_THE_GAME = ("training", "learner", "scenario", "replicates")
_SAME = ("numpy", "torch", "scikit-learn")


def trained_again(
    values: Values,
    record: Mapping[str, Any] | None,
    store: UtilityStore,
    job: Job,
    count: int,
    seed: int | None,
) -> Iterator[Check]:
    """Trains so many of the coalitions in the store, and compares all their metrics and what test rows say of them."""
    seed = secrets.randbits(32) if seed is None else seed
    try:
        game = job.prepared.game
    except FedvalueError as error:
        yield undecided(_WHAT, f"the data of the run cannot be read here: {error}")
        return
    if game.id != values.game_id:
        told = f"the data, model or rules here give the game {game.id}, not {values.game_id}"
        changed = list(_other_than(record or {}, job.record()))
        yield wrong(_WHAT, f"{told}. By run.json it was: {'; '.join(changed[:4])}" if changed else told)
        return
    rows = (1 << 62) if values.chain is None else values.chain.rows
    kept = StoreUntil(store, game.id, rows)
    known = sorted({(int(r["mask"], 16), r["replicate"]) for r in kept.rows(game.id) if r["mask"] != "0"})
    drawn = random.Random(seed).sample(known, min(count, len(known)))
    apart, exactly, lies = list[str](), 0, False
    for (mask, replicate), outcome in evaluate_trials(game, drawn):
        before = kept.read(game.id, [mask], replicate)[mask]
        stored, now = of_model(before.metrics), of_model(outcome.metrics)
        shared = stored.keys() & now.keys()
        spread, of_rows = _most_apart(before.rows, outcome.rows, shared)
        exactly += bool(shared) and all(stored[name] == now[name] for name in shared) and not spread
        gaps = {name: abs(stored[name] - now[name]) for name in shared}
        if not shared:
            apart.append(f"{_called((mask, replicate), game.names)} has no metric in common")
            lies = True
        elif any(gap > _ROUNDING * max(1e-3, abs(stored[name])) for name, gap in gaps.items()):
            worst = max(gaps, key=lambda name: gaps[name])
            lies |= any(
                gap > _may_differ(name, stored[name], _rows(name, values, job)) for name, gap in gaps.items()
            )
            apart.append(
                f"{_called((mask, replicate), game.names)}: {worst} {now[worst]:.6g}, stored {stored[worst]:.6g}"
            )
        if spread > _SPREAD:
            lies |= spread > _OTHER_SPREAD
            apart.append(
                f"{_called((mask, replicate), game.names)}: test rows say something else of {of_rows}"
            )
    told = f"{plural(len(drawn), 'coalition')} of {len(known)}, drawn with the seed {seed}"
    if not apart:
        how = (
            "all to the last bit"
            if exactly == len(drawn)
            else f"{exactly} to the last bit, the others up to rounding"
        )
        yield sound(_WHAT, f"{told}: {how}")
    elif not lies and (other := _elsewhere(record, job)):
        yield unchecked(
            _WHAT,
            f"{told}: {'; '.join(apart[:4])}. The run was made with {other}: trainings there may differ by this much. Repeat "
            "this check with the same versions and device",
        )
    else:
        yield wrong(_WHAT, f"{told}: {'; '.join(apart[:4])}")


def _other_than(record: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """What of the record, as far as it is told there, is otherwise in this job."""
    for name in _OF_THE_GAME if not path else [name for name in record if name in now]:
        was, here = record.get(name), now.get(name)
        if isinstance(was, Mapping) and isinstance(here, Mapping):
            yield from _other_than(was, here, f"{path}{name}.")
        elif name in record and name in now and json_ready(was) != json_ready(here):
            yield f"{path}{name} {one_line(str(was))[:80]}, not {one_line(str(here))[:80]}"


def _most_apart(
    stored: Mapping[str, PerRow], now: Mapping[str, PerRow], names: Collection[str]
) -> tuple[float, str]:
    """What test rows said of which metric is farthest from what they say now. Intervals rest on it."""
    there = [name for name in sorted(names) if name in stored and name in now]
    return max(((_apart(stored[name], now[name]), name) for name in there), default=(0.0, ""))


def _apart(stored: PerRow, now: PerRow) -> float:
    """The distance as a part of what the rows differ by."""
    if stored == now:
        return 0.0
    if (stored.length, stored.rows) != (now.length, now.rows):
        return math.inf
    numbers, gap = now.array(), stored.array() - now.array()
    size = float(np.linalg.norm(numbers - numbers.mean()))
    if not size:
        return 0.0 if np.allclose(gap, 0.0, atol=_VERSIONS * float(np.abs(numbers).max())) else math.inf
    return float(np.linalg.norm(gap)) / size


def _may_differ(name: str, stored: float, rows: int | None) -> float:
    """How far other versions may be from a number; whatever versions a record claims."""
    metric = name.rpartition("/")[2]
    if metric == "correct":
        return max(1.0, _VERSIONS * stored)
    by_rows = _ROWS.get(metric, 3 if "#" in metric else 0) / rows if rows else 0.0  # #: a metric of one's own
    scale = 1.0 if metric == "r2" else max(1e-3, abs(stored))  # r2 may be near 0 by itself
    return max(_VERSIONS * scale, by_rows) + 1e-9


def _rows(name: str, values: Values, job: Job) -> int | None:
    """How many test rows a metric is of: part/metric is of a part."""
    parts = job.prepared.scenario.test_parts
    part = name.rpartition("/")[0]
    return len(parts[part]) if part in parts else values.test_rows


def _called(trial: Trial, names: tuple[str, ...]) -> str:
    mask, seed = trial
    who = [name for i, name in enumerate(names) if mask >> i & 1]
    return f"{{{', '.join(who[:4])}{', …' if len(who) > 4 else ''}}} (seed {seed})"


def _elsewhere(record: Mapping[str, Any] | None, job: Job) -> str:
    """What was different where the run was made, as far as it is recorded."""
    if record is None:
        return "versions that nobody recorded"
    then, now = record.get("versions") or {}, job.record()["versions"]
    other = [f"{name} {then[name]}" for name in _SAME if name in then and then[name] != now.get(name)]
    device = job.record()["device"]
    other += [f"device {record['device']}" for _ in (0,) if record.get("device") not in (None, device)]
    return ", ".join(other)


def _device(told: object) -> str:
    """The kind of device of the run where there is one here, or else the best that there is."""
    try:
        return choose_device(str(told)) if told else "auto"
    except FedvalueError:
        return "auto"


def job_of(record: Mapping[str, Any] | None, data_dir: Path | None) -> Job:
    """The job of a record, for a scenario that has a name; with the data of whoever checks."""
    told = record or {}
    scenario, asked = dict(told.get("scenario") or {}), dict(told.get("asked") or {})
    rules = {name: rule for name, rule in (told.get("training") or {}).items() if name != "seed"}
    strange = [name for name in rules if name not in RULES]
    if strange:
        raise InputError(
            f"The record has a rule of training that fedvalue does not know: {one_line(strange[0])}."
        )
    names = scenario.get("clients") or []
    return Job(
        scenario.get("name"),
        clients=None if scenario.get("name") == "files" else len(names),
        partition=scenario.get("partition"),
        samples=scenario.get("samples"),
        test=scenario.get("tested"),
        scenario_options=scenario.get("options") or {},
        data_dir=data_dir if data_dir is not None else scenario.get("data_dir"),
        model=told.get("model"),
        model_options=told.get("model_options") or {},
        loss=asked.get("loss"),
        metric=asked.get("metric") or told.get("metric"),
        replicates=told.get("replicates", 1),
        empty=told.get("empty", "initial"),
        method=asked.get("method") or told.get("method", "surrogate"),
        budget=told.get("budget"),
        options=told.get("options") or {},
        seed=told.get("seed", 0),
        device=_device(told.get("device")),
        **{name: rule for name, rule in rules.items() if rule != 0.0},
    )
