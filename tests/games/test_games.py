"""Games: tables and functions, how functions are called, and what happens when they misbehave."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast

import fedvalue as fv
from fedvalue.games import RestrictedGame, as_game
from fedvalue.games import _calls as calls_module
from fedvalue.outcome import UTILITY
from fedvalue.testing import check_game
from fedvalue.testing.games import random_table

Coalitions = list[tuple[int, ...]]


def sizes(coalitions: Coalitions) -> list[float]:
    return [float(len(clients)) for clients in coalitions]


def finished(outcomes: Iterator[tuple[int, fv.Outcome]]) -> tuple[dict[int, float], fv.UtilityError | None]:
    """What a game handed over before it ended or failed."""
    kept: dict[int, float] = {}
    try:
        for mask, outcome in outcomes:
            kept[mask] = outcome.metrics[UTILITY]
    except fv.UtilityError as error:
        return kept, error
    return kept, None


def weighted(weights: tuple[float, ...]) -> fv.FunctionGame:
    return fv.FunctionGame(
        len(weights), lambda coalitions: [sum(weights[i] for i in clients) for clients in coalitions]
    )


class TestEveryGame:
    def test_tables_keep_to_the_contract(self) -> None:
        table = random_table(5, 1).table
        twin = fv.TableGame(table.tolist(), names="abcde")
        check_game(
            fv.TableGame(table), same=[twin], different=[fv.TableGame(-table), fv.TableGame([0.0, 1.0])]
        )

    @pytest.mark.parametrize(
        "options", first_fast([{}, {"chunk": 3}, {"replicates": 3}, {"jobs": 2}], 3), ids=str
    )
    def test_functions_keep_to_the_contract(self, options: dict[str, Any]) -> None:
        game = weighted((0.5, 1.0, 2.0))
        others = [weighted((0.5, 1.0, 2.5)), weighted((0.5, 1.0, 2.0, 0.0))]
        check_game(game, same=[weighted((0.5, 1.0, 2.0))], different=others)
        check_game(fv.FunctionGame(70, sizes, **options))

    def test_a_noisy_function_says_so(self) -> None:
        rng = np.random.default_rng(0)
        noisy = fv.FunctionGame(3, lambda c: rng.random(), batch=False, key="noisy", replicates=2)
        check_game(noisy, deterministic=False)

    def test_a_part_of_a_game_keeps_to_the_contract(self, tmp_path: Path) -> None:
        with fv.UtilityStore(tmp_path / "whole.db") as store:
            check_game(RestrictedGame(fv.FunctionGame(4, sizes), [0, 2, 3], store))


class TestTableGame:
    @pytest.mark.parametrize(
        "table",
        [
            pytest.param([], id="nothing"),
            pytest.param([1.0], id="no client"),
            pytest.param([1.0, 2.0, 3.0], id="three"),
            pytest.param(np.zeros(1000), id="thousand"),
            pytest.param(np.zeros((2, 2, 2)), id="three-dimensional"),
            pytest.param(3.0, id="a number"),
            pytest.param(["a", "b"], id="text"),
            pytest.param([[1.0], [1.0, 2.0]], id="ragged"),
            pytest.param([1.0, object()], id="objects"),
            pytest.param({"a": 1}, id="mapping"),
        ],
    )
    def test_what_is_no_table_is_refused(self, table: Any) -> None:
        with pytest.raises(fv.GameError, match="table of utilities"):
            fv.TableGame(table)

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_a_utility_that_is_not_finite_names_its_coalition(self, bad: float) -> None:
        table = np.zeros(8)
        table[[5, 7]] = bad
        with pytest.raises(fv.UtilityError, match=r"coalition \(0, 2\).*2 of 8") as caught:
            fv.TableGame(table)
        assert caught.value.coalition == (0, 2)

    def test_later_changes_of_the_array_do_not_reach_the_game(self) -> None:
        table = np.arange(4.0)
        game = fv.TableGame(table)
        table[:] = -1
        assert game([0, 1, 2, 3]) == [0.0, 1.0, 2.0, 3.0]
        with pytest.raises(ValueError, match="read-only"):
            game.utilities[0] = 5

    @pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool, object])
    def test_any_kind_of_number_is_taken(self, dtype: Any) -> None:
        assert fv.TableGame(np.array([0, 1, 1, 1], dtype=dtype))([3, 0]) == [1.0, 0.0]


class TestNames:
    @pytest.mark.parametrize("make", [lambda names: fv.TableGame(np.zeros(4), names), lambda names: fv.FunctionGame(2, sizes, names)], ids=["table", "function"])  # fmt: skip
    def test_names_are_given_counted_and_different(self, make: Callable[[Any], fv.Game]) -> None:
        assert make(None).names == ("client-0", "client-1")
        assert make(["x", 7]).names == ("x", "7")
        for wrong in (["x"], ["x", "y", "z"], ["x", "x"]):
            with pytest.raises(fv.GameError, match="2 different names"):
                make(wrong)


class TestAsGame:
    def test_games_pass_and_arrays_become_tables(self) -> None:
        game = fv.FunctionGame(2, sizes)
        assert as_game(game) is game
        assert as_game([0.0, 1.0]).n == 1

    def test_a_bare_function_is_refused(self) -> None:
        with pytest.raises(fv.GameError, match=r"FunctionGame\(n, fn\)"):
            as_game(sizes)  # type: ignore[arg-type]


class TestFunctionGame:
    @pytest.mark.parametrize("n", [0, -1, True, 1.5, "3", None, 10_001, 2**31, 10**30])
    def test_clients_are_a_number_within_reason(self, n: Any) -> None:
        with pytest.raises(fv.GameError, match="number of clients must be a whole number from 1 to 10,000"):
            fv.FunctionGame(n, sizes)

    @pytest.mark.parametrize("options", [{"chunk": 0}, {"chunk": -1}, {"chunk": 1.5}])
    def test_a_chunk_is_a_whole_positive_number(self, options: dict[str, Any]) -> None:
        with pytest.raises(fv.GameError, match="chunk"):
            fv.FunctionGame(2, sizes, **options)

    def test_what_is_no_function_is_refused(self) -> None:
        with pytest.raises(fv.GameError, match="function of coalitions"):
            fv.FunctionGame(2, [0.0, 1.0])  # type: ignore[arg-type]

    def test_coalitions_come_as_sorted_tuples_and_in_the_order_asked(self) -> None:
        seen: Coalitions = []
        game = fv.FunctionGame(3, lambda cs: [seen.append(c) or float(sum(c)) for c in cs])  # type: ignore[func-returns-value]
        assert game([0b110, 0, 0b111, 0b001]) == [3.0, 0.0, 3.0, 0.0]
        assert seen == [(1, 2), (), (0, 1, 2), (0,)]

    def test_without_batch_the_function_takes_one_coalition(self) -> None:
        game = fv.FunctionGame(3, len, batch=False)
        assert game([0b111, 0, 0b101]) == [3.0, 0.0, 2.0]

    @pytest.mark.parametrize(
        "returned", [sizes, lambda cs: np.array(sizes(cs)), lambda cs: tuple(map(int, sizes(cs))), lambda cs: iter(sizes(cs))],
        ids=["list", "array", "tuple of int", "iterator"],
    )  # fmt: skip
    def test_anything_that_lists_numbers_can_be_returned(self, returned: Callable[..., Any]) -> None:
        assert fv.FunctionGame(3, returned)(range(8)) == [0.0, 1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 3.0]

    def test_a_game_is_the_same_on_both_entrances(self) -> None:
        game = fv.FunctionGame(5, sizes)
        kept, error = finished(game.evaluate(range(32)))
        assert error is None
        assert list(kept.values()) == game(range(32))


class TestWidth:
    """How many coalitions a call is given."""

    def widths(
        self, seconds: Callable[[int], float], monkeypatch: pytest.MonkeyPatch, **options: Any
    ) -> list[int]:
        """Widths of the calls for 64 coalitions when a call takes that long, on a clock of our own."""
        now, calls = [0.0], []
        monkeypatch.setattr(time, "perf_counter", lambda: now[0])

        def utility(coalitions: Coalitions) -> list[float]:
            calls.append(len(coalitions))
            now[0] += seconds(len(coalitions))
            return sizes(coalitions)

        game = fv.FunctionGame(6, utility, **options)
        assert len(game(range(64))) == 64
        return calls

    def test_fast_functions_get_more_and_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.widths(lambda width: 1e-6, monkeypatch) == [1, 2, 4, 8, 16, 32, 1]

    def test_slow_functions_get_one_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.widths(lambda width: 1.0 * width, monkeypatch) == [1] * 64

    def test_the_width_settles_where_a_call_is_still_short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        limit = calls_module._SHORT_CALL_SECONDS
        calls = self.widths(lambda width: limit / 3 * width, monkeypatch)
        assert max(calls) == 4
        assert sum(calls) == 64

    @pytest.mark.parametrize(("seconds", "chunk"), [(1e-6, 10), (5.0, 10), (5.0, 100)])
    def test_a_chunk_is_always_used(
        self, seconds: float, chunk: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = self.widths(lambda width: seconds, monkeypatch, chunk=chunk)
        assert calls == ([64] if chunk > 64 else [10] * 6 + [4])

    def test_each_outcome_carries_its_share_of_the_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [0.0]
        monkeypatch.setattr(time, "perf_counter", lambda: now[0])

        def utility(coalitions: Coalitions) -> list[float]:
            now[0] += 6.0
            return sizes(coalitions)

        outcomes = [outcome for _, outcome in fv.FunctionGame(3, utility, chunk=4).evaluate(range(8))]
        assert [outcome.seconds for outcome in outcomes] == [1.5] * 8


class TestMisbehaviour:
    @pytest.mark.parametrize("bad", [math.nan, math.inf, None, "much", 1j, [1.0, 2.0], 10**400], ids=repr)
    @pytest.mark.parametrize("chunk", [1, 8])
    def test_a_utility_that_is_no_finite_number_names_its_coalition(self, bad: Any, chunk: int) -> None:
        game = fv.FunctionGame(
            3,
            lambda cs: [bad if c == (0, 2) else 1.0 for c in cs],
            names=["Aachen", "Bern", "Como"],
            chunk=chunk,
        )
        kept, error = finished(game.evaluate(range(8)))
        assert error is not None
        assert error.coalition == (0, 2)
        assert "(0, 2) (Aachen, Como)" in str(error)
        assert set(kept) == (set(range(5)) if chunk == 1 else set(range(8)) - {5})

    @pytest.mark.parametrize("batch", [True, False])
    @pytest.mark.parametrize("chunk", [1, 3, 8])
    def test_an_exception_names_its_coalition_and_the_good_ones_are_kept(
        self, batch: bool, chunk: int
    ) -> None:
        def alone(clients: tuple[int, ...]) -> float:
            if clients == (0, 2):
                raise ZeroDivisionError("no data")
            return float(len(clients))

        together = lambda coalitions: [alone(clients) for clients in coalitions]  # noqa: E731
        game = fv.FunctionGame(3, together if batch else alone, batch=batch, chunk=chunk)
        kept, error = finished(game.evaluate(range(8)))
        assert error is not None
        assert error.coalition == (0, 2)
        assert "ZeroDivisionError: no data" in str(error)
        assert isinstance(error.__cause__, ZeroDivisionError)
        same_call = range(5 // chunk * chunk, min(8, (5 // chunk + 1) * chunk))
        assert set(kept) == set(range(same_call.stop)) - {5}

    @pytest.mark.parametrize("returned", [[], [1.0, 2.0, 3.0], np.zeros(5)])
    def test_another_number_of_utilities_than_coalitions_is_refused(self, returned: Any) -> None:
        game = fv.FunctionGame(2, lambda cs: returned, chunk=4)
        with pytest.raises(fv.UtilityError, match=rf"one number per coalition \(4\). Got {len(returned)}"):
            game([0, 1, 2, 3])

    def test_an_interruption_is_not_taken_for_a_failure(self) -> None:
        def utility(coalitions: Coalitions) -> list[float]:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fv.FunctionGame(2, utility)([0, 1])

    def test_long_coalitions_are_named_in_short(self) -> None:
        game = fv.FunctionGame(20, lambda cs: [math.nan for _ in cs])
        with pytest.raises(fv.UtilityError, match=r"client-7, …\)"):
            game([(1 << 20) - 1])

    def test_value_passes_the_error_on(self) -> None:
        table = random_table(4, 1).table
        game = fv.FunctionGame(4, lambda cs: [math.nan if len(c) == 2 else float(table[len(c)]) for c in cs])
        with pytest.raises(fv.UtilityError, match="finite number"):
            fv.value(game, "exact")


def test_masked_entries_are_refused() -> None:
    rows = np.ma.array([1.0, 2.0], mask=[False, True])
    game = fv.FunctionGame(2, lambda coalition: rows, batch=False)
    with pytest.raises(fv.UtilityError, match="masked entries"):
        fv.value(game, "exact")
    with pytest.raises(fv.GameError, match="masked entries"):
        fv.TableGame(np.ma.array([0.0, 1.0, 1.0, 2.0], mask=[0, 0, 1, 0]))
    assert fv.TableGame(np.ma.array([0.0, 1.0, 1.0, 2.0]))([3]) == [2.0]


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\u202eyob", " a", "a\x1b[31m"])
def test_names_that_cannot_stand_in_a_table_are_refused(name: str) -> None:
    with pytest.raises(fv.GameError, match="without line breaks"):
        fv.FunctionGame(2, lambda coalition: 1.0, batch=False, names=[name, "b"])
