"""`fedvalue run`: the main job. Trains the coalitions that a method asks for and values the clients."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedvalue.cli._config import FILE, no_config, read_config
from fedvalue.cli._console import busy, complain, count, print_table, say, write_json
from fedvalue.cli._folder import enter
from fedvalue.cli._read import REPORT_FILE, STORE_FILE, VALUES_FILE
from fedvalue.cli.methods import method_names
from fedvalue.cli.report import write_report
from fedvalue.cli.value import guarantee_lines
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.cli._job import Job
    from fedvalue.store import UtilityStore
    from fedvalue.values import Values

__all__ = ["run"]


def _names(of: str) -> Any:
    """Names for the shell to complete."""

    def complete(incomplete: str) -> list[str]:
        from fedvalue.learners import LEARNERS
        from fedvalue.scenarios import SCENARIOS

        known = {"scenario": list(SCENARIOS), "model": list(LEARNERS)}[of]
        return [name for name in known if name.startswith(incomplete)]

    return complete


def run(
    ctx: typer.Context,
    scenario: Annotated[
        str, typer.Option(autocompletion=_names("scenario"), help="Who the clients are: `fedvalue data ls`.")
    ] = "digits",
    clients: Annotated[
        int | None, typer.Option(help="Number of clients. [default: 10; files: one per file]")
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(help="Who gets which rows, such as size+label-flip. [default: the data's own, or size]"),
    ] = None,
    samples: Annotated[int | None, typer.Option(help="Rows per client on average. [default: all]")] = None,
    scenario_option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Option of scenario or partition: alpha=0.1; repeatable."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the data. [default: $FEDVALUE_DATA, the cache folder]")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Label column of the scenario files.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            autocompletion=_names("model"),
            help="mlp, cnn, linear, text-mean, lstm, least-squares, xgboost, or package.module:factory. "
            "[default: what suits the scenario]",
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of the federation. [default: 4]")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of a client in a round. [default: 4]")] = None,
    batch: Annotated[int | None, typer.Option(help="Minibatch. [default: 64; digits and files: 32]")] = None,
    rate: Annotated[
        float | None, typer.Option(help="Learning rate. [default: 0.001; digits and files: 0.01]")
    ] = None,
    optimizer: Annotated[str | None, typer.Option(help="adam or sgd. [default: adam]")] = None,
    momentum: Annotated[float | None, typer.Option(help="Of sgd. [default: 0]")] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="fedavg, fedprox or fedsgd. [default: fedavg]")
    ] = None,
    mu: Annotated[float | None, typer.Option(help="Of fedprox: how strongly clients hold on.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="What counts: accuracy, loss, auc, … [default: accuracy, or r2]")
    ] = None,
    replicates: Annotated[int, typer.Option(min=1, help="Trainings of each coalition.")] = 1,
    method: Annotated[
        str,
        typer.Option(
            autocompletion=method_names,
            help="See `fedvalue methods`; becomes exact where the budget covers all coalitions.",
        ),
    ] = "surrogate",
    exact: Annotated[bool, typer.Option("--exact", help="The same as --method exact.")] = False,
    budget: Annotated[
        int | None, typer.Option(help="Distinct coalitions at most. [default: n·ln n, at least 32]")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Option of the method; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Everything random follows from it.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    memory: Annotated[
        str | None,
        typer.Option(
            help="Bound for models in training (of a task of Ray), such as 4GB. [default: 40 % of what is free]"
        ),
    ] = None,
    backend: Annotated[
        str, typer.Option(help="Where trainings run: local is this process, ray a cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(metavar="auto|HOST:PORT", help="Ray cluster. [default: a Ray of its own, here]"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Tasks of Ray at a time. [default: as many as fit]")
    ] = None,
    cpus_per_task: Annotated[
        int | None, typer.Option(min=1, help="CPUs and threads of a task of Ray. [default: 1]")
    ] = None,
    gpus_per_task: Annotated[
        float | None, typer.Option(min=0, help="GPUs of a task of Ray, such as 0.5. [default: 0]")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="File that keeps every training. [default: store.db in --out]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for values.json, run.json and report.html.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another run in --out.")] = False,
    json: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write the values as JSON; - prints JSON only.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and what it would take.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            callback=read_config,
            is_eager=True,
            help=f"File with options in [run]. [default: {FILE}, if there]",
        ),
    ] = None,
    no_config: Annotated[
        bool, typer.Option("--no-config", callback=no_config, is_eager=True, help=f"Leave {FILE} alone.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the result: no progress, no remarks.")
    ] = False,
) -> None:
    """Train coalitions of clients and value each client.

    The command line wins over the file; a run that was stopped goes on where it was, given its store.
    """
    from fedvalue.cli._backend import backend_options
    from fedvalue.cli._job import Ask, notes_to, own_modules, parse_memory, prepare
    from fedvalue.cli._options import parse_options
    from fedvalue.cli._plan import check_method
    from fedvalue.cli.data import parse_options as parse_scenario_options

    quiet = quiet or json == "-"
    method, budget = _method(ctx, method, budget, exact)
    of_scenario = parse_scenario_options(scenario_option or ())
    rules = {
        "rounds": rounds, "epochs": epochs, "batch": batch, "rate": rate,
        "optimizer": optimizer, "momentum": momentum, "algorithm": algorithm, "mu": mu,
    }  # fmt: skip
    ask = Ask(
        scenario=scenario,
        clients=clients,
        partition=partition,
        samples=samples,
        scenario_options=of_scenario if label is None else {**of_scenario, "label": label},
        data_dir=data_dir,
        model=model,
        training={name: value for name, value in rules.items() if value is not None},
        metric=metric,
        replicates=replicates,
        method=method,
        budget=budget,
        options=parse_options(method, option or []),
        seed=seed,
        device=device,
        memory=parse_memory(memory),
        backend=backend,
        backend_options=backend_options(
            backend,
            address=address,
            workers=workers,
            cpus_per_task=cpus_per_task,
            gpus_per_task=gpus_per_task,
        ),
    )
    if json not in (None, "-") and not Path(str(json)).absolute().parent.is_dir():
        raise InputError(f"Cannot write {json}: there is no such folder.")  # before anything is trained
    with (
        own_modules(),
        notes_to(lambda text: typer.echo(f"Note: {text}", err=True)),
        ExitStack() as resources,
    ):
        with busy("reading the data", quiet):
            job = prepare(ask)
        resources.callback(job.close)
        check_method(job)
        if dry_run:
            _show_plan(job, store, out, json, quiet)
            return
        if out is not None:
            store = store or out / STORE_FILE
            enter(out, job, store, overwrite)
        if not quiet:
            _say_heading(job)
        opened = None
        if store is not None:
            from fedvalue.store import UtilityStore

            opened = resources.enter_context(UtilityStore(store))
        values, lines = _trained(job, opened, quiet)
    _publish(values, lines, out, json, quiet)


def _method(ctx: typer.Context, method: str, budget: int | None, exact: bool) -> tuple[str, int | None]:
    """--exact is --method exact without a budget, unless the command line says otherwise."""

    def typed(name: str) -> bool:
        source = ctx.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    if not exact or (typed("method") and not typed("exact")):
        return method, budget
    if typed("method") and method != "exact":
        raise InputError(f"--exact and --method {method} exclude each other.")
    return "exact", budget if typed("budget") else None


def _trained(job: Job, store: UtilityStore | None, quiet: bool) -> tuple[Values, list[str]]:
    import fedvalue as fv
    from fedvalue.cli._report import details, make_result, result_lines

    ask = job.ask
    try:
        values = fv.value(
            job.game, ask.method, ask.budget, ask.seed, store, progress=not quiet, **ask.options
        )
        result = make_result(job, store, values)
    except KeyboardInterrupt as error:
        complain(_interrupted(job, store))
        raise typer.Exit(130) from error
    lines = result_lines(job, result, guarantee_lines(values, ask.budget))
    return replace(values, details={**values.details, **details(job, result)}), lines


def _interrupted(job: Job, store: UtilityStore | None) -> str:
    if store is None:
        return "Interrupted, and nothing is kept. With --store FILE the same command would go on from here."
    kept = count(store.game(job.game.id).coalitions)
    return f"Interrupted. {kept} trained coalitions are in {store.path}: the same command goes on from there."


def _say_heading(job: Job) -> None:
    from fedvalue.cli._report import heading

    for line in (*heading(job), ""):
        say(line)


def _show_plan(job: Job, path: Path | None, out: Path | None, json: str | None, quiet: bool) -> None:
    from fedvalue.cli._plan import make_plan, plan_lines
    from fedvalue.store import UtilityStore

    path = path or (out / STORE_FILE if out is not None else None)
    with ExitStack() as resources:
        there = path is not None and path.exists()
        store = resources.enter_context(UtilityStore(str(path), create=False)) if there else None
        with busy("measuring", quiet):
            plan = make_plan(job, store)
    if json is not None:
        write_json(plan.to_dict(), json)
    if json == "-":
        return
    if not quiet:
        _say_heading(job)
    for line in plan_lines(plan):
        say(line)


def _publish(values: Values, lines: list[str], out: Path | None, json: str | None, quiet: bool) -> None:
    written = [str(out / VALUES_FILE)] if out is not None else []
    for target in (*written, *([json] if json is not None else [])):
        write_json(values.to_dict(), target)
    shows_table = json != "-" and not (json and quiet)
    if shows_table:
        print_table(values.table())
    if not quiet:
        for line in lines:
            say(line)
    if out is not None:  # after the result: the page takes a moment, and may fail where the values did not
        with busy("writing the report", quiet):
            write_report(out, str(out / REPORT_FILE))
        written.append(str(out / REPORT_FILE))
    written += [json] if json is not None else []
    if written and not quiet:
        say(f"Written to {' and '.join(written)}.")
