"""Advice before a run: what the measured table says, and the command `fedvalue plan`."""

from __future__ import annotations

import importlib
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

import fedvalue as fv
from fedvalue.advice import (
    COLUMNS,
    EQUAL,
    EXACT,
    EXPECTED_COLUMNS,
    ONE_SEED,
    SEVERAL_SEEDS,
    Advice,
    Cell,
    Expected,
    ExpectedCell,
    advise,
    against_expected,
    equal_split,
    expected,
    expected_cells,
    measured,
)
from fedvalue.cli import app

CLIENTS = sorted({cell.clients for cell in measured()})


def run(*args: object) -> Result:
    return CliRunner().invoke(app, ["plan", *map(str, args)])


def output(*args: object) -> str:
    found = run(*args)
    assert (found.exit_code, found.stderr) == (0, ""), found.output
    return found.stdout


def failure(*args: object) -> str:
    found = run(*args)
    assert found.exit_code == 2, found.output
    assert found.stdout == ""
    return found.stderr


def made(clients: int, coalitions: int, error: float) -> Cell:
    """A made-up measurement; the equal split errs by 0.5, and games scatter by a factor of two."""
    left = error / 0.5
    return Cell(clients, coalitions, 30, error, error / 2, error * 2, left, left / 2, left * 2)


class TestTable:
    """What `bench/advice.py` wrote."""

    def test_it_has_the_shape_that_it_says(self) -> None:
        assert COLUMNS[:6] == ("clients", "coalitions", "games", "error", "low", "high")
        assert COLUMNS[6:] == ("left", "left_low", "left_high")
        assert [cell[:2] for cell in measured()] == sorted({cell[:2] for cell in measured()})
        for cell in measured():
            assert 2 <= cell.coalitions < 1 << cell.clients
            assert cell.games >= 30
            assert 0 < cell.low <= cell.error <= cell.high
            assert 0 < cell.left_low <= cell.left <= cell.left_high

    @pytest.mark.parametrize("n", CLIENTS)
    def test_two_coalitions_are_the_equal_split_by_which_skill_is_measured(self, n: int) -> None:
        (cell,) = [cell for cell in measured() if (cell.clients, cell.coalitions) == (n, 2)]
        assert (cell.left, cell.left_low, cell.left_high) == pytest.approx((1, 1, 1))
        assert equal_split(n) == pytest.approx(cell.error)
        game = fv.TableGame(np.sqrt(np.arange(1 << n)))
        assert fv.value(game, "surrogate", 2).mean == pytest.approx(fv.value(game, "equal").mean)

    @pytest.mark.parametrize("n", CLIENTS)
    def test_more_coalitions_are_no_worse(self, n: int) -> None:
        """Up to the luck of the seeds."""
        errors = [cell.error for cell in measured() if cell.clients == n]
        assert all(later < 1.25 * earlier for earlier, later in pairwise(errors))
        assert errors[-1] < errors[0]


