"""Other solution concepts: closed forms, brute force, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import comb, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marks import first_fast
from numpy.typing import NDArray
from scipy.special import beta as beta_function
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.errors import InputError, MethodError
from fedvalue.estimators import guarantee_lines
from fedvalue.indices import INDICES, title_of
from fedvalue.run import read_values

Array = NDArray[np.float64]
LINEAR = ("shapley", "banzhaf", "beta(16,1)", "beta(1,4)", "leave-one-out", {"client-1": 3.0})
SOLVED = ("least-core", "nucleolus")


def random_table(n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=1 << n)


def by_definition(n: int, v: Array, weight: Any) -> list[float]:
    """Σ_{S∌i} weight(|S|)·[v(S∪i) − v(S)], one by one."""
    return [
        sum(weight(s.bit_count()) * (v[s | 1 << i] - v[s]) for s in range(1 << n) if not s >> i & 1)
        for i in range(n)
    ]


def excesses(v: Array, shares: Array) -> Array:
    inside = np.arange(1, len(v) - 1)[:, None] >> np.arange(len(shares)) & 1
    return v[1:-1] - v[0] - inside @ shares


def value(v: Array, index: Any, **options: Any) -> fv.Values:
    return fv.value(v, "exact", index=index, **options)


class TestSemivalues:
    @pytest.mark.parametrize("n", [1, 2, 5])
    def test_they_are_what_their_papers_define(self, n: int) -> None:
        v = random_table(n)
        weights = {
            "banzhaf": lambda s: 2.0 ** (1 - n),
            "beta(4,1)": lambda s: beta_function(s + 1, n - 1 - s + 4) / beta_function(4, 1),
            "beta(1,1)": lambda s: 1 / n / comb(n - 1, s),
            "leave-one-out": lambda s: float(s == n - 1),
        }
        for name, weight in weights.items():
            assert value(v, name).mean == pytest.approx(by_definition(n, v, weight), abs=1e-12)

    def test_weights_of_sizes_are_those_of_a_mean(self) -> None:
        for name in ("banzhaf", "beta(16,1)", "beta(1,16)", "leave-one-out"):
            additive = np.array(
                [sum((i + 1) * (mask >> i & 1) for i in range(6)) for mask in range(64)], float
            )
            assert value(additive, name).mean == pytest.approx([1, 2, 3, 4, 5, 6])

    def test_beta_looks_at_small_or_at_large_coalitions(self) -> None:
        saturates = np.array([min(mask.bit_count(), 2) for mask in range(32)], float)
        small, large = (value(saturates, name).mean[0] for name in ("beta(16,1)", "beta(1,16)"))
        assert small > 0.7 > 0.1 > large


class TestWeightedShapley:
    @given(st.integers(1, 5), st.integers(0, 10**6))
    def test_by_dividends(self, n: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        v, omega = rng.normal(size=1 << n), rng.uniform(0.1, 5, n)
        expected = np.zeros(n)
        for t in range(1, 1 << n):
            parts = (s for s in range(1 << n) if s & t == s)
            dividend = sum((-1) ** (t.bit_count() - s.bit_count()) * v[s] for s in parts)
            inside = np.array([t >> i & 1 for i in range(n)])
            expected += dividend * omega * inside / (omega @ inside)
        names = [f"client-{i}" for i in range(n)]
        assert value(v, dict(zip(names, omega.tolist(), strict=True))).mean == pytest.approx(expected)

    def test_by_orders_in_which_the_heavy_come_late(self) -> None:
        """The last of those left is drawn by weight (Kalai and Samet 1987)."""
        v, omega = random_table(3), (1.0, 2.0, 5.0)
        expected = np.zeros(3)
        for order in permutations(range(3)):
            chance = prod(omega[i] / sum(omega[j] for j in order[: k + 1]) for k, i in enumerate(order))
            before = 0
            for i in order:
                expected[i] += chance * (v[before | 1 << i] - v[before])
                before |= 1 << i
        found = value(v, "weighted(client-1=2, client-2=5)")
        assert found.mean == pytest.approx(expected)
        assert found.index == "weighted(client-1=2,client-2=5)"

    def test_equal_weights_are_shapley_values(self) -> None:
        v = random_table(6)
        assert value(v, dict.fromkeys(["client-0", "client-3"], 1.0)).mean == pytest.approx(
            fv.value(v, "exact").mean
        )


class TestCores:
    @pytest.mark.parametrize(
        ("estate", "shares"), [(100, [100 / 3] * 3), (200, [50, 75, 75]), (300, [50, 100, 150])]
    )
    def test_the_nucleolus_divides_an_estate_as_the_talmud_does(
        self, estate: int, shares: list[float]
    ) -> None:
        """Aumann and Maschler 1985: claims of 100, 200 and 300."""
        claims = np.array([100, 200, 300])
        v = np.array(
            [max(0, estate - sum(c for i, c in enumerate(claims) if not mask >> i & 1)) for mask in range(8)]
        )
        assert value(v.astype(float), "nucleolus").mean == pytest.approx(shares)

    def test_left_and_right_gloves(self) -> None:
        """One left, two right ones: all is the left one's, in every concept of the core."""
        v = np.array([float(bool(mask & 1) and bool(mask & 6)) for mask in range(8)])
        for index in SOLVED:
            assert value(v, index).mean == pytest.approx([1, 0, 0], abs=1e-8)

    @given(st.integers(2, 5), st.integers(0, 10**6))
    def test_no_other_shares_leave_a_smaller_excess(self, n: int, seed: int) -> None:
        v = random_table(n, seed)
        core, nucleolus = (value(v, index).mean for index in SOLVED)
        assert core.sum() == pytest.approx(v[-1] - v[0], abs=1e-9)
        assert nucleolus.sum() == pytest.approx(v[-1] - v[0], abs=1e-9)
        worst = excesses(v, nucleolus).max()
        assert excesses(v, core).max() == pytest.approx(worst, abs=1e-6)
        assert np.std(core) <= np.std(nucleolus) + 1e-6
        rng = np.random.default_rng(seed)
        for _ in range(20):
            step = rng.normal(size=n) * 10.0 ** rng.integers(-3, 1)
            other = nucleolus + step - step.mean()
            assert excesses(v, other).max() >= worst - 1e-9
            # The nucleolus is first in the order of sorted excesses.
            here, there = (np.sort(excesses(v, x))[::-1] for x in (nucleolus, other))
            differs = np.flatnonzero(np.abs(here - there) > 1e-6)[:1]
            assert (here[differs] < there[differs]).all()

    @pytest.mark.parametrize("index", SOLVED)
    def test_units_and_offsets_do_not_matter(self, index: str) -> None:
        v = random_table(4)
        assert value(1e-9 * v, index).mean == pytest.approx(1e-9 * value(v, index).mean, rel=1e-5)
        assert value(1e6 * v + 5e6, index).mean == pytest.approx(1e6 * value(v, index).mean, rel=1e-5)
        assert value(np.full(8, 0.5), index).mean.tolist() == [0, 0, 0]
        assert value(np.array([0.25, 1.0]), index).mean.tolist() == [0.75]

    def test_they_take_all_coalitions(self) -> None:
        with pytest.raises(
            MethodError, match=r"surrogate cannot give the index nucleolus. Methods that can: exact"
        ):
            fv.value(random_table(4), "surrogate", 8, index="nucleolus")
        with pytest.raises(InputError, match=r"up to 12 clients. Got 13"):
            value(np.zeros(1 << 13), "least-core")


