"""Estimators of one's own: passed to `value` and `compare` like those with a name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.run import read_values
from fedvalue.testing.games import Recorder, random_table

GAME = random_table(5, 3)


def first_marginals(n: int, budget: int, rng: np.random.Generator, *, twice: bool = False) -> fv.Plan:
    """What each client adds to nobody."""
    utilities = yield [0, *(1 << i for i in range(n))]
    return fv.Estimate((1 + twice) * (utilities[1:] - utilities[0]), details={"asked": n + 1})


def test_a_plan_is_a_method() -> None:
    values = fv.value(GAME.table, first_marginals, budget=6)
    assert values.mean == pytest.approx([GAME.table[1 << i] - GAME.table[0] for i in range(5)])
    assert (values.method, values.evaluations, values.guarantee) == ("first-marginals", 6, "unstated")
    assert values.details == {"asked": 6}
    doubled = fv.value(GAME.table, first_marginals, budget=6, twice=True)
    assert doubled.mean == pytest.approx(2 * values.mean)


def test_a_description_says_more() -> None:
    described = fv.Method(
        "alone", first_marginals, "What each adds to nobody", "biased", minimum=lambda n, options: n + 1
    )
    assert fv.value(GAME.table, described, budget=6).guarantee == "biased"
    with pytest.raises(fv.BudgetError, match="alone needs a budget of at least 6"):
        fv.value(GAME.table, described, budget=5)
    # Not fixed: a budget that covers everything needs no estimate.
    assert fv.value(GAME.table, described, budget=32).guarantee == "exact"
    with pytest.raises(fv.MethodError, match="no option 'thrice'"):
        fv.value(GAME.table, described, budget=6, thrice=True)


def test_they_are_compared_with_others_on_shared_evaluations() -> None:
    recorder = Recorder(5, GAME.table)
    results = fv.compare(recorder, ["ipss", first_marginals, fv.Method("again", first_marginals)], budget=8)
    assert list(results) == ["ipss", "first-marginals", "again"]
    assert results["again"].mean.tolist() == results["first-marginals"].mean.tolist()
    assert len(recorder.evaluated) == len(set(recorder.evaluated))
    with pytest.raises(
        fv.MethodError, match=r"Two methods are called 'ipss'\. Give one of them another name"
    ):
        fv.compare(GAME.table, ["ipss", fv.Method("ipss", first_marginals)], budget=8)


def test_the_equal_split_is_always_in_a_benchmark() -> None:
    found = fv.benchmark(GAME.table, [first_marginals, "ipss"], budget=8, seeds=range(3))
    assert {score.method for score in found.scores} == {"first-marginals", "ipss", "equal"}
    assert found.not_run == {}


def test_partials_and_objects_are_plans_too() -> None:
    class Alone:
        def __call__(self, n: int, budget: int, rng: np.random.Generator) -> fv.Plan:
            return first_marginals(n, budget, rng)

    once = fv.value(GAME.table, first_marginals, budget=6).mean
    assert fv.value(GAME.table, partial(first_marginals, twice=True), budget=6).mean == pytest.approx(
        2 * once
    )
    assert fv.value(GAME.table, Alone(), budget=6).mean == pytest.approx(once)


def _yields(ask: Any) -> Any:
    def plan(n: int, budget: int, rng: np.random.Generator) -> Iterator[Any]:
        yield ask
        return fv.Estimate(np.zeros(n))

    return plan


def _returns(result: Any) -> Any:
    def plan(n: int, budget: int, rng: np.random.Generator) -> Iterator[Any]:
        yield [0]
        return result

    return plan


def _raises(n: int, budget: int, rng: np.random.Generator) -> fv.Plan:
    utilities = yield [0]
    return fv.Estimate(utilities / 0 if len(utilities) != 1 else np.full(n, 1 // 0))


def _plain(n: int, budget: int, rng: np.random.Generator) -> list[int]:
    return [0]


@pytest.mark.parametrize(
    ("plan", "error", "message"),
    [
        (
            _yields([99]),
            fv.MethodError,
            "asked for the coalition 99; the bitmasks of 5 clients go from 0 to 31",
        ),
        (_yields([-1]), fv.MethodError, "asked for the coalition -1"),
        (_yields([0.5]), fv.MethodError, "lists of coalitions as bitmasks"),
        (_yields([(0, 1)]), fv.MethodError, "lists of coalitions as bitmasks"),
        (_yields(7), fv.MethodError, "lists of coalitions as bitmasks"),
        (_yields(list(range(9))), fv.BudgetError, "asked for 9 coalitions; its budget is 8"),
        (_returns(None), fv.MethodError, "must return an Estimate"),
        (_returns(fv.Estimate(np.zeros(3))), fv.MethodError, r"one value per client \(5\)"),
        (_plain, fv.MethodError, "returned an object of the type list"),
        (lambda n: iter(()), fv.MethodError, r"cannot be called as plan\(n, budget, rng\)"),
        (_returns(fv.Estimate(np.full(5, np.nan))), fv.MethodError, "must return finite numbers"),
        (_returns(fv.Estimate(np.zeros(5), np.full(5, np.inf))), fv.MethodError, "A standard error is"),
        (_raises, fv.MethodError, "raises failed: ZeroDivisionError"),
        (_yields(["1"]), fv.MethodError, "lists of coalitions as bitmasks"),
        (_yields("017"), fv.MethodError, "lists of coalitions as bitmasks"),
        (
            _returns(fv.Estimate(np.zeros(5), np.full(5, -1.0))),
            fv.MethodError,
            "standard error of at least 0",
        ),
        (_returns(fv.Estimate(np.full(5, 1j))), fv.MethodError, "finite numbers"),
        (3, fv.MethodError, "Unknown method 3"),
        (["exact"], fv.MethodError, "Unknown method"),
        ("no_such_module:plan", fv.InputError, "cannot be imported"),
    ],
)
def test_what_is_wrong_is_said(plan: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fv.value(GAME.table, plan, budget=8)


def test_the_command_line_takes_package_module_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "game.npy", GAME.table)
    (tmp_path / "own_plans.py").write_text(
        "import numpy as np, fedvalue as fv\n"
        "def zeros(n, budget, rng, *, shift: float = 0.0):\n"
        "    yield [0]\n"
        "    return fv.Estimate(np.full(n, shift))\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    words = ["--table", "game.npy", "--method", "own_plans:zeros", "--option", "shift=2"]
    result = CliRunner().invoke(app, ["value", *words])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("+2.0000") == 5
    compared = CliRunner().invoke(
        app, ["compare", "--table", "game.npy", "--methods", "own_plans:zeros,ipss", "--budget", "8"]
    )
    assert compared.exit_code == 0, compared.output
    assert "zeros" in compared.stdout


@pytest.mark.parametrize(
    "description",
    [
        {"name": ""},
        {"guarantee": "kinda"},
        {"minimum": 5},
        {"plan": 3},
        {"plan": None},
    ],
)
def test_descriptions_that_cannot_be_are_refused(description: dict[str, Any]) -> None:
    with pytest.raises(fv.MethodError):
        fv.Method(**{"name": "own", "plan": first_marginals, **description})


def test_a_plan_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import import_module

    def endless(n: int, budget: int, rng: np.random.Generator) -> fv.Plan:
        while True:
            yield [0]

    monkeypatch.setattr(import_module("fedvalue.run._valuation"), "_MOST_IDLE", 1_000)
    with pytest.raises(fv.MethodError, match="1,000 times in a row"):
        fv.value(GAME.table, endless, budget=8)


def test_an_exact_method_of_ones_own_may_take_everything() -> None:
    def all_of_them(n: int, budget: int, rng: np.random.Generator) -> fv.Plan:
        yield list(range(1 << n))
        return fv.Estimate(np.zeros(n))

    assert fv.value(GAME.table, fv.Method("all", all_of_them, guarantee="exact")).evaluations == 32


def test_a_plan_that_asks_nothing_and_results_of_numpy_can_be_written(tmp_path: Path) -> None:
    def nothing(n: int, budget: int, rng: np.random.Generator) -> fv.Plan:
        if n < 0:
            yield []
        return fv.Estimate(np.ones(n), details={"array": np.arange(2), "number": np.float64(1.5)})

    result = fv.run(
        "synthetic", clients=3, samples=10, method=nothing, budget=np.int64(4), out=tmp_path / "run"
    )
    assert result.values.mean.tolist() == [1.0] * 3


def test_details_of_any_kind_can_be_written_and_read(tmp_path: Path) -> None:
    details = {"by place": {i: i / 2 for i in range(12)}, "other": {1, 2}, "half": "\ud800", (0, 1): "pair"}

    def tells(n: int, budget: int, rng: np.random.Generator) -> fv.Plan:
        yield [0]
        return fv.Estimate(np.ones(n), details=details)

    values = fv.value(GAME.table, tells, budget=4)
    assert json.loads(json.dumps(values.to_dict()))["details"] == values.details
    values.save(tmp_path / "values.json")
    assert read_values(tmp_path / "values.json").details == values.details
    assert values.details["by place"]["10"] == 5.0


def test_a_plan_that_fails_keeps_what_was_trained(tmp_path: Path) -> None:
    def stumbles(n: int, budget: int, rng: np.random.Generator) -> fv.Plan:
        yield [0, 1, 2]
        raise RuntimeError("no idea")

    with pytest.raises(fv.MethodError, match="stumbles failed: RuntimeError: no idea"):
        fv.value(fv.TableGame(GAME.table), stumbles, budget=8, store=tmp_path / "s.db")
    with fv.UtilityStore(tmp_path / "s.db") as store:
        assert store.games()[0].outcomes == 3


@pytest.mark.slow
def test_so_does_the_main_job(tmp_path: Path) -> None:
    """In a process of its own: there the folder is not on the path already."""
    (tmp_path / "my_plans.py").write_text(
        "import numpy as np, fedvalue as fv\n"
        "def twos(n, budget, rng, *, shift: float = 0.0):\n"
        "    yield [0]\n"
        "    return fv.Estimate(np.full(n, 2 + shift))\n",
        encoding="utf-8",
    )
    words = "run --no-config --scenario synthetic --clients 3 --samples 10 --method my_plans:twos --option shift=1"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fedvalue.cli", *words.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("+3.0000") == 3
    assert "Data value by twos" in done.stdout


def test_reports_name_what_is_ones_own_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_things.py").write_text(
        "import numpy as np, fedvalue as fv\n"
        "def ones(n, budget, rng):\n"
        "    yield [0]\n"
        "    return fv.Estimate(np.ones(n))\n"
        "described = fv.Method('described-ones', ones)\n"
        "def spread(outputs, targets):\n"
        "    return float(np.ptp(outputs))\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    small = {"clients": 3, "samples": 10, "budget": 4}
    named = fv.run(
        "synthetic", **small, method="own_things:described", metric="own_things:spread", out="named"
    )
    page = (tmp_path / "named" / "report.html").read_text(encoding="utf-8")
    assert named.values.method == "described-ones"
    assert "own_things:described" in page
    assert "own_things:spread" in page
    assert "no command repeats it" not in page
    import own_things

    fv.run("synthetic", **small, method=own_things.ones, out="python")
    assert "no command repeats it" in (tmp_path / "python" / "report.html").read_text(encoding="utf-8")


def test_another_plan_of_the_same_name_is_another_run(tmp_path: Path) -> None:
    def make(value: float) -> Any:
        def constant(n: int, budget: int, rng: np.random.Generator) -> fv.Plan:
            yield [0]
            return fv.Estimate(np.full(n, value))

        return constant

    small = {"clients": 3, "samples": 10, "budget": 4, "out": tmp_path / "run"}
    fv.run("synthetic", **small, method=make(1.0))
    with pytest.raises(fv.InputError, match="holds another run"):
        fv.run("synthetic", **small, method=make(2.0))
    assert fv.run("synthetic", **small, method=make(1.0)).values.mean.tolist() == [1.0] * 3
