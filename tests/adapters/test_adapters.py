"""Other packages: shapiq's approximators on our games, our methods on shapiq's games, values as pandas frames.

Each part is skipped where its package is not installed, and says so.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedvalue as fv
from fedvalue.adapters.shapiq import from_shapiq, to_shapiq
from fedvalue.coalitions import membership
from fedvalue.testing.games import glove, random_table

needs_shapiq = pytest.mark.skipif(find_spec("shapiq") is None, reason="shapiq is not installed")
needs_pandas = pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed")


class Counting:
    """A utility function that remembers what it was asked."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.asked: Counter[tuple[int, ...]] = Counter()

    def __call__(self, coalition: tuple[int, ...]) -> float:
        self.asked[coalition] += 1
        return float(self.table[sum(1 << i for i in coalition)])


def shapley(values: Any, n: int) -> np.ndarray:
    """First-order values of a shapiq result."""
    return np.array([values[(i,)] for i in range(n)])


@needs_shapiq
class TestToShapiq:
    @pytest.mark.parametrize("normalize", [True, False])
    @pytest.mark.parametrize("known", [glove(), random_table(5, 3)], ids=str)
    def test_with_the_whole_budget_their_values_are_the_true_ones(self, known: Any, normalize: bool) -> None:
        from shapiq.approximator import SVARM, KernelSHAP

        game = to_shapiq(fv.TableGame(known.table), normalize=normalize)
        assert shapley(game.exact_values("SV", 1), known.n) == pytest.approx(known.values)
        for approximator in (KernelSHAP, SVARM):
            found = approximator(known.n, random_state=0).approximate(1 << known.n, game)
            assert shapley(found, known.n) == pytest.approx(known.values, abs=1e-4)

    def test_coalitions_keep_their_clients(self) -> None:
        table = random_table(6, 0).table
        game = to_shapiq(fv.TableGame(table, list("abcdef")), normalize=False)
        assert game(membership(range(64), 6)) == pytest.approx(table)
        assert game([("b", "d")]) == pytest.approx(table[0b1010])
        assert game((0, 5)) == pytest.approx(table[0b100001])

    def test_utilities_are_centred_unless_told_otherwise(self) -> None:
        table = random_table(4, 0).table + 7
        centred, plain = (to_shapiq(fv.TableGame(table), normalize=yes) for yes in (True, False))
        rows = membership(range(16), 4)
        assert centred(rows) == pytest.approx(table - table[0])
        assert plain(rows) == pytest.approx(table)

    def test_no_coalition_is_evaluated_twice(self, tmp_path: Path) -> None:
        """Neither by one approximator after the other, nor by our methods on the same store."""
        from shapiq.approximator import KernelSHAP, PermutationSamplingSV

        fn = Counting(random_table(6, 2).table)
        game = fv.FunctionGame(6, fn, batch=False, key="k")
        theirs = to_shapiq(game, store=tmp_path / "store.db")
        KernelSHAP(6, random_state=0).approximate(20, theirs)
        PermutationSamplingSV(6, random_state=0).approximate(20, theirs)
        again = to_shapiq(game, store=tmp_path / "store.db")
        KernelSHAP(6, random_state=0).approximate(20, again)
        ours = fv.value(game, "exact", store=tmp_path / "store.db")
        assert set(fn.asked.values()) == {1}
        assert len(fn.asked) == 64
        assert ours.mean == pytest.approx(shapley(to_shapiq(game).exact_values("SV", 1), 6))

    def test_a_store_of_ones_own_stays_open(self, tmp_path: Path) -> None:
        with fv.UtilityStore(tmp_path / "store.db") as store:
            game = to_shapiq(fv.FunctionGame(3, len, batch=False, key="k"), store=store)
            game(membership(range(8), 3))
            del game
            (kept,) = store.games()
            assert kept.coalitions == 8

    def test_replicates_are_averaged(self) -> None:
        draws = iter(range(1000))
        game = fv.FunctionGame(2, lambda c: next(draws), batch=False, replicates=3, key="k")
        assert to_shapiq(game, normalize=False)(np.array([[True, False]])) == pytest.approx(1.0)

    def test_a_failing_function_is_reported_as_ever(self) -> None:
        game = fv.FunctionGame(3, lambda c: 1 / (len(c) - 1), list("abc"), batch=False)
        with pytest.raises(fv.UtilityError, match=r"\(1,\) \(b\): ZeroDivisionError"):
            to_shapiq(game)(membership([2], 3))


