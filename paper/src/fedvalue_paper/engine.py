"""The engine: from an experiment to its rows. Games with few clients are enumerated once, then every method,
budget and seed is answered from the store; what was finished before is not done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np

from fedvalue.coalitions import full_mask
from fedvalue.errors import InputError, MethodError
from fedvalue.games import FederatedGame, TableGame
from fedvalue.run import value
from fedvalue.scenarios import Scenario, load_scenario
from fedvalue.store import UtilityStore
from fedvalue.training import Training
from fedvalue.values import Values
from fedvalue_paper.authors import METHODS, OwnNumbers, known_methods
from fedvalue_paper.costs import Cost, CostFile, mean_prefix, orders_trained, samples_of
from fedvalue_paper.effort import Meter, Silent, Watch, seconds_per_sample, work_of_game
from fedvalue_paper.expected import AllSeeds, setting_of, with_expected
from fedvalue_paper.grid import GameSpec, Run, games_of, runs_of, text_of
from fedvalue_paper.kept import Kept, keep
from fedvalue_paper.known import KeptGame, KnownGame, SharedGame, noting
from fedvalue_paper.measures import Finding, measured
from fedvalue_paper.rows import Row, RowFile, columns_of, key_of
from fedvalue_paper.spec import Experiment

__all__ = ["completed", "ROWS", "Played", "play"]

ROWS, STORE, COSTS = "rows.csv", "store.db", "costs.json"


@dataclass(frozen=True)
class Played:
    """A game as it was played: what the manifest says about it."""

    label: str
    n: int
    game_id: str
    cost: Cost | None = None
    scenario: Scenario | None = None
    kept: Kept | None = None
    trained_here: int = 0


@dataclass
class _Table:
    """A game at hand: what its runs are made on and held against."""

    spec: GameSpec
    game: TableGame | SharedGame
    scenario: Scenario | None = None
    averages: bool = False
    metric: str = "utility"
    truth: Values | None = None
    cost: Cost | None = None


def play(
    experiment: Experiment,
    out: Path,
    folder: Path,
    *,
    data_dir: str | PathLike[str] | None = None,
    device: str = "cpu",
    watch: Watch | None = None,
    kept: Mapping[int, Kept] | None = None,
) -> tuple[list[Row], list[Played]]:
    """Runs what is not there yet; returns all rows, with what they have in common over seeds, and the games.

    Utilities go to one store in `out`, which all experiments share; rows go to `folder`. With
    `kept` games, by their place among all, nothing is trained and no data is read.
    """
    watch = watch or Silent()
    specs = games_of(experiment)
    file = RowFile(folder / ROWS, columns_of(experiment, specs))
    done = {key_of(row): row for row in file.read()}
    file.write(list(done.values()))
    costs = CostFile(out / COSTS)
    rows, played = [], []
    alike: dict[str, list[_Table]] = {}  # games that differ in nothing but the training seed
    for spec in specs:
        alike.setdefault(setting_of(spec), [])
    with ExitStack() as resources:
        store = None if kept is not None else resources.enter_context(UtilityStore(out / STORE))
        for number, spec in enumerate(specs, 1):
            watch.game(number, len(specs), spec.label)
            meter = Meter(watch, work_of_game(experiment, spec))
            table = _set(spec, store, data_dir, device, meter, kept.get(number) if kept is not None else None)
            rows += _play_game(experiment, table, done, file, costs, device, meter)
            played.append(_played(table))
            meter.finish()
            alike[setting_of(spec)].append(table)
        for tables in alike.values():
            rows += _play_over_seeds(experiment, tables, done, file)
    file.write(rows)
    return completed(experiment, rows), played


def _played(table: _Table) -> Played:
    spec, game = table.spec, table.game
    about = Played(spec.label, spec.n, game.id, table.cost, table.scenario)
    if not isinstance(game, KnownGame):
        return about
    return replace(about, kept=keep(spec.label, game, table.cost), trained_here=game.trained_here())


def completed(experiment: Experiment, rows: Sequence[Row]) -> list[Row]:
    """The rows with what can be said of them only when all are there."""
    options = dict.fromkeys(key for spec in games_of(experiment) for key in spec.options)
    return with_variance(with_expected(rows, list(options)))


def with_variance(rows: Iterable[Row]) -> list[Row]:
    """The rows, the first of its like with the variance over seeds of the values that they found (mean over clients),
    and with that of their errors.

    They stand there once, so that a deviation over games is not one over copies of the same number.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(key_of({**row, "seed": None}), []).append(row)
    result = []
    for group in groups.values():
        vectors = [list(map(float, row["values"].split())) for row in group if row.get("values")]
        variance = float(np.var(vectors, axis=0, ddof=1).mean()) if len(vectors) > 1 else None
        errors = [row["error"] for row in group if row.get("error") is not None]
        of_error = float(np.var(errors, ddof=1)) if len(errors) > 1 else None
        if vectors and group[0]["budget"] == 1 << group[0]["n"]:  # everything is evaluated, whatever the seed
            variance, of_error = 0.0, 0.0 if errors else None
        found = {"variance": variance, "error_variance": of_error}
        result += [row | (dict.fromkeys(found) if number else found) for number, row in enumerate(group)]
    return result


