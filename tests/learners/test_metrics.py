"""Metrics of one's own: what the function gets, what it may return, and what it is called in outcomes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from federations import DATA_OF, QUICK, digits, final_models, line
from numpy.typing import NDArray

import fedvalue as fv
from fedvalue.errors import InputError, UtilityError
from fedvalue.learners import LEARNERS, make_learner
from fedvalue.learners._scores import scores
from fedvalue.learners.metrics import METRICS, Metric, count_by, measuring
from fedvalue.outcome import plain_metric
from fedvalue.training import Ruled, Training

Array = NDArray[Any]


def brier(logits: Array, labels: Array) -> float:
    chances = np.exp(logits - logits.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    return float(((chances - np.eye(logits.shape[1])[labels]) ** 2).sum(1).mean())


def kappa(predicted: Array, labels: Array) -> float:
    return float(sk.cohen_kappa_score(labels, predicted))


def drawn(models: int = 3, rows: int = 80, classes: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, rows)
    logits = rng.standard_normal((models, rows, classes)) + np.eye(classes)[labels]
    return torch.from_numpy(logits.astype(np.float32)), torch.from_numpy(labels)


class TestWhatItGets:
    def test_logits_and_labels_of_a_classification(self) -> None:
        logits, labels = drawn()
        found = scores(logits, labels, "classification", {}, {"own": Metric("brier", brier)})
        for model, metrics in zip(logits.double().numpy(), found, strict=True):
            chances = np.exp(model) / np.exp(model).sum(1, keepdims=True)
            wanted = ((chances - np.eye(4)[labels.numpy()]) ** 2).sum(1).mean()
            assert metrics["own"] == pytest.approx(wanted)
            assert {*METRICS["classification"], "own"} == metrics.keys()

    def test_predicted_classes(self) -> None:
        logits, labels = drawn()
        own = {"own": Metric("kappa", kappa, takes="predictions")}
        for model, metrics in zip(logits, scores(logits, labels, "classification", {}, own), strict=True):
            assert metrics["own"] == pytest.approx(sk.cohen_kappa_score(labels, model.argmax(1)))

    @pytest.mark.parametrize("takes", ["outputs", "predictions"])
    def test_predictions_and_targets_of_a_regression(self, takes: str) -> None:
        rng = np.random.default_rng(1)
        targets = rng.random(30).astype(np.float32)
        outputs = (targets + 0.1 * rng.standard_normal((2, 30))).astype(np.float32)
        own = {"own": Metric("median", lambda said, y: sk.median_absolute_error(y, said), takes=takes)}
        found = scores(torch.from_numpy(outputs)[..., None], torch.from_numpy(targets), "regression", {}, own)
        for model, metrics in zip(outputs, found, strict=True):
            assert metrics["own"] == pytest.approx(sk.median_absolute_error(targets, model))

    @pytest.mark.parametrize(
        ("task", "takes", "kinds"),
        [
            ("classification", "outputs", ("float64 (80, 4)", "int64 (80,)")),
            ("classification", "predictions", ("int64 (80,)", "int64 (80,)")),
            ("regression", "outputs", ("float64 (80,)", "float64 (80,)")),
        ],
    )
    def test_types_and_shapes_are_as_the_docstring_says(
        self, task: str, takes: str, kinds: tuple[str, str]
    ) -> None:
        seen = []

        def look(said: Array, labels: Array) -> float:
            seen.append((f"{said.dtype} {said.shape}", f"{labels.dtype} {labels.shape}"))
            return 0.0

        logits, labels = drawn(1)
        if task == "regression":
            logits, labels = logits[..., :1], labels.float()
        scores(logits, labels, task, {}, {"own": Metric("look", look, takes=takes)})
        assert seen == [kinds]

    def test_what_it_does_to_its_arrays_has_no_effect(self) -> None:
        def destroys(logits: Array, labels: Array) -> float:
            logits[:], labels[:] = 0.0, 0
            return 1.0

        logits, labels = drawn()
        own = {"one": Metric("destroys", destroys), "two": Metric("brier", brier)}
        found = scores(logits, labels, "classification", {"part": torch.arange(9)}, own)
        plain = scores(logits, labels, "classification", {"part": torch.arange(9)}, {"two": own["two"]})
        for metrics, wanted in zip(found, plain, strict=True):
            assert {name: metrics[name] for name in wanted} == wanted

    def test_a_model_that_diverged_is_not_measured(self) -> None:
        logits, labels = drawn()
        logits[1, 0, 0] = float("inf")
        found = scores(logits, labels, "classification", {}, {"own": Metric("brier", brier)})
        assert np.isnan([metrics["own"] for metrics in found]).tolist() == [False, True, False]


class TestParts:
    def test_every_part_is_measured(self) -> None:
        logits, labels = drawn(1)
        rows = torch.arange(10, 40)
        own = {"own": Metric("brier", brier)}
        (metrics,) = scores(logits, labels, "classification", {"late": rows}, own)
        (alone,) = scores(logits[:, rows], labels[rows], "classification", {}, own)
        assert metrics["late/own"] == pytest.approx(alone["own"])

    def test_a_part_on_which_the_function_fails_is_left_out(self) -> None:
        def needs_two(logits: Array, labels: Array) -> float:
            return float("nan") if len(np.unique(labels)) < 2 else 1.0

        logits, labels = drawn(1)
        parts = {"all": torch.arange(80), "one": torch.tensor([3])}
        (metrics,) = scores(logits, labels, "classification", parts, {"own": Metric("two", needs_two)})
        assert (metrics["own"], metrics["all/own"]) == (1.0, 1.0)
        assert "one/own" not in metrics
        assert "one/accuracy" in metrics


def raises(outputs: Array, labels: Array) -> float:
    raise ZeroDivisionError("no sales")


class TestWhatItReturns:
    @pytest.mark.parametrize(
        ("function", "said"),
        [
            (raises, r"'bad' raised ZeroDivisionError: no sales"),
            (lambda o, y: float("nan"), r"'bad' must return a finite number\. Got nan"),
            (lambda o, y: -np.inf, r"'bad' must return a finite number\. Got -inf"),
            (lambda o, y: (0.5, 1), r"'bad' must return one number\. Got \(0\.5, 1\), a tuple"),
            (lambda o, y: None, r"'bad' must return one number\. Got None"),
            (lambda o, y: "0.5", r"'bad' must return one number\. Got '0\.5', a str"),
            (lambda o, y: np.array([0.5]), r"'bad' must return one number\. Got array\(\[0\.5\]\)"),
            (lambda o, y: 1j, r"'bad' must return one number\. Got 1j"),
            (lambda o: 1.0, r"'bad' raised TypeError"),
        ],
    )
    def test_anything_but_a_finite_number_is_refused(self, function: Callable[..., Any], said: str) -> None:
        with pytest.raises(UtilityError, match=said):
            Metric("bad", function)(np.zeros((3, 2)), np.zeros(3))

    @pytest.mark.parametrize("number", [1, True, np.float32(1), np.int8(1), np.array(1.0), torch.tensor(1.0)])
    def test_numbers_of_any_library(self, number: Any) -> None:
        assert Metric("one", lambda o, y: number)(np.zeros((3, 2)), np.zeros(3)) == 1.0


class TestNames:
    @pytest.mark.parametrize("name", ["", " ", "a/b", "two\nlines", 7, None])
    def test_a_name_is_a_line_of_text(self, name: Any) -> None:
        with pytest.raises(InputError, match="name of a metric"):
            Metric(name, brier)

    @pytest.mark.parametrize("name", ["accuracy", "loss", "r2"])
    def test_built_in_names_are_taken(self, name: str) -> None:
        with pytest.raises(InputError, match="built-in metric"):
            Metric(name, brier)

    def test_other_mistakes(self) -> None:
        with pytest.raises(InputError, match="must be a function"):
            Metric("x", 0.5)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="outputs or predictions"):
            Metric("x", brier, takes="labels")

    def test_functions_are_called_by_their_names(self) -> None:
        counted = count_by(brier, "classification", ())
        assert (counted.name, counted.higher_is_better) == ("brier", True)
        assert plain_metric(counted.stored_as) == "brier"

    @pytest.mark.parametrize("nameless", [lambda o, y: 0.0, partial(brier)])
    def test_one_without_a_name_needs_one(self, nameless: Any) -> None:
        with pytest.raises(InputError, match=r"has no name: give it one by Metric\('name', function\)"):
            count_by(nameless, "classification", ())

    def test_what_is_no_metric_at_all(self) -> None:
        with pytest.raises(InputError, match="given by name or as a function"):
            count_by(0.5, "classification", ())  # type: ignore[arg-type]

    @pytest.mark.parametrize("path", ["no_such_module:f", "math:no_such_name", "math:pi"])
    def test_what_cannot_be_imported(self, path: str) -> None:
        with pytest.raises(InputError, match=f"The metric '{path}'"):
            count_by(path, "classification", ())


class TestIdentity:
    def test_another_function_or_input_is_stored_as_another_metric(self) -> None:
        def one(outputs: Array, labels: Array) -> float:
            return 1.0

        def two(outputs: Array, labels: Array) -> float:
            return 2.0

        first = Metric("x", one)
        assert first.stored_as == Metric("x", one).stored_as
        assert first.stored_as != Metric("x", two).stored_as
        assert first.stored_as != Metric("x", one, takes="predictions").stored_as
        assert first.stored_as == Metric("x", one, higher_is_better=False).stored_as  # the same numbers

    def test_a_key_takes_the_place_of_the_function(self) -> None:
        keyed = Metric("x", brier, key="v1")
        assert keyed.stored_as == Metric("x", kappa, key="v1").stored_as
        assert keyed.stored_as != Metric("x", brier, key="v2").stored_as != Metric("x", brier).stored_as
        assert keyed.doubts == ()


class TestDirection:
    @pytest.mark.parametrize(
        ("metric", "higher"), [("accuracy", True), ("loss", False), ("late/loss", False)]
    )
    def test_of_built_in_metrics(self, metric: str, higher: bool) -> None:
        assert count_by(metric, "classification", ["late"]).higher_is_better is higher

    def test_the_first_of_a_task_is_the_usual_one(self) -> None:
        assert [count_by(None, task, ()).name for task in METRICS] == ["accuracy", "r2"]


class TestLearners:
    @pytest.mark.parametrize("model", LEARNERS)
    def test_every_learner_computes_them(self, model: str) -> None:
        if model == "xgboost":
            pytest.importorskip("xgboost")
        scenario = DATA_OF[model]()
        regression = scenario.task == "regression"

        def again(said: Array, labels: Array) -> float:
            return float(((said - labels) ** 2).mean()) if regression else float((said == labels).mean())

        learner = measuring(make_learner(model), {"own": Metric("again", again, takes="predictions")})
        rules = Training(rounds=2) if isinstance(make_learner(model), Ruled) else QUICK
        session = learner.session(scenario, rules, "cpu", None)
        for metrics in session.evaluate(final_models(session, scenario, rules, [1, 6])):
            assert metrics["own"] == pytest.approx(metrics["mse" if regression else "accuracy"], rel=1e-5)

    def test_the_learner_itself_stays_as_it_was(self) -> None:
        plain = make_learner("mlp")
        twin = measuring(plain, {"own": Metric("brier", brier)})
        assert twin.identity() == plain.identity()
        (metrics,) = plain.session(digits(), QUICK, "cpu", None).evaluate(
            plain.session(digits(), QUICK, "cpu", None).initial()
        )
        assert "own" not in metrics

    def test_a_learner_that_measures_itself_says_so(self) -> None:
        class Closed:
            averages = False

            def identity(self) -> dict[str, Any]:
                return {"model": "closed"}

            def session(self, *args: Any) -> Any:
                raise AssertionError("refused before a session is opened")

        assert measuring(Closed(), {}) is not None
        with pytest.raises(
            InputError, match=r"The metric 'brier' cannot be computed here: a Closed measures"
        ):
            fv.FederatedGame(line(), Closed(), metric=brier)
