"""Whether anything was learned is said first, wherever values are shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.errors import InputError

NOTHING = "The model learns nothing from these data: values mean nothing."


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """Trainings here are tiny."""


def folder(path: Path, shuffled: bool) -> Path:
    rng = np.random.default_rng(3)
    path.mkdir()
    for name, rows in {"aachen": 120, "bern": 90, "como": 60, "test": 300}.items():
        x = rng.normal(size=(rows, 3))
        y = (x.sum(1) + 0.4 * rng.normal(size=rows) > 0.4).astype(int)
        y = rng.permutation(y) if shuffled else y
        lines = [",".join([*(f"{v:.3f}" for v in row), str(label)]) for row, label in zip(x, y, strict=True)]
        (path / f"{name}.csv").write_text("\n".join(["a,b,c,outcome", *lines]) + "\n")
    return path


def invoke(*args: Any) -> Any:
    return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.mark.slow
def test_shuffled_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = ("--scenario", "files", "--data-dir", folder(tmp_path / "d", True), "--label", "outcome")
    found = invoke("run", "--no-config", *data, "--exact", "--out", "out")
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    said = next(i for i, line in enumerate(lines) if line.startswith(NOTHING))
    assert "always answering the most frequent class has 0." in lines[said]
    assert said < next(i for i, line in enumerate(lines) if line.startswith("Data value"))
    values = json.loads(Path("out/values.json").read_text())
    assert values["learned"] is False
    assert values["baseline"]["utility"] + values["baseline"]["margin"] >= values["utility_of_all"]
    page = Path("out/report.html").read_text()
    assert page.index(NOTHING) < page.index("is worth the most")
    assert NOTHING in invoke("report", "out", "--format", "md", "--out", "-").stdout.split("##")[0]
    audit = invoke("audit", "out").stdout
    assert audit.index("NOTHING LEARNED") < audit.index(NOTHING)
    assert fv.audit(fv.Values.from_dict(values), store="out/store.db").findings[0].kind == "nothing learned"
    refused = invoke("payout", "out", "--pot", "1000", "--rule", "shift")
    assert refused.exit_code == 2
    assert NOTHING in refused.stderr
    assert "--anyway" in refused.stderr
    paid = invoke("payout", "out", "--pot", "1000", "--rule", "shift", "--anyway")
    assert paid.exit_code == 0
    assert NOTHING in paid.stdout
    quiet = invoke("run", "--no-config", *data, "--exact", "--out", "out", "--json", "-")
    assert NOTHING in quiet.stderr
    assert json.loads(quiet.stdout)["learned"] is False


@pytest.mark.slow
def test_the_same_data_with_their_labels(tmp_path: Path) -> None:
    result = fv.run("files", data_dir=folder(tmp_path / "d", False), label="outcome", method="exact")
    assert result.values.learned is True
    assert result.values.warning == ""
    assert NOTHING not in str(result)
    assert result.payout(100).lines


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose labels are shuffled and one whose are not; the trainings of either serve all metrics."""
    path = tmp_path_factory.mktemp("both")
    for shuffled in (True, False):
        folder(path / str(shuffled), shuffled)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "metric", first_fast(["accuracy", "loss", "auc", "f1", "balanced_accuracy", "correct"], keep=2)
)
def test_by_every_metric(metric: str, both: Path) -> None:
    for shuffled in (True, False):
        data, store = both / str(shuffled), both / f"{shuffled}.db"
        result = fv.run("files", data_dir=data, label="outcome", method="exact", metric=metric, store=store)
        assert result.values.learned is not shuffled, result.values.baseline


@pytest.mark.parametrize("metric", ["r2", "mse", "mae"])
def test_of_a_regression(metric: str) -> None:
    rng = np.random.default_rng(5)

    def data(rows: int, noise: float) -> fv.Dataset:
        x = rng.normal(size=(rows, 3))
        return fv.Dataset(x, (1 - noise) * x.sum(1) + noise * rng.normal(size=rows))

    for noise in (1.0, 0.2):
        clients = tuple(data(60, noise) for _ in range(3))
        scenario = fv.Scenario("drawn", clients, tuple("abc"), data(200, noise), "regression", 0)
        values = fv.value(fv.FederatedGame(scenario, "least-squares", metric=metric), "exact")
        assert values.learned is (noise < 1), (values.utility_of_all, values.baseline)


def test_a_model_that_knows_nothing_passes_in_one_of_twenty_cases_at_most() -> None:
    from fedvalue.learners.answers import baseline_of
    from fedvalue.learners.metrics import count_by

    rng = np.random.default_rng(0)
    for share in (0.5, 0.6, 0.9):
        y = (rng.random(400) < share).astype(int)
        x = np.zeros((400, 1))
        data = fv.Dataset(x, y)
        scenario = fv.Scenario("s", (data,), ("a",), data, "classification", 2)
        base = baseline_of(scenario, count_by("accuracy", "classification", ()))
        assert base is not None
        assert base.utility == max(y.mean(), 1 - y.mean())
        for stray in (0.02, 0.1, 0.5):
            answers = np.where(rng.random((4000, 400)) < stray, int(share < 0.5), int(share >= 0.5))
            lucky = np.mean([base.beaten_by(float(a)) for a in (answers == y).mean(1)])
            assert lucky <= 0.065


