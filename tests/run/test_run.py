"""value and compare: what goes in, what comes out, what is refused, what is shared."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from cases import SAMPLING

import fedvalue as fv
from fedvalue.estimators import ESTIMATORS
from fedvalue.outcome import UTILITY
from fedvalue.run import default_budget, runnable_methods
from fedvalue.testing.games import Recorder, learning_curve, random_table

GAME = random_table(5, 21)


class TestValue:
    @pytest.mark.parametrize("as_given", [list, tuple, np.asarray, fv.TableGame], ids=lambda f: f.__name__)
    def test_a_table_is_taken_in_any_form(self, as_given) -> None:
        values = fv.value(as_given(GAME.table.tolist()), "ipss", budget=20, seed=4)
        assert values.mean.tolist() == fv.value(GAME.table, "ipss", budget=20, seed=4).mean.tolist()

    def test_a_function_and_its_table_are_the_same_game(self) -> None:
        one_by_one = fv.FunctionGame(
            5, lambda clients: float(GAME.table[sum(1 << i for i in clients)]), batch=False
        )
        for method in SAMPLING:
            from_function, from_table = (fv.value(game, method) for game in (one_by_one, GAME.table))
            assert from_function.mean.tolist() == from_table.mean.tolist()

    def test_the_result_says_where_it_comes_from(self) -> None:
        game = fv.TableGame(GAME.table, names=list("abcde"))
        values = fv.value(game, method="cc", budget=28, seed=7)
        assert values.names == tuple("abcde")
        assert (values.method, values.guarantee) == ("cc", "unbiased")
        assert (values.budget, values.seed, values.evaluations) == (28, 7, 28)
        assert values.game_id == game.id
        assert values.seconds > 0
        assert json.loads(json.dumps(values.to_dict()))["details"] == dict(values.details)

    def test_the_default_is_the_surrogate_with_the_default_budget(self) -> None:
        values = fv.value(random_table(6, 1).table)
        assert (values.method, values.budget, values.evaluations, values.seed) == ("surrogate", 32, 32, 0)

    def test_the_default_is_exact_where_the_budget_covers_everything(self) -> None:
        table = random_table(5, 1).table
        assert fv.value(table).method == "exact"
        assert fv.value(table, budget=31).method == "surrogate"
        assert fv.value(random_table(6, 1).table, budget=64).guarantee == "exact"

    @pytest.mark.parametrize(
        ("n", "budget"), [(1, 2), (2, 4), (5, 32), (6, 32), (10, 32), (50, 196), (100, 461)]
    )
    def test_the_default_budget_is_n_log_n_within_reason(self, n: int, budget: int) -> None:
        assert default_budget(n) == budget

    def test_integers_of_numpy_are_as_good_as_pythons(self) -> None:
        values = fv.value(GAME.table, "ipss", budget=np.int64(20), seed=np.int32(4))
        assert json.dumps(values.to_dict())
        assert values.mean.tolist() == fv.value(GAME.table, "ipss", budget=20, seed=4).mean.tolist()

    def test_seconds_hold_the_time_of_the_evaluations(self) -> None:
        class Slow(Wrapped):
            def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, fv.Outcome]]:
                inner = super().evaluate(masks)
                return ((mask, outcome._replace(seconds=10.0)) for mask, outcome in inner)

        assert 20 <= fv.value(Slow(fv.TableGame(GAME.table)), "equal").seconds < 21


class Wrapped:
    """Any object with the members of a game is one."""

    replicates = 1
    doubts: tuple[str, ...] = ()
    id = "wrapped"

    def __init__(self, inner: fv.TableGame) -> None:
        self.inner = inner
        self.n = inner.n
        self.names = inner.names

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, fv.Outcome]]:
        yield from reversed(list(self.inner.evaluate(masks)))  # any order will do

    def utility(self, outcome: fv.Outcome) -> float:
        return outcome.metrics[UTILITY]


class TestRefusals:
    @pytest.mark.parametrize(
        ("wrong", "nearest"),
        [("ips", "ipss"), ("exakt", "exact"), ("stratified", "stratified-"), ("TMC", "tmc")],
    )
    def test_an_unknown_method_suggests_near_ones(self, wrong: str, nearest: str) -> None:
        with pytest.raises(fv.MethodError, match=f"{wrong!r}.*{nearest}"):
            fv.value(GAME.table, wrong)

    def test_an_unknown_method_lists_all(self) -> None:
        with pytest.raises(fv.MethodError, match=r"Methods: exact, .*equal"):
            fv.value(GAME.table, "something entirely different")

    @pytest.mark.parametrize(
        ("method", "option", "known"),
        [
            ("ipss", "k", "balance"),
            ("k-greedy", "K", "k"),
            ("tmc", "tol", "tolerance, patience, convergence"),
        ],
    )
    def test_an_unknown_option_lists_the_known_ones(self, method: str, option: str, known: str) -> None:
        with pytest.raises(fv.MethodError, match=f"no option {option!r}.* Its options: {known}"):
            fv.value(GAME.table, method, **{option: 1})

    @pytest.mark.parametrize(
        "budget", [0, -3, True, False, 1.5, 16.0, "16", "many", math.nan, math.inf, [16]]
    )
    @pytest.mark.parametrize("method", ["ipss", "exact"])
    def test_a_budget_must_be_a_whole_positive_number(self, budget: object, method: str) -> None:
        with pytest.raises(fv.BudgetError, match="whole number"):
            fv.value(GAME.table, method, budget=budget)  # type: ignore[arg-type]

    @pytest.mark.parametrize("seed", [-1, 1.5, "x", None, True])
    def test_a_seed_must_be_a_whole_number(self, seed: object) -> None:
        with pytest.raises(fv.InputError, match="seed"):
            fv.value(GAME.table, seed=seed)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("method", "budget", "needs"),
        [("permutation", 5, "6"), ("loo", 5, "6"), ("cc", 3, "4"), ("exact", 31, "32")],
    )
    def test_a_budget_below_the_minimum_names_the_minimum(self, method: str, budget: int, needs: str) -> None:
        recorder = Recorder(5, GAME.table)
        with pytest.raises(fv.BudgetError, match=rf"needs .*\b{needs}\b"):
            fv.value(recorder, method, budget=budget)
        assert not recorder.evaluated

    def test_a_function_alone_does_not_say_how_many_clients_there_are(self) -> None:
        with pytest.raises(fv.GameError, match="FunctionGame"):
            fv.value(lambda coalitions: [0.0 for _ in coalitions])  # type: ignore[arg-type]

    @pytest.mark.parametrize("methods", [[], ["exact", "nope"]])
    def test_compare_needs_known_methods(self, methods: list[str]) -> None:
        with pytest.raises(fv.MethodError):
            fv.compare(GAME.table, methods)

    def test_a_game_that_leaves_coalitions_out_is_noticed(self) -> None:
        class Forgetful(Wrapped):
            def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, fv.Outcome]]:
                return super().evaluate([mask for mask in masks if mask != 0b101])

        with pytest.raises(fv.UtilityError, match=r"\(0, 2\)") as caught:
            fv.value(Forgetful(fv.TableGame(GAME.table)), "exact")
        assert caught.value.coalition == (0, 2)

    @pytest.mark.parametrize("utility", [math.nan, math.inf])
    def test_a_utility_that_is_not_finite_names_its_coalition(self, utility: float) -> None:
        class Undefined(Wrapped):
            def utility(self, outcome: fv.Outcome) -> float:
                return utility

        with pytest.raises(fv.UtilityError, match=rf"finite number up to 1e\+100. Got {utility}") as caught:
            fv.value(Undefined(fv.TableGame(GAME.table)), "loo")
        assert caught.value.coalition


class TestCompare:
    @pytest.mark.slow
    def test_every_evaluation_is_shared(self) -> None:
        methods = [name for name in SAMPLING if not name.startswith("exact")]
        asked: set[int] = set()
        alone = {}
        for method in methods:
            recorder = Recorder(6, random_table(6, 2).table)
            alone[method] = fv.value(recorder, method, budget=24, seed=5)
            asked |= set(recorder.evaluated)
        together = Recorder(6, random_table(6, 2).table)
        results = fv.compare(together, methods, budget=24, seed=5)
        assert list(results) == methods
        assert sorted(together.evaluated) == sorted(asked)
        for method in methods:
            assert results[method].mean.tolist() == alone[method].mean.tolist()
            assert results[method].evaluations == alone[method].evaluations <= 24

    def test_exact_methods_are_the_reference_and_take_everything(self) -> None:
        recorder = Recorder(5, GAME.table)
        results = fv.compare(recorder, ["equal", "exact", "exact-cc"], budget=2)
        assert results["exact"].mean == pytest.approx(GAME.values)
        assert [results[name].evaluations for name in results] == [2, 32, 32]
        assert len(recorder.evaluated) == 32

    @pytest.mark.slow
    def test_without_methods_it_runs_what_the_budget_allows(self) -> None:
        game = learning_curve()
        assert list(fv.compare(game.table, budget=64)) == list(SAMPLING)
        few = fv.compare(game.table, budget=3)
        assert set(SAMPLING) - set(few) == {
            name for name, m in SAMPLING.items() if m.guarantee != "exact" and m.minimum(7, {}) > 3
        }
        assert not any(name.startswith("exact") for name in runnable_methods(21, 100))

    def test_a_method_named_twice_runs_once(self) -> None:
        assert list(fv.compare(GAME.table, ["equal", "loo", "equal"], budget=6)) == ["equal", "loo"]


class TestProgress:
    @pytest.mark.parametrize("method", ["exact", "tmc", "cc-neyman", "cc-bernstein"])
    def test_it_never_goes_back_and_ends_at_all(self, method: str) -> None:
        seen: list[tuple[int, int]] = []
        recorder = Recorder(6, random_table(6, 2).table)
        values = fv.value(
            recorder,
            method,
            budget=None if method == "exact" else 30,
            on_outcome=lambda evaluation: seen.append((evaluation.done, evaluation.total)),
        )
        done, totals = zip(*seen, strict=True)
        assert list(done) == sorted(done)
        assert list(totals) == sorted(totals)
        assert all(d <= t for d, t in seen)
        assert seen[0][0] == 1
        assert seen[-1] == (values.evaluations, values.evaluations)

    def test_the_bar_writes_nothing_where_there_is_no_terminal(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        fv.value(Recorder(5, GAME.table), "exact", progress=True)
        assert capfd.readouterr() == ("", "")


class TestBudgetGuard:
    def test_a_plan_that_overspends_is_stopped_before_it_is_evaluated(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def greedy(n: int, budget: int, rng: np.random.Generator):
            yield list(range(budget + 1))

        method = ESTIMATORS["ipss"]
        monkeypatch.setitem(ESTIMATORS, "ipss", type(method)(**{**vars(method), "plan": greedy}))
        recorder = Recorder(5, GAME.table)
        with pytest.raises(fv.BudgetError, match="asked for 11 coalitions; its budget is 10"):
            fv.value(recorder, "ipss", budget=10)
        assert not recorder.evaluated


def test_methods_describe_themselves() -> None:
    assert [method.name for method in fv.methods()] == list(ESTIMATORS)
    assert {method.guarantee for method in fv.methods()} == {"exact", "unbiased", "biased"}
