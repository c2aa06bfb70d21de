"""Who benefits: the matrix against brute force and closed forms, its errors, and what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast
from numpy.typing import NDArray
from typer.testing import CliRunner, Result

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.estimators.exact import shapley_values
from fedvalue.games import FederatedGame

Array = NDArray[np.float64]
SYNTHETIC: dict[str, Any] = {"clients": 4, "samples": 40, "test": "by-client", "partition": "size"}
DIGITS: dict[str, Any] = {
    "clients": 4, "samples": 40, "test": "by-client", "partition": "distribution", "model": "linear", "rounds": 1,
    "epochs": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """Trainings here are tiny."""


def cli(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def benefits_of(values: fv.Values) -> fv.Benefits:
    assert values.benefits is not None
    return values.benefits


def by_hand(scenario: fv.Scenario, metric: str, sign: int = 1, **game: Any) -> Array:
    """What `exact` makes of the metric on each client's rows, one after the other."""
    rows = []
    for name in scenario.test_owners:
        of_part = FederatedGame(scenario, metric=f"{name}/{metric}", **game)
        rows.append(fv.value(of_part, "exact", noise=False).mean)
    return np.array(rows)


class TestMatrix:
    @pytest.mark.parametrize("metric", ["mse", "mae"])
    def test_it_is_the_values_on_the_rows_of_each_client(self, metric: str) -> None:
        result = fv.run("synthetic", **SYNTHETIC, method="exact", metric=metric)
        found = benefits_of(result.values)
        scenario = result.job.prepared.scenario
        assert found.matrix == pytest.approx(by_hand(scenario, metric, model="least-squares"))
        assert found.rows == tuple(len(rows) for rows in scenario.test_parts.values())

    @pytest.mark.parametrize("metric", ["mse", "mae"])
    def test_weighted_by_rows_it_adds_up_to_the_values(self, metric: str) -> None:
        values = fv.run("synthetic", **SYNTHETIC, method="exact", metric=metric).values
        found = benefits_of(values)
        assert found.adds_up
        assert found.weights.sum() == pytest.approx(1)
        assert found.weights @ found.matrix == pytest.approx(values.mean)
        assert found.kept + found.given == pytest.approx(values.mean)
        assert found.given.sum() == pytest.approx(found.gained.sum())
        assert found.balance.sum() == pytest.approx(0)

    @pytest.mark.parametrize("metric", ["accuracy", "loss", "correct"])
    @pytest.mark.parametrize(
        ("method", "more"),
        [("exact", {}), ("surrogate", {"budget": 24}), ("surrogate", {"budget": 12, "seeds": 1})],
    )
    def test_so_it_does_for_every_method_and_metric_that_adds_up(
        self, metric: str, method: str, more: Any
    ) -> None:
        values = fv.run("digits", **DIGITS, method=method, metric=metric, **more).values
        found = benefits_of(values)
        assert found.weights @ found.matrix == pytest.approx(
            values.mean, abs=1e-9 * np.abs(values.mean).max()
        )

    def test_a_metric_that_does_not_add_up_says_so(self) -> None:
        found = benefits_of(fv.run("digits", **DIGITS, method="exact", metric="auc").values)
        assert not found.adds_up
        assert any("do not add up to the values" in line for line in found.statements())

    @pytest.mark.parametrize("empty", first_fast(["initial", "chance", "majority", 0.25], keep=2))
    def test_every_rule_for_the_empty_coalition_holds_on_each_part(self, empty: Any) -> None:
        result = fv.run("digits", **DIGITS, method="exact", empty=empty)
        scenario, job = result.job.prepared.scenario, result.job.prepared.game
        expected = by_hand(scenario, "accuracy", model=job.learner, training=job.training, empty=empty)
        assert benefits_of(result.values).matrix == pytest.approx(expected)

    def test_a_metric_of_ones_own_is_measured_on_each_part_too(self) -> None:
        def hits(predicted: Array, labels: Array) -> float:
            return float((predicted == labels).mean())

        own = fv.Metric("hits", hits, takes="predictions", key="hits")
        found = benefits_of(fv.run("digits", **DIGITS, method="exact", metric=own).values)
        same = benefits_of(fv.run("digits", **DIGITS, method="exact").values)
        assert found.matrix == pytest.approx(same.matrix)
        assert not found.adds_up  # of a function nobody knows

    def test_a_client_without_data_is_a_column_and_no_row(self) -> None:
        scenario = fv.load_scenario(
            "digits", clients=4, samples=40, test="by-client", partition="same+free-riders", empty=1, copies=0
        )
        values = fv.run(scenario, model="linear", rounds=1, epochs=1, method="exact").values
        found = benefits_of(values)
        assert found.matrix.shape == (3, 4)
        assert found.matrix[:, 3] == pytest.approx(0)
        assert (found.given[3], found.gained[3]) == pytest.approx((0, 0))
        assert "What others do for free-rider is not known" in found.statements()[-1]