class TestExpected:
    @pytest.mark.parametrize("cell", measured()[::3], ids=lambda c: f"{c.clients}-{c.coalitions}")
    def test_what_was_measured_is_given_back(self, cell: Cell) -> None:
        found = expected(cell.clients, cell.coalitions)
        assert (found.error, found.low, found.high) == pytest.approx((cell.error, cell.low, cell.high))
        assert found.clients_measured
        assert found.coalitions_measured

    def test_between_two_budgets(self) -> None:
        """Linear in the logarithm of the error; 2^60 coalitions are never used up."""
        cells = [made(60, 102, 0.4), made(60, 1002, 0.1)]
        places = [math.log(1 + (g - 2) / (60 * math.log(60))) for g in (102, 300, 1002)]
        share = (places[1] - places[0]) / (places[2] - places[0])
        assert expected(60, 300, cells).error == pytest.approx(0.4 * 0.25**share)
        assert expected(60, 102, cells).error == pytest.approx(0.4)

    def test_between_two_numbers_of_clients(self) -> None:
        cells = [made(n, 2 + n * x, error) for n, error in ((40, 0.4), (90, 0.1)) for x in (1, 50)]
        found = expected(60, 500, cells)  # 60 is half-way between 40 and 90 in logarithms
        assert found.error == pytest.approx(math.sqrt(0.4 * 0.1))
        assert (found.low, found.high) == pytest.approx((found.error / 2, found.error * 2))
        assert found.skill == pytest.approx(1 - found.error / 0.5)
        assert found.skill_low < found.skill < found.skill_high

    def test_what_all_coalitions_leave_unknown(self) -> None:
        """The error vanishes like √(1 − γ/2^n), whatever the games measured."""
        cells = [made(8, 128, 0.1)]
        assert expected(8, 224, cells).error == pytest.approx(0.1 * math.sqrt((32 / 256) / (128 / 256)))

    def test_outside_the_nearest_is_taken_and_said_to_be(self) -> None:
        cells = [made(n, 2 + n * x, 0.1 / x / n) for n in (40, 80) for x in (1, 2)]
        few, many = expected(20, 22, cells), expected(800, 802, cells)
        assert (few.clients_measured, many.clients_measured) == (False, False)
        assert many.error == pytest.approx(0.1 / 80)
        beyond = expected(80, 2000, cells)
        assert (beyond.coalitions_measured, beyond.error) == (False, pytest.approx(0.1 / 160))
        assert expected(80, 162, cells).coalitions_measured

    def test_the_equal_split_between_two_numbers_of_clients(self) -> None:
        assert equal_split(6) < equal_split(7) < equal_split(8)
        assert (equal_split(1), equal_split(2), equal_split(99)) == (0.0, equal_split(3), equal_split(10))

    def test_all_coalitions_leave_no_error(self) -> None:
        assert expected(5, 32) == Expected() == Expected(0.0, 0.0, 0.0, 1.0, 1.0, 1.0)
        assert expected(5, 31).error > 0

    @pytest.mark.parametrize("n", [2, 5, 7, 9, 12, 30, 300])
    def test_the_surrogate_gets_better_all_the_way(self, n: int) -> None:
        budgets = sorted({int(g) for g in np.geomspace(2, min((1 << n) - 1, 33 * n), 40)})
        errors = [expected(n, g).error for g in budgets]
        assert all(later < 1.05 * earlier for earlier, later in pairwise(errors))


def of_one_seed(clients: Any, **asked: Any) -> Advice:
    """Advice about the exact values of one seed."""
    return advise(clients, seeds=1, **asked)


class TestAgainstExpected:
    """What `bench/advice.py --expected` wrote, and what it foretells."""

    def test_the_table_has_the_shape_that_it_says(self) -> None:
        assert EXPECTED_COLUMNS[:4] == ("plan", "clients", "budget", "games")
        assert {cell.plan for cell in expected_cells()} == {EQUAL, EXACT, ONE_SEED, SEVERAL_SEEDS}
        for cell in expected_cells():
            assert cell.games >= 8
            assert 0 < cell.low <= cell.error <= cell.high
            assert 0 <= cell.luck <= 1
            assert cell.test_row > 0

    @pytest.mark.parametrize("cell", expected_cells()[::7], ids=lambda c: f"{c.plan}-{c.clients}-{c.budget}")
    def test_what_was_measured_is_given_back(self, cell: ExpectedCell) -> None:
        found = against_expected(cell.clients, cell.budget, cell.plan)
        assert (found.error, found.low, found.high) == pytest.approx((cell.error, cell.low, cell.high))
        assert (found.parts["training"] or 0) ** 2 == pytest.approx(cell.luck * cell.error**2)

    @pytest.mark.parametrize("n", [6, 8, 10])
    def test_luck_does_not_go_away_with_one_seed_but_with_several(self, n: int) -> None:
        all_of_one = against_expected(n, 1 << n, EXACT)
        assert all_of_one.parts["coalitions"] == 0
        several = against_expected(n, 12 * n)
        assert several.error < all_of_one.error
        assert (
            several.error < against_expected(n, 12 * n if 12 * n < 1 << n else (1 << n) - 1, ONE_SEED).error
        )

    def test_parts_add_up_with_test_rows(self) -> None:
        without, rows = against_expected(10, 64), against_expected(10, 64, test_rows=500)
        assert without.parts["test"] is None
        assert rows.parts["test"] == pytest.approx(2 * against_expected(10, 64, test_rows=2000).parts["test"])
        assert rows.error == pytest.approx(math.hypot(*rows.parts.values()))
        assert rows.error > without.error


