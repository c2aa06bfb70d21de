"""Parts of an error that the run knows and the method does not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.estimators.exact import shapley_values


class TestEmptyCoalitionOfAFunction:
    """A function that takes a seed has no rule for v(∅): what one seed gives is luck, and in every value."""

    @staticmethod
    def game(luck: float, key: str) -> fv.FunctionGame:
        def utility(coalition: tuple[int, ...], seed: int) -> float:
            rng = np.random.default_rng([seed, len(coalition), *coalition, 7])
            if not coalition:
                return 0.5 + luck * float(rng.normal())
            return 0.6 + 0.1 * len(coalition) + 0.01 * float(rng.normal())

        return fv.FunctionGame(3, utility, batch=False, key=key)

    @pytest.mark.parametrize("method", ["surrogate", "exact"])
    def test_it_is_a_mean_over_seeds_with_an_error(self, method: str) -> None:
        values = fv.value(self.game(0.15, "a"), method)
        sure = fv.value(self.game(0.0, "b"), method)
        assert values.utility_of_none == pytest.approx(0.5, abs=0.15)
        assert sure.utility_of_none == pytest.approx(0.5)
        luck = values.errors["training"] ** 2 - sure.errors["training"] ** 2
        assert luck == pytest.approx(np.full(3, 0.15**2 / 16 / 9), rel=0.8)
        assert np.diag(values.covariance) == pytest.approx(values.stderr**2)

    def test_a_budget_counts_trainings(self) -> None:
        calls = []
        game = fv.FunctionGame(
            3, lambda c, seed: calls.append((c, seed)) or float(len(c)), batch=False, key="c"
        )
        values = fv.value(game, "surrogate", budget=24)
        trained = {call for call in calls if call[0]}
        assert values.evaluations == len(trained) <= 24
        assert len(calls) == len(trained) + 16


class TestReplicates:
    @pytest.mark.parametrize("method", ["exact", "surrogate"])
    def test_what_they_differ_by_is_in_the_interval(self, method: str) -> None:
        def utility(coalition: tuple[int, ...]) -> float:
            return 0.2 * len(coalition) + 0.05 * float(draws.normal())

        draws = np.random.default_rng(3)
        game = fv.FunctionGame(3, utility, replicates=4, batch=False, key="r")
        outcomes: dict[tuple[int, int], float] = {}
        values = fv.value(
            game,
            method,
            budget=8,
            on_outcome=lambda e: outcomes.__setitem__((e.mask, e.replicate), e.utility),
        )
        tables = np.array([[outcomes[mask, r] for mask in range(8)] for r in range(4)])
        of_replicates = np.array([shapley_values(3, table) for table in tables])
        assert values.mean == pytest.approx(of_replicates.mean(0))
        assert values.errors["training"] == pytest.approx(of_replicates.std(0, ddof=1) / 2)
        assert values.dof.tolist() == [3.0] * 3
        assert values.stderr == pytest.approx(values.errors["training"])


def test_seeds_alone_say_which_method() -> None:
    table = np.random.default_rng(0).random((8, 16))
    assert fv.value(fv.TableGame(table), budget=16, seeds=1).seeds == 1
    assert fv.value(fv.TableGame(table), seeds=2).seeds == 2


@pytest.mark.parametrize("returned", [(0.5, 0.1, 0.2), (0.5,), ()])
def test_tuples_other_than_pairs_are_no_rows(returned: tuple[float, ...]) -> None:
    game = fv.FunctionGame(2, lambda c: returned, batch=False, key="t")
    with pytest.raises(fv.UtilityError, match="standard error"):
        fv.value(game, "exact")


@pytest.mark.parametrize("kind", ["npz", "npy", "json"])
def test_a_matrix_in_a_file(kind: str, tmp_path: Path) -> None:
    table = np.random.default_rng(1).random((6, 8))
    path = tmp_path / f"m.{kind}"
    if kind == "json":
        path.write_text(json.dumps(table.tolist()))
    elif kind == "npy":
        np.save(path, table)
    else:
        np.savez(path, utility=table)
    found = CliRunner().invoke(
        app,
        [
            "value",
            "--table",
            str(path),
            "--method",
            "surrogate",
            "--seeds",
            "3",
            "--budget",
            "20",
            "--json",
            "-",
        ],
    )
    assert found.exit_code == 0, found.output
    values = json.loads(found.stdout)
    expected = fv.value(fv.TableGame(table), "surrogate", budget=20, seeds=3)
    assert (values["seeds"], values["evaluations"]) == (3, 20)
    assert values["mean"] == pytest.approx(expected.mean.tolist())


def test_lists_of_different_lengths_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text("[[0, 1, 2, 3], [0, 1]]")
    found = CliRunner().invoke(app, ["value", "--table", str(path)])
    assert found.exit_code == 2
    assert "equally long" in found.output
