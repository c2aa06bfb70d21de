"""Federations whose client app knows nothing of us: trained by the usual messages, one model in each.

Such an app does not say what data it has. Its clients are its nodes, told apart by their registered names or
ids; the sizes of their data come with their first replies; what the game is called is up to the user.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import FedvalueError, InputError, UnavailableError
from fedvalue.identity import fingerprint
from fedvalue.learners.base import Learner
from fedvalue.scenarios.base import Scenario
from fedvalue.trainers.flower import FlowerTrainer
from fedvalue.trainers.flower_clients import Report, remote_scenario
from fedvalue.trainers.flower_evaluation import weighted
from fedvalue.trainers.flower_grid import Failure, Grid
from fedvalue.trainers.flower_nodes import Roster
from fedvalue.trainers.flower_session import FlowerSession, finite_rows
from fedvalue.trainers.flower_stacks import Models, num_examples
from fedvalue.trainers.flower_wire import METRICS, Arrays, MetricRecord, RecordDict, WireError, metrics_of
from fedvalue.training import Training, first_round

__all__ = ["ForeignApp", "ForeignTrainer"]

Evaluate = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, float]]

# What apps call their metrics, and what we call them.
_NAMES = {"eval_acc": "accuracy", "eval_loss": "loss", "accuracy": "accuracy", "loss": "loss"}
_LOOK_SECONDS = 0.5


@dataclass(eq=False)
class ForeignApp:
    """What a federation trains with an app of its own: the initial model, and settings for its messages.

    `evaluate` measures a model on the server; without it the nodes do, by the app's evaluate function, and
    `metrics` says what they call accuracy and loss. `key` names the game: change it when the app, its data
    or its settings change in a way that changes results.
    """

    averages = True

    initial: Mapping[str, NDArray[Any]]
    key: str
    config: Mapping[str, Any] = field(default_factory=dict)
    evaluate: Evaluate | None = None
    metrics: Mapping[str, str] | None = None

    def identity(self) -> Mapping[str, Any]:
        start = fingerprint(dict(self.initial))[0]
        where = "nodes" if self.evaluate is None else "server"
        named = {"metrics": dict(self.metrics)} if self.evaluate is None and self.metrics else {}
        return {"app": self.key, "initial": start, "config": dict(self.config), "evaluate": where, **named}

    def session(self, scenario: Scenario, training: Training, device: str, memory: int | None) -> _Algebra:
        return _Algebra(self)


class _Algebra:
    """The server's side of a session: stacks of NumPy arrays, whole numbers (counters) among them."""

    device = "cpu"
    rows = 1

    def __init__(self, app: ForeignApp) -> None:
        self.app = app

    def initial(self) -> Arrays:
        return {name: np.asarray(array)[None].copy() for name, array in self.app.initial.items()}

    def take(self, stack: Arrays, rows: Sequence[int]) -> Arrays:
        return {name: array[np.asarray(rows, np.intp)] for name, array in stack.items()}

    def local(self, stack: Arrays, owners: Sequence[int], t: int) -> Arrays:
        raise FedvalueError("The data of these clients is at their nodes.")

    def average(self, stack: Arrays, groups: Sequence[int], weights: Sequence[float]) -> Arrays:
        mixing = np.zeros((max(groups, default=-1) + 1, len(groups)))
        mixing[groups, np.arange(len(groups))] = weights
        return {name: _mixed(mixing, array) for name, array in stack.items()}

    def evaluate(self, stack: Arrays) -> list[dict[str, float]]:
        assert self.app.evaluate is not None
        count = len(next(iter(stack.values())))
        models = ({name: array[row] for name, array in stack.items()} for row in range(count))
        return [{name: float(v) for name, v in self.app.evaluate(model).items()} for model in models]

    def step(self, models: Arrays, before: Arrays, after: Arrays, weights: NDArray[np.float64]) -> Arrays:
        return {
            name: (start + np.tensordot(weights, after[name] - before[name], 1)).astype(start.dtype)
            for name, start in models.items()
        }

    def loss_drops(self, before: Arrays, after: Arrays) -> list[float]:
        raise InputError(
            "DIG-FL needs the gradient of the test loss, which an app of one's own does not give."
        )


def _mixed(mixing: NDArray[np.float64], array: NDArray[Any]) -> NDArray[Any]:
    """Only rows that count are added: 0 · NaN of another coalition is NaN."""
    flat = array.reshape(len(array), -1).astype(np.float64)
    total = np.stack([weights[weights > 0] @ flat[weights > 0] for weights in mixing])
    total = total if array.dtype.kind == "f" else np.rint(total)
    return total.reshape(-1, *array.shape[1:]).astype(array.dtype)


class _Nodes(Roster):
    """Clients that are told apart by their nodes: one that is listed again is back."""

    def find_again(self, lost: Collection[int], seconds: float) -> set[int]:
        ends = time.monotonic() + seconds
        while True:
            back = {client for client in lost if self.nodes[client] in set(self.grid.get_node_ids())}
            if back == set(lost) or time.monotonic() >= ends:
                return back
            time.sleep(min(_LOOK_SECONDS, max(0.0, ends - time.monotonic())))