class TestAdvise:
    def test_time_becomes_trainings_over_seeds(self) -> None:
        found = advise(10, minutes=30, cost=20)
        assert (found.choice.method, found.choice.budget, found.choice.seeds) == ("surrogate", 90, 11)
        assert (found.choice.trainings, found.choice.seconds) == (90, 1800)
        assert found.half is not None
        assert found.twice is not None
        assert (found.half.trainings, found.twice.trainings) == (45, 180)
        assert found.half.expected.error > found.choice.expected.error > found.twice.expected.error

    def test_all_coalitions_of_one_seed_are_no_better_than_fewer_over_several(self) -> None:
        found = advise(10, budget=1024)
        assert found.choice.method == "surrogate"
        assert found.exact is not None
        assert found.exact.expected.error > found.choice.expected.error > 0

    def test_in_words(self) -> None:
        first, error, parts, rows, one_seed = str(advise(10, minutes=30, cost=20)).splitlines()
        assert first == "10 clients: surrogate with 90 trainings over 11 seeds, about 30 min."
        assert error.startswith("Expected relative error against the values to be expected over seeds: ")
        assert "the luck of training" in parts
        assert "2,000 of them would make it" in rows
        assert one_seed.startswith("With one seed: 90 trainings ")
        assert "all 1,024 coalitions" in one_seed

    def test_few_test_rows_are_what_dominates(self) -> None:
        found = advise(10, budget=128, test_rows=50)
        assert found.choice.expected.mostly == "test"
        assert "more test rows help" in str(found)
        assert "not in it" not in str(found)

    def test_a_target_is_reached_by_the_smallest_budget(self) -> None:
        found = advise(10, target=0.05).choice
        assert found.expected.error <= 0.05 < advise(10, budget=found.budget - 1).choice.expected.error
        with pytest.raises(fv.InputError, match=r"No measured budget reaches.*More test rows would help"):
            advise(10, target=0.01, test_rows=100)

    def test_only_one_seed_or_as_many_as_suit(self) -> None:
        with pytest.raises(fv.InputError, match="number of seeds that advice is for"):
            advise(10, budget=64, seeds=4)

    @pytest.mark.parametrize("n", [1, 2, 3, 5, 12, 300])
    def test_any_number_of_clients(self, n: int) -> None:
        found = advise(n, budget=40)
        assert found.choice.trainings <= 40
        assert found.choice.expected.error > 0


