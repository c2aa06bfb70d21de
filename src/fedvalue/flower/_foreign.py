"""Federations whose client app knows nothing of us: trained by the usual messages, one model in each.

Such an app does not say what data it has. Its clients are its nodes, told apart by registered keys or names; the
sizes of their data come with their first replies; what the game is called is up to the user.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from logging import INFO
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.common import log as flower_log
from numpy.typing import NDArray

from fedvalue._checks import whole
from fedvalue._text import plural
from fedvalue.errors import FedvalueError, InputError, UnavailableError
from fedvalue.flower._arrays import Arrays, finite_rows, rows_of
from fedvalue.flower._checkpoint import Checkpoint, Checkpoints, Key, checkpoint_folder
from fedvalue.flower._evaluation import ModelsAtNodes
from fedvalue.flower._foreign_nodes import NodeRoster, in_fixed_order, wait_for
from fedvalue.flower._forms import Form
from fedvalue.flower._limits import Watch
from fedvalue.flower._messages import Grid
from fedvalue.flower._nodes import Nodes
from fedvalue.flower._packing import Models
from fedvalue.flower._plan import foreseen
from fedvalue.flower._registered import Directory, RegisteredClient, read_roster
from fedvalue.flower._reports import ClientReport, remote_scenario
from fedvalue.flower._results import left_in
from fedvalue.flower._roster import Roster
from fedvalue.flower._session import FlowerSession
from fedvalue.flower._settings import quorum_of
from fedvalue.flower._trainer import FlowerTrainer
from fedvalue.flower._valuation import Valuation
from fedvalue.flower._wire import ArrayRecord, to_record
from fedvalue.games import EmptyLike, FederatedGame
from fedvalue.run import STORE_FILE
from fedvalue.scenarios import Scenario
from fedvalue.store import fingerprint
from fedvalue.training import Learner, Training, first_round
from fedvalue.values import Values

__all__ = ["ForeignApp", "ForeignTrainer", "value_foreign"]

Evaluate = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, float]]
FlowerEvaluate = Callable[[int, ArrayRecord], Any]  # as the strategies of Flower take it


def value_foreign(
    grid: Grid,
    *,
    clients: int,
    initial: Mapping[str, Any],
    key: str,
    rounds: int,
    config: Mapping[str, Any] | None = None,
    evaluate: Evaluate | FlowerEvaluate | None = None,
    share_all_models: bool = False,
    metrics: Mapping[str, str] | None = None,
    roster: str | Path | None = None,
    method: str = "surrogate",
    budget: int | None = None,
    metric: str = "accuracy",
    empty: EmptyLike = "initial",
    seed: int = 0,
    missing: str = "refuse",
    quorum: int = 0,
    checkpoints: bool = True,
    out: str | Path = "fedvalue-results",
    **options: Any,
) -> Values:
    """Trains coalitions by the usual train messages, one model in each, and values the nodes.

    `initial` is the model to start from (a state_dict, or named arrays), `config` what train messages carry.
    Such an app is told no seed, so every coalition is trained once.

    `evaluate` measures a model on the server: a function of named arrays, or of a round and an ArrayRecord as Flower's
    strategies take it, that returns {"accuracy": …}. Only with `share_all_models=True` may it be left out: the app's own
    evaluate function then measures every model at every node, weighted by its num-examples, `metrics` being its names
    of "accuracy" and "loss". That sends each client the models that others have trained alone.

    `roster` is the roster.json of `fedvalue flower deploy`: clients are then known by their keys. `key` names the game in the
    store: change it when the app or its data change. Clients that are not there after `patience`, or cannot say how much data
    they have, are absent: the others are valued if they are at least `quorum` (0: two). When nodes are lost later, `missing` is
    "refuse" or "use-known", to value the others. `empty` is v(∅): what `initial` reaches, or a number. The folder `out` gets the
    values, a report, the record of the run and every training; beside the store, what is under way is kept after every round
    (`checkpoints`), to go on from if this is killed. Options are those of FlowerTrainer.
    """
    if (evaluate is None) != share_all_models:
        raise InputError(
            "value_foreign needs `evaluate`, a function that measures a model on the server. Only if every client may see every "
            "model, those that another has trained alone among them, can it be left out: share_all_models=True has the "
            "nodes measure instead. Give one of the two."
        )
    if empty in ("chance", "majority"):
        raise InputError(
            f"empty={empty!r} needs to know the classes, which an app of one's own does not tell. Choose initial, which is "
            "the model to start from, or a number."
        )
    whole("quorum", quorum, 0, clients)
    told = {"clients": clients, "rounds": rounds, "config": dict(config or {}), "quorum": quorum, "key": key}
    told |= {
        "share_all_models": share_all_models,
        "roster": None if roster is None else str(roster),
        **options,
    }
    valuation = Valuation(
        method=method,
        budget=budget,
        seed=seed,
        missing=missing,
        evaluated_at="nodes" if evaluate is None else "server",
        store=Path(out) / STORE_FILE,
        out=Path(out),
        settings={name: given for name, given in told.items() if not callable(given)},
    )
    arrays = {name: _array(given) for name, given in initial.items()}
    measure = None if evaluate is None else _of_arrays(evaluate, rounds)
    app = ForeignApp(arrays, key, dict(config or {}), measure, metrics)
    incidents: list[str] = []

    def note(incident: str) -> None:
        flower_log(INFO, incident)
        incidents.append(incident)

    with left_in(Path(out), valuation.settings, incidents):
        registered = read_roster(Path(roster)) if roster else ()
        least = quorum_of(quorum, clients)
        kept = Checkpoints(checkpoint_folder(valuation.store), lambda text: flower_log(INFO, text))
        own: dict[str, Any] = {"log": note, "registered": registered, "quorum": least}
        options = {**own, "checkpoints": kept if checkpoints else None, **options}
        trainer = ForeignTrainer(grid, app, clients, **options)
        game = FederatedGame(
            trainer.scenario, app, Training(rounds=rounds), metric=metric, trainer=trainer, empty=empty
        )
        if trainer.seconds_of_round_1 is not None:
            ahead = method, budget, seed, valuation.store, trainer.seconds_of_round_1
            flower_log(INFO, foreseen(game, *ahead))
        values = valuation.run(game, trainer.roster)
        kept.remove()
        return values


def _of_arrays(evaluate: Evaluate | FlowerEvaluate, rounds: int) -> Evaluate:
    """The function as one of named arrays; one of Flower's is told that these are the models of the last round."""
    needed = [one for one in signature(evaluate).parameters.values() if one.default is one.empty]
    if len(needed) < 2:
        return cast(Evaluate, evaluate)
    flowers = cast(FlowerEvaluate, evaluate)
    return lambda model: dict(flowers(rounds, to_record(model)) or {})