def test_one_client_spoils_what_others_learn() -> None:
    rng = np.random.default_rng(1)

    def data(rows: int, flipped: bool = False) -> fv.Dataset:
        x = rng.normal(size=(rows, 2))
        return fv.Dataset(x, (x[:, 0] > 0).astype(int) ^ int(flipped))

    clients = (data(60), data(60), data(600, flipped=True))
    scenario = fv.Scenario("flip", clients, ("a", "b", "flipper"), data(200), "classification", 2)
    values = fv.value(fv.FederatedGame(scenario, "linear", fv.Training(rate=0.05)), "exact")
    assert values.learned is False
    assert NOTHING not in values.warning
    assert "Some coalitions do learn (" in values.warning
    with pytest.raises(InputError, match="no basis for payments"):
        fv.payout(values, 100)


def test_what_is_not_known_is_not_judged() -> None:
    values = fv.value([0.0, 0.1, 0.2, 0.3], "exact")
    assert (values.baseline, values.learned, values.empty) == (None, None, None)
    assert fv.payout(replace(values, utility_of_all=None), 10).lines


def test_options_of_a_model_and_rules_that_do_not_apply(tmp_path: Path) -> None:
    pytest.importorskip("xgboost", reason="needs the extra xgboost")
    small = (
        "--no-config",
        "--clients",
        "3",
        "--samples",
        "20",
        "--model",
        "xgboost",
        "--rounds",
        "1",
        "--exact",
    )
    found = invoke(
        "run", *small, "--model-option", "trees=2", "--model-option", "eta=0.5", "--out", tmp_path / "o"
    )
    assert found.exit_code == 0, found.output
    assert "trees 2" in found.stdout
    record = json.loads((tmp_path / "o/run.json").read_text())
    assert record["learner"]["eta"] == 0.5
    assert record["training"] == {"rounds": 1, "seed": 0}
    assert "--model-option trees=2" in (tmp_path / "o/report.html").read_text()
    for option, named in (("--rate", "rate does not apply"), ("--epochs", "epochs does not apply")):
        refused = invoke("run", *small, option, "3")
        assert refused.exit_code == 2
        assert named in refused.stderr
    assert "no option 'dept'" in invoke("run", *small, "--model-option", "dept=3").stderr
    assert "fedprox needs mu" in invoke("run", "--no-config", "--algorithm", "fedprox").stderr


@pytest.mark.slow
def test_a_folder_of_another_rule_is_left_alone(tmp_path: Path) -> None:
    small: dict[str, Any] = {"clients": 3, "samples": 20, "rounds": 1, "method": "exact"}
    fv.run("digits", **small, out=tmp_path / "o")
    with pytest.raises(InputError, match="differs in v"):
        fv.run("digits", **small, empty="chance", out=tmp_path / "o")
    again = fv.run("digits", **small, empty="chance", out=tmp_path / "o", overwrite=True)
    assert again.values.cost is not None
    assert again.values.cost.trained == 0  # v(∅) is measured anew, which is no training
    assert "guessing: 0.1000" in str(again)
    assert "--empty chance" in (tmp_path / "o/report.html").read_text()


@pytest.mark.parametrize(
    ("metric", "built_in"), [("log_loss", "loss"), ("neg_log_loss", "loss"), ("roc_auc", "auc")]
)
def test_metrics_of_scikit_learn_have_the_yardstick_of_their_like(metric: str, built_in: str) -> None:
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=(20, 2)), rng.integers(0, 2, 20)) for _ in range(3)]
    scenario = fv.Scenario.from_arrays(pairs, test=pairs[0])
    of_scikit, ours = (
        fv.FederatedGame(scenario, "linear", fv.Training(rounds=1, epochs=1), metric=name).baseline()
        for name in (metric, built_in)
    )
    assert of_scikit is not None
    assert ours is not None
    assert (of_scikit.utility, of_scikit.margin) == pytest.approx((ours.utility, ours.margin))


def test_a_root_of_squares_is_compared_with_the_mean() -> None:
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=(20, 2)), rng.normal(3, 2, 20)) for _ in range(3)]
    scenario = fv.Scenario.from_arrays(pairs, test=pairs[0])
    root, square = (
        fv.FederatedGame(scenario, "least-squares", fv.Training(rounds=1), metric=name).baseline()
        for name in ("rmse", "mse")
    )
    assert root is not None
    assert square is not None
    assert root.utility == pytest.approx(-np.sqrt(-square.utility))
    assert (-root.utility) ** 2 - (-root.utility - root.margin) ** 2 == pytest.approx(square.margin, rel=0.1)


@pytest.mark.parametrize("metric", ["recall", "mean_absolute_error"])
def test_where_the_best_constant_is_another_or_the_best_there_is_none_is_named(metric: str) -> None:
    pairs = [(np.eye(4), np.array([0, 1, 0, 1] if metric == "recall" else [0.5, 1.5, 2.5, 3.25]))] * 2
    scenario = fv.Scenario.from_arrays(pairs, test=pairs[0])
    game = fv.FederatedGame(scenario, "linear", fv.Training(rounds=1), metric=metric)
    assert game.baseline() is None