class TestOneSeed:
    def test_time_becomes_coalitions(self) -> None:
        found = of_one_seed(10, minutes=30, cost=20)
        assert found.choice.budget == 91  # 90 trainings and the empty coalition, which trains nothing
        assert found.choice.seconds == 1800
        assert found.choice.method == "surrogate"

    def test_exact_where_it_is_affordable(self) -> None:
        found = of_one_seed(10, minutes=10, cost=0.5)
        assert (found.choice.method, found.choice.budget) == ("exact", 1024)
        assert found.choice.seconds == pytest.approx(1023 * 0.5)
        assert (found.choice.expected.error, found.twice) == (0.0, None)
        assert of_one_seed(10, budget=1023).choice.method == "surrogate"
        assert of_one_seed(10, budget=1024).choice.method == "exact"

    def test_one_client_needs_one_training(self) -> None:
        found = of_one_seed(1, minutes=1, cost=60)
        assert (found.choice.method, found.choice.budget, found.half) == ("exact", 2, None)

    def test_half_and_twice_count_trainings(self) -> None:
        found = of_one_seed(10, budget=91)
        assert found.half is not None
        assert found.twice is not None
        assert (found.half.budget, found.twice.budget) == (46, 181)
        assert found.half.expected.error > found.choice.expected.error > found.twice.expected.error
        assert found.choice.seconds is None
        assert of_one_seed(6, budget=40).twice == of_one_seed(6, budget=40).exact

    def test_alternatives_are_listed_once(self) -> None:
        assert list(of_one_seed(10, budget=91).rows()) == ["half", "this", "twice", "exact"]
        assert list(of_one_seed(6, budget=40).rows()) == ["half", "this", "twice"]
        assert list(of_one_seed(6, budget=64).rows()) == ["half", "this"]
        assert list(of_one_seed(100, budget=400).rows()) == ["half", "this", "twice"]

    def test_in_words(self) -> None:
        assert str(of_one_seed(5, minutes=30, cost=20)).splitlines() == [
            "5 clients: exact with 32 of 32 coalitions of one seed, about 10 min.",
            "Exact values of one seed: no error of estimation. Another seed would give others.",
        ]
        first, second, note = str(of_one_seed(100, budget=461)).splitlines()
        assert first == "100 clients: surrogate with 461 of 2^100 coalitions of one seed."
        assert second.endswith("Paying everyone the same: 12 %.")
        assert note.startswith("Note: Extrapolated")

    @pytest.mark.parametrize(("n", "target"), [(10, 0.05), (10, 0.02), (6, 0.03), (25, 0.03), (200, 0.04)])
    def test_a_target_is_reached_by_the_smallest_budget(self, n: int, target: float) -> None:
        found = of_one_seed(n, target=target).choice
        assert found.expected.error <= target
        less = of_one_seed(n, budget=found.budget - 1).choice
        assert less.expected.error > target

    def test_a_target_that_only_exact_values_reach(self) -> None:
        assert of_one_seed(8, target=1e-9).choice.method == "exact"
        with pytest.raises(fv.InputError, match="No measured budget reaches"):
            of_one_seed(40, target=1e-9)

    def test_warnings(self) -> None:
        assert of_one_seed(10, budget=40).warnings == ()
        assert of_one_seed(10, budget=1024).warnings == ()
        assert "Fewer than 11" in " ".join(of_one_seed(10, budget=11).warnings)
        assert "Fewer" not in " ".join(of_one_seed(10, budget=12).warnings)
        assert "Extrapolated" in " ".join(of_one_seed(100, budget=461).warnings)
        assert "More trainings than were measured" in " ".join(of_one_seed(10, budget=900).warnings)
        assert "paying everyone the same" in " ".join(of_one_seed(10, budget=3).warnings)

    def test_very_many_clients(self) -> None:
        found = of_one_seed(10_000, minutes=600, cost=1)
        assert found.exact is None
        assert found.choice.budget == 36_001
        assert "Extrapolated" in " ".join(found.warnings)

    @pytest.mark.parametrize("clients", [0, -1, 2.5, True, None, "ten", 10**9, math.nan])
    def test_clients_that_cannot_be(self, clients: Any) -> None:
        with pytest.raises(fv.InputError, match="number of clients must be a whole number"):
            of_one_seed(clients, budget=10)

    @pytest.mark.parametrize("number", [0, -1.0, math.nan, math.inf, True, "x"])
    def test_times_costs_and_targets_that_cannot_be(self, number: Any) -> None:
        for ask in ({"minutes": number, "cost": 1}, {"minutes": 1, "cost": number}, {"target": number}):
            with pytest.raises(
                fv.InputError, match=r"must be a (number|relative error) above 0, (in|such as)"
            ):
                of_one_seed(10, **ask)

    @pytest.mark.parametrize("budget", [1, 0, -5, 2.5, True, math.inf])
    def test_budgets_that_cannot_be(self, budget: Any) -> None:
        with pytest.raises(fv.BudgetError, match="at least 2"):
            of_one_seed(10, budget=budget)

    def test_one_question_at_a_time(self) -> None:
        with pytest.raises(fv.InputError, match="one of three"):
            of_one_seed(10)
        with pytest.raises(fv.InputError, match="one of three"):
            of_one_seed(10, minutes=1, budget=5, cost=1)
        with pytest.raises(fv.InputError, match="cost of a training"):
            of_one_seed(10, minutes=1)

    def test_no_time_for_anything(self) -> None:
        with pytest.raises(fv.InputError, match=r"Not even one training fits into 0\.5 minutes"):
            of_one_seed(10, minutes=0.5, cost=31)
        assert of_one_seed(10, minutes=0.5, cost=30).choice.budget == 2

    @given(
        n=st.integers(1, 2000),
        minutes=st.floats(1e-3, 1e300),
        cost=st.floats(1e-300, 1e6),
    )
    def test_whatever_the_numbers_there_is_advice_or_a_reason(
        self, n: int, minutes: float, cost: float
    ) -> None:
        if 60 * minutes < cost:
            with pytest.raises(fv.InputError, match="Not even one training"):
                of_one_seed(n, minutes=minutes * (1 - 1e-6), cost=cost)
            return
        found = of_one_seed(n, minutes=minutes, cost=cost)
        assert found.choice.seconds is not None
        assert found.choice.seconds <= 60 * minutes * (1 + 1e-6)
        assert 0 <= found.choice.expected.low <= found.choice.expected.high
        assert found.choice.method == "exact" or n > 25 or found.choice.budget < 1 << n


