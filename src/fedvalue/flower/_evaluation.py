"""Evaluation at the nodes: every model is measured on the rows that each node holds out, in one message round.

What each node measured is a part of the test set with its client's name: who benefits from whose data shows there.
Means are weighted by the numbers of held-out rows. For accuracy, loss and errors per row that is exactly the
metric on all held-out rows together; for the others (F1, AUC, R², balanced accuracy) it is their mean. Blocks of rows
tell how far another sample of them would move it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from fedvalue.errors import InputError, UnavailableError
from fedvalue.flower._arrays import Arrays, rows_of
from fedvalue.flower._blocks import NodeTold, block_count, pooled, why_unknown
from fedvalue.flower._messages import Failure
from fedvalue.flower._nodes import Nodes
from fedvalue.flower._packing import Models, Stacks, num_examples
from fedvalue.flower._wire import (
    CONFIG,
    EVALUATE,
    METRICS,
    ConfigRecord,
    MetricRecord,
    RecordDict,
    WireError,
    count_in,
    from_record,
    metrics_of,
)
from fedvalue.flower._witness import ORIGINS
from fedvalue.learners.metrics import METRICS as METRICS_OF
from fedvalue.outcome import Outcome
from fedvalue.per_row import PerRow

__all__ = ["Measure", "ModelsAtNodes", "StacksAtNodes", "weighted"]

Measure = Callable[[Nodes, Arrays], list[Outcome]]
"""What was measured of every model; an UnavailableError where a node that is needed does not measure."""

_SUMS = frozenset({"correct"})  # metrics that count rows: they are added up, not averaged
# What apps call their metrics, and what we call them.
_USUAL_NAMES = {"eval_acc": "accuracy", "eval_loss": "loss", "accuracy": "accuracy", "loss": "loss"}


@dataclass(frozen=True)
class StacksAtNodes:
    """By our own client app, at all nodes with held-out rows. `told`: the learner can say what blocks of rows say."""

    stacks: Stacks
    told: bool = True

    def __call__(self, nodes: Nodes, models: Arrays) -> list[Outcome]:
        held_out = {i: r.held_out for i, r in enumerate(nodes.roster.reports) if r.held_out}
        told = self.told and why_unknown(held_out.values()) is None
        clients, contents, parts = [], [], []
        for client in held_out:
            start = 0
            for size, content in self.stacks.pack(models, client, 0):
                part = {name: array[start : start + size] for name, array in models.items()}
                settings = cast(ConfigRecord, content[CONFIG])
                settings["blocks"] = told
                if nodes.witness is not None:
                    settings[ORIGINS] = nodes.witness.origins(part)
                clients.append(client)
                contents.append(content)
                parts.append(part)
                start += size
        measured: dict[int, list[dict[str, float]]] = {client: [] for client in held_out}
        blocks: dict[int, list[Arrays]] = {
            client: [] for client in held_out if told and block_count(held_out[client])
        }
        answers = nodes.ask(EVALUATE, clients, contents, 0)
        for client, part, content, answer in zip(clients, parts, contents, answers, strict=True):
            metrics, of_blocks = self._read(nodes, client, part, content, answer, client in blocks)
            measured[client] += metrics
            nodes.roster.tally.metrics[client] += len(metrics)
            if client in blocks:
                blocks[client].append(of_blocks)
        if missing := {c: nodes.lost[c].reason for c in held_out if len(measured[c]) != rows_of(models)}:
            raise UnavailableError(
                f"Models could not be measured: {nodes.roster.called(min(missing))} {missing[min(missing)]}.",
                tuple(missing),
                missing,
            )
        means = weighted(measured, held_out)
        rows = _by_blocks(measured, held_out, blocks) if told else {}
        for client in held_out:
            name = self.stacks.scenario.names[client]
            for of_all, own in zip(means, measured[client], strict=True):
                of_all |= {f"{name}/{metric}": number for metric, number in own.items()}
            if client in blocks:
                said = _by_blocks({client: measured[client]}, {client: held_out[client]}, blocks)
                rows |= {f"{name}/{metric}": of_models for metric, of_models in said.items()}
        return [
            Outcome(metrics, rows={name: of_models[model] for name, of_models in rows.items()})
            for model, metrics in enumerate(means)
        ]

    def _read(
        self,
        nodes: Nodes,
        client: int,
        part: Arrays,
        question: RecordDict,
        answer: RecordDict | Failure,
        told: bool,
    ) -> tuple[list[dict[str, float]], Arrays]:
        """The metrics of every model and, where they are wanted, its blocks; nothing from a client that is lost by it."""
        if not isinstance(answer, Failure):
            try:
                self.stacks.check(answer, 0)
                report = nodes.roster.reports[client]
                held_out = report.held_out
                wanted = tuple(METRICS_OF[self.stacks.scenario.task])
                metrics = _columns(answer, wanted, rows_of(part), held_out)
                blocks = _blocks(answer, metrics, block_count(held_out)) if told else {}
                if nodes.witness is not None:
                    test = held_out, report.held_out_fingerprint
                    nodes.witness.measured(EVALUATE, client, question, answer, part, metrics, blocks, test)
                return metrics, blocks
            except WireError as error:
                answer = Failure(str(error))
        nodes.lose(client, answer, 0)
        return [], {}


def _columns(content: RecordDict, names: Sequence[str], rows: int, held_out: int) -> list[dict[str, float]]:
    record = metrics_of(content)
    if count_in(record, "num-examples") != held_out:
        raise WireError(f"measured on {record['num-examples']} rows; before, it held out {held_out}")
    columns = {}
    for name in names:
        column = record.get(name)
        if not isinstance(column, list) or len(column) != rows:
            raise WireError(f"sent no {name} for each of {rows} models")
        if not all(isinstance(number, float) and math.isfinite(number) for number in column):
            raise WireError(f"sent numbers that are not finite as {name}")
        columns[name] = column
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _blocks(content: RecordDict, metrics: Sequence[Mapping[str, float]], count: int) -> Arrays:
    """What blocks of rows said, by metric, a row for each model; it has to agree with the metric."""
    shape = (len(metrics), count), np.dtype(np.float64)
    blocks = from_record(content, dict.fromkeys(metrics[0], shape))
    for name, numbers in blocks.items():
        reported = np.array([of_model[name] for of_model in metrics])
        apart = np.abs(numbers.mean(1) - reported)
        widest = np.abs(numbers - reported[:, None]).max(1)
        if (apart > 1e-6 * (1 + np.abs(reported) + widest)).any():
            raise WireError(f"sent blocks of rows whose mean is not the {name} that it sent")
    if "accuracy" in blocks and not ((blocks["accuracy"] > -0.5) & (blocks["accuracy"] < 1.5)).all():
        raise WireError("sent blocks of rows with an accuracy that is not between 0 and 1")
    return blocks


def _by_blocks(
    measured: Mapping[int, Sequence[Mapping[str, float]]],
    rows: Mapping[int, int],
    blocks: Mapping[int, Sequence[Arrays]],
) -> dict[str, list[PerRow]]:
    """What the rows of all nodes say about every model, by metric."""
    total = sum(rows.values())
    said: dict[str, list[PerRow]] = {}
    for name in next(iter(measured.values()))[0]:
        nodes = []
        for client, of_models in measured.items():
            factor = total / rows[client] if name in _SUMS else 1.0  # a sum is a mean of such multiples
            metric = factor * np.array([metrics[name] for metrics in of_models])
            parts = [part[name] for part in blocks.get(client, ())]
            nodes.append(NodeTold(rows[client], metric, factor * np.concatenate(parts) if parts else None))
        said[name] = PerRow.of_models(pooled(nodes), total)
    return said


@dataclass(frozen=True)
class ModelsAtNodes:
    """By an app's own evaluate function, at every node. `names` says what it calls accuracy and loss.

    `sizes` are the numbers of examples that clients measure on; they must not change any more.
    """

    models: Models
    names: Mapping[str, str] | None = None
    sizes: dict[int, int] = field(default_factory=dict)

    def __call__(self, nodes: Nodes, models: Arrays) -> list[Outcome]:
        clients, count = range(len(nodes.roster.nodes)), rows_of(models)
        contents = [content for client in clients for _, content in self.models.pack(models, client, 0)]
        answers = nodes.ask("evaluate", [c for c in clients for _ in range(count)], contents, 0)
        wanted = self._usual([answer for answer in answers if not isinstance(answer, Failure)])
        measured: dict[int, list[dict[str, float]]] = {client: [] for client in clients}
        for place, answer in enumerate(answers):
            client = place // count
            try:
                examples, metrics = self._read(answer, wanted)
                if examples != self.sizes.setdefault(client, examples):
                    raise WireError(f"measured on {examples} examples; before, on {self.sizes[client]}")
            except WireError as error:
                nodes.lose(client, answer if isinstance(answer, Failure) else Failure(str(error)), 0)
                raise UnavailableError(
                    f"Models could not be measured: {nodes.roster.called(client)} {error}.",
                    (client,),
                    {client: str(error)},
                ) from error
            measured[client].append(metrics)
            nodes.roster.tally.metrics[client] += 1
        if not any(self.sizes.values()):
            raise InputError(
                "The nodes measured models on no examples at all. Give `evaluate`, a test on the server."
            )
        return [Outcome(metrics) for metrics in weighted(measured, self.sizes)]

    def _usual(self, answers: Sequence[RecordDict]) -> frozenset[str]:
        """The metrics that most replies have: one that lacks some of them is the odd one out."""
        names = self.names or _USUAL_NAMES
        sent = [set(record) for answer in answers if isinstance(record := answer.get(METRICS), MetricRecord)]
        known = Counter(frozenset(names[theirs] for theirs in one if theirs in names) for one in sent)
        return max(known, key=lambda usual: (known[usual], len(usual)), default=frozenset())

    def _read(self, answer: RecordDict | Failure, wanted: frozenset[str]) -> tuple[int, dict[str, float]]:
        names = self.names or _USUAL_NAMES
        if isinstance(answer, Failure):
            raise WireError(answer.reason)
        record = metrics_of(answer)
        metrics = {ours: record[theirs] for theirs, ours in names.items() if theirs in record}
        if not metrics:
            raise WireError(f"sent none of the metrics {sorted(names)}, only {sorted(record)}")
        if not all(isinstance(v, (int, float)) and math.isfinite(v) for v in metrics.values()):
            raise WireError("sent metrics that are not finite numbers")
        if missing := wanted - set(metrics):
            raise WireError(f"sent no {', '.join(sorted(missing))}, as the others did")
        return num_examples(answer), {name: float(metrics[name]) for name in sorted(wanted)}


def weighted(
    measured: Mapping[int, Sequence[Mapping[str, float]]], rows: Mapping[int, int]
) -> list[dict[str, float]]:
    """Per model the mean of what the clients measured, weighted by their rows; counts are added up.

    >>> weighted({0: [{"accuracy": 1.0}], 1: [{"accuracy": 0.5}]}, {0: 10, 1: 30})
    [{'accuracy': 0.625}]
    """
    clients = list(measured)
    share = np.array([rows[client] for client in clients]) / sum(rows[client] for client in clients)
    ones = np.ones(len(clients))
    return [
        {
            name: float(np.dot(ones if name in _SUMS else share, [metrics[name] for metrics in of_model]))
            for name in of_model[0]
        }
        for of_model in zip(*measured.values(), strict=True)
    ]