class Rows:
    """What shapiq calls a game, without shapiq: a callable over rows of booleans."""

    def __init__(self, table: Any, centre: float = 0.0) -> None:
        self.n_players = len(table).bit_length() - 1
        self.table = np.asarray(table)
        self.normalization_value = centre
        self.game_id = f"{id(self)}"

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return self.table[rows @ (1 << np.arange(self.n_players))] - self.normalization_value


class TestFromShapiq:
    @pytest.mark.parametrize("known", [glove(), random_table(6, 1)], ids=str)
    @pytest.mark.parametrize("centre", [0.0, 3.0])
    def test_values_are_the_true_ones(self, known: Any, centre: float) -> None:
        game = from_shapiq(Rows(known.table, centre))
        assert fv.value(game, "exact").mean == pytest.approx(known.values)
        assert [outcome.metrics["utility"] for _, outcome in game.evaluate([0, 3])] == pytest.approx(
            known.table[[0, 3]]
        )

    def test_a_game_is_recognised_by_its_content(self) -> None:
        table = random_table(4, 1).table
        same = {from_shapiq(Rows(table, centre)).id for centre in (0.0, 0.0, 1.0)}
        other = {from_shapiq(Rows(table + 1e-9)).id, from_shapiq(Rows(table), key="v2").id}
        assert len(same) == 1
        assert len(other - same) == 2
        assert from_shapiq(Rows(table)).doubts == ()

    def test_what_cannot_be_looked_into_is_doubted_until_a_key_is_given(self, tmp_path: Path) -> None:
        opaque = Rows(random_table(3, 1).table)
        opaque.model = object()  # type: ignore[attr-defined]
        assert from_shapiq(opaque, key="mine").doubts == ()
        with pytest.raises(fv.GameError, match=r"model \(object\).*key="):
            fv.value(from_shapiq(opaque), "exact", store=tmp_path / "store.db")

    def test_functions_of_the_user_differ_by_their_data(self) -> None:
        def make(factor: float) -> Any:
            def game(rows: np.ndarray) -> np.ndarray:
                return factor * rows.sum(1)

            game.n_players = 3  # type: ignore[attr-defined]
            return game

        assert fv.value(from_shapiq(make(2.0)), "exact").mean.tolist() == [2.0, 2.0, 2.0]
        assert from_shapiq(make(2.0)).id != from_shapiq(make(3.0)).id

    def test_options_of_functions_apply(self) -> None:
        game = from_shapiq(Rows(random_table(4, 1).table), list("abcd"), jobs=2, timeout=20, chunk=4)
        assert game.names == tuple("abcd")
        assert fv.value(game, "exact").mean == pytest.approx(random_table(4, 1).values)

    @pytest.mark.parametrize("wrong", [3, len, [0.0, 1.0], None], ids=repr)
    def test_what_is_no_game_of_theirs_is_refused(self, wrong: Any) -> None:
        with pytest.raises(fv.GameError, match="n_players"):
            from_shapiq(wrong)

    @needs_shapiq
    def test_their_games_come_here_and_back(self) -> None:
        import shapiq

        class Pair(shapiq.Game):  # type: ignore[misc]
            """Everyone brings a quarter, and clients 1 and 2 together one more."""

            def value_function(self, coalitions: np.ndarray) -> np.ndarray:
                return coalitions.sum(1) / 4 + coalitions[:, 1] * coalitions[:, 2]

        worth = pytest.approx([0.25, 0.75, 0.75, 0.25])
        theirs = Pair(4, normalize=False)
        game = from_shapiq(theirs)
        assert fv.value(game, "exact").mean == worth
        assert shapley(to_shapiq(game).exact_values("SV", 1), 4) == worth
        theirs.precompute()
        assert isinstance(from_shapiq(theirs), fv.TableGame)
        assert fv.value(from_shapiq(theirs), "exact").mean == worth

    @needs_shapiq
    def test_games_that_hold_only_some_utilities_are_told_apart(self) -> None:
        import shapiq

        def partial(utility: float) -> Any:
            game = shapiq.Game(2, normalize=False)
            game.game_values, game._precompute_flag = {(): 0.0, (0,): utility}, True
            return from_shapiq(game)

        assert partial(1.0).id == partial(1.0).id != partial(2.0).id
        assert partial(1.0)([0, 1]) == [0.0, 1.0]
        with pytest.raises(fv.UtilityError, match=r"coalition \(1,\).*not stored"):
            partial(1.0)([2])

    @needs_shapiq
    def test_players_keep_their_names_and_utilities_their_level(self) -> None:
        import shapiq

        table = random_table(3, 5).table
        game = shapiq.Game(3, normalization_value=float(table[0]), player_names=["x", "y", "z"])
        game.game_values = {
            tuple(np.flatnonzero(row)): table[m] for m, row in enumerate(membership(range(8), 3))
        }
        ours = from_shapiq(game)
        assert ours.names == ("x", "y", "z")
        assert isinstance(ours, fv.TableGame)
        assert ours.utilities == pytest.approx(table)