def test_the_advice_can_be_followed() -> None:
    """The budget that is recommended is one that the method takes."""
    rng = np.random.default_rng(0)
    for n, budget in [(3, 5), (6, 20), (9, 40), (7, 2)]:
        choice = of_one_seed(n, budget=budget).choice
        table = np.sqrt([mask.bit_count() for mask in range(1 << n)]) + rng.normal(0, 0.01, 1 << n)
        assert fv.value(table, choice.method, choice.budget).evaluations <= budget


class TestBench:
    """How `bench/advice.py` makes the games that the table is measured on."""

    @pytest.fixture
    def bench(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.syspath_prepend(Path(__file__).parents[2] / "bench")
        return importlib.import_module("advice")

    def test_fewer_clients_play_the_same_game(self, bench: Any) -> None:
        utilities = np.arange(32.0)  # the utility of a coalition is its bitmask
        assert bench._among(utilities, 5).tolist() == utilities.tolist()
        among = bench._among(utilities, 3)  # clients 0, 2 and 4
        assert among.tolist() == [0, 1, 4, 5, 16, 17, 20, 21]

    def test_only_complete_games_of_ten_clients_count(self, bench: Any, tmp_path: Path) -> None:
        np.savez(tmp_path / "table.npz", accuracy=np.arange(1024.0), loss=np.zeros(1024))
        with fv.UtilityStore(tmp_path / "store.db") as store:
            for name, n, known in (("whole", 10, 1024), ("part", 10, 1000), ("small", 4, 16)):
                store.register(name, n)
                store.append(name, [(mask, fv.Outcome({"accuracy": mask / 7})) for mask in range(known)])
        found = dict(bench.read_games(tmp_path, "accuracy"))
        assert list(found) == ["table", "whole"]
        assert found["whole"].tolist() == [mask / 7 for mask in range(1024)]

    @pytest.mark.slow
    def test_errors_are_those_of_the_methods(self, bench: Any) -> None:
        table = np.sqrt([mask & 3 for mask in range(16)]) + [mask.bit_count() for mask in range(16)]
        runs = {(run.method, run.coalitions): run for run in bench.play("game", table, 2)}
        truth = fv.value(table, "exact")
        assert runs["equal", 6].error == pytest.approx(
            fv.scoring.relative_l2(fv.value(table, "equal"), truth)
        )
        assert runs["equal", 6].left == pytest.approx(1)
        errors = [fv.scoring.relative_l2(fv.value(table, "cc-paired", 8, seed), truth) for seed in (0, 1)]
        assert runs["cc-paired", 8].error == pytest.approx(np.mean(errors))
        (cell,) = bench.summary([runs["cc-paired", 8]])
        assert (cell.error, cell.low, cell.high) == pytest.approx((runs["cc-paired", 8].error,) * 3)

    def test_a_game_of_equal_clients_has_nothing_to_find_out(self, bench: Any) -> None:
        assert bench.play("game", np.array([float(mask.bit_count()) for mask in range(8)]), 1) == []


class TestCommand:
    def test_the_output_says_what_to_do_and_what_to_expect(self) -> None:
        text = output("--clients", 10, "--minutes", 30, "--cost", 20)
        lines = text.splitlines()
        assert lines[0] == "10 clients: surrogate with 90 trainings over 11 seeds, about 30 min."
        assert lines[1].startswith("Expected relative error against the values to be expected over seeds: ")
        assert "Paying everyone the same: " in lines[1]
        rows = {line.split()[0]: line.split() for line in lines if line.split()[:1]}
        assert [name in rows for name in ("half", "this", "twice", "exact")] == [True] * 4
        assert rows["exact"][1:3] == ["exact", "5.7"]
        assert rows["one"][:3] == ["one", "seed", "surrogate"]
        assert lines[-1] == "fedvalue run --clients 10 --method surrogate --budget 90"
        assert max(map(len, lines)) < 200

    def test_exact(self) -> None:
        text = output("--clients", 5, "--minutes", 30, "--cost", 20, "--seeds", 1)
        assert text.splitlines()[0] == "5 clients: exact with 32 of 32 coalitions of one seed, about 10 min."
        assert "fedvalue run --clients 5 --exact" in text
        assert "Skill" not in text

    def test_without_a_cost_no_time_is_invented(self) -> None:
        text = output("--clients", 10, "--budget", 91)
        assert " min" not in text
        assert "time" not in text.split()

    def test_the_recommended_command_is_one(self) -> None:
        from fedvalue.cli.run import run as run_command

        last = output("--clients", 10, "--budget", 91).splitlines()[-1].split()
        assert last[:2] == ["fedvalue", "run"]
        names = run_command.__annotations__
        assert {word[2:] for word in last if word.startswith("--")} <= set(names)

    def test_json_is_the_library(self) -> None:
        found = json.loads(output("--clients", 10, "--minutes", 30, "--cost", 20, "--json"))
        assert found == json.loads(json.dumps(advise(10, minutes=30, cost=20).to_dict()))
        assert set(found["choice"]) == {"method", "budget", "seeds", "trainings", "seconds", "expected"}

    def test_quiet_is_for_scripts(self) -> None:
        assert output("--clients", 10, "--budget", 91, "-q") == "surrogate 91\n"

    def test_warnings_are_shown(self) -> None:
        assert "Note: Fewer than 101 trainings" in output("--clients", 100, "--budget", 50)

    def test_ten_thousand_clients(self) -> None:
        assert "of 2^10000 coalitions" in output("--clients", 10_000, "--budget", 20_000, "--seeds", 1)
        assert "20,000 trainings over 16 seeds" in output("--clients", 10_000, "--budget", 20_000)

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (["--clients", 0, "--budget", 9], "number of clients"),
            (["--clients", 10, "--minutes", -1, "--cost", 1], "The time must be a number above 0"),
            (["--clients", 10, "--minutes", 1, "--cost", 0], "The cost of a training must be"),
            (["--clients", 10, "--minutes", "nan", "--cost", 1], "Got nan"),
            (["--clients", 10, "--minutes", 1, "--cost", "inf"], "Got inf"),
            (["--clients", 10, "--minutes", 1], "the cost of a training in seconds is needed"),
            (["--clients", 10, "--minutes", 1, "--cost", 100], "Not even one training"),
            (["--clients", 10, "--budget", 1], "at least 2"),
            (
                ["--clients", 10, "--target", 0],
                "The target must be a relative error above 0, such as 0.05. Got 0",
            ),
            (["--clients", 10], "one of three"),
            (["--clients", "many", "--budget", 9], "many"),
            ([], "--clients"),
        ],
    )
    def test_bad_input_is_explained(self, args: list[object], message: str) -> None:
        text = failure(*args)
        assert message in text
        assert "Traceback" not in text