class TestErrors:
    def test_those_of_test_rows_are_those_of_the_rows_of_one_client(self) -> None:
        result = fv.run("digits", **DIGITS, method="exact", options={"noise": False})
        game, found = result.job.prepared.game, benefits_of(result.values)
        name = game.names[1]
        told = [result.outcomes[mask, 0].rows[f"{name}/accuracy"].array() for mask in range(1, 16)]
        empty = result.outcomes[0, 0].rows[f"{name}/accuracy|initial"].array()
        of_rows = shapley_values(4, np.array([empty, *told]))
        assert found.stderr is not None
        assert found.stderr[1] == pytest.approx(np.sqrt(of_rows.var(1, ddof=1) / of_rows.shape[1]), rel=1e-3)

    @pytest.mark.parametrize(
        "more",
        [
            {"budget": 24},
            {"budget": 12, "seeds": 1},
            {"method": "exact"},
            {"method": "exact", "replicates": 3},
            {"budget": 12, "replicates": 2},
        ],
    )
    def test_sums_over_rows_err_as_the_values_do(self, more: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        import sys

        inside = sys.modules["fedvalue.run._benefits"]
        kept: list[Any] = []
        original = inside._Errors.of
        monkeypatch.setattr(inside, "of_test_rows", lambda *given: None)
        monkeypatch.setattr(inside._Errors, "of", lambda *given: kept.append(original(*given)) or kept[-1])
        values = fv.run("digits", **DIGITS, **more).values
        found = benefits_of(values)
        (errors,) = kept
        known = sum(part for name, part in values.parts.items() if name != "test")
        for j in range(4):
            column = np.zeros((4, 4))
            column[:, j] = found.weights
            assert errors.of_sum(column) == pytest.approx(np.sqrt(known[j, j]), rel=1e-6)

    def test_a_method_that_gives_no_weights_has_none(self) -> None:
        values = fv.run("digits", **DIGITS, method="ipss", budget=8).values
        assert values.benefits is None
        assert "this method does not say how much each training counts" in values.notes[-1]

    def test_what_is_not_certain_is_not_claimed(self) -> None:
        sure = fv.Benefits(
            [[0.3, 0.1], [0.4, 0.2]], ("a", "b"), ("a", "b"), (5, 5), [0.5, 0.5], balance_stderr=[0.01, 0.01]
        )
        unsure = fv.Benefits(
            [[0.3, 0.1], [0.4, 0.2]], ("a", "b"), ("a", "b"), (5, 5), [0.5, 0.5], balance_stderr=[0.2, 0.2]
        )
        assert sure.statements() == [
            "a (+0.1500) gives the others more than it gains from them.", "b (-0.1500) gains more than it gives.",
        ]  # fmt: skip
        assert "Nobody gives more than it gains" in unsure.statements()[0]


class TestKept:
    def test_a_store_answers_for_all_of_it(self, tmp_path: Path) -> None:
        first = fv.run("digits", **DIGITS, method="exact", store=tmp_path / "store.db")
        again = fv.run("digits", **DIGITS, method="exact", store=tmp_path / "store.db")
        assert again.cost.trained == 0
        assert benefits_of(again.values).to_dict() == benefits_of(first.values).to_dict()

    def test_files_keep_it(self) -> None:
        values = fv.run("synthetic", **SYNTHETIC, method="exact", metric="mse").values
        plain = json.loads(json.dumps(values.to_dict()))
        assert benefits_of(fv.Values.from_dict(plain)).to_dict() == benefits_of(values).to_dict()

    @pytest.mark.parametrize(
        "harm",
        [
            {"matrix": [[1.0]]},
            {"owners": ["x"] * 4},
            {"weights": None},
            {"rows": ["many"] * 4},
            {"stderr": "none"},
        ],
    )
    def test_files_that_were_changed_are_refused(self, harm: dict[str, Any]) -> None:
        values = fv.run("synthetic", **SYNTHETIC, method="exact", metric="mse").values
        plain = json.loads(json.dumps(values.to_dict()))
        plain["benefits"] |= harm
        with pytest.raises(fv.InputError):
            fv.Values.from_dict(plain)

    def test_the_command_prints_it(self, tmp_path: Path) -> None:
        out = tmp_path / "run"
        run = cli(
            "run", "--no-config", "--scenario", "synthetic", "--clients", 3, "--samples", 30, "--test", "by-client",
            "--metric", "mse", "--exact", "--out", out,
        )  # fmt: skip
        assert run.exit_code == 0, run.output
        shown = cli("benefits", out, "--json", tmp_path / "benefits.json")
        assert shown.exit_code == 0, shown.output
        assert "balance" in shown.output
        found = json.loads((tmp_path / "benefits.json").read_text())
        assert len(found["matrix"]) == 3
        page = (out / "report.html").read_text()
        assert "Who benefits from whose data" in page
        record = json.loads((out / "run.json").read_text())
        assert record["scenario"]["tested"] == "by-client"
        assert "--test by-client" in page
        text = cli("report", out, "--out", "-", "--format", "md").output
        assert "Who benefits from whose data" in text

    def test_values_on_one_test_set_say_how_to_get_it(self, tmp_path: Path) -> None:
        fv.run("synthetic", clients=3, samples=30, method="exact", out=tmp_path / "run")
        shown = cli("benefits", tmp_path / "run")
        assert shown.exit_code == 2
        assert "fedvalue run --test by-client" in shown.stderr
        assert "Who benefits" not in (tmp_path / "run" / "report.html").read_text()

    def test_a_file_of_options_may_say_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("fedvalue.toml").write_text(
            '[run]\nscenario = "synthetic"\nclients = 3\nsamples = 30\ntest = "by-client"\n'
        )
        shown = cli("run", "--exact", "--metric", "mse", "--json", "-")
        assert shown.exit_code == 0, shown.output
        assert "benefits" in json.loads(shown.stdout)