def _set(
    spec: GameSpec,
    store: UtilityStore | None,
    data_dir: str | PathLike[str] | None,
    device: str,
    meter: Meter,
    kept: Kept | None,
) -> _Table:
    """Reads the data and makes the game; a kept one is ready."""
    if "table" in spec.settings:
        return _Table(spec, TableGame(spec.settings["table"], spec.get("names")))
    if kept is not None or store is None:
        if kept is None:
            raise InputError(f"The kept utilities lack the game {spec.label!r}.")
        return _Table(spec, kept.game(), kept.scenario(), kept.averages, kept.metric, cost=kept.cost)
    meter.watch.stage("reading the data")
    seed = int(spec.get("seed", 0))
    scenario = load_scenario(
        spec.settings["scenario"],
        clients=spec.n,
        partition=spec.get("partition"),
        samples=spec.get("samples"),
        test_size=spec.get("test_size"),
        seed=seed,
        data_dir=data_dir,
        **spec.options,
    )
    training = Training(**spec.training, seed=_training_seed(spec))
    make = OwnNumbers if spec.get("own_numbers") else FederatedGame
    model = spec.get("model", "mlp")
    game = make(
        scenario, f"{model}-dropout" if spec.get("dropout") else model, training, metric=spec.get("metric"), device=device,
        empty=spec.get("empty", "initial"),
    )  # fmt: skip
    game.follow(meter.watch.stage)
    meter.sizes = [len(data) for data in scenario.clients]
    meter.per_sample = seconds_per_sample(spec)
    return _Table(spec, KnownGame(game, store, meter.trained), scenario, game.averages, game.metric)


def _play_game(
    experiment: Experiment,
    table: _Table,
    done: Mapping[tuple[str, ...], Row],
    file: RowFile,
    costs: CostFile,
    device: str,
    meter: Meter,
) -> list[Row]:
    rows: list[Row] = []
    exact = table.spec.n <= experiment.exact_up_to
    for run in runs_of(experiment, table.spec.n):
        if run.over_seeds:
            continue
        frame = _frame(experiment, table, run)
        row = done.get(key_of(frame))
        if row is None:
            if table.truth is None and exact:  # enumerates the game, unless the store knows it
                meter.watch.stage("all coalitions")
                table.truth = value(table.game, "exact")
            if table.cost is None and isinstance(table.game, KnownGame):
                meter.watch.stage("measuring the cost of a training")
                table.cost = costs.of(table.game.game, device)
            meter.watch.stage(run.label if run.budget is None else f"{run.label}, γ = {run.budget}")
            row = {**dict.fromkeys(file.columns), **frame, **_run(table, run, exact)}
            file.append([row])
        rows.append(row)
        meter.ran(run.method)
    if table.cost is None and isinstance(table.game, KnownGame):
        table.cost = costs.of(table.game.game, device)  # all rows were there: for the manifest
    return rows


def _play_over_seeds(
    experiment: Experiment, tables: Sequence[_Table], done: Mapping[tuple[str, ...], Row], file: RowFile
) -> list[Row]:
    """The methods that spread their trainings over all training seeds of a setting, where there are several."""
    first = tables[0]
    runs = [run for run in runs_of(experiment, first.spec.n) if run.over_seeds]
    games = [table.game for table in tables if isinstance(table.game, SharedGame)]
    if not runs or len(games) < 2 or first.spec.n > experiment.exact_up_to:
        return []
    game = AllSeeds(games)
    rows: list[Row] = []
    for run in runs:
        frame = _frame(experiment, first, run) | {
            "game": f"{first.spec.label}, all training seeds",
            "game_id": game.id,
            "training_seed": None,
        }
        row = done.get(key_of(frame))
        if row is None:
            game.asked.clear()
            values = value(game, run.method, run.budget, run.seed, **run.options)
            cost = None if first.cost is None else first.cost.of(filter(None, game.asked), game.sizes)
            row = {
                **dict.fromkeys(file.columns), **frame,
                "applicable": True, "trainings": values.evaluations, "extrapolated": False,
                "sample_epochs": _passes(first.spec, game.asked, game.sizes), "paper_seconds": cost,
                "wall_seconds": values.seconds, "empty": game([0])[0], "values": _text(values.mean.tolist()),
            }  # fmt: skip
            file.append([row])
        rows.append(row)
    return rows


