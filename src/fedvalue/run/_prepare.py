"""A job before its first training: the data is read, the game made, and all of it recorded."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from os import PathLike
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

from fedvalue._checks import expect
from fedvalue._files import json_ready
from fedvalue._version import __version__
from fedvalue.errors import InputError
from fedvalue.games import FederatedGame
from fedvalue.learners import make_learner
from fedvalue.run._memory import parse_memory
from fedvalue.run._requests import refuse_two_ways
from fedvalue.scenarios import SCENARIOS, Scenario, by_client, is_by_client, load_scenario, where
from fedvalue.trainers import Located, choose_device
from fedvalue.training import Ruled, Training, usual_training

if TYPE_CHECKING:
    from fedvalue.run._job import Job

__all__ = ["OWN_PARTITION", "RULES", "Prepared", "plain", "prepare", "record_of"]

_FORMAT = "fedvalue.run/1"
OWN_PARTITION = "its own"  # of a scenario that was made in Python
RULES = tuple(rule.name for rule in fields(Training) if rule.name != "seed")
_BACKENDS = ("local", "ray")
_OF_RAY = ("address", "workers", "cpus_per_task", "gpus_per_task")
_OF_BOTH = ("checkpoint",)
_OF_JOB = ("name", "clients", "partition", "samples", "test", "seed", "data_dir")
_COVER = ("consortium", "period", "date", "operator")  # of the report; they change no value
_RECORDED = ("numpy", "scipy", "torch", "scikit-learn")


@dataclass(frozen=True)
class Prepared:
    """Everything that is known before the first training: the data is read, the game made, the method accepted."""

    scenario: Scenario
    source: str  # the scenario by its name
    partition: str
    model: str
    device: str
    game: FederatedGame

    @property
    def where(self) -> str:
        """Where trainings run, in words."""
        trainer = self.game.trainer
        return trainer.where if isinstance(trainer, Located) else self.device


def prepare(job: Job) -> Prepared:
    """Reads the data and makes the game; whatever is wrong with the options of a job is noticed here."""
    memory, backend_options = parse_memory(job.memory), _backend_options(job)
    seeds = job.options.get("seeds") if job.seeds is None else job.seeds
    refuse_two_ways(job.replicates, seeds)
    rules = {name: getattr(job, name) for name in RULES if getattr(job, name) is not None}
    chosen = _chosen(job)
    if isinstance(chosen, Scenario):
        given = [
            n for n in ("clients", "partition", "samples", "data_dir", "label") if getattr(job, n) is not None
        ]
        if given or job.scenario_options:
            named = [*given, *job.scenario_options]
            raise InputError(
                f"{', '.join(named)} cannot be combined with a Scenario object, which defines its own clients. Leave "
                f"{'it' if len(named) == 1 else 'them'} out, or give the name of a scenario."
            )
        scenario = by_client(chosen) if is_by_client(job.test) else chosen
        source, partition, usual = chosen.name, OWN_PARTITION, "mlp"
    else:
        source, entry = chosen, SCENARIOS.get(chosen)
        partition = job.partition or (entry.usual_partition if entry else "")
        scenario = load_scenario(
            source,
            clients=job.clients,
            partition=partition or None,
            samples=job.samples,
            test=job.test,
            seed=job.seed,
            data_dir=job.data_dir,
            **_scenario_options(job),
        )
        usual = SCENARIOS[source].model
    if scenario.vocabulary:
        usual = "text-mean"
    model = usual if job.model is None else job.model
    learner = make_learner(model, **job.model_options)
    training = usual_training(scenario, learner, **rules, seed=job.seed)
    # A cluster has devices of its own; here a model is only looked at, and measured for a dry run.
    local = job.backend == "local"
    device = choose_device(job.device if local else "cpu")
    game = FederatedGame(
        scenario,
        learner,
        training,
        loss=job.loss,
        metric=job.metric,
        metrics=job.metrics,
        retrain=job.retrain,
        replicates=job.replicates,
        empty=job.empty,
        trainer=job.backend,
        device=device if local else job.device,
        memory=memory,
        **({"warm_up": True} if local else {}),
        **backend_options,
    )
    # A model that does not go with the data or the rules is refused here, on a few rows.
    game.learner.session(scenario.thinned(training.batch), training, device, memory)
    return Prepared(scenario, source, partition, _model_name(model), device, game)


def record_of(job: Job) -> dict[str, Any]:
    """The configuration as it was resolved, for run.json."""
    prepared = job.prepared
    game = prepared.game
    return dict(
        json_ready(
            {
                "format": _FORMAT,
                **job.identity(),
                **({} if job.agreed is None else {"agreement": job.agreed.hash}),
                "scenario": {
                    "name": prepared.source,
                    "partition": prepared.partition,
                    "clients": list(prepared.scenario.names),
                    "samples": job.samples,
                    "options": {key: plain(value) for key, value in _scenario_options(job).items()},
                    "data_dir": None if job.data_dir is None else str(job.data_dir),
                    **({} if job.test is None else {"tested": job.test}),
                    "fingerprint": prepared.scenario.fingerprint,
                    "rows": [len(data) for data in prepared.scenario.clients],
                    "test": {
                        "rows": len(prepared.scenario.test),
                        "fingerprint": prepared.scenario.test.fingerprint,
                    },
                },
                "model": prepared.model,
                "model_options": {name: plain(value) for name, value in job.model_options.items()},
                # As the command line names what is the user's own; None: only Python has it.
                "asked": {
                    name: given if isinstance(given := getattr(job, name), str) else None
                    for name in ("method", "metric", "loss")
                },
                "learner": dict(game.learner.identity()),
                "training": _applied(game),
                "cover": {name: text for name in _COVER if (text := getattr(job, name))},
                # What is known of the game beforehand, for those who compute values from its trainings alone.
                "game": {
                    "seeds": game.seeds,
                    "idle": list(game.idle),
                    "alike": [list(g) for g in game.alike],
                },
                "backend": job.backend,
                "device": game.trainer.device if isinstance(game.trainer, Located) else prepared.device,
                "memory": parse_memory(job.memory),
                "versions": {"fedvalue": __version__, "python": python_version(), **_versions()},
            }
        )
    )


def _chosen(job: Job) -> str | Scenario:
    """What is valued: the scenario that was named, else the user's own folder, else the digits."""
    folder = None if job.data_dir is None else Path(job.data_dir).expanduser()
    if folder is not None and not folder.is_dir():
        raise InputError(f"There is no folder {folder}: data_dir must be one that exists.")
    if hasattr(job.scenario, "evaluate"):
        raise InputError("A run makes its own game of a scenario. A game is valued with fv.value(game).")
    if job.scenario is not None:
        expect("scenario", job.scenario, (str, Scenario), "a name or an fv.Scenario")
        entry = SCENARIOS.get(job.scenario) if isinstance(job.scenario, str) else None
        if folder is not None and entry is not None and entry.needs is None and entry.name != "files":
            raise InputError(
                f"The scenario {entry.name!r} reads no files: the data in {folder} would not be used. For data of "
                "your own say scenario files; otherwise leave data_dir out."
            )
        return job.scenario
    if folder is None:
        own = job.label is not None or "folder" in job.scenario_options
        return "files" if own else "digits"
    held = [name for name in SCENARIOS if where(name, folder) == folder]
    if held:
        raise InputError(f"{folder} holds the data of {', '.join(held)}. Which scenario? Name it.")
    return "files"


