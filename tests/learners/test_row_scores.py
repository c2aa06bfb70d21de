"""What single test rows say about a model: the mean is the metric, the variance that of a sample of rows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedvalue.learners._formulas import classification, regression
from fedvalue.learners._scores import outcomes, scores
from fedvalue.learners.metrics import METRICS, Metric
from fedvalue.outcome import Outcome
from fedvalue.per_row import BLOCKS, MOST_ROWS

TASKS = ("classification", "regression")


def drawn(
    task: str, models: int, samples: int, classes: int = 3, seed: int = 0, ties: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    if task == "regression":
        targets = rng.normal(size=samples)
        return torch.from_numpy(targets + rng.normal(size=(models, samples)))[..., None], torch.from_numpy(
            targets
        )
    labels = rng.integers(classes, size=samples)
    logits = rng.normal(size=(models, samples, classes)) + 1.0 * np.eye(classes)[labels]
    logits = logits.round() if ties else logits
    return torch.from_numpy(logits), torch.from_numpy(labels)


def measured(task: str, models: int, samples: int, **how: int) -> list[Outcome]:
    return outcomes(*drawn(task, models, samples, **how), task, {})


@cache
def many_samples(task: str) -> list[Outcome]:
    """A model measured on many samples of 300 test rows."""
    return [measured(task, 1, 300, seed=seed)[0] for seed in range(400)]


class TestInfluences:
    """Against what they are by definition: what a little more weight on one row does to the metric."""

    @pytest.mark.parametrize(
        ("task", "classes"), [("classification", 2), ("classification", 4), ("regression", 0)]
    )
    @pytest.mark.parametrize("ties", [False, True])
    def test_are_derivatives_by_the_weight_of_a_row(self, task: str, classes: int, ties: bool) -> None:
        samples, copies = 14, 3_000
        outputs, targets = drawn(task, 2, samples, classes, seed=5, ties=ties)
        measure = classification if task == "classification" else regression
        metrics, influences = measure(outputs, targets, True)
        for row in range(0, samples, 3):
            order = np.append(np.tile(np.arange(samples), copies), np.full(copies // 100, row))
            heavier, _ = measure(outputs[:, order], targets[order], False)
            weight = (copies // 100) / len(order)
            for name in METRICS[task]:
                if name != "correct":  # which is a sum
                    moved = (heavier[name] - metrics[name]) / weight
                    assert moved.tolist() == pytest.approx(influences[name][:, row].tolist(), abs=0.03), name

    @pytest.mark.parametrize("task", TASKS)
    def test_of_a_model_they_add_up_to_zero(self, task: str) -> None:
        measure = classification if task == "classification" else regression
        _, influences = measure(*drawn(task, 3, 50), True)
        for moved in influences.values():
            assert moved.sum(1).numpy() == pytest.approx(0, abs=1e-8)

    def test_nothing_varies_where_a_metric_is_a_convention(self) -> None:
        outputs, labels = drawn("classification", 2, 20)
        _, influences = classification(outputs, torch.zeros_like(labels), True)
        assert influences["auc"].abs().max() == 0
        outputs, targets = drawn("regression", 2, 20)
        _, influences = regression(outputs, torch.ones_like(targets), True)
        assert influences["r2"].abs().max() == 0


class TestRows:
    @pytest.mark.parametrize("task", TASKS)
    @pytest.mark.parametrize("samples", [2, 50, 64, 100, 1_000])
    def test_their_mean_is_the_metric(self, task: str, samples: int) -> None:
        for outcome in measured(task, 4, samples):
            assert set(outcome.rows) == set(METRICS[task])
            for name, rows in outcome.rows.items():
                assert rows.rows == samples
                assert rows.mean == pytest.approx(outcome.metrics[name], rel=2e-3, abs=1e-4)

    def test_metrics_are_the_same_with_and_without(self) -> None:
        for task in TASKS:
            given = (*drawn(task, 5, 333), task, {"late": torch.arange(100)})
            assert scores(*given) == [dict(outcome.metrics) for outcome in outcomes(*given)]

    def test_the_accuracy_is_a_bit_for_every_row(self) -> None:
        outputs, labels = drawn("classification", 3, 101)
        for outcome, model in zip(outcomes(outputs, labels, "classification", {}), outputs, strict=True):
            right = (model.argmax(1) == labels).double().tolist()
            assert outcome.rows["accuracy"].array().tolist() == right
            assert len(outcome.rows["accuracy"].data) == 13

    @pytest.mark.slow
    @pytest.mark.parametrize(("task", "name"), [(t, n) for t in TASKS for n in METRICS[t]])
    def test_the_variance_is_that_of_another_sample(self, task: str, name: str) -> None:
        """Over many samples of test rows: what they say on average, and how the metric varies."""
        many = many_samples(task)
        varies = np.std([outcome.metrics[name] for outcome in many], ddof=1)
        said = np.sqrt(np.mean([outcome.rows[name].stderr ** 2 for outcome in many]))
        assert said == pytest.approx(varies, rel=0.12)

    def test_files_sorted_by_label_do_no_harm(self) -> None:
        outputs, labels = drawn("classification", 1, 1_000)
        order = labels.argsort()
        one, two = (
            outcomes(outputs[:, rows], labels[rows], "classification", {})[0]
            for rows in (torch.arange(1_000), order)
        )
        for name in ("loss", "auc", "f1"):
            assert two.rows[name].stderr == pytest.approx(one.rows[name].stderr, rel=0.4)

    def test_a_part_of_the_test_set_has_blocks_of_its_own(self) -> None:
        (outcome,) = outcomes(*drawn("classification", 1, 500), "classification", {"late": torch.arange(90)})
        assert outcome.rows["late/accuracy"].rows == 90
        assert outcome.rows["late/accuracy"].length == BLOCKS
        assert outcome.rows["late/accuracy"].mean == pytest.approx(outcome.metrics["late/accuracy"], abs=1e-3)

    def test_a_model_that_diverged_has_none(self) -> None:
        outputs, labels = drawn("classification", 2, 50)
        outputs[1, 3] = float("inf")
        good, bad = outcomes(outputs, labels, "classification", {})
        assert good.rows
        assert not bad.rows
        assert np.isnan(bad.metrics["loss"])

    def test_one_test_row_says_nothing_about_others(self) -> None:
        (outcome,) = measured("regression", 1, 1)
        assert not outcome.rows

    def test_what_is_kept_is_bounded(self) -> None:
        (most,) = measured("classification", 1, MOST_ROWS)
        (more,) = measured("classification", 1, MOST_ROWS + 1)
        assert len(most.rows["accuracy"].data) == 2_048
        assert {len(rows.data) for name, rows in most.rows.items() if name != "accuracy"} == {144}
        assert {len(rows.data) for rows in more.rows.values()} == {144}
        assert more.rows["accuracy"].mean == pytest.approx(more.metrics["accuracy"], abs=1e-5)


class TestOwnMetrics:
    @staticmethod
    def told(function: object, samples: int = 400, seed: int = 0) -> Outcome:
        metric = Metric("own", function, key="k")  # type: ignore[arg-type]
        return outcomes(*drawn("regression", 1, samples, seed=seed), "regression", {}, {"own#0": metric})[0]

    def test_a_mean_has_the_variance_of_the_built_in_one(self) -> None:
        def squared(outputs: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
            return float(((outputs - targets) ** 2).mean())

        many = [self.told(squared, 403, seed) for seed in range(60)]
        own, built_in = (
            np.sqrt(np.mean([outcome.rows[name].stderr ** 2 for outcome in many]))
            for name in ("own#0", "mse")
        )
        assert own == pytest.approx(built_in, rel=0.12)
        assert many[0].rows["own#0"].mean == pytest.approx(many[0].metrics["mse"], rel=1e-3)

    def test_a_sum_has_the_variance_of_a_sum(self) -> None:
        many = [self.told(lambda outputs, targets: float((outputs > 0).sum()), 203, s) for s in range(200)]
        said = np.sqrt(np.mean([outcome.rows["own#0"].stderr ** 2 for outcome in many]))
        assert said == pytest.approx(np.std([outcome.metrics["own#0"] for outcome in many]), rel=0.15)

    def test_one_that_needs_all_rows_has_none(self) -> None:
        def demanding(outputs: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
            if len(targets) < 400:
                raise ValueError("too few rows")
            return 1.0

        outcome = self.told(demanding)
        assert outcome.metrics["own#0"] == 1.0
        assert "own#0" not in outcome.rows
        assert "mse" in outcome.rows