@needs_pandas
class TestFrames:
    def values(self, **options: Any) -> fv.Values:
        given = {"names": ("a", "=b()"), "method": "permutation", "evaluations": 8, "guarantee": "unbiased"}
        return fv.Values(mean=[3.0, 1.0], **given, **options)

    def test_one_row_per_client(self) -> None:
        values = self.values(stderr=[0.5, 0.0])
        frame = values.to_frame(0.9)
        assert list(frame.columns) == [
            "client",
            "value",
            "stderr",
            "low",
            "high",
            "share",
            "method",
            "guarantee",
        ]
        assert frame["client"].tolist() == ["a", "=b()"]
        assert frame["share"].tolist() == [0.75, 0.25]
        assert frame[["low", "high"]].to_numpy() == pytest.approx(values.interval(0.9))
        assert frame["method"].unique().tolist() == ["permutation"]

    def test_without_valid_errors_there_are_no_bounds(self) -> None:
        frame = self.values().to_frame()
        assert frame[["stderr", "low", "high"]].isna().all(axis=None)
        assert frame["value"].tolist() == [3.0, 1.0]

    def test_a_frame_is_a_copy(self) -> None:
        values = self.values(stderr=[0.5, 0.0])
        frame = values.to_frame()
        frame.loc[0, ["value", "stderr"]] = -1.0
        assert values.mean.tolist() == [3.0, 1.0]
        assert values.stderr is not None
        assert values.stderr.tolist() == [0.5, 0.0]

    def test_methods_stack(self) -> None:
        import pandas as pd

        found = fv.compare(random_table(4, 0).table, methods=["exact", "ipss", "equal"], budget=8)
        frame = pd.concat(values.to_frame() for values in found.values())
        table = frame.pivot(index="client", columns="method", values="value")
        assert table["exact"].to_numpy() == pytest.approx(random_table(4, 0).values)
        assert table.shape == (4, 3)


class TestMissing:
    """What a person sees where the package is not there."""

    @pytest.mark.parametrize(
        ("package", "code"),
        [
            ("pandas", "fv.Values([1.0], ['a'], 'exact', 2).to_frame()"),
            ("shapiq", "to_shapiq([0.0, 1.0])"),
        ],
    )
    def test_the_extra_is_named(self, package: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(fv.MissingExtraError, match=rf"pip install 'fedvalue\[{package}\]'"):
            eval(code, {"fv": fv, "to_shapiq": to_shapiq})

    def test_nothing_of_it_is_imported_with_fedvalue(self) -> None:
        code = "import sys, fedvalue, fedvalue.adapters.shapiq; print({'pandas', 'shapiq', 'multiprocessing'} & {*sys.modules})"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "set()"