class ForeignTrainer(FlowerTrainer):
    """A trainer for apps that know nothing of us; `scenario` is what is known of their clients."""

    def __init__(
        self, grid: Grid, app: ForeignApp, clients: int, *, task: str = "classification", **options: Any
    ) -> None:
        nodes = _listed(grid, clients, options.get("patience", 120.0))
        super().__init__(grid, _Nodes(grid, nodes, [], options.get("log", lambda text: None)), **options)
        assert self.roster is not None
        self.app = app
        self.packing = Models(app.config)
        self.measured: dict[int, int] = {}  # on how many examples a client evaluates; fixed, as sizes are
        self.probe = self._foreign_session(self.roster)
        first = first_round(self.probe, range(clients))  # kept: it is the first round of every coalition
        if not finite_rows(first).all():
            told = {client: failure.reason for client, failure in self.probe.lost.items()}
            raise UnavailableError(
                f"Every client must answer once, to say how much data it has: {told}. Check its log.",
                tuple(told),
                told,
            )
        names = _names(grid, self.roster.nodes)
        self.roster.reports = [
            _report(app.key, self.packing.sizes[i], i, name) for i, name in enumerate(names)
        ]
        self.scenario = remote_scenario(
            self.roster.reports, None, task, 2 if task == "classification" else 0, name="foreign"
        )

    def _session(
        self, scenario: Scenario, learner: Learner, training: Training, roster: Roster
    ) -> FlowerSession:
        session = self._foreign_session(roster)
        session.remembered.first.update(self.probe.remembered.first)
        return session

    def _foreign_session(self, roster: Roster) -> FlowerSession:
        names = self.app.metrics or _NAMES
        evaluation = (
            partial(_at_nodes, names=names, rows=self.measured) if self.app.evaluate is None else None
        )
        return FlowerSession(_Algebra(self.app), roster, self.packing, self.deadline, self.memory, evaluation)


def _report(key: str, size: int, place: int, name: str) -> Report:
    """What is known of a client's data: weights follow from its size, so another size is another game."""
    return Report(size, fingerprint(key, name, size)[0], (1,), place, name, 1, "0" * 64)


def _at_nodes(
    session: FlowerSession, models: Arrays, names: Mapping[str, str], rows: dict[int, int]
) -> list[dict[str, float]]:
    """Every model at every node, by the app's own evaluate function: one message round."""
    clients = range(len(session.roster.nodes))
    count = len(next(iter(models.values())))
    contents = [content for client in clients for _, content in session.packing.pack(models, client, 0)]
    answers = session.send("evaluate", [c for c in clients for _ in range(count)], contents, 0)
    found: dict[int, list[dict[str, float]]] = {client: [] for client in clients}
    wanted = _usual([answer for answer in answers if not isinstance(answer, Failure)], names)
    for place, answer in enumerate(answers):
        client = place // count
        try:
            examples, metrics = _measured(answer, names, wanted)
            if examples != rows.setdefault(client, examples):
                raise WireError(f"measured on {examples} examples; before, on {rows[client]}")
        except WireError as error:
            session.lose(client, answer if isinstance(answer, Failure) else Failure(str(error)), 0)
            raise UnavailableError(
                f"Models could not be measured: client {client} {error}.", (client,), {client: str(error)}
            ) from error
        found[client].append(metrics)
    if not any(rows.values()):
        raise InputError(
            "The nodes measured models on no examples at all. Give `evaluate`, a test on the server."
        )
    return weighted(found, rows)


def _usual(answers: Sequence[RecordDict], names: Mapping[str, str]) -> frozenset[str]:
    """The metrics that most replies have: one that lacks some of them is the odd one out."""
    sent = [set(record) for answer in answers if isinstance(record := answer.get(METRICS), MetricRecord)]
    known = Counter(frozenset(names[theirs] for theirs in one if theirs in names) for one in sent)
    return max(known, key=lambda usual: (known[usual], len(usual)), default=frozenset())


def _measured(
    answer: RecordDict | Failure, names: Mapping[str, str], wanted: frozenset[str]
) -> tuple[int, dict[str, float]]:
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


def _listed(grid: Grid, clients: int, seconds: float) -> list[int]:
    """The nodes, in a fixed order, once there are as many as expected."""
    ends = time.monotonic() + seconds
    while len(nodes := sorted(grid.get_node_ids())) < clients:
        if time.monotonic() >= ends:
            raise FedvalueError(
                f"Expected {clients} nodes; {len(nodes)} are connected after {seconds:.0f} s. Start the others."
            )
        time.sleep(_LOOK_SECONDS)
    if len(nodes) > clients:
        raise InputError(f"Expected {clients} nodes; {len(nodes)} are connected. Say clients={len(nodes)}.")
    names = dict(zip(nodes, _names(grid, nodes), strict=True))
    return sorted(nodes, key=lambda node: names[node])


def _names(grid: Grid, nodes: Sequence[int]) -> list[str]:
    """The names under which nodes were registered, or their ids."""
    listed = {info.node_id: info.name for info in grid.get_nodes()} if hasattr(grid, "get_nodes") else {}
    names = [listed.get(node) or f"node-{node}" for node in nodes]
    return names if len(set(names)) == len(names) else [f"node-{node}" for node in nodes]
