"""Metrics by the names of scikit-learn, against its own scorers on predictions of all kinds."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from federations import QUICK, CountingTrainer, digits, line
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

import fedvalue as fv
from fedvalue.errors import InputError, UtilityError
from fedvalue.games import FederatedGame
from fedvalue.learners._named import NAMED
from fedvalue.learners.metrics import METRICS, count_by, further_metrics

Array = NDArray[Any]
SAMPLES = tuple(name for name in get_scorer_names() if name.endswith("_samples"))  # of multi-label tasks


class Said(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose features are its logits."""

    def __init__(self, classes: int) -> None:
        self.classes_ = np.arange(classes)

    def predict(self, x: Array) -> Array:
        return np.asarray(x.argmax(1))

    def predict_proba(self, x: Array) -> Array:
        shifted = np.exp(x - x.max(1, keepdims=True))
        return np.asarray(shifted / shifted.sum(1, keepdims=True))

    def decision_function(self, x: Array) -> Array:
        return x[:, 1] - x[:, 0] if x.shape[1] == 2 else self.predict_proba(x)


class Answers(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regression whose features are its answers."""

    def predict(self, x: Array) -> Array:
        return x


def theirs(name: str, estimator: Any, outputs: Array, labels: Array) -> float | None:
    """What the scorer says; None where it cannot be computed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = float(get_scorer(name)(estimator, outputs, labels))
        except ValueError:
            return None
    return found if np.isfinite(found) else None


def ours(name: str, task: str, outputs: Array, labels: Array) -> float | None:
    own = count_by(name, task, ()).own
    assert own is not None
    try:
        return own(outputs, labels)
    except UtilityError:
        return None


def names_of(task: str) -> list[str]:
    return [n for n in get_scorer_names() if n in NAMED[task] and n not in SAMPLES]


def test_every_name_of_scikit_learn_is_known() -> None:
    known = {
        *METRICS["classification"],
        *METRICS["regression"],
        *NAMED["classification"],
        *NAMED["regression"],
    }
    assert set(get_scorer_names()) <= known
    assert len(names_of("classification")) > 30
    assert len(names_of("regression")) > 10


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**31), samples=st.integers(12, 40), classes=st.integers(2, 4), rounded=st.booleans()
)
@settings(max_examples=6, deadline=None)
def test_classification(seed: int, samples: int, classes: int, rounded: bool) -> None:
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, samples)])
    logits = rng.normal(size=(len(labels), classes)) * 3
    logits = np.round(logits) if rounded else logits  # ties
    for name in names_of("classification"):
        expected = theirs(name, Said(classes), logits, labels)
        found = ours(name, "classification", logits, labels)
        assert (found is None) == (expected is None), name
        assert found is None or found == pytest.approx(expected, abs=1e-9), name


@given(seed=st.integers(0, 2**31), samples=st.integers(3, 40), positive=st.booleans())
@settings(max_examples=6, deadline=None)
def test_regression(seed: int, samples: int, positive: bool) -> None:
    rng = np.random.default_rng(seed)
    targets, answers = rng.normal(size=(2, samples)) * 2
    if positive:  # which some metrics need
        targets, answers = np.exp(targets), np.exp(answers)
    for name in names_of("regression"):
        expected = theirs(name, Answers(), answers, targets)
        found = ours(name, "regression", answers, targets)
        assert (found is None) == (expected is None), name
        assert found is None or found == pytest.approx(expected, rel=1e-9, abs=1e-9), name


def test_names_without_neg_are_lower_is_better() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(30, 3)), rng.integers(0, 3, 30)
    plain, turned = (count_by(name, "classification", ()) for name in ("log_loss", "neg_log_loss"))
    assert (plain.higher_is_better, turned.higher_is_better) == (False, True)
    assert plain.own is not None
    assert turned.own is not None
    assert plain.own(logits, labels) == -turned.own(logits, labels)
    assert plain.stored_as != turned.stored_as


def test_of_a_class() -> None:
    labels = np.array([0, 0, 1, 1, 2, 2])
    logits = np.eye(3)[[0, 1, 1, 1, 2, 0]] * 5
    assert ours("recall[1]", "classification", logits, labels) == 1
    assert ours("precision[1]", "classification", logits, labels) == pytest.approx(2 / 3)
    assert ours("accuracy[2]", "classification", logits, labels) == 0.5
    assert ours("auc[0]", "classification", logits, labels) == pytest.approx(11 / 16)
    assert not count_by("brier_score[0]", "classification", ()).higher_is_better
    assert ours("recall[7]", "classification", logits, labels) is None
    for unknown in ("recall[x]", "rmse[1]", "log_loss[1]"):
        with pytest.raises(InputError, match="Unknown metric"):
            count_by(unknown, "classification", ())