class TestByTheSurrogate:
    @pytest.mark.parametrize("index", LINEAR)
    def test_with_all_coalitions_it_is_exact(self, index: Any) -> None:
        v = random_table(4)
        found = fv.value(v, "surrogate", 16, index=index)
        assert found.mean == pytest.approx(value(v, index).mean)
        assert found.guarantee == "exact"

    @pytest.mark.parametrize("index", first_fast(LINEAR[1:]))
    def test_intervals_hold_the_values(self, index: Any) -> None:
        """Games that saturate, with clients of different size, from half of their coalitions."""
        held = []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            size = rng.uniform(0.5, 2, 6)
            inside = np.arange(64)[:, None] >> np.arange(6) & 1
            v = 1 - np.exp(-(inside @ size) / 3) + rng.normal(0, 0.002, 64)
            found, truth = fv.value(v, "surrogate", 32, index=index), value(v, index).mean
            low, high = found.interval().T
            held += ((low <= truth) & (truth <= high)).tolist()
        assert np.mean(held) >= 0.85

    def test_the_mean_of_several_seeds(self) -> None:
        rng = np.random.default_rng(1)
        rows = random_table(4) + rng.normal(0, 0.01, (20, 16))
        exact = value(rows, "banzhaf")
        assert exact.mean == pytest.approx(value(rows.mean(0), "banzhaf").mean)
        assert exact.stderr is not None
        found = fv.value(rows, "surrogate", 200, index="banzhaf")
        assert np.abs(found.mean - exact.mean).max() < 4 * found.stderr.max()
        assert found.utility_of_all == pytest.approx(rows[:, -1].mean(), abs=0.02)
        assert value(rows, "nucleolus").mean == pytest.approx(
            value(np.vstack([rows.mean(0)]), "nucleolus").mean
        )

    def test_too_many_coalitions_to_weigh(self) -> None:
        game = fv.FunctionGame(14, len, batch=False)
        with pytest.raises(
            MethodError, match=r"rest on 16,384 coalitions; the surrogate weighs at most 8,192"
        ):
            fv.value(game, "surrogate", 40, index={"client-0": 2.0})
        low, high = fv.value(game, "surrogate", 40, index="leave-one-out").interval().T
        assert (low <= 1).all()
        assert (high >= 1).all()


