"""Wrong calls of everything that is exported: one FedvalueError in one or two sentences, never a plain Python error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedvalue as fv
from fedvalue import scoring

X = np.arange(24, dtype="f4").reshape(12, 2) % 5
Y = (X[:, 0] > 2).astype("i8")
ROWS = fv.Dataset(X, Y)
TABLE = [0.0, 1.0, 1.0, 3.0]
VALUES = fv.Values([3.0, 1.0], ("a", "b"), "exact", 4, guarantee="exact")


def scenario() -> fv.Scenario:
    return fv.Scenario("own", (ROWS, ROWS), ("a", "b"), ROWS, "classification", 2)


def of_rows(**changed: Any) -> fv.Scenario:
    given: dict[str, Any] = {
        "name": "own", "clients": (ROWS, ROWS), "names": ("a", "b"), "test": ROWS, "task": "classification", "classes": 2,
    }  # fmt: skip
    return fv.Scenario(**(given | changed))


def ones(coalitions: Any) -> list[float]:
    return [1.0 for _ in coalitions]


def tensor(grad: bool = True) -> Any:
    import torch

    return torch.ones(4, requires_grad=grad)


def quits(coalitions: Any) -> list[float]:
    raise SystemExit(3)


def zeros(n: int, budget: int, rng: np.random.Generator) -> Any:
    yield [0]
    return fv.Estimate(np.zeros(n))


def looks_at_too_many(n: int, budget: int, rng: np.random.Generator) -> Any:
    yield range(10**12)
    return fv.Estimate(np.zeros(n))


def with_minimum(minimum: Any) -> fv.Method:
    return fv.Method("own", zeros, minimum=minimum)


def with_view(view: Any) -> fv.Values:
    game = fv.FederatedGame(scenario(), "linear", fv.Training(rounds=1, epochs=1, batch=8))
    return fv.value(game, fv.Method("own", None, view=view))


def small_job(**options: Any) -> fv.Job:
    return fv.Job("synthetic", clients=2, samples=10, method="exact", options={"noise": False}, **options)


def pooled(scoring: Any) -> fv.Values:
    from sklearn.linear_model import LogisticRegression

    return fv.value(fv.PooledGame(LogisticRegression(), [(X, Y), (X, Y)], (X, Y), scoring=scoring), "exact")


class Own:
    """A game of one's own, correct but for what is given."""

    n, names, id, doubts, replicates = 2, ("a", "b"), "own", (), 1

    def __init__(self, **wrong: Any) -> None:
        self.__dict__.update(wrong)

    def evaluate(self, masks: Any, replicate: int = 0) -> Any:
        return [(mask, fv.Outcome({"utility": 1.0})) for mask in masks]

    def utility(self, outcome: fv.Outcome) -> Any:
        return outcome.metrics["utility"]


def of_own(path: Path, **wrong: Any) -> fv.Values:
    return fv.value(Own(**wrong), "exact", store=path / "own.db")


def asks_for_a_late_seed(n: int, budget: int, rng: np.random.Generator, *, most_seeds: int | None) -> Any:
    yield [(3, 10**30)]
    return fv.Estimate(np.zeros(n))


