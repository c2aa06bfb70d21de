"""Every method gives an index honestly or refuses it, and methods are compared by the exact values of that index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.errors import InputError, MethodError
from fedvalue.estimators import ESTIMATORS
from fedvalue.scoring import places

TABLE: NDArray[np.float64] = np.array([0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96])
ABLE = {"exact", "surrogate", "surrogate-adaptive"}


def plan_of_ones_own(n: int, budget: int, rng: np.random.Generator) -> Any:
    """Knows nothing of other weights."""
    v = yield [0, (1 << n) - 1]
    return fv.Estimate(np.full(n, (v[1] - v[0]) / n))


@pytest.mark.parametrize("index", ["banzhaf", "leave-one-out", {"client-1": 2.0}, [3, 2, 1], "nucleolus"])
@pytest.mark.parametrize("method", [*ESTIMATORS, plan_of_ones_own])
def test_a_method_gives_an_index_or_refuses_it(method: Any, index: Any) -> None:
    able = {"exact"} if index == "nucleolus" else ABLE
    if method in able:
        found = fv.value(TABLE, method, 8, index=index)
        assert found.mean == pytest.approx(fv.value(TABLE, "exact", index=index).mean)
        assert found.mean != pytest.approx(fv.value(TABLE, "exact").mean)
        assert found.index != "shapley"
        return
    with pytest.raises(MethodError, match=r"^\S+ cannot give the index \S+\. Methods that can: [a-z, -]+\.$"):
        fv.value(TABLE, method, 8, index=index)


@pytest.mark.parametrize("method", ["surrogate", "surrogate-adaptive"])
def test_from_some_coalitions_it_is_not_the_shapley_value(method: str) -> None:
    game = fv.FunctionGame(8, lambda of: len(of) ** 0.3, batch=False)
    steep = fv.value(game, method, 20, index="beta(16,1)")
    assert steep.mean.sum() > 1.5 * fv.value(game, method, 20).mean.sum()


class TestCompare:
    def test_methods_side_by_side(self) -> None:
        found = fv.compare(TABLE, budget=8, index="banzhaf")
        assert set(found) == ABLE
        assert {values.index for values in found.values()} == {"banzhaf"}
        with pytest.raises(MethodError, match=r"ipss cannot give the index banzhaf"):
            fv.compare(TABLE, ["exact", "ipss"], index="banzhaf")

    def test_errors_are_those_of_the_index(self) -> None:
        found = fv.benchmark(TABLE, ["exact", "surrogate", "ipss"], budget=6, index="leave-one-out")
        of = {score.method: score for score in found.scores}
        assert set(of) == {"exact", "surrogate"}  # no equal split, which shares v(N) − v(∅)
        assert of["exact"].relative_error == 0
        assert list(found.not_run) == ["ipss"]
        assert found.to_dict()["index"] == "leave-one-out"
        truth, guess = (
            fv.value(TABLE, m, b, index="leave-one-out") for m, b in (("exact", None), ("surrogate", 6))
        )
        expected = np.linalg.norm(guess.mean - truth.mean) / np.linalg.norm(truth.mean)
        assert of["surrogate"].relative_error == pytest.approx(expected)

    def test_of_several_seeds(self) -> None:
        rows = TABLE + np.random.default_rng(0).normal(0, 0.02, (4, 8))
        found = fv.benchmark(rows, ["surrogate"], budget=14, index="banzhaf")
        assert found.scores[0].expected_error is not None
        assert found.scores[0].expected_error < 0.5


class TestPlaces:
    def test_level_clients_share_one(self) -> None:
        assert places([0.2, 0.5, 0.5 + 1e-15, 0.1]) == [3, 1, 1, 4]

    def test_side_by_side(self) -> None:
        known = {mask: [utility] for mask, utility in enumerate(TABLE.tolist())}
        found = fv.other_indices(fv.value(TABLE, "exact"), "leave-one-out", known)
        assert found.places == {"shapley": [3, 1, 1], "leave-one-out": [2, 2, 1]}
        assert found.place_rows()[0] == ["client-0", "3", "2"]
        assert found.place_rows()[-1] == ["τ with Shapley", "+1.00", "+0.50"]
        assert found.to_dict()["places"] == found.places
        assert str(found).count("client-0") == 2


class TestCommands:
    def test_compare(self, tmp_path: Path) -> None:
        (tmp_path / "t.json").write_text(json.dumps(TABLE.tolist()))
        run = CliRunner().invoke(
            app, ["compare", "--table", str(tmp_path / "t.json"), "--budget", "6", "--index", "banzhaf"]
        )
        assert "those of Banzhaf values" in run.output
        assert "equal" not in run.output.split("Budget")[0]

    def test_indices_of_a_table(self, tmp_path: Path) -> None:
        file = tmp_path / "rows.json"
        file.write_text(json.dumps([TABLE.tolist(), (TABLE + 0.01 * np.arange(8)).tolist()]))
        run = CliRunner().invoke(app, ["indices", "--table", str(file), "--index", "banzhaf", "--json", "-"])
        found = json.loads(run.output)
        exact = fv.value((2 * TABLE + 0.01 * np.arange(8)) / 2, "exact", index="banzhaf").mean
        assert found["values"]["banzhaf"]["mean"] == pytest.approx(exact.tolist())
        assert found["places"]["banzhaf"] == places(exact)
        for wrong in ([], [str(tmp_path), "--table", str(file)]):
            run = CliRunner().invoke(app, ["indices", *wrong])
            assert run.exit_code == 2
            assert "needs a run, with its store, or a table" in run.output


@pytest.mark.parametrize(
    ("index", "says"),
    [
        *(
            (f"beta({a},1)", r"must be above 0|two numbers")
            for a in ("0", "-1", "inf", "nan", "1e300", "1e-300", "")
        ),
        ("beta(1,2,3)", r"need two numbers"),
        ("beta(a,b)", r"need two numbers"),
        ([1, 2], r"a number for each size .* 3 numbers for 3 clients. Got 2"),
        ("sizes(1,2,3,4)", r"3 numbers for 3 clients. Got 4"),
        *(
            ([1, 2, bad], r"number from 0 for each size")
            for bad in (-1, float("inf"), float("nan"), "x", None, 10**400)
        ),
        ([0, 0, 0], r"not all of them 0"),
        (np.ones((3, 3)), r"number from 0 for each size"),
        ("sizes", r"number from 0 for each size"),
        ([], r"number from 0 for each size"),
        ({"client-0": "heavy"}, r"from 0.001 to 1,000"),
        ({"client-0": None}, r"from 0.001 to 1,000"),
        ({0: 2.0}, r"There is no client 0"),
        ({"client-0": 10**400}, r"from 0.001 to 1,000"),
        ("Banzhaf!", r"Expected an index: .*Did you mean 'banzhaf'"),
        ("nucleous", r"Did you mean 'nucleolus'"),
        ("leave one out", r"Did you mean 'leave-one-out'"),
        ("", r"Expected an index"),
        (None, r"Expected an index"),
        (b"banzhaf", r"Expected an index"),
        (True, r"Expected an index"),
    ],
)
def test_what_is_no_index_is_one_sentence(index: Any, says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        fv.value(TABLE, "surrogate", 6, index=index)
    assert len(str(error.value)) < 320


def test_too_many_clients_for_a_core_are_refused_before_anything_is_evaluated() -> None:
    asked: list[tuple[int, ...]] = []
    game = fv.FunctionGame(13, lambda of: float(asked.append(of) or 0), batch=False)
    with pytest.raises(InputError, match=r"up to 12 clients. Got 13"):
        fv.value(game, "exact", index="nucleolus")
    assert not asked


def test_two_numbers_are_never_written_alike() -> None:
    names = [
        fv.value(TABLE, "exact", index=f"beta({a},1)").index for a in ("1.00000001", "1.00000002", "2.0")
    ]
    assert names == ["beta(1.00000001,1)", "beta(1.00000002,1)", "beta(2,1)"]
