"""The server's side: a Flower ServerApp that values the clients of its federation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from logging import INFO, WARNING
from typing import Any

from flwr.app import Context
from flwr.common import log
from flwr.serverapp import Grid, ServerApp

from fedvalue._files import write_json
from fedvalue.errors import InputError
from fedvalue.flower._agreed import agreed_in, job_terms, member_terms
from fedvalue.flower._blocks import why_unknown
from fedvalue.flower._checkpoint import Checkpoints, checkpoint_folder
from fedvalue.flower._plan import PLAN_FILE, FederationPlan, plan_of
from fedvalue.flower._registered import read_roster
from fedvalue.flower._reports import remote_scenario
from fedvalue.flower._results import left_in
from fedvalue.flower._roster import Roster
from fedvalue.flower._settings import Settings, quorum_of
from fedvalue.flower._trainer import FlowerTrainer
from fedvalue.flower._valuation import Valuation
from fedvalue.games import FederatedGame
from fedvalue.replies import Book, book_beside
from fedvalue.scenarios import Dataset
from fedvalue.values import Values

__all__ = ["Task", "plan_federation", "server_app", "value_federation"]


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
    """A ServerApp that values its clients as the run configuration says and leaves the results in a folder.

    `load` gives the test set and the task. `model` is a model of one's own, the same as on the nodes; None
    takes the name in the run configuration. `own_settings` are further keys of that configuration. A run that
    fails leaves error.json beside the results of an earlier one.
    """
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        settings = Settings.from_config(context.run_config, own_settings)
        incidents: list[str] = []
        with left_in(settings.out, settings.plain(), incidents):
            if settings.dry_run:
                plan = plan_federation(grid, settings, _loaded(load, context), model, incidents.append)
                for line in plan.lines():
                    log(INFO, line)
                return
            values = value_federation(grid, settings, _loaded(load, context), model, incidents.append)
        if values.warning:
            log(WARNING, values.warning)
        for name, mean in zip(values.names, values.mean, strict=True):
            log(INFO, "%s: %+.4f", name, mean)

    app.main()(main)
    return app


def _loaded(load: Callable[[Context], Task], context: Context) -> Task:
    try:
        return load(context)
    except FileNotFoundError as error:
        raise InputError(
            f"There is no file {error.filename}, which the app reads. Test rows are arrays x and y in an .npz file; the setting "
            "`test` says where it is, seen from where the SuperLink was started."
        ) from error


def value_federation(
    grid: Grid,
    settings: Settings,
    task: Task,
    model: str | Callable[..., Any] | None = None,
    on_incident: Callable[[str], None] = lambda text: None,
) -> Values:
    """Values of the clients that are connected to the grid; values, record and report are left in `settings.out`.

    `on_incident` is told who was left out or came back, as it happens.
    """
    game, trainer, roster = _assembled(grid, settings, task, model, on_incident)
    valuation = _valuation_of(settings, trainer, roster)
    if settings.agreement is not None:
        members = member_terms(game, roster)
        agreement = agreed_in(
            settings.agreement, job_terms(valuation.terms(game), game), members, roster.absent
        )
        valuation = replace(valuation, agreement=agreement)
    values = valuation.run(game, roster)
    if trainer.checkpoints is not None:
        trainer.checkpoints.remove()
    return values


def _valuation_of(settings: Settings, trainer: FlowerTrainer, roster: Roster) -> Valuation:
    at_nodes = settings.evaluate == "nodes"
    return Valuation(
        method=settings.method,
        budget=settings.budget,
        seed=settings.training.seed,
        options=settings.options,
        groups=settings.parties,
        missing=settings.missing,
        evaluated_at=settings.evaluate,
        store=settings.store_path,
        out=settings.out,
        settings=settings.plain(),
        unknown=why_unknown(report.held_out for report in roster.reports) if at_nodes else None,
        book=trainer.book,
    )


def plan_federation(
    grid: Grid,
    settings: Settings,
    task: Task,
    model: str | Callable[..., Any] | None = None,
    on_incident: Callable[[str], None] = lambda text: None,
) -> FederationPlan:
    """The dry run: who is there, and what a valuation with these settings would take. Nothing is trained at the nodes."""
    game, trainer, roster = _assembled(grid, settings, task, model, on_incident)
    plan = plan_of(
        game,
        roster,
        method=settings.method,
        options=settings.options,
        budget=settings.budget,
        store=settings.store_path,
        memory=trainer.memory,
        message_bytes=trainer.message_bytes,
        checkpoints=settings.checkpoints,
        patience=settings.patience,
        job=job_terms(_valuation_of(settings, trainer, roster).terms(game), game),
        members=member_terms(game, roster),
    )
    settings.out.mkdir(parents=True, exist_ok=True)
    write_json(settings.out / PLAN_FILE, plan.to_dict())
    return plan


def _assembled(
    grid: Grid,
    settings: Settings,
    task: Task,
    model: str | Callable[..., Any] | None,
    on_incident: Callable[[str], None],
) -> tuple[FederatedGame, FlowerTrainer, Roster]:
    """The game of the clients that are connected, once they have said what data they have, and its trainer."""

    def note(incident: str) -> None:
        log(INFO, incident)
        on_incident(incident)

    if settings.evaluate == "server" and task.test is None:
        raise InputError(
            "The server has no test set. Give it one: a file with arrays x and y, whose path is the setting `test`."
        )
    kind = task.kind, task.classes, task.vocabulary
    registered = read_roster(settings.roster) if settings.roster else ()
    clients = settings.clients or len(registered)
    roster = Roster.gather(
        grid,
        clients,
        settings.patience,
        kind,
        note,
        registered,
        quorum_of(settings.quorum, clients),
    )
    test = task.test if settings.evaluate == "server" else None
    scenario = remote_scenario(
        roster.reports, test, task.kind, task.classes, task.vocabulary, task.parts, by_client=True
    )
    kept = checkpoint_folder(settings.store_path)
    checkpoints = Checkpoints(kept, lambda text: log(INFO, text)) if settings.checkpoints else None
    trainer = FlowerTrainer(
        grid,
        roster,
        memory=int(settings.memory_mb * (1 << 20)),
        deadline=settings.deadline,
        patience=settings.patience,
        message_bytes=int(settings.message_mb * (1 << 20)),
        limits=settings.limits,
        checkpoints=checkpoints,
        book=Book(book_beside(settings.store_path)) if any(roster.signing_keys) else None,
    )
    game = FederatedGame(
        scenario,
        model or settings.model,
        settings.training,
        loss=settings.loss or None,
        metric=settings.metric,
        trainer=trainer,
        replicates=settings.replicates,
        empty=settings.empty,
    )
    return game, trainer, roster