# Name of a wrong call: what it does. The path is an empty folder.
ABUSES: dict[str, Callable[[Path], Any]] = {
    # TableGame, and what is taken for one
    "a table of text": lambda p: fv.TableGame("abcd"),
    "a table of texts": lambda p: fv.TableGame(["a", "b"]),
    "a table of None": lambda p: fv.TableGame(None),
    "a table of a number": lambda p: fv.TableGame(3.0),
    "a table of three": lambda p: fv.TableGame([1, 2, 3]),
    "a table of rows that are too short": lambda p: fv.TableGame([[1], [3]]),
    "a table with nan": lambda p: fv.TableGame([0, 1, 2, float("nan")]),
    "a table of complex numbers": lambda p: fv.TableGame([0, 1j]),
    "a ragged table": lambda p: fv.TableGame([[0], [1, 2]]),
    "a table as a dict": lambda p: fv.TableGame({0: 1.0, 1: 2.0}),
    "one name for two": lambda p: fv.TableGame(TABLE, names=["a"]),
    "equal names": lambda p: fv.TableGame(TABLE, names=["a", "a"]),
    "names as a number": lambda p: fv.TableGame(TABLE, names=3),
    "names without an order": lambda p: fv.TableGame(TABLE, names={"a", "b"}),
    "a table of NumPy's complex numbers": lambda p: fv.TableGame(np.array(TABLE) * 1j),
    "a table of days": lambda p: fv.TableGame(np.array(["2026-01-01"] * 4, "M8[D]")),
    "an unknown coalition of a table": lambda p: fv.TableGame(TABLE)([9]),
    "a coalition of a table as a text": lambda p: fv.TableGame(TABLE)(["a"]),
    "a table with a mistyped keyword": lambda p: fv.TableGame(TABLE, name=["a", "b"]),
    "names of arrays without an order": lambda p: fv.Scenario.from_arrays([(X, Y), (X, Y)], test=(X, Y), names={"a", "b"}),
    "a loss of complex numbers": lambda p: fv.value(fv.FederatedGame(scenario(), "linear", fv.Training(rounds=1, epochs=1, batch=8), loss=fv.Loss("own", lambda outputs, labels: outputs.sum(1) * 1j)), "exact"),
    "a scoring of complex numbers": lambda p: pooled(lambda model, x, y: np.complex128(1j)),
    # FunctionGame
    "a function without clients": lambda p: fv.FunctionGame(0, ones),
    "clients as a text": lambda p: fv.FunctionGame("3", ones),
    "clients as a fraction": lambda p: fv.FunctionGame(2.5, ones),
    "clients as True": lambda p: fv.FunctionGame(True, ones),
    "no function": lambda p: fv.FunctionGame(3, 5),
    "function and number swapped": lambda p: fv.FunctionGame(ones, 3),
    "names of a function as a text": lambda p: fv.FunctionGame(3, ones, "ab"),
    "names of a function as a number": lambda p: fv.FunctionGame(3, ones, 7),
    "a chunk of zero": lambda p: fv.FunctionGame(3, ones, chunk=0),
    "replicates of zero": lambda p: fv.FunctionGame(3, ones, replicates=0),
    "jobs as a text": lambda p: fv.FunctionGame(3, ones, jobs="2"),
    "a negative timeout": lambda p: fv.FunctionGame(3, ones, timeout=-1),
    "an unknown start": lambda p: fv.FunctionGame(3, ones, start="clone"),
    "batch as a text": lambda p: fv.FunctionGame(3, ones, batch="no"),
    "files as a text": lambda p: fv.FunctionGame(3, ones, files="rows.csv"),
    "files that are not there": lambda p: fv.FunctionGame(3, ones, files=["rows.csv"]),
    "a mistyped keyword of a function's game": lambda p: fv.FunctionGame(3, ones, replicate=2),
    "a function that returns a number": lambda p: fv.value(fv.FunctionGame(2, lambda cs: 1.0), "exact"),
    "a function that returns too few": lambda p: fv.value(fv.FunctionGame(2, lambda cs: []), "exact"),
    "a function that returns text": lambda p: fv.value(fv.FunctionGame(2, lambda cs: ["a"] * len(cs)), "exact"),
    "a function that returns nothing": lambda p: fv.value(fv.FunctionGame(2, lambda cs: None), "exact"),
    "a function that returns complex numbers of NumPy": lambda p: fv.value(fv.FunctionGame(2, lambda c: np.complex128(1 + 2j), batch=False), "exact"),
    "a function that returns a complex number for each row": lambda p: fv.value(fv.FunctionGame(2, lambda c: np.ones(9) * 1j, batch=False), "exact"),
    "a function that returns a dict": lambda p: fv.value(fv.FunctionGame(2, lambda cs: dict.fromkeys(range(len(cs)), 1.0)), "exact"),
    "a function that returns a set": lambda p: fv.value(fv.FunctionGame(2, lambda cs: set(range(len(cs)))), "exact"),
    "a function that returns digits": lambda p: fv.value(fv.FunctionGame(2, lambda cs: "1" * len(cs)), "exact"),
    "a function that returns infinity": lambda p: fv.value(fv.FunctionGame(2, lambda cs: [np.inf] * len(cs)), "exact"),
    "a function that raises": lambda p: fv.value(fv.FunctionGame(2, lambda cs: [1 / 0]), "exact"),
    "a function that quits": lambda p: fv.value(fv.FunctionGame(2, quits), "exact"),
    "a function that quits, one by one": lambda p: fv.value(fv.FunctionGame(2, quits, batch=False), "exact"),
    "a function that takes nothing": lambda p: fv.value(fv.FunctionGame(2, lambda: 1.0), "exact"),
    # value
    "the value of a text": lambda p: fv.value("digits"),
    "the value of nothing": lambda p: fv.value(None),
    "the value of a function": lambda p: fv.value(ones),
    "the value of a scenario": lambda p: fv.value(scenario()),
    "the value of a dict": lambda p: fv.value({"a": 1.0, "b": 2.0}),
    "the value of an incomplete game": lambda p: fv.value(type("G", (), {"n": 2, "evaluate": None})()),
    "a game without clients": lambda p: of_own(p, n=0),
    "a game of a text": lambda p: of_own(p, n="2"),
    "a game with one name twice": lambda p: of_own(p, names=("a", "a")),
    "a game without names": lambda p: of_own(p, names=None),
    "a game with a number as its id": lambda p: of_own(p, id=5),
    "a game without an id": lambda p: of_own(p, id=""),
    "a game without replicates": lambda p: of_own(p, replicates=0),
    "a game whose utility is no function": lambda p: of_own(p, utility=None),
    "a game with text as utility": lambda p: of_own(p, utility=str),
    "a game with complex utilities": lambda p: of_own(p, utility=lambda outcome: np.complex128(1 + 1j)),
    "a game that lacks its metric": lambda p: of_own(p, utility=lambda outcome: outcome.metrics["accuracy"]),
    "a game that evaluates to nothing": lambda p: of_own(p, evaluate=lambda masks, replicate: None),
    "a game that gives numbers": lambda p: of_own(p, evaluate=lambda masks, replicate: [(m, 1.0) for m in masks]),
    "a game that gives outcomes alone": lambda p: of_own(p, evaluate=lambda masks, replicate: [fv.Outcome({"utility": 1.0}) for _ in masks]),
    "a game that gives a coalition of others": lambda p: of_own(p, evaluate=lambda masks, replicate: [(4, fv.Outcome({"utility": 1.0}))]),
    "a seed that no store holds": lambda p: fv.value(fv.FunctionGame(2, lambda c, seed: 1.0, batch=False, key="k"), fv.Method("late", asks_for_a_late_seed, uses_seeds=True), budget=3, store=p / "s.db"),
    "an unknown method": lambda p: fv.value(TABLE, "exakt"),
    "a method as a list": lambda p: fv.value(TABLE, method=["exact"]),
    "a method as a number": lambda p: fv.value(TABLE, method=3),
    "a method that is no generator": lambda p: fv.value(TABLE, method=lambda n, budget, rng: 3),
    "a method that takes something else": lambda p: fv.value(TABLE, method=lambda a: a),
    "a plan that asks for more than there is": lambda p: fv.value(TABLE, looks_at_too_many, budget=3),
    "a function that raises before it plans": lambda p: fv.value(TABLE, lambda n, budget, rng: 1 // 0, budget=3),
    "a minimum that raises": lambda p: fv.value(TABLE, with_minimum(lambda n, options: 1 // 0), budget=3),
    "a minimum of another form": lambda p: fv.value(TABLE, with_minimum(lambda n: 1), budget=3),
    "a minimum that is no number": lambda p: fv.value(TABLE, with_minimum(lambda n, options: "all"), budget=3),
    "a view that raises": lambda p: with_view(lambda games, rng: 1 // 0),
    "a view that returns nothing": lambda p: with_view(lambda games, rng: None),
    "an option that the method does not have": lambda p: fv.value(TABLE, "exact", bdget=3),
    "a mistyped budget": lambda p: fv.value(TABLE, "ipss", budgets=4),
    "a budget of zero": lambda p: fv.value(TABLE, "ipss", budget=0),
    "a budget as a text": lambda p: fv.value(TABLE, "ipss", budget="all"),
    "a budget as a fraction": lambda p: fv.value(TABLE, "ipss", budget=2.5),
    "a budget below the least": lambda p: fv.value([0.0] * 16, "gtb", budget=1),
    "a negative seed": lambda p: fv.value(TABLE, "exact", seed=-1),
    "a seed as a text": lambda p: fv.value(TABLE, "exact", seed="a"),
    "a store as a number": lambda p: fv.value(TABLE, "exact", store=3),
    "a store as a list": lambda p: fv.value(TABLE, "exact", store=[]),
    "a store that is a folder": lambda p: fv.value(TABLE, "exact", store=p),
    "a store in a folder that is missing": lambda p: fv.value(TABLE, "exact", store=p / "a" / "b.db"),
    "a store that is no store": lambda p: fv.value(TABLE, "exact", store=__file__),
    "an observer that is none": lambda p: fv.value(TABLE, "exact", on_values=3),
    "a gradient method on a table": lambda p: fv.value(TABLE, "gtg"),
    "an option of the wrong type": lambda p: fv.value([0.0] * 16, "tmc", budget=8, patience="long"),
    "an option of a run of the wrong type": lambda p: fv.run("synthetic", clients=5, samples=20, method="cc-bernstein", budget=20, options={"confidence": "high"}),
    "an option of the run among those of the method": lambda p: fv.run("digits", options={"budget": 8}),
    # jobs
    "overwrite as a text": lambda p: small_job(overwrite="no"),
    "retrain as a text": lambda p: small_job(retrain="no"),
    "seeds of their own as a text": lambda p: small_job(own_seeds="no"),
    "clients among the options of the scenario": lambda p: small_job(scenario_options={"clients": 3}).run(),
    "a number as an option of the scenario": lambda p: small_job(scenario_options={1: 2}),
    "options of the model that are none": lambda p: small_job(model_options=5),
    "a scenario as a list": lambda p: fv.run(["digits"]),
    "a rate that is True": lambda p: small_job(model="linear", rate=True).run(),
    "a class of learners": lambda p: fv.FederatedGame(scenario(), fv.Learner),
    "a group with a line break": lambda p: small_job(groups={"a\nb": ["client-0", "client-1"]}).run(),
    "the current folder as a store": lambda p: fv.UtilityStore("."),
    "a result saved nowhere": lambda p: small_job().run().save(""),
    "a result saved in a number": lambda p: small_job().run().save(5),
    "a result that overwrites by a text": lambda p: small_job().run().save(p / "run", overwrite="no"),
    "a report in a number": lambda p: small_job().run().report(5),
    # compare and benchmark
    "methods as a number": lambda p: fv.compare(TABLE, 3),
    "no methods": lambda p: fv.compare(TABLE, []),
    "methods with an unknown one": lambda p: fv.compare(TABLE, ["exact", "exakt"]),
    "methods as a dict": lambda p: fv.compare(TABLE, {"exact": 1}),
    "compare without a game": lambda p: fv.compare(None),
    "compare with a store as a number": lambda p: fv.compare(TABLE, ["exact"], store=3),
    "a benchmark of nothing": lambda p: fv.benchmark(None),
    "a benchmark without seeds": lambda p: fv.benchmark(TABLE, seeds=[]),
    "a benchmark with seeds as a text": lambda p: fv.benchmark(TABLE, seeds="ab"),
    # run and Job
    "a scenario that does not exist": lambda p: fv.run("digit"),
    "a scenario as a number": lambda p: fv.run(3),
    "a mistyped option of run": lambda p: fv.run("digits", rouns=3),
    "exact=True": lambda p: fv.run("digits", exact=True),
    "a mistyped option of Job": lambda p: fv.Job("digits", rouns=3),
    "rounds as a text": lambda p: fv.run("digits", rounds="many"),
    "no rounds": lambda p: fv.run("digits", rounds=0),
    "a rate below zero": lambda p: fv.run("digits", rate=-1),
    "a model that does not exist": lambda p: fv.run("digits", model="mpl"),
    "a model as a number": lambda p: fv.run("digits", model=3),
    "a device that does not exist": lambda p: fv.run("digits", device="tpu"),
    "a device as a number": lambda p: fv.run("digits", device=0),
    "memory as a text": lambda p: fv.run("digits", memory="lots"),
    "memory as a list": lambda p: fv.run("digits", memory=[1]),
    "a backend that does not exist": lambda p: fv.run("digits", backend="cloud"),
    "a metric that does not exist": lambda p: fv.run("digits", metric="acuracy"),
    "replicates of a run as a text": lambda p: fv.run("digits", replicates="2"),
    "clients of a run as a text": lambda p: fv.run("digits", clients="3"),
    "options of a method as a list": lambda p: fv.run("digits", options=["a"]),
    "options of a scenario as a text": lambda p: fv.run("digits", scenario_options="alpha"),
    "a folder as a number": lambda p: fv.run("digits", clients=2, out=3),
    "a store of a run as a number": lambda p: fv.run("digits", clients=2, store=3),
    "data that is not there": lambda p: fv.run("files", data_dir=p / "missing"),
    "data_dir as a number": lambda p: fv.run("files", data_dir=3),
    # FederatedGame
    "a federation of a name": lambda p: fv.FederatedGame("digits"),
    "a federation of nothing": lambda p: fv.FederatedGame(None),
    "a federation of arrays": lambda p: fv.FederatedGame((X, Y)),
    "rules as a dict": lambda p: fv.FederatedGame(scenario(), "mlp", {"rounds": 2}),
    "a model as a dict": lambda p: fv.FederatedGame(scenario(), {"rounds": 2}),
    "a mistyped device": lambda p: fv.FederatedGame(scenario(), devic="cpu"),
    "a mistyped metric": lambda p: fv.FederatedGame(scenario(), metrics="accuracy"),
    "a trainer as a number": lambda p: fv.FederatedGame(scenario(), trainer=3),
    "a trainer that does not exist": lambda p: fv.FederatedGame(scenario(), trainer="locl"),
    "replicates as True": lambda p: fv.FederatedGame(scenario(), replicates=True),
    "a metric as a number": lambda p: fv.FederatedGame(scenario(), metric=3),
    "a device of a game as a number": lambda p: fv.value(fv.FederatedGame(scenario(), device=0), "exact"),
    "memory of a game as a text": lambda p: fv.value(fv.FederatedGame(scenario(), memory="4GB"), "exact"),
    # Scenario and Dataset
    "clients as pairs": lambda p: of_rows(clients=((X, Y), (X, Y))),
    "the test set as a pair": lambda p: of_rows(test=(X, Y)),
    "clients as a number": lambda p: of_rows(clients=3),
    "no clients": lambda p: of_rows(clients=()),
    "names of a scenario as a number": lambda p: of_rows(names=3),
    "names of a scenario as None": lambda p: of_rows(names=None),
    "a task that does not exist": lambda p: of_rows(task="ranking"),
    "classes as a text": lambda p: of_rows(classes="2"),
    "one class": lambda p: of_rows(classes=1),
    "a vocabulary as a text": lambda p: of_rows(vocabulary="words"),
    "test parts as a list": lambda p: of_rows(test_parts=[1, 2]),
    "details as a list": lambda p: of_rows(details=[1]),
    "features of text": lambda p: of_rows(test=fv.Dataset([["a"]], [0])),
    "labels of None": lambda p: of_rows(test=fv.Dataset([[0.0, 1.0]], None)),
    "features without rows": lambda p: of_rows(test=fv.Dataset(3.0, [0])),
    "ragged features": lambda p: fv.Dataset([[0.0], [1.0, 2.0]], [0, 1]),
    "labels beyond the classes": lambda p: of_rows(test=fv.Dataset([[0.0, 1.0]], [7])),
    "labels of objects": lambda p: of_rows(test=fv.Dataset([[0.0, 1.0]], [object()])),
    "more labels than rows": lambda p: of_rows(test=fv.Dataset([[0.0, 1.0]], [0, 1])),
    "a mistyped argument of a scenario": lambda p: of_rows(clases=2),
    # load_scenario
    "loading what does not exist": lambda p: fv.load_scenario("digitz"),
    "loading a number": lambda p: fv.load_scenario(3),
    "loading with no clients": lambda p: fv.load_scenario("digits", clients=0),
    "loading with an unknown partition": lambda p: fv.load_scenario("digits", partition="sizes"),
    "loading with a partition as a number": lambda p: fv.load_scenario("digits", partition=3),
    "loading with an unknown option": lambda p: fv.load_scenario("digits", alfa=0.1),
    "loading with a seed as a text": lambda p: fv.load_scenario("digits", seed="a"),
    # Training, Metric, Method, Estimate, Values
    "a mistyped rule": lambda p: fv.Training(round=3),
    "rounds as a list": lambda p: fv.Training(rounds=[3]),
    "a rate as a text": lambda p: fv.Training(rate="high"),
    "an algorithm that does not exist": lambda p: fv.Training(algorithm="fedsdg"),
    "an algorithm as a list": lambda p: fv.Training(algorithm=["fedavg"]),
    "mu without fedprox": lambda p: fv.Training(mu=0.1),
    "a metric without a name": lambda p: fv.Metric("", ones),
    "a metric without a function": lambda p: fv.Metric("mine", 3),
    "a metric called as a built-in one": lambda p: fv.Metric("accuracy", ones),
    "a metric whose name is a number": lambda p: fv.Metric(3, ones),
    "a metric that takes what there is not": lambda p: fv.Metric("mine", ones, takes="logits"),
    "a metric that takes a list": lambda p: fv.Metric("mine", ones, takes=["outputs"]),
    "values of other length": lambda p: fv.Values([1.0], ("a", "b"), "exact", 2),
    "values of text": lambda p: fv.Values(["a"], ("a",), "exact", 2),
    "names of values as a number": lambda p: fv.Values([1.0], 3, "exact", 2),
    "values from a list": lambda p: fv.Values.from_dict([1]),
    "values from an empty dict": lambda p: fv.Values.from_dict({}),
    "a level of two": lambda p: VALUES.interval(2),
    "a level as a text": lambda p: VALUES.interval("95%"),
    "the order of an unknown client": lambda p: VALUES.probability_order("a", "z"),
    "the order of client 9": lambda p: VALUES.probability_order(0, 9),
    "the order of a fraction": lambda p: VALUES.probability_order(0, 0.5),
    "a gain of a text": lambda p: VALUES.expected_gain("more"),
    # payout, audit, report
    "a payout of a list": lambda p: fv.payout([1, 2], 100),
    "a payout of a dict": lambda p: fv.payout({"a": 1}, 100),
    "a pot as a text": lambda p: fv.payout(VALUES, "much"),
    "a pot as None": lambda p: fv.payout(VALUES, None),
    "a negative pot": lambda p: fv.payout(VALUES, -5),
    "a rule that does not exist": lambda p: fv.payout(VALUES, 100, "flor"),
    "a rule as a list": lambda p: fv.payout(VALUES, 100, ["floor"]),
    "a share as a list": lambda p: fv.payout(VALUES, 100, min_share=[0.1]),
    "a step of zero": lambda p: fv.payout(VALUES, 100, step=0),
    "a currency as a number": lambda p: fv.payout(VALUES, 100, currency=3),
    "draws as a text": lambda p: fv.payout(VALUES, 100, draws="many"),
    "an audit of a list": lambda p: fv.audit([1, 2], {0: [1.0]}),
    "an audit without trainings": lambda p: fv.audit(VALUES),
    "an audit with a store as a number": lambda p: fv.audit(VALUES, store=3),
    "an audit with utilities as a list": lambda p: fv.audit(VALUES, [1, 2, 3, 4]),
    "an audit with a utility as a number": lambda p: fv.audit(VALUES, {0: 1.0, 1: 2.0}),
    "an audit with utilities of text": lambda p: fv.audit(VALUES, {0: ["a"]}),
    "an audit at level 2": lambda p: fv.audit(VALUES, {0: [1.0]}, level=2),
    "an audit at a level of text": lambda p: fv.audit(VALUES, {0: [1.0]}, level="high"),
    "a report of a list": lambda p: fv.report([1, 2], p / "r.html"),
    "a report to a number": lambda p: fv.report(VALUES, 3),
    "a report of another kind": lambda p: fv.report(VALUES, p / "r.pdf"),
    "a report to a folder that is missing": lambda p: fv.report(VALUES, p / "a" / "r.html"),
    "a report with a pot of text": lambda p: fv.report(VALUES, p / "r.html", pot="much"),
    "a report with a store as a number": lambda p: fv.report(VALUES, p / "r.html", store=3),
    # UtilityStore
    "a store file as a number": lambda p: fv.UtilityStore(3),
    "a store file as None": lambda p: fv.UtilityStore(None),
    "a store that is not there": lambda p: fv.UtilityStore(p / "no.db", create=False),
    "a store in memory": lambda p: fv.UtilityStore(":memory:"),
    "a store with a zero in its name": lambda p: fv.UtilityStore("a\0b"),
    "a merge with nothing": lambda p: fv.UtilityStore(p / "s.db").merge(p / "no.db"),
    "a merge with a number": lambda p: fv.UtilityStore(p / "s.db").merge(3),
    "an outcome without metrics": lambda p: fv.UtilityStore(p / "s.db").append("g", [(1, fv.Outcome({"a": "b"}))]),
    # what functions are called with, and paths
    "a stage of a benchmark that is none": lambda p: fv.benchmark(TABLE, on_stage=3),
    "methods of a benchmark as a number": lambda p: fv.benchmark(TABLE, 3),
    "an observer of a run that is none": lambda p: fv.run(scenario(), model="linear", rounds=1, on_outcome={}),
    "copies as a rule": lambda p: fv.payout(VALUES, 100, copies="share"),
    "a table at the level of a text": lambda p: VALUES.table("high"),
    "a disclosure of a number": lambda p: fv.Disclosure.from_dict(3),
    "a disclosure of something else": lambda p: fv.Disclosure.from_dict({"a": 1}),
    "claims as a number": lambda p: fv.what_if_claimed(fv.FederatedGame(scenario()), rows=3),
    "a claim of nothing": lambda p: fv.what_if_claimed(fv.FederatedGame(scenario()), scales=[0]),
    "a path with a name of 300 letters": lambda p: fv.value(TABLE, "exact", store="ü" * 300),
    # scoring
    "scores of other lengths": lambda p: scoring.relative_l2([1.0], [1.0, 2.0]),
    "scores of text": lambda p: scoring.skill(["a"], ["b"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ABUSES)
def test_a_wrong_call_is_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fv.FedvalueError) as caught:
        ABUSES[name](tmp_path)
    text = str(caught.value)
    assert text.rstrip().endswith((".", "?")) or "\nRaised here" in text
    assert "Traceback" not in text
    assert len(text.split("\nRaised here")[0]) < 900


def test_what_a_game_of_ones_own_does_wrong_is_not_stored(tmp_path: Path) -> None:
    for wrong in ([(0, fv.Outcome({"utility": 1.0})), (4, fv.Outcome({"utility": 1.0}))], [(0, 1.0)]):
        with pytest.raises(fv.GameError):
            of_own(tmp_path, evaluate=lambda masks, replicate, wrong=wrong: wrong)
    assert of_own(tmp_path).mean.tolist() == [0.0, 0.0]
    with fv.UtilityStore(tmp_path / "own.db") as store:
        assert store.verify() == []


def test_tensors_that_need_a_gradient_are_numbers_like_others() -> None:
    assert fv.TableGame(tensor()).utilities.tolist() == [1.0] * 4
    rows = fv.Dataset(tensor().reshape(2, 2), tensor()[:2])
    assert of_rows(test=rows).test.y.tolist() == [1, 1]


def test_an_interrupt_is_not_an_error_of_the_function() -> None:
    def interrupted(coalitions: Any) -> list[float]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fv.value(fv.FunctionGame(2, interrupted), "exact")


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: fv.run("digits", rouns=3), "rounds"),
        (lambda: fv.Job("digits", rouns=3), "rounds"),  # type: ignore[call-arg]
        (lambda: fv.value(TABLE, "ipss", budgt=3), "budget"),
        (lambda: fv.value(TABLE, metod="exact"), "method"),
        (lambda: fv.FederatedGame(scenario(), devic="cpu"), "device"),
        (lambda: fv.FederatedGame(scenario(), metrc="loss"), "metric"),
        (lambda: fv.FunctionGame(3, ones, replicate=2), "replicates"),  # type: ignore[call-arg]
        (lambda: fv.Training(round=2), "rounds"),  # type: ignore[call-arg]
        (lambda: fv.payout(VALUES, 100, curency="EUR"), "currency"),  # type: ignore[call-arg]
    ],
)
def test_a_mistyped_keyword_names_the_right_one(call: Callable[[], Any], meant: str) -> None:
    with pytest.raises(fv.InputError, match=f"Did you mean .*'{meant}'"):
        call()


def test_the_table_is_as_long_as_it_was() -> None:
    assert len(ABUSES) >= 127