def test_places_that_do_not_count_are_left_out() -> None:
    rng = np.random.default_rng(1)
    logits, labels = rng.normal(size=(8, 5, 3)), rng.integers(0, 3, (8, 5))
    labels[:, 3:] = -100
    flat = ours("f1_macro", "classification", logits[:, :3].reshape(-1, 3), labels[:, :3].ravel())
    assert ours("f1_macro", "classification", logits, labels) == flat


def test_a_metric_of_the_other_task_is_unknown() -> None:
    with pytest.raises(InputError, match=r"Did you mean|explained_variance"):
        count_by("log_loss", "regression", ())
    with pytest.raises(InputError, match="Did you mean 'f1_macro'"):
        count_by("f1_makro", "classification", ())


def hits(logits: Array, labels: Array) -> float:
    return float((logits.argmax(1) == labels).sum())


class TestInGames:
    @pytest.mark.slow
    def test_values_of_a_part_with_luck_of_its_rows(self, one_thread: None) -> None:
        scenario = digits((20, 10), parts=True)
        game = FederatedGame(scenario, "linear", QUICK, metric="b/log_loss")
        assert (game.metric, game.higher_is_better) == ("b/log_loss", False)
        values = fv.value(game, "exact", noise=False)
        same = fv.value(FederatedGame(scenario, "linear", QUICK, metric="b/loss"), "exact", noise=False)
        assert values.mean == pytest.approx(same.mean, abs=1e-6)

    @pytest.mark.slow
    def test_further_metrics_of_a_part(self, one_thread: None) -> None:
        scenario = digits((20, 10), parts=True)
        more = ["b/log_loss", "b/accuracy", "matthews_corrcoef"]
        ((_, outcome),) = FederatedGame(scenario, "linear", QUICK, metrics=more).evaluate([3])
        found = {name.partition("#")[0]: value for name, value in outcome.metrics.items()}
        assert found["b/log_loss"] == pytest.approx(found["b/loss"], abs=1e-6)
        assert {"log_loss", "a/log_loss", "b/matthews_corrcoef"} <= set(found)
        with pytest.raises(InputError, match="Unknown metric 'c/log_loss'"):
            FederatedGame(scenario, "linear", QUICK, metrics=["c/log_loss"])

    @pytest.mark.slow
    def test_the_luck_of_test_rows_is_that_of_the_same_built_in_metric(self, one_thread: None) -> None:
        scenario = digits((20, 10))
        found = [
            fv.value(FederatedGame(scenario, "linear", QUICK, metric=m), "exact", noise=False).errors["test"]
            for m in ("log_loss", "loss")
        ]
        assert found[0] == pytest.approx(found[1], rel=0.6)

    def test_further_metrics_are_stored_and_can_be_counted_later(
        self, tmp_path: Any, one_thread: None
    ) -> None:
        more = {"right": hits, "mcc": "matthews_corrcoef"}
        given = {"metrics": more, "model": "linear", "training": QUICK}
        store = tmp_path / "s.db"
        fv.value(FederatedGame(digits((20, 10)), **given), "exact", noise=False, store=store)
        for name in more:
            trainer = CountingTrainer()
            later = FederatedGame(digits((20, 10)), **given, metric=name, trainer=trainer)
            fv.value(later, "exact", noise=False, store=store)
            assert [mask for mask in trainer.trained if mask] == []

    def test_wrong_lists_are_one_sentence(self) -> None:
        for wrong, said in (
            ("accuracy", "must be a list"),
            (["nonsense"], "Unknown metric"),
            ({"a": "accuracy"}, "measured anyway"),
            ([fv.Metric("x", hits), fv.Metric("x", hits, False, takes="predictions")], "Two metrics"),
        ):
            with pytest.raises(InputError, match=said):
                further_metrics(wrong, "classification")  # type: ignore[arg-type]

    def test_a_regression(self, one_thread: None) -> None:
        game = FederatedGame(line((20, 10)), "linear", QUICK, metric="rmse")
        squared = FederatedGame(line((20, 10)), "linear", QUICK, metric="mse")
        (_, found), (_, mse) = next(iter(game.evaluate([3]))), next(iter(squared.evaluate([3])))
        assert game.utility(found) == pytest.approx(-np.sqrt(-squared.utility(mse)))
