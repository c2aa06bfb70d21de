"""The server's side: a Flower ServerApp that values the clients of its federation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from logging import INFO
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.common import log
from flwr.serverapp import Grid, ServerApp

from fedvalue.errors import InputError, UnavailableError
from fedvalue.federation import FederatedGame
from fedvalue.flower.rest import value_of_those_who_answer
from fedvalue.flower.settings import ERROR_FILE, VALUES_FILE, Settings
from fedvalue.run import value
from fedvalue.scenarios.base import Dataset
from fedvalue.store import UtilityStore
from fedvalue.trainers.flower import FlowerTrainer
from fedvalue.trainers.flower_clients import remote_scenario
from fedvalue.trainers.flower_nodes import Roster
from fedvalue.values import Values

__all__ = ["Task", "server_app", "value_federation", "write_values"]


@dataclass(frozen=True)
class Task:
    """What the server knows of the task: the kind, and the test rows unless the nodes hold them out."""

    kind: str
    classes: int
    test: Dataset | None = None
    vocabulary: int = 0
    parts: Mapping[str, Any] = field(default_factory=dict)


def server_app(
    load: Callable[[Context], Task],
    model: str | Callable[..., Any] | None = None,
    own_settings: tuple[str, ...] = (),
) -> ServerApp:
    """A ServerApp that values its clients as the run configuration says and writes values.json.

    `load` gives the test set and the task. `model` is a model of one's own, the same as on the nodes; None
    takes the name in the run configuration. `own_settings` are further keys of that configuration.
    """
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        settings = Settings.from_config(context.run_config, own_settings)
        settings.out.mkdir(parents=True, exist_ok=True)
        for old in (VALUES_FILE, ERROR_FILE):
            (settings.out / old).unlink(missing_ok=True)
        try:
            values = value_federation(grid, settings, load(context), model)
        except Exception as error:  # whoever waits for the result is told, whatever happened
            log(INFO, "The valuation ended: %s", error)
            _write(settings.out / ERROR_FILE, {"error": str(error)})
            raise
        write_values(settings.out, values)
        for name, mean in zip(values.names, values.mean, strict=True):
            log(INFO, "%s: %+.4f", name, mean)

    app.main()(main)
    return app


def value_federation(
    grid: Grid, settings: Settings, task: Task, model: str | Callable[..., Any] | None = None
) -> Values:
    """Values of the clients that are connected to the grid."""
    if settings.evaluate == "server" and task.test is None:
        raise InputError(
            "The server has no test set. Give it one, or say evaluate = 'nodes' to measure models on the rows "
            "that the nodes hold out."
        )
    incidents: list[str] = []  # who was left out when, and who came back: part of the result

    def tell(text: str) -> None:
        incidents.append(text)
        log(INFO, text)

    kind = task.kind, task.classes, task.vocabulary
    roster = Roster.gather(grid, settings.clients, settings.patience, tell, kind)
    data = task.test if settings.evaluate == "server" else None
    scenario = remote_scenario(roster.reports, data, task.kind, task.classes, task.vocabulary, task.parts)
    trainer = FlowerTrainer(
        grid,
        roster,
        memory=int(settings.memory_mb * (1 << 20)),
        deadline=settings.deadline,
        patience=settings.patience,
        message_bytes=int(settings.message_mb * (1 << 20)),
    )
    trainer.stage = lambda text: log(INFO, text)
    game = FederatedGame(
        scenario,
        model or settings.model,
        settings.training,
        metric=settings.metric,
        trainer=trainer,
        replicates=settings.replicates,
    )
    settings.store_path.parent.mkdir(parents=True, exist_ok=True)
    with UtilityStore(settings.store_path) as store:
        values = _valued(game, settings, store)
    counted = {"metric": game.metric, "replicates": game.replicates, "evaluated_at": settings.evaluate}
    spent = {"message_rounds": roster.queries + trainer.message_rounds, "messages": roster.messages}
    told = {"incidents": incidents} if incidents else {}
    return replace(values, details={**values.details, **counted, **spent, **told})


def _valued(game: FederatedGame, settings: Settings, store: UtilityStore) -> Values:
    how = settings.method, settings.budget, settings.training.seed
    try:
        return value(game, *how, store)
    except UnavailableError as error:
        if settings.missing == "refuse":
            raise
        log(INFO, "Valuing those who answer: %s", error)
        return value_of_those_who_answer(game, error, *how, store)


def write_values(folder: Path, values: Values) -> None:
    """Leaves the values in the folder, for whoever waits for them."""
    _write(folder / VALUES_FILE, values.to_dict())


def _write(path: Path, data: Mapping[str, Any]) -> None:
    """All or nothing: whoever waits for the file never reads a part of it."""
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)