class TestWhatIsSaid:
    def test_every_index_has_a_title(self) -> None:
        assert title_of("banzhaf") == "Banzhaf values"
        assert title_of("beta(16,1)") == "Beta(16, 1)-Shapley values"
        assert title_of("weighted(a=2)") == "Weighted Shapley values"
        assert {name.partition("(")[0] for name in INDICES} >= {"shapley", "banzhaf", "nucleolus"}

    @pytest.mark.parametrize(
        ("index", "says"),
        [
            ("banzaf", r"Expected an index: shapley, .* Got 'banzaf'. Did you mean 'banzhaf'"),
            ("beta", r"need two numbers, as in beta\(16,1\)"),
            ("beta(0,1)", r"must be above 0"),
            ("beta(nan,1)", r"must be above 0"),
            ("nucleolus(3)", r"Expected an index"),
            ("weighted()", r"NAME=NUMBER"),
            ("weighted(client-0=1,client-0=2)", r"each client once"),
            ("weighted(nobody=2)", r"There is no client 'nobody'"),
            ({"client-0": 0.0}, r"from 0.001 to 1,000"),
            ({"client-0": float("nan")}, r"from 0.001 to 1,000"),
            ({}, r"No client has a weight"),
            (3, r"Expected an index|index"),
        ],
    )
    def test_what_is_no_index(self, index: Any, says: str) -> None:
        with pytest.raises(InputError, match=says):
            value(random_table(2), index)

    def test_methods_that_cannot(self) -> None:
        with pytest.raises(
            MethodError, match=r"ipss cannot give the index banzhaf. Methods that can: exact, surrogate"
        ):
            fv.value(random_table(3), "ipss", 6, index="banzhaf")
        with pytest.raises(MethodError, match=r"Values in groups are Owen values"):
            value(random_table(3), "banzhaf", groups={"g": ["client-0", "client-1"]})

    def test_it_is_kept_in_files_and_said(self, tmp_path: Path) -> None:
        values = value(random_table(3), "banzhaf")
        values.save(tmp_path / "values.json")
        again = read_values(tmp_path / "values.json")
        assert (again.index, again.title) == ("banzhaf", "Banzhaf values")
        assert guarantee_lines(again)[0] == "Exact: these are the Banzhaf values of the game."
        assert "index" not in fv.value(random_table(3), "exact").to_dict()

    def test_what_takes_shapley_values_refuses_others(self, tmp_path: Path) -> None:
        table = random_table(3)
        values = value(table, "banzhaf")
        known = {mask: [utility] for mask, utility in enumerate(table.tolist())}
        for ask in (
            lambda: fv.audit(values, known),
            lambda: fv.payout(values, 100),
            lambda: fv.report(values, tmp_path / "r.html"),
            lambda: fv.what_if(values, known),
            lambda: fv.other_indices(values, ["banzhaf"], known),
        ):
            with pytest.raises(InputError, match=r"takes Shapley values. These are by the index banzhaf"):
                ask()


