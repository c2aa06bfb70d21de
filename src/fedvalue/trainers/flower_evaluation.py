"""Evaluation at the nodes: every model is measured on the rows that each node holds out.

Means are weighted by the numbers of held-out rows. For accuracy, loss and errors per row that is exactly the
metric on all held-out rows together; for the others (F1, AUC, R², balanced accuracy) it is their mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fedvalue.errors import UnavailableError
from fedvalue.outcome import METRICS as METRICS_OF
from fedvalue.trainers.flower_grid import Failure
from fedvalue.trainers.flower_session import FlowerSession
from fedvalue.trainers.flower_stacks import Stacks
from fedvalue.trainers.flower_wire import EVALUATE, Arrays, RecordDict, WireError, metrics_of, whole

__all__ = ["AtNodes", "weighted"]

_SUMS = frozenset({"correct"})  # metrics that count rows: they are added up, not averaged


class AtNodes:
    """Asks all nodes with held-out rows to measure a stack; one message round."""

    def __init__(self, stacks: Stacks) -> None:
        self.stacks = stacks

    def __call__(self, session: FlowerSession, models: Arrays) -> list[dict[str, float]]:
        held_out = {i: r.held_out for i, r in enumerate(session.roster.reports) if r.held_out}
        count = len(next(iter(models.values())))
        clients, contents, sizes = [], [], []
        for client in held_out:
            for size, content in self.stacks.pack(models, client, 0):
                clients.append(client)
                contents.append(content)
                sizes.append(size)
        found: dict[int, list[dict[str, float]]] = {client: [] for client in held_out}
        answers = session.send(EVALUATE, clients, contents, 0)
        for client, size, answer in zip(clients, sizes, answers, strict=True):
            found[client] += self._read(session, client, size, answer)
        if missing := {c: session.lost[c].reason for c in held_out if len(found[c]) != count}:
            raise UnavailableError(
                f"Models could not be measured: client {min(missing)} {missing[min(missing)]}.",
                tuple(missing),
                missing,
            )
        return weighted(found, held_out)

    def _read(
        self, session: FlowerSession, client: int, rows: int, answer: RecordDict | Failure
    ) -> list[dict[str, float]]:
        if not isinstance(answer, Failure):
            try:
                self.stacks.check(answer, 0)
                held_out = session.roster.reports[client].held_out
                return _metrics(answer, METRICS_OF[self.stacks.scenario.task], rows, held_out)
            except WireError as error:
                answer = Failure(str(error))
        session.lose(client, answer, 0)
        return []


def _metrics(content: RecordDict, names: Sequence[str], rows: int, held_out: int) -> list[dict[str, float]]:
    record = metrics_of(content)
    if whole(record, "num-examples") != held_out:
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


def weighted(
    found: Mapping[int, Sequence[Mapping[str, float]]], rows: Mapping[int, int]
) -> list[dict[str, float]]:
    """Per model the mean of what the clients found, weighted by their rows; counts are added up.

    >>> weighted({0: [{"accuracy": 1.0}], 1: [{"accuracy": 0.5}]}, {0: 10, 1: 30})
    [{'accuracy': 0.625}]
    """
    clients = list(found)
    share = np.array([rows[client] for client in clients]) / sum(rows[client] for client in clients)
    return [
        {
            name: float(
                np.dot(np.ones(len(clients)) if name in _SUMS else share, [m[name] for m in of_model])
            )
            for name in of_model[0]
        }
        for of_model in zip(*found.values(), strict=True)
    ]
