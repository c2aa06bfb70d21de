"""Metrics of many models at once, against scikit-learn's of one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedvalue.learners._scores import scores
from fedvalue.learners.metrics import METRICS

Array = NDArray[np.float64]


def classification(logits: Array, labels: NDArray[np.int64]) -> dict[str, float]:
    """What scikit-learn says about one model; classes that the test set does not hold are left out."""
    classes = logits.shape[1]
    # Torch's softmax: another one rounds otherwise, and so breaks other ties between samples.
    chances = torch.from_numpy(logits).double().softmax(1).numpy()
    predicted = logits.argmax(1)
    present = np.unique(labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # predicted classes that are not in the test set
        balanced = sk.balanced_accuracy_score(labels, predicted)
    if len(present) == 1:
        auc = 0.5
    elif classes == 2:
        auc = sk.roc_auc_score(labels, chances[:, 1])
    elif len(present) == classes:
        auc = sk.roc_auc_score(labels, chances, multi_class="ovr", average="macro")
    else:
        auc = np.mean([sk.roc_auc_score(labels == c, chances[:, c]) for c in present])
    return {
        "accuracy": sk.accuracy_score(labels, predicted),
        "correct": float((predicted == labels).sum()),
        "loss": sk.log_loss(labels, chances, labels=np.arange(classes)),
        "balanced_accuracy": balanced,
        "f1": sk.f1_score(labels, predicted, labels=present, average="macro", zero_division=0),
        "auc": auc,
    }


def regression(outputs: Array, targets: Array) -> dict[str, float]:
    return {
        "mse": sk.mean_squared_error(targets, outputs),
        "mae": sk.mean_absolute_error(targets, outputs),
        "r2": sk.r2_score(targets, outputs),
    }


def drawn(
    seed: int, models: int, samples: int, classes: int, present: int | None = None, ties: bool = False
) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, present or classes, samples)
    logits = rng.standard_normal((models, samples, classes)) + 1.2 * np.eye(classes)[labels]
    return (np.round(logits) if ties else logits).astype(np.float32), labels


def check(logits: Array, labels: NDArray[np.int64]) -> None:
    found = scores(torch.from_numpy(logits), torch.from_numpy(labels), "classification", {})
    for one, metrics in zip(logits, found, strict=True):
        assert metrics.keys() == set(METRICS["classification"])
        assert metrics == pytest.approx(classification(one, labels), abs=1e-9, rel=1e-6)


class TestClassification:
    @pytest.mark.parametrize("classes", [2, 3, 10])
    @pytest.mark.parametrize("ties", [False, True], ids=["all different", "ties"])
    def test_equals_scikit_learn(self, classes: int, ties: bool) -> None:
        check(*drawn(classes, 5, 300, classes, ties=ties))

    @pytest.mark.parametrize(("classes", "present"), [(5, 3), (3, 2), (10, 9), (4, 1), (2, 1)])
    def test_classes_that_the_test_set_does_not_hold(self, classes: int, present: int) -> None:
        check(*drawn(1, 4, 120, classes, present))

    def test_one_sample(self) -> None:
        check(*drawn(2, 3, 1, 3))

    def test_models_that_say_the_same_of_everything(self) -> None:
        labels = drawn(3, 1, 90, 3)[1]
        logits = np.zeros((2, 90, 3), np.float32)
        logits[1, :, 2] = 7
        check(logits, labels)
        assert (
            scores(torch.from_numpy(logits), torch.from_numpy(labels), "classification", {})[0]["auc"] == 0.5
        )

    def test_perfect_and_hopeless_models(self) -> None:
        labels = np.arange(30) % 3
        right = 50 * np.eye(3, dtype=np.float32)[labels]
        good, bad = scores(
            torch.from_numpy(np.stack([right, -right])), torch.from_numpy(labels), "classification", {}
        )
        assert {k: good[k] for k in ("accuracy", "balanced_accuracy", "f1", "auc")} == pytest.approx(
            {"accuracy": 1, "balanced_accuracy": 1, "f1": 1, "auc": 1}
        )
        assert good["loss"] < 1e-9
        assert bad["accuracy"] == bad["auc"] == bad["f1"] == bad["correct"] == 0

    def test_enormous_outputs_still_have_a_loss(self) -> None:
        logits, labels = drawn(4, 2, 50, 4)
        found = scores(
            torch.from_numpy(logits * np.float32(1e30)), torch.from_numpy(labels), "classification", {}
        )
        assert all(np.isfinite(list(metrics.values())).all() for metrics in found)

    @pytest.mark.slow
    @settings(max_examples=25)
    @given(st.integers(0, 10**6), st.integers(2, 6), st.integers(2, 40), st.booleans())
    def test_any_models(self, seed: int, classes: int, samples: int, ties: bool) -> None:
        check(*drawn(seed, 2, samples, classes, ties=ties))


class TestRegression:
    @pytest.mark.parametrize("samples", [2, 50, 1000])
    def test_equals_scikit_learn(self, samples: int) -> None:
        rng = np.random.default_rng(samples)
        targets = (3 * rng.standard_normal(samples) + 100).astype(np.float32)
        outputs = (targets + rng.standard_normal((4, samples))).astype(np.float32)
        found = scores(torch.from_numpy(outputs)[..., None], torch.from_numpy(targets), "regression", {})
        for one, metrics in zip(outputs, found, strict=True):
            wanted = regression(one.astype(np.float64), targets.astype(np.float64))
            assert metrics.keys() == set(METRICS["regression"])
            assert metrics == pytest.approx(wanted, rel=1e-9)

    @pytest.mark.parametrize("samples", [1, 3, 7, 10, 49])
    @pytest.mark.parametrize("target", [0.0, 0.1, 1e-3, 12345.678])
    def test_constant_targets_have_no_variance_to_explain(self, samples: int, target: float) -> None:
        targets = torch.full((samples,), target)
        found = scores(torch.ones(2, samples, 1), targets, "regression", {})
        assert [metrics["r2"] for metrics in found] == [0.0, 0.0]

    def test_the_mean_explains_nothing_and_the_truth_everything(self) -> None:
        targets = torch.linspace(-1, 3, 20)
        outputs = torch.stack([targets, torch.full_like(targets, float(targets.mean()))])[..., None]
        right, mean = scores(outputs, targets, "regression", {})
        assert right == {"mse": 0.0, "mae": 0.0, "r2": 1.0}
        assert mean["r2"] == pytest.approx(0, abs=1e-9)


class TestParts:
    def test_a_part_is_measured_as_if_it_were_the_test_set(self) -> None:
        logits, labels = drawn(6, 3, 100, 4)
        parts = {"first": np.arange(30), "odd": np.arange(1, 100, 2), "one": np.array([17])}
        found = scores(
            torch.from_numpy(logits),
            torch.from_numpy(labels),
            "classification",
            {name: torch.from_numpy(rows) for name, rows in parts.items()},
        )
        for name, rows in parts.items():
            alone = scores(
                torch.from_numpy(logits[:, rows]), torch.from_numpy(labels[rows]), "classification", {}
            )
            for metrics, wanted in zip(found, alone, strict=True):
                assert {k: metrics[f"{name}/{k}"] for k in wanted} == pytest.approx(wanted, abs=1e-12)

    def test_counts_of_parts_add_up(self) -> None:
        logits, labels = drawn(7, 3, 60, 3)
        parts = {"a": torch.arange(20), "b": torch.arange(20, 60)}
        for metrics in scores(torch.from_numpy(logits), torch.from_numpy(labels), "classification", parts):
            assert metrics["a/correct"] + metrics["b/correct"] == metrics["correct"]

    def test_parts_of_a_regression(self) -> None:
        targets, outputs = torch.linspace(0, 1, 10), torch.zeros(1, 10, 1)
        (found,) = scores(outputs, targets, "regression", {"low": torch.arange(3)})
        assert found["low/mse"] == pytest.approx(float((targets[:3] ** 2).mean()))


class TestNotFinite:
    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
    @pytest.mark.parametrize("task", ["classification", "regression"])
    def test_one_output_that_is_no_number_spoils_that_model_only(self, value: float, task: str) -> None:
        classes = 3 if task == "classification" else 1
        outputs = torch.randn(3, 20, classes)
        targets = torch.arange(20) % 3 if classes == 3 else torch.randn(20)
        wanted = scores(outputs, targets, task, {"part": torch.arange(5)})
        outputs[1, 13, 0] = value  # not in the part
        found = scores(outputs, targets, task, {"part": torch.arange(5)})
        assert found[0] == wanted[0]
        assert found[2] == wanted[2]
        assert found[1].keys() == wanted[1].keys()
        assert np.isnan(list(found[1].values())).all()
