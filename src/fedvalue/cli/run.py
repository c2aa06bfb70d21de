"""`fedvalue run`: the main job. Trains the coalitions that a method asks for and values the clients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue._files import sealed
from fedvalue._interrupt import INTERRUPTED_CODE
from fedvalue.cli._config import FILE, no_config, read_config, used_config
from fedvalue.cli._console import busy, complain, notes, say, warn
from fedvalue.cli._jobs import job_of
from fedvalue.cli._options import (
    ConsortiumOption,
    DateOption,
    JsonTarget,
    MethodOptions,
    OperatorOption,
    PeriodOption,
    QuietOption,
    complete,
)
from fedvalue.cli._tables import print_values
from fedvalue.cli._targets import check_targets, write_result

__all__ = ["run"]


def run(
    ctx: typer.Context,
    scenario: Annotated[str | None, typer.Option(autocompletion=complete("scenario"), help="Who the clients are: `fedvalue data ls`. [default: digits; with a folder of your own: files]")] = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients. [default: 10; files: one per file]")] = None,
    partition: Annotated[str | None, typer.Option(help="Who gets which rows, such as size+label-flip. [default: the data's own, or size]")] = None,
    samples: Annotated[int | None, typer.Option(help="Rows per client on average. [default: all]")] = None,
    scenario_option: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Option of scenario or partition: alpha=0.1; repeatable.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the data: your own, a file per client, or that of a known scenario. [default: $FEDVALUE_DATA, the cache folder]")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the labels, in files of your own.")] = None,
    test: Annotated[str | None, typer.Option(metavar="by-client", help="Test on rows of the clients' own, a fifth of each, and say what the data of each does for the others.")] = None,
    model: Annotated[str | None, typer.Option(autocompletion=complete("model"), help="mlp, mlp-dropout, cnn, linear, text-mean, lstm, least-squares, xgboost, sklearn:package.Class, or package.module:factory. [default: what suits the scenario]")] = None,
    model_option: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Option of the model, such as depth=6 of xgboost; repeatable.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of the federation. [default: 4]")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of a client in a round. [default: 4]")] = None,
    batch: Annotated[int | None, typer.Option(help="Rows in a minibatch. [default: 64; digits and files: 32]")] = None,
    rate: Annotated[float | None, typer.Option(help="Learning rate. [default: 0.001; digits and files: 0.01]")] = None,
    optimizer: Annotated[str | None, typer.Option(help="adam, sgd, adamw, rmsprop, or another of torch.optim. [default: adam]")] = None,
    momentum: Annotated[float | None, typer.Option(help="Momentum of sgd. [default: 0]")] = None,
    algorithm: Annotated[str | None, typer.Option(help="fedavg, fedprox or fedsgd. [default: fedavg]")] = None,
    mu: Annotated[float | None, typer.Option(help="With fedprox: how strongly clients are held to the common model.")] = None,
    weights: Annotated[str | None, typer.Option(help="How much a client counts when models are averaged: by its rows, equal, or clipped (rows up to --max-share). [default: rows]")] = None,
    max_share: Annotated[float | None, typer.Option(metavar="X", help="With clipped weights: the most that one client has of the weight of all.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Weight decay of the optimizer, such as 0.01. [default: 0]")] = None,
    optimizer_options: Annotated[str | None, typer.Option(metavar="KEY=VALUE,…", help="Further options of the optimizer as torch names them: alpha=0.9, betas=0.8:0.99.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Rate from round to round: constant, linear or cosine (to 0), or step. [default: constant]")] = None,
    warmup: Annotated[int | None, typer.Option(metavar="ROUNDS", help="Rounds in which the rate rises before that. [default: 0]")] = None,
    decay: Annotated[float | None, typer.Option(metavar="X", help="With the schedule step: what the rate is multiplied by.")] = None,
    decay_every: Annotated[int | None, typer.Option(metavar="ROUNDS", help="With the schedule step: after how many rounds.")] = None,
    clip: Annotated[float | None, typer.Option(metavar="NORM", help="Longest gradient of a model; longer ones are cut. [default: no limit]")] = None,
    accumulate: Annotated[int | None, typer.Option(help="Minibatches that make up one step. [default: 1]")] = None,
    class_weights: Annotated[str | None, typer.Option(metavar="balanced|CLASS=X,…", help="How much each class counts in the loss: balanced (by the labels of each client), or numbers.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32, or bf16 (autocast; meant for CUDA). [default: float32]")] = None,
    loss: Annotated[str | None, typer.Option(help="Loss that models are trained by: cross-entropy, focal, bce, mse, mae, huber, or package.module:function. [default: cross-entropy, or mse]")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric that the values are computed from: accuracy, loss, auc, …, one of scikit-learn's such as f1_macro, or package.module:function. [default: accuracy, or r2]")] = None,
    metrics: Annotated[list[str] | None, typer.Option(metavar="METRIC,…", help="Further metrics that are measured and stored, to be counted later; repeatable.")] = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="Train again those coalitions in the store that lack your own metric.")] = False,
    replicates: Annotated[int, typer.Option(min=1, help="Number of trainings of each coalition, for methods that train with one seed.")] = 1,
    empty: Annotated[str, typer.Option(metavar="initial|chance|majority|NUMBER", help="Utility of a coalition without data: mean of untrained models, guessing, best constant answer, or a number.")] = "initial",
    method: Annotated[str, typer.Option(autocompletion=complete("method"), help="See `fedvalue methods`, or package.module:plan; exact if the budget covers all coalitions.")] = "surrogate",
    exact: Annotated[bool, typer.Option("--exact", help="The same as --method exact.")] = False,
    budget: Annotated[int | None, typer.Option(help="Most trainings; with one seed, most distinct coalitions. [default: n·ln n, at least 64; with one seed 32]")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds that the trainings are spread over; 1: the values of that seed. [default: as suits method and budget]")] = None,
    own_seeds: Annotated[bool, typer.Option("--own-seeds", help="With surrogate: a seed of its own for every training; no two have an update in common.")] = False,
    min_coalition: Annotated[int, typer.Option(min=1, help="Train no coalition of fewer clients; with 2, nobody alone.")] = 1,
    no_noise: Annotated[bool, typer.Option("--no-noise", help="With --exact: leave out the trainings with other seeds that show how much is luck.")] = False,
    option: MethodOptions = None,
    group: Annotated[list[str] | None, typer.Option(metavar="NAME=CLIENT,CLIENT", help="Clients that join as one, such as the sites of a holding: values are then Owen values; repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for everything random.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    memory: Annotated[str | None, typer.Option(help="Memory limit for models in training (with Ray: per task), such as 4GB. [default: 40% of free memory]")] = None,
    checkpoint: Annotated[float | None, typer.Option(metavar="SECONDS", help="About how long it takes until finished trainings are stored; a few seconds cost speed. [default: 20, or more where a training takes long]")] = None,
    backend: Annotated[str, typer.Option(help="Where trainings run: local is this process, ray a cluster.")] = "local",
    address: Annotated[str | None, typer.Option(metavar="auto|HOST:PORT", help="Address of a Ray cluster. [default: start Ray on this machine]")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Ray tasks at a time. [default: as many as fit]")] = None,
    cpus_per_task: Annotated[int | None, typer.Option(min=1, help="CPUs and threads of a Ray task. [default: 1]")] = None,
    gpus_per_task: Annotated[float | None, typer.Option(min=0, help="GPUs of a Ray task, such as 0.5. [default: 0]")] = None,
    store: Annotated[Path | None, typer.Option(help="File that keeps every training. [default: store.db in --out]")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for values.json, run.json and report.html.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another run in --out; its results move to the folder earlier in it.")] = False,
    consortium: ConsortiumOption = None,
    period: PeriodOption = None,
    date: DateOption = None,
    operator: OperatorOption = None,
    agreement: Annotated[Path | None, typer.Option(help="Agreement that the run is made under: another job than the one agreed is refused.")] = None,
    claims: Annotated[bool, typer.Option("--claims", help="Also show what clients would gain by claiming more rows or scaling their updates; records one training of all.")] = False,
    json: JsonTarget = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be trained, and the time and memory that it would take; train nothing.")] = False,
    config: Annotated[Path | None, typer.Option(callback=read_config, is_eager=True, help=f"File with options in [run]. [default: {FILE}, if it exists]")] = None,
    no_config: Annotated[bool, typer.Option("--no-config", callback=no_config, is_eager=True, help=f"Ignore {FILE}.")] = False,
    quiet: QuietOption = False,
) -> None:  # fmt: skip
    """Train coalitions of clients and value each client.

    The command line takes precedence over the file. With its store, a run that was stopped continues where it left off.
    """
    from fedvalue.run import REPORT_FILE, VALUES_FILE, heading

    quiet = quiet or json == "-"
    check_targets(json)
    with notes():
        job = job_of(ctx)
        with busy("reading the data", quiet):
            prepared = job.prepared
        if not dry_run:
            job.check_folder()
        if not quiet:
            for line in (*filter(None, (used_config(ctx),)), *heading(prepared), ""):
                say(line)
        if dry_run:
            with busy("measuring", quiet):
                plan = job.plan()
            write_result(plan.to_dict(), json)
            for line in () if json == "-" else plan.lines():
                say(line)
            return
        try:
            result = job.run(progress=not quiet, report=False)
        except KeyboardInterrupt as error:
            complain(job.interrupted())
            raise typer.Exit(INTERRUPTED_CODE) from error
    if result.values.warning:  # first, and also to those who only want the table
        say(result.values.warning) if not quiet else warn(result.values.warning)
    if json != "-" and not (json and quiet):
        print_values(result.values)
    for line in () if quiet else result.lines():
        say(line)
    write_result(
        sealed(result.values.to_dict()), json
    )  # behind what is printed: a full disk must not hide it
    if claims and not quiet:
        with busy("recording a training of all clients", quiet):
            lies = result.what_if_claimed()
        say()
        say(str(lies))
    written = [] if out is None else [out / VALUES_FILE, out / REPORT_FILE]
    if out is not None:  # after the result: the page takes a moment, and may fail where the values did not
        with busy("writing the report", quiet):
            result.report(out / REPORT_FILE)
    if not quiet and (written or json):
        say(f"Written to {' and '.join(map(str, [*written, *([json] if json else [])]))}.")
