"""scikit-learn's estimators as models of scenarios: fitted to pooled rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.errors import InputError
from fedvalue.games import FederatedGame
from fedvalue.learners import make_learner
from fedvalue.learners.pooled_estimator import PooledEstimator
from fedvalue.scenarios import Dataset, Scenario
from fedvalue.training import Training

FOREST = "sklearn:sklearn.ensemble.RandomForestClassifier"


def line(rows: int, seed: int, classes: int = 2) -> Dataset:
    x = np.random.default_rng(seed).standard_normal((rows, 2))
    y = x[:, 0] > 0 if classes else 2 * x[:, 0] + 5
    return Dataset(x, y.astype(int) if classes else y)


def scenario(classes: int = 2) -> Scenario:
    clients = tuple(line(rows, seed, classes) for seed, rows in enumerate((12, 8, 0)))
    return Scenario(
        "line",
        clients,
        ("a", "b", "empty"),
        line(30, 9, classes),
        "classification" if classes else "regression",
        classes,
    )


def metrics(game: FederatedGame, mask: int, seed: int = 0) -> dict[str, float]:
    ((_, outcome),) = game.evaluate([mask], seed)
    return dict(outcome.metrics)


@pytest.mark.parametrize("estimator", [LogisticRegression(), RidgeClassifier(), Perceptron(random_state=0)])
def test_a_coalition_fits_the_rows_of_its_clients(estimator: Any) -> None:
    given = scenario()
    found = metrics(FederatedGame(given, estimator), 0b011)
    x, y = (np.concatenate([getattr(c, part) for c in given.clients[:2]]) for part in "xy")
    assert found["accuracy"] == pytest.approx(estimator.fit(x, y).score(given.test.x, given.test.y))


def test_regressions_are_measured_in_their_own_unit() -> None:
    game = FederatedGame(scenario(0), "sklearn:sklearn.linear_model.LinearRegression")
    assert metrics(game, 0b011)["mae"] < 1e-5
    assert metrics(game, 0)["mse"] > 1


def test_without_rows_there_is_a_guess_and_one_class_has_one_answer() -> None:
    given = scenario()
    game = FederatedGame(given, LogisticRegression())
    assert game.idle == (2,)
    assert metrics(game, 0b100)["accuracy|initial"] == metrics(game, 0)["accuracy|initial"] == 0.5
    one = Dataset(given.clients[0].x, np.ones(12, int))
    only = Scenario("one", (one, given.clients[1]), ("a", "b"), given.test, "classification", 2)
    assert metrics(FederatedGame(only, LogisticRegression()), 1)["accuracy"] == given.test.y.mean()


def test_seeds_reach_what_draws() -> None:
    model = make_learner(FOREST, n_estimators=2)
    game = FederatedGame(scenario(), model)
    assert (game.seeds, game.random) == (None, True)
    assert metrics(game, 3, 0) == metrics(game, 3, 0) != metrics(game, 3, 1)
    steady = FederatedGame(scenario(), make_learner(FOREST, n_estimators=2, random_state=1))
    assert (steady.seeds, steady.random) == (1, False)
    assert steady.id != game.id
    assert game.disclosure([(3, 0)]) is None


def test_the_command_line_values_a_folder_by_an_estimator(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for seed, name in enumerate(("north", "south", "test")):
        data = line(20, seed)
        lines = [f"{a},{b},{y}" for (a, b), y in zip(data.x, data.y, strict=True)]
        (tmp_path / "data" / f"{name}.csv").write_text("\n".join(["a,b,label", *lines]))
    options = ["--data-dir", str(tmp_path / "data"), "--label", "label", "--exact", "--no-config"]
    options += ["--model", "sklearn:sklearn.linear_model.LogisticRegression", "--model-option", "C=10"]
    done = CliRunner().invoke(app, ["run", *options, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert (
        "sklearn:sklearn.linear_model.LogisticRegression, fitted to pooled rows, seed 0, on cpu."
        in done.output
    )
    assert "LogisticRegression" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert not (tmp_path / "out" / "disclosure.json").exists()
    again = CliRunner().invoke(app, ["run", *options, "--out", str(tmp_path / "out")])
    assert "8 of 8 coalitions, 0 trainings" in again.output or "from the store" in again.output


def test_rows_that_stay_with_their_clients_cannot_be_pooled() -> None:
    away: Any = SimpleNamespace(task="classification", test=line(3, 0), clients=[SimpleNamespace(here=False)])
    with pytest.raises(InputError, match=r"fitted to pooled rows, and here they stay with their clients"):
        PooledEstimator(LogisticRegression()).session(away, Training(), "cpu", None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_learner("sklearn:LogisticRegression"), r"is written as sklearn:package.Class"),
        (lambda: make_learner("sklearn:sklearn.linear_model.Logistic"), r"cannot be imported"),
        (lambda: make_learner("sklearn:sklearn.linear_model.LogisticRegression", c=1), r"cannot be made with these options"),
        (lambda: make_learner(LogisticRegression), r"Got the class LogisticRegression: say LogisticRegression"),
        (lambda: fv.run(fv.TableGame([0.0, 1.0])), r"A game is valued with fv.value"),
        (lambda: make_learner("sklearn:math.sqrt", x=1), r"cannot be made|It gave a"),
        (lambda: metrics(FederatedGame(scenario(0), LogisticRegression()), 1), r"is for classification. .* is a regression"),
        (lambda: fv.run(scenario(), model=LogisticRegression(), rate=0.1), r"rate does not apply to the estimator"),
        (lambda: PooledEstimator(LogisticRegression(), least_rows=0), r"least_rows must be a whole number"),
    ],
)  # fmt: skip
def test_mistakes_are_one_clear_error(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
