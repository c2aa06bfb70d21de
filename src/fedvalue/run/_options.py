"""The options of `fv.run`, for editors and type checkers: those of a `Job` but the scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict

from fedvalue.agreement import Agreement
from fedvalue.games import EmptyLike
from fedvalue.learners.losses import LossLike
from fedvalue.learners.metrics import MetricLike, Metrics
from fedvalue.run._methods import MethodLike
from fedvalue.training import Learner

__all__ = ["JobOptions"]


class JobOptions(TypedDict, total=False):
    """See `Job`."""

    clients: int | None
    partition: str | None
    samples: int | None
    scenario_options: Mapping[str, Any]
    data_dir: str | PathLike[str] | None
    label: str | None
    test: str | None
    model: str | Learner | Callable[..., Any] | None
    model_options: Mapping[str, Any]
    rounds: int | None
    epochs: int | None
    batch: int | None
    rate: float | None
    optimizer: str | None
    momentum: float | None
    algorithm: str | None
    mu: float | None
    weights: str | None
    max_share: float | None
    weight_decay: float | None
    optimizer_options: str | Mapping[str, Any] | None
    schedule: str | None
    warmup: int | None
    decay: float | None
    decay_every: int | None
    clip: float | None
    accumulate: int | None
    class_weights: str | Mapping[int, float] | None
    precision: str | None
    loss: LossLike | None
    metric: MetricLike | None
    metrics: Metrics
    retrain: bool
    empty: EmptyLike
    replicates: int
    method: MethodLike
    budget: int | None
    seeds: int | None
    own_seeds: bool
    min_coalition: int
    options: Mapping[str, Any]
    groups: Mapping[str, Sequence[str]] | None
    seed: int
    device: str
    memory: int | str | None
    checkpoint: float | None
    backend: str
    address: str | None
    workers: int | None
    cpus_per_task: float | None
    gpus_per_task: float | None
    store: str | PathLike[str] | None
    out: str | PathLike[str] | None
    overwrite: bool
    consortium: str | None
    period: str | None
    date: str | None
    operator: str | None
    agreement: str | PathLike[str] | Agreement | None