class TestFromATrainedGame:
    def test_all_of_them_without_training(self, tmp_path: Path) -> None:
        table = random_table(4)
        calls = []

        def utility(clients: tuple[int, ...]) -> float:
            calls.append(clients)
            return float(table[sum(1 << i for i in clients)])

        game = fv.FunctionGame(4, utility, batch=False, key="the table")
        values = fv.value(game, "exact", store=tmp_path / "s.db")
        before = len(calls)
        found = fv.other_indices(values, store=tmp_path / "s.db")
        assert len(calls) == before
        for name, of in found.values.items():
            assert of.mean == pytest.approx(value(table, name).mean, abs=1e-7)
            assert (of.index, of.guarantee) == (name, "exact")
        assert found.ranking["shapley"] == 1
        assert found.not_known == {}
        assert fv.value(game, "exact", store=tmp_path / "s.db", index="banzhaf").cost.trained == 0

    def test_what_is_not_known_is_said(self) -> None:
        table = random_table(4)
        values = fv.value(table, "surrogate", 10)
        known = {mask: [float(table[mask])] for mask in (0, 1, 2, 4, 8, 3, 12, 7, 14, 15)}
        found = fv.other_indices(values, ["banzhaf", "nucleolus"], known)
        assert found.values["banzhaf"].stderr is not None
        assert found.values["banzhaf"].method == "surrogate"
        assert found.not_known == {"nucleolus": "It rests on all 16 coalitions, and 10 are known."}
        assert "Not known: nucleolus." in str(found)
        assert "not that of test rows" in str(found)
        assert found.to_dict()["not_known"] == found.not_known

    def test_values_without_an_interval_beside_values_with_one_are_explained(self) -> None:
        table = random_table(3)
        known = {mask: [float(utility)] for mask, utility in enumerate(table)}
        exact = fv.value(table, "exact")
        assert fv.other_indices(exact, ["banzhaf"], known).remarks == []
        with_luck = replace(exact, stderr=np.full(3, 0.1))
        (remark,) = fv.other_indices(with_luck, ["banzhaf", "nucleolus"], known).remarks
        assert remark.startswith(
            "Without a ±: banzhaf, nucleolus. They are exact for the trainings that were made"
        )


def test_utilities_that_are_none() -> None:
    values, whole = value(random_table(3), "shapley"), {mask: [0.1 * mask] for mask in range(8)}
    for odd in ([], [float("nan")]):
        with pytest.raises(InputError, match=r"one or more finite numbers. Coalition \(0, 1\) has"):
            fv.other_indices(values, ["nucleolus"], {**whole, 3: odd})
    found = fv.other_indices(values, ["nucleolus"], {**whole, 3: [0.3, 0.3]})
    assert (
        found.not_known["nucleolus"]
        == "It rests on all 8 coalitions, and they are not known with the same seeds."
    )


class TestWhatTheyAreCalled:
    """Whoever sees other values than Shapley's is told so, wherever that is."""

    def test_tables_and_verification_name_the_index(self, tmp_path: Path) -> None:
        table, file, store = random_table(3), tmp_path / "banzhaf.json", tmp_path / "store.db"
        values = fv.value(table, "exact", index="banzhaf", store=store)
        values.save(file)
        assert str(values).startswith("Banzhaf values by exact")
        assert values.table().title == "Banzhaf values by exact"
        assert values._repr_html_().count("Banzhaf values by exact") == 1
        assert set(values.to_frame()["index"]) == {"banzhaf"}
        assert str(value(table, "shapley")).startswith("Data value by exact")
        assert fv.verify(file, store=store).sound

    def test_neither_a_report_nor_a_statement_calls_them_shapley_values(self, tmp_path: Path) -> None:
        file, pages = tmp_path / "banzhaf.json", tmp_path / "pages"
        value(random_table(3), "banzhaf").save(file)
        found = CliRunner().invoke(app, ["report", str(file), "--statements", str(pages)])
        assert (found.exit_code, pages.exists()) == (2, False)
        assert "A report takes Shapley values. These are by the index banzhaf" in " ".join(
            found.output.split()
        )