def _array(given: Any) -> NDArray[Any]:
    return np.asarray(given.detach().cpu().numpy() if hasattr(given, "detach") else given)


@dataclass(eq=False)
class ForeignApp:
    """What a federation trains with an app of its own: the initial model, and settings for its messages.

    `evaluate` measures a model on the server; without it the nodes do, by the app's evaluate function, and
    `metrics` says what they call accuracy and loss. `key` names the game: change it when the app, its data
    or its settings change in a way that changes results.
    """

    averages = True
    draws = True  # by itself: messages hold no seed, and what came back is not asked for again

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

    def session(
        self, scenario: Scenario, training: Training, device: str, memory: int | None
    ) -> _ArraySession:
        return _ArraySession(self)


class _ArraySession:
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
        models = ({name: array[row] for name, array in stack.items()} for row in range(rows_of(stack)))
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


class ForeignTrainer(FlowerTrainer):
    """A trainer for apps that know nothing of us; `scenario` is what is known of their clients."""

    roster: Roster
    seconds_of_round_1: float | None

    def __init__(
        self,
        grid: Grid,
        app: ForeignApp,
        clients: int,
        *,
        task: str = "classification",
        registered: Sequence[RegisteredClient] = (),
        quorum: int | None = None,
        **options: Any,
    ) -> None:
        directory, patience = Directory(grid, registered), options.get("patience", 120.0)
        least = clients if quorum is None else quorum
        directory.need(least)
        connected = wait_for(directory, clients, patience, least)
        names = in_fixed_order(directory, connected)
        classes = 2 if task == "classification" else 0
        unsized = [_report(app.key, 0, place, name) for place, name in enumerate(names.values())]
        log = options.get("log", lambda text: None)
        roster = NodeRoster(directory, list(names), unsized, (task, classes, 0), log)
        if len(connected) < clients:
            roster.begin_without([directory.place(node) for node in names], clients, patience, {})
        super().__init__(grid, roster, **options)
        self.stage = lambda text: flower_log(INFO, text)
        self.app = app
        self.packing = Models(app.config)
        self.measure: ModelsAtNodes | None = None
        self._first_rounds = self._roll_call(least)
        if app.evaluate is None:
            self.measure = ModelsAtNodes(self.packing, app.metrics)
        sizes, names_of = self.packing.sizes, [report.name for report in roster.reports]
        roster.reports = [_report(app.key, sizes[place], place, name) for place, name in enumerate(names_of)]
        self.scenario = remote_scenario(roster.reports, None, task, classes, name="foreign")

    def _roll_call(self, quorum: int) -> Mapping[Key, Arrays]:
        """Everybody trains round 1, which all coalitions share, and says with it how much data it has.

        Who does not is absent. Returns what was trained.
        """
        roster, checkpoint = self.roster, None
        if self.checkpoints is not None:
            names = [report.name for report in roster.reports]
            initial = _ArraySession(self.app).initial()
            checkpoint = self.checkpoints.of(initial, "round 1", self.app.identity(), names)
            self.packing.sizes.update(checkpoint.sizes)
            checkpoint.sizes = self.packing.sizes  # which replies tell, and no other message
        probe = self._foreign_session({}, checkpoint)
        probe.watch = Watch(self.limits, roster)
        self.stage(f"round 1: {plural(len(roster.nodes), 'client')} train, and say how much data they have")
        began = time.monotonic()
        trained = finite_rows(first_round(probe, [(client, 0) for client in range(len(roster.nodes))]))
        self.seconds_of_round_1 = (
            time.monotonic() - began if roster.rounds else None
        )  # else from a checkpoint
        there = np.flatnonzero(trained).tolist()
        lost = {client: failure.reason for client, failure in probe.nodes.lost.items()}
        if len(there) < quorum:
            told = [f"{roster.called(client)} {reason}" for client, reason in lost.items()]
            raise UnavailableError(
                f"Every client must answer once, to say how much data it has: {'; '.join(told[:6])}. Check its log.",
                tuple(lost),
                lost,
            )
        roster.leave_out(lost)
        places = {client: place for place, client in enumerate(there)}
        sizes = {places[client]: size for client, size in self.packing.sizes.items() if client in places}
        self.packing = replace(self.packing, sizes=sizes)
        lengths = probe.watch.lengths
        self._watch = Watch(self.limits, roster, {places[c]: lengths[c] for c in places if c in lengths})
        kept = ((key, row) for key, row in probe.first_rounds.items() if key[1] in places)
        return {(t, places[client], seed, digest): row for (t, client, seed, digest), row in kept}

    def open_session(
        self, roster: Roster, scenario: Scenario, learner: Learner, training: Training
    ) -> FlowerSession:
        """A session by the usual messages; what is known of round 1 is not asked for again."""
        inner = _ArraySession(self.app)
        return self._foreign_session(
            self._first_rounds, self.checkpoint_of(inner, scenario, learner, training)
        )

    def _foreign_session(
        self, first_rounds: Mapping[Key, Arrays], checkpoint: Checkpoint | None
    ) -> FlowerSession:
        nodes = Nodes(self.roster, self.packing, self.deadline)
        inner = _ArraySession(self.app)
        return FlowerSession(inner, nodes, self.memory, self.measure, first_rounds, checkpoint)


def _report(key: str, size: int, place: int, name: str) -> ClientReport:
    """What is known of a client's data: weights follow from its size, so another size is another game."""
    return ClientReport(
        size, fingerprint(key, name, size)[0], Form("float32 1", "int64"), place, name, 1, "0" * 64
    )