def _applied(game: FederatedGame) -> dict[str, Any]:
    """The rules of training, without those that the model does not know."""
    rules, learner = game.training.plain(), game.learner
    return {n: r for n, r in rules.items() if not isinstance(learner, Ruled) or n in (*learner.rules, "seed")}


def _scenario_options(job: Job) -> dict[str, Any]:
    twice = next((name for name in job.scenario_options if name in _OF_JOB), None)
    if twice is not None:
        raise InputError(
            f"{twice!r} is an option of the run itself, and not of its scenario. Leave it out of scenario_options."
        )
    return {**job.scenario_options, **({} if job.label is None else {"label": job.label})}


def _backend_options(job: Job) -> dict[str, Any]:
    """Options of the trainer; those that were not given are left to it."""
    if job.backend not in _BACKENDS:
        raise InputError(f"The backend must be {' or '.join(_BACKENDS)}. Got {job.backend!r}.")
    given = {n: getattr(job, n) for n in (*_OF_RAY, *_OF_BOTH) if getattr(job, n) is not None}
    misplaced = [name for name in _OF_RAY if name in given]
    if misplaced and job.backend != "ray":
        applies, it = ("applies", "it") if len(misplaced) == 1 else ("apply", "them")
        raise InputError(
            f"{', '.join(misplaced)} {applies} to Ray only. Use --backend ray, or leave {it} out."
        )
    return given


def _model_name(model: Any) -> str:
    if isinstance(model, str):
        return model
    return str(getattr(model, "__qualname__", type(model).__qualname__))


@cache
def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # takes a tenth of importing fedvalue

    found = {}
    for name in _RECORDED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def plain(value: Any) -> Any:
    """What JSON can hold of an option: numbers and texts as they are, anything else as Python shows it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, PathLike) else repr(value)