def _frame(experiment: Experiment, table: _Table, run: Run) -> Row:
    """What is known of a row before its run."""
    spec = table.spec
    sizes = None if table.scenario is None else [len(data) for data in table.scenario.clients]
    return {
        "experiment": experiment.name,
        "scale": experiment.scale,
        "variant": experiment.variant or None,
        "game": spec.label,
        "game_id": table.game.id,
        "scenario": "table" if table.scenario is None else table.scenario.name,
        "partition": None if table.scenario is None else table.scenario.details.get("partition"),
        "model": None if table.scenario is None else spec.get("model", "mlp"),
        "n": spec.n,
        "samples": None if sizes is None else round(sum(sizes) / len(sizes)),
        "game_seed": int(spec.get("seed", 0)),
        "training_seed": _training_seed(spec),
        "empty_rule": None if table.scenario is None else str(spec.get("empty", "initial")),
        "metric": table.metric,
        "method": run.method,
        "label": run.label,
        "options": text_of(run.options) or None,
        "budget": run.budget,
        "seed": run.seed,
        "expected": _text(run.expected) if run.expected else None,
        **spec.options,
        **run.options,
    }


def _run(table: _Table, run: Run, exact: bool) -> Row:
    """The rest of the row: what the run found, and what it cost."""
    reason = _why_not(table, run, exact)
    if reason:
        return {"applicable": False, "reason": reason}
    game = table.game
    ((_, untrained),) = game.evaluate([0])  # also of gradient methods, which do not ask for it
    if isinstance(game, SharedGame):
        game.asked.clear()
    try:
        values = _valued(game, run)
    except MethodError as refused:
        if not run.options.get("rescale"):
            raise
        # Its values have no counterpart in the unit of the utility.
        return {"applicable": False, "reason": str(refused)}
    gain = None if table.truth is None else float(table.truth.mean.sum())
    return {
        "applicable": True,
        **measured(Finding(run, values, table.truth, gain, table.scenario)),
        **_times(table, run, values),
        "empty": game.utility(untrained),
        "values": _text(values.mean.tolist()),
    }


def _valued(game: TableGame | SharedGame, run: Run) -> Values:
    """The run on the game; kept utilities are looked up in their table."""
    if not isinstance(game, KeptGame) or game.table is None:
        return value(game, METHODS.get(run.method, run.method), run.budget, run.seed, **run.options)
    method = noting(known_methods()[run.method], game.asked)
    values = value(game.table, method, run.budget, run.seed, **run.options)
    if not game.asked:  # with a budget for everything a method makes way for the exact values
        game.asked.update(range(1 << game.n))
    return values


def _why_not(table: _Table, run: Run, exact: bool) -> str:
    """Why a method does not apply to a game; nothing where it does."""
    method = known_methods()[run.method]
    n = table.spec.n
    if method.view and not table.averages:
        return "gradient methods need clients whose updates are averaged"
    if method.guarantee == "exact" and not exact and table.scenario is not None:
        return f"all 2^{n} coalitions would have to be trained"
    needs = method.minimum(n, run.options)
    if run.budget is not None and run.budget < needs:
        return f"needs a budget of at least {needs}"
    return ""


def _times(table: _Table, run: Run, values: Values) -> Row:
    """Trainings, the paper's time and ours. Perm-Shapley trains every prefix of all orders, none of them twice.

    A gradient method takes one recorded run and its evaluations, which is what was measured.
    """
    permutes = run.method == "exact-perm"
    row: Row = {
        "trainings": orders_trained(table.spec.n) if permutes else values.evaluations,
        "extrapolated": permutes,
        "wall_seconds": values.seconds,
        "paper_seconds": None,
        "sample_epochs": None,
    }
    if not isinstance(table.game, SharedGame):
        return row
    sizes = table.game.sizes
    row["sample_epochs"] = _sample_epochs(table, run)
    if table.cost is None:
        return row
    if permutes:
        row["paper_seconds"] = table.cost.of_all_orders(sizes)
    elif table.game.asked:
        row["paper_seconds"] = table.cost.of(table.game.asked, sizes)
    else:
        row["paper_seconds"] = values.seconds
    return row


def _sample_epochs(table: _Table, run: Run) -> float:
    """Samples × rounds × epochs over all trainings: what they cost, whatever the machine.

    A gradient method records one training of all clients.
    """
    assert isinstance(table.game, SharedGame)
    spec, sizes = table.spec, table.game.sizes
    if run.method == "exact-perm":
        return orders_trained(spec.n) * mean_prefix(sizes) * _passes(spec, [1], [1])
    return _passes(spec, table.game.asked or {full_mask(spec.n)}, sizes)


def _passes(spec: GameSpec, masks: Iterable[int], sizes: Sequence[int]) -> float:
    """Samples × rounds × epochs of training these coalitions."""
    rules = Training(**spec.training)
    return float(rules.rounds * rules.epochs * samples_of(list(masks), sizes))


def _training_seed(spec: GameSpec) -> int:
    """One seed fixes the partition and the training, unless the training has its own."""
    return int(spec.get("training_seed", spec.get("seed", 0)))


def _text(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:.10g}" for number in numbers)
