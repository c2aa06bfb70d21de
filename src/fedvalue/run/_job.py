"""The main job: read the data, train the coalitions that a method asks for, value the clients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack

from fedvalue._checks import as_path, checked_init, did_you_mean, expect
from fedvalue._text import plural
from fedvalue.agreement import Agreement, Party, PayoutTerms, read_agreement
from fedvalue.coalitions import Trial
from fedvalue.errors import InputError
from fedvalue.estimators import ESTIMATORS
from fedvalue.games import EmptyLike
from fedvalue.learners.losses import LossLike
from fedvalue.learners.metrics import MetricLike, Metrics
from fedvalue.run._agreed import agreement_of, refuse_other_job
from fedvalue.run._disclosures import add_disclosure
from fedvalue.run._folder import REPORT_FILE, enter, refuse_other_run, seen_from, take_over
from fedvalue.run._methods import MethodLike, as_method, check_types
from fedvalue.run._observers import Observer, OnOutcome, OnStage, OnValues
from fedvalue.run._options import JobOptions
from fedvalue.run._prepare import Prepared, plain, prepare, record_of
from fedvalue.run._progress_file import ProgressFile
from fedvalue.run._requests import (
    Request,
    admit,
    grouped,
    plan_of,
    request,
    with_least,
    with_own_seeds,
    with_seeds,
)
from fedvalue.run._valuation import run_requests
from fedvalue.scenarios import Scenario
from fedvalue.store import UtilityStore, fingerprint
from fedvalue.trainers import Closing
from fedvalue.training import Learner
from fedvalue.values import Values

if TYPE_CHECKING:
    from fedvalue.run._dry_run import DryRun
    from fedvalue.run._result import Result

__all__ = ["Job", "run"]


@checked_init
@dataclass(frozen=True, eq=False)
class Job:
    """What `fedvalue run` does, as an object. None: what suits the scenario, or the usual.

    `scenario` is a name with `clients`, `partition`, `samples`, `data_dir`, `label` and `scenario_options`, or a
    Scenario of your own; by default "files" where a folder is given, otherwise "digits". `test="by-client"` tests on rows
    of the clients' own, and values say what the data of each does for the others (`Values.benefits`). `model` is a name,
    package.module:factory, a function that makes an `nn.Module`, or a learner; `model_options` are those of a named one.
    `rounds` to `precision` are the rules of training (see `Training`), `loss` what is trained by (see `Loss`). `method` is a name or a plan of your own, with `options`.
    `seeds` is how many seeds its trainings are spread over (None: as many as suit the budget; 1: the values of that seed);
    with `replicates` every coalition is trained so often instead, as the published methods have it. `min_coalition=2`
    trains nobody alone, and `own_seeds` every coalition with a seed of its own (docs/privacy.md).
    `groups`, a dict from names to lists of clients, are parties that join as one: values are then Owen values.
    `metric` is a name or one of your own (see `Metric`), `metrics` are measured besides, and with `retrain` trainings in the store that lack it are made
    again. `empty` is what a coalition without data is worth (see `FederatedGame`). `memory` is a number of bytes or a text
    such as 4GB. `checkpoint` is about how many seconds pass until what was trained is stored (default: 20, or more where
    a training takes long). `address` to `gpus_per_task` go with `backend="ray"`. `store` keeps every training; with
    `out`, a folder, it is store.db in there, beside the values, the record of the run and its report. `consortium`,
    `period`, `date` and `operator` are texts for the head of the report. Under an `agreement` (or its file) only the job
    that was agreed is run, and all results carry its hash.

    >>> job = Job("synthetic", clients=3, samples=20, method="exact")
    >>> job.run().values.n
    3
    """

    scenario: str | Scenario | None = None
    _: KW_ONLY
    clients: int | None = None
    partition: str | None = None
    samples: int | None = None
    scenario_options: Mapping[str, Any] = field(default_factory=dict)
    data_dir: str | PathLike[str] | None = None
    label: str | None = None
    test: str | None = None
    model: str | Learner | Callable[..., Any] | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None
    epochs: int | None = None
    batch: int | None = None
    rate: float | None = None
    optimizer: str | None = None
    momentum: float | None = None
    algorithm: str | None = None
    mu: float | None = None
    weights: str | None = None
    max_share: float | None = None
    weight_decay: float | None = None
    optimizer_options: str | Mapping[str, Any] | None = None
    schedule: str | None = None
    warmup: int | None = None
    decay: float | None = None
    decay_every: int | None = None
    clip: float | None = None
    accumulate: int | None = None
    class_weights: str | Mapping[int, float] | None = None
    precision: str | None = None
    loss: LossLike | None = None
    metric: MetricLike | None = None
    metrics: Metrics = ()
    retrain: bool = False
    replicates: int = 1
    empty: EmptyLike = "initial"
    method: MethodLike = "surrogate"
    budget: int | None = None
    seeds: int | None = None
    own_seeds: bool = False
    min_coalition: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] | None = None
    seed: int = 0
    device: str = "auto"
    memory: int | str | None = None
    checkpoint: float | None = None
    backend: str = "local"
    address: str | None = None
    workers: int | None = None
    cpus_per_task: float | None = None
    gpus_per_task: float | None = None
    store: str | PathLike[str] | None = None
    out: str | PathLike[str] | None = None
    overwrite: bool = False
    consortium: str | None = None
    period: str | None = None
    date: str | None = None
    operator: str | None = None
    agreement: str | PathLike[str] | Agreement | None = None

    def __post_init__(self) -> None:
        for name in ("data_dir", "store", "out"):
            if getattr(self, name) is not None:
                as_path(name, getattr(self, name))
        for name in ("consortium", "period", "date", "operator"):
            if getattr(self, name) is not None:
                expect(name, getattr(self, name), str, "a text")
        for name in ("options", "scenario_options", "model_options"):
            expect(name, getattr(self, name), Mapping, "a dict")
            for option in getattr(self, name):
                expect(f"The name of an option in {name}", option, str, "a text")
        for name in ("retrain", "own_seeds", "overwrite"):  # the text "no" would be true
            expect(name, getattr(self, name), bool, "True or False")

    @cached_property
    def prepared(self) -> Prepared:
        """Reads the data and makes the game; whatever is wrong with the options is noticed here."""
        prepared = prepare(self)
        asked = grouped(self.request(), prepared.game.names, self.groups)
        admit(prepared.game, [asked], self.budget, self.seed)
        if asked.method.view is None:
            plan = plan_of(prepared.game.n, asked, self.seed)
            try:
                if (
                    asked.options
                ):  # a method that is begun refuses what cannot be; with many clients that takes a while
                    next(plan, None)
            except TypeError:
                check_types(asked.method, asked.options)
                raise
        elif not prepared.game.averages:
            prepared.game.trace()  # says why there is nothing to record
        return prepared

    def request(self) -> Request:
        """The method with its options, not yet begun."""
        return request(self.method, self.all_options)

    @property
    def all_options(self) -> Mapping[str, Any]:
        """The options of the method, with those that the job has a name for."""
        options = with_seeds(self.method, self.options, self.seeds)
        options = with_least(self.method, options, self.min_coalition)
        return with_own_seeds(self.method, options, self.own_seeds)

    @property
    def one_seed(self) -> bool:
        """Whether the values are those of one seed, or of the same replicates of every coalition."""
        asked = self.request()
        admit(self.prepared.game, [asked], self.budget, self.seed)
        return asked.most_seeds == 1 or asked.method.guarantee == "exact"

    @cached_property
    def agreed(self) -> Agreement | None:
        """The agreement that this job is run under."""
        if self.agreement is None or isinstance(self.agreement, Agreement):
            return self.agreement
        return read_agreement(self.agreement)

    def agree(
        self,
        operator: Party,
        keys: Mapping[str, str] = MappingProxyType({}),
        payout: PayoutTerms | None = None,
        title: str = "",
    ) -> Agreement:
        """The terms of this job as an agreement that nobody has signed yet; `keys` are the clients' public keys by name."""
        return agreement_of(self, operator, keys, payout or PayoutTerms(), title)

    def check_folder(self) -> None:
        """Refuses a job that is not the one agreed, and a folder that holds another run; `run` does so, too."""
        if self.agreed is not None:
            refuse_other_job(self.agreed, self)
        if self.out is not None and not self.overwrite:
            refuse_other_run(Path(self.out), self.identity())

    @property
    def store_path(self) -> Path | None:
        """Where trainings are kept."""
        if self.store is not None:
            return Path(self.store)
        return None if self.out is None else Path(self.out) / "store.db"

    def plan(self) -> DryRun:
        """The dry run: which coalitions would be trained, how long that would take, and in how much memory."""
        from fedvalue.run._dry_run import dry_run

        with self._ending():
            return dry_run(self)

    def run(
        self,
        progress: bool = False,
        *,
        report: bool = True,
        on_stage: OnStage | None = None,
        on_outcome: OnOutcome | None = None,
        on_values: OnValues | None = None,
    ) -> Result:
        """Trains and values; a run that was stopped goes on where it was, given its store.

        With `out`, the values are left there, and the `report` unless that is not wanted yet.
        """
        from fedvalue.run._result import Meter, Result

        path, meter = self.store_path, Meter()
        if self.agreed is not None:
            refuse_other_job(self.agreed, self)
        if self.out is not None:
            enter(Path(self.out), self.record(), path, self.overwrite)
        with self._followed(Observer(on_stage, meter.watched(on_outcome))) as observer:
            values = self._valued(observer, on_values, progress, meter.fresh)
            result = Result(self, values, meter.outcomes, frozenset(meter.fresh))
            if self.out is not None:
                take_over(Path(self.out), self.record(), path)
                add_disclosure(Path(self.out), values.disclosure, values.game_id)
                result.write_values(self.out)
        if self.out is not None and report:
            result.report(Path(self.out) / REPORT_FILE)
        return result

    def _valued(
        self, observer: Observer, on_values: OnValues | None, progress: bool, fresh: Collection[Trial]
    ) -> Values:
        """The values; what this run has trained is `fresh`."""
        prepared = self.prepared
        told = Observer(on_values=on_values)
        try:
            with self._ending() as resources:
                path = self.store_path
                store = None if path is None else resources.enter_context(UtilityStore(path))
                (values,) = run_requests(
                    prepared.game,
                    [grouped(self.request(), prepared.game.names, self.groups)],
                    self.budget,
                    self.seed,
                    store,
                    progress,
                    observer,
                    use_stored=True,
                    ends=True,
                )
            if self.agreed is not None:
                values = replace(values, agreement=self.agreed.hash)
            values = values.as_written()
            if told.on_values is not None:
                told.on_values(values)
        except BaseException:  # what left the clients has left them, whatever became of it
            if self.out is not None:
                left = prepared.game.disclosure(sorted(fresh), is_complete=False)
                add_disclosure(Path(self.out), left, prepared.game.id)
            raise
        return values

    @contextmanager
    def _followed(self, observer: Observer) -> Iterator[Observer]:
        """The observer and, with a folder, a file in there that says how far the run is."""
        if self.out is None:
            yield observer
            return
        out, path = Path(self.out), self.store_path
        kept = ProgressFile(out, self.record(), None if path is None else seen_from(out, path))
        with kept.kept(observer) as both:
            yield both

    def interrupted(self) -> str:
        """What is left of a run that was stopped, in words."""
        if self.store_path is None:
            return (
                "Interrupted; nothing was kept. With --store FILE, the same command could continue from here."
            )
        with UtilityStore(self.store_path) as store:
            kept = store.game(self.prepared.game.id).coalitions
        trained = f"{plural(kept, 'trained coalition')} {'is' if kept == 1 else 'are'}"
        return f"Interrupted. {trained} in {self.store_path}: the same command continues from there."

    def identity(self) -> dict[str, Any]:
        """What makes two runs the same run: they have the same values."""
        game, method = self.prepared.game, as_method(self.method)
        return {
            "game_id": game.id,
            "metric": game.metric,
            "stored_as": game.stored_as,
            "higher_is_better": game.higher_is_better,
            "replicates": game.replicates,
            "empty": game.empty.removeprefix("="),
            "method": method.name,
            "plan": fingerprint(method.function)[0][:24]
            if ESTIMATORS.get(method.name) is not method
            else None,
            "budget": self.budget,
            "seeds": 1 if self.one_seed else self.seeds,
            "options": {
                name: plain(value)
                for name, value in self.all_options.items()
                if name != "seeds" or name in self.options
            },
            "groups": None if self.groups is None else {name: list(of) for name, of in self.groups.items()},
            "seed": self.seed,
        }

    def record(self) -> dict[str, Any]:
        """The configuration as it was resolved, for run.json."""
        return record_of(self)

    @contextmanager
    def _ending(self) -> Iterator[ExitStack]:
        """Ends what the trainer may have started, whatever happens."""
        with ExitStack() as resources:
            trainer = self.prepared.game.trainer
            if isinstance(trainer, Closing):
                resources.callback(trainer.close)
            yield resources


def run(
    scenario: str | Scenario | None = None,
    *,
    progress: bool = False,
    on_stage: OnStage | None = None,
    on_outcome: OnOutcome | None = None,
    on_values: OnValues | None = None,
    **options: Unpack[JobOptions],
) -> Result:
    """Trains coalitions of clients and values each client: the main job, with the options of `Job`.

    >>> result = run("synthetic", clients=3, samples=20, method="exact")
    >>> result.values.guarantee, len(result.payout(100).lines)
    ('exact', 3)
    """
    known = [of.name for of in fields(Job)]
    for name in options:
        if name not in known:
            hint = (
                'Say method="exact". '
                if name == "exact"
                else did_you_mean(name, [*known, "on_stage", "on_outcome", "on_values"])
            )
            raise InputError(
                f"run has no option {name!r}. {hint}Options of the method go into options={{…}}; see fedvalue.Job."
            )
    return Job(scenario, **options).run(
        progress, on_stage=on_stage, on_outcome=on_outcome, on_values=on_values
    )
