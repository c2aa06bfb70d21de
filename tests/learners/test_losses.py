"""Losses by name and of one's own: what is trained by them, in a stack and one by one, and what a store recognises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from federations import MASKS, QUICK, digits, final_models, largest_difference, line
from torch import Tensor, nn
from torch.nn import functional
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.errors import FedvalueWarning, InputError, ScenarioError
from fedvalue.games import FederatedGame
from fedvalue.learners.torch import TorchLearner
from fedvalue.learners.torch._losses import _NAMED
from fedvalue.scenarios import Dataset, Scenario

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = (20, 37, 9)
HERE = [mask for mask in MASKS if mask < 8] + [7]


def by_sample(outputs: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, labels, reduction="none")


def by_batch(outputs: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, labels)


def branching(outputs: Tensor, labels: Tensor) -> Tensor:
    losses = functional.cross_entropy(outputs, labels, reduction="none")
    return losses * 1 if losses.max() > 0 else losses  # what vmap cannot do


def against_others(outputs: Tensor, labels: Tensor) -> Tensor:
    """How much of a sample's loss is more than that of the others: a number for each, of all of them."""
    losses = functional.cross_entropy(outputs, labels, reduction="none")
    return losses * losses.detach() / losses.detach().mean()


def models(loss: Any, together: bool | None = None, scenario: Scenario | None = None, **rules: Any) -> Any:
    training = fv.Training(rounds=2, epochs=1, batch=16, rate=0.1, optimizer="sgd", **rules)
    scenario = scenario or digits(SIZES)
    session = TorchLearner("linear", together=together, loss=loss).session(scenario, training, "cpu", None)
    return session, final_models(session, scenario, training, HERE)


def test_a_test_set_without_a_label_that_counts_is_refused() -> None:
    x, y = np.zeros((3, 2)), np.full((3, 2), -100)
    party = Dataset(x, np.zeros((3, 2), int))
    with pytest.raises(ScenarioError, match="No label of the test set counts"):
        Scenario("tokens", (party, party), ("a", "b"), Dataset(x, y), "classification", 2)


class TestTraining:
    @pytest.mark.parametrize("loss", [by_sample, by_batch, branching, "cross-entropy"])
    def test_cross_entropy_by_hand_is_the_usual_loss(self, loss: Any) -> None:
        _, usual = models(None)
        session, found = models(loss)
        assert session.together is (loss in (by_sample, "cross-entropy"))
        assert bool(session.apart) is not session.together
        assert largest_difference(usual, found) < 1e-6
        _, each = models(loss, together=False)
        assert largest_difference(usual, each) < 1e-6

    def test_a_loss_that_looks_at_other_samples_sees_none_that_only_fill_up(self) -> None:
        session, found = models(against_others)
        assert "depends on the others of its minibatch" in session.apart
        _, each = models(against_others, together=False)
        assert largest_difference(found, each) == 0

    def test_minibatches_add_up_and_classes_weigh(self) -> None:
        for rules in ({"accumulate": 2}, {"class_weights": "balanced"}):
            assert largest_difference(models(None, **rules)[1], models(by_sample, **rules)[1]) < 1e-6
        assert largest_difference(models(None, accumulate=2)[1], models(by_batch, accumulate=2)[1]) < 1e-6
        with pytest.raises(InputError, match="class_weights need a loss"):
            models(by_batch, class_weights="balanced")

    def test_squared_errors_are_the_usual_loss_of_a_regression(self) -> None:
        assert (
            largest_difference(models(None, scenario=line(SIZES))[1], models("mse", scenario=line(SIZES))[1])
            < 1e-6
        )

    @pytest.mark.parametrize(
        ("loss", "said"),
        [
            (lambda outputs, labels: outputs[:, 0], "has no name"),
            ("nonsense", "Unknown loss 'nonsense'"),
            ("huuber", "Did you mean 'huber'"),
            (fv.Loss("two", lambda outputs, labels: outputs), r"one number per sample, of shape \(8,\) here"),
            (fv.Loss("none", lambda outputs, labels: labels.float()), "has no gradient"),
            (fv.Loss("bad", lambda outputs, labels: outputs @ labels), "The loss 'bad' raised RuntimeError"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_a_loss_is_one_sentence(self, loss: Any, said: str) -> None:
        with pytest.raises(InputError, match=said):
            models(loss)


class TestNamed:
    """Each by name against torch's own function for one sample after the other."""

    def test_of_classes(self) -> None:
        torch.manual_seed(0)
        outputs, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 0, 1])
        chance = outputs.softmax(1)[torch.arange(6), y]
        expected = {
            "cross-entropy": -chance.log(),
            "focal": -((1 - chance) ** 2) * chance.log(),
            "bce": functional.binary_cross_entropy_with_logits(
                outputs, functional.one_hot(y, 4).float(), reduction="none"
            ).mean(1),
        }
        for name, losses in expected.items():
            assert torch.allclose(_NAMED[name](outputs, y), losses, atol=1e-6), name

    def test_of_numbers(self) -> None:
        torch.manual_seed(0)
        outputs, y = torch.randn(6, 3) * 3, torch.randn(6, 3)
        for name, function in (("mse", nn.MSELoss), ("mae", nn.L1Loss), ("huber", nn.HuberLoss)):
            expected = function(reduction="none")(outputs, y).mean(1)
            assert torch.allclose(_NAMED[name](outputs, y), expected), name
            assert torch.allclose(
                _NAMED[name](outputs[:, :1], y[:, 0]), function(reduction="none")(outputs[:, 0], y[:, 0])
            )

    def test_places_that_do_not_count(self) -> None:
        torch.manual_seed(0)
        outputs, y = torch.randn(2, 5, 3), torch.tensor([[0, 1, -100, -100, -100], [2, 2, 1, 0, -100]])
        expected = torch.stack([functional.cross_entropy(o, t) for o, t in zip(outputs, y, strict=True)])
        for arranged in (outputs, outputs.movedim(-1, 1)):
            assert torch.allclose(_NAMED["cross-entropy"](arranged, y), expected)

    @pytest.mark.parametrize(
        ("loss", "scenario", "said"),
        [
            ("mse", digits(SIZES), "is not for a classification. Losses for it: cross-entropy"),
            ("focal", line(SIZES), "is not for a regression"),
            ("bce", replace(line(SIZES), target_scale=None), "target_scale"),
        ],
    )
    def test_of_another_task(self, loss: str, scenario: Scenario, said: str) -> None:
        with pytest.raises(InputError, match=said):
            FederatedGame(scenario, "linear", QUICK, loss=loss)

    @pytest.mark.parametrize("model", ["least-squares", "xgboost"])
    def test_models_without_steps_have_none(self, model: str) -> None:
        with pytest.raises(InputError, match="not trained by steps"):
            FederatedGame(line(SIZES), model, loss="mae")


class TestIdentity:
    def game(self, loss: Any = None, **more: Any) -> FederatedGame:
        return FederatedGame(digits(SIZES), "linear", QUICK, loss=loss, **more)

    def test_a_loss_is_part_of_the_game(self) -> None:
        ids = [
            self.game(loss).id
            for loss in (None, by_sample, by_batch, "focal", fv.Loss("a", by_sample, key="1"))
        ]
        assert len(set(ids)) == len(ids)
        assert self.game("cross-entropy").id == ids[0]
        assert self.game(fv.Loss("by_sample", by_sample)).id == ids[1]

    def test_what_it_refers_to_and_cannot_be_seen_is_doubted(self) -> None:
        rates = iter([1.0, 2.0])

        def strange(outputs: Tensor, labels: Tensor) -> Tensor:
            return functional.cross_entropy(outputs, labels, reduction="none") * next(rates)

        assert self.game(strange).doubts
        assert not self.game(by_sample).doubts

    def test_a_method_that_needs_slopes_says_what_it_needs(self) -> None:
        with (
            pytest.warns(FedvalueWarning, match="one after"),
            pytest.raises(InputError, match="return the loss"),
        ):
            fv.value(self.game(by_batch), "dig-fl")
        assert fv.value(self.game(by_sample), "dig-fl").mean == pytest.approx(
            fv.value(self.game(), "dig-fl").mean, abs=1e-5
        )


def scene(y: Any, classes: int = 0, task: str = "own", width: int = 5) -> Scenario:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(len(y), width)).astype(np.float32)
    cuts = (slice(0, 20), slice(20, 44), slice(44, 60))
    clients = tuple(Dataset(x[cut], y[cut]) for cut in cuts)
    return Scenario("own", clients, ("a", "b", "c"), Dataset(x[60:], y[60:]), task, classes)


def ranking(outputs: Tensor, labels: Tensor) -> Tensor:
    """List-wise: of the items of a row, the best by its labels ought to be first."""
    return -(functional.softmax(labels, -1) * functional.log_softmax(outputs, -1)).sum(-1)


def best_first(outputs: Any, labels: Any) -> float:
    return float((outputs.argmax(1) == labels.argmax(1)).mean())


def binary(outputs: Tensor, labels: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(outputs, labels.float(), reduction="none").mean(1)


class TestTasksOfOnesOwn:
    rng = np.random.default_rng(1)

    @pytest.mark.slow
    def test_several_labels_a_row(self) -> None:
        y = (self.rng.random((90, 3)) < 0.5).astype(np.int64)
        game = FederatedGame(
            scene(y),
            lambda: nn.Linear(5, 3),
            QUICK,
            loss="bce",
            metric="average_precision",
            metrics=["recall[1]"],
        )
        found = dict(game.evaluate([0, 7]))
        assert 0 < game.utility(found[7]) <= 1
        assert any(name.startswith("recall[1]#") for name in found[7].metrics)
        own = FederatedGame(scene(y), lambda: nn.Linear(5, 3), QUICK, loss=binary, metric="average_precision")
        same = dict(own.evaluate([7]))[7]
        assert own.utility(same) == pytest.approx(game.utility(found[7]), abs=1e-6)

    def test_a_class_for_each_place(self) -> None:
        y = self.rng.integers(0, 3, (90, 4))
        y[:, 3] = -100

        def places() -> nn.Module:
            return nn.Sequential(nn.Linear(5, 12), nn.Unflatten(1, (4, 3)))

        own = FederatedGame(scene(y), places, QUICK, loss="cross-entropy", metric="accuracy")
        known = FederatedGame(scene(y, 3, "classification"), places, QUICK)
        found, expected = (fv.value(game, "exact", noise=False).mean for game in (own, known))
        assert found == pytest.approx(expected, abs=1e-6)

    def test_rankings(self) -> None:
        y = self.rng.normal(size=(90, 4)).astype(np.float32)
        game = FederatedGame(scene(y), lambda: nn.Linear(5, 4), QUICK, loss=ranking, metric=best_first)
        assert game.learner.session(game.scenario, QUICK, "cpu", None).together
        assert 0 <= fv.value(game, "exact", noise=False).utility_of_all <= 1  # type: ignore[operator]
        assert game.scenario.lines()

    def test_what_is_missing_is_said(self) -> None:
        y = self.rng.normal(size=(90, 4))
        with pytest.raises(InputError, match="no usual metric"):
            FederatedGame(scene(y), lambda: nn.Linear(5, 4), QUICK, loss="mse")
        game = FederatedGame(scene(y), lambda: nn.Linear(5, 4), QUICK, metric="r2")
        with pytest.raises(InputError, match="needs a loss"):
            fv.value(game, "exact")
        for empty in ("majority", "chance"):
            with pytest.raises(InputError, match="task of your own"):
                FederatedGame(scene(y), lambda: nn.Linear(5, 4), QUICK, loss="mse", metric="r2", empty=empty)
        with pytest.raises(ScenarioError, match="classes must be 0"):
            scene(y, 3)


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("own_loss.py").write_text(
        "from torch.nn.functional import cross_entropy\n\n\ndef mean(outputs, labels):\n    return cross_entropy(outputs, labels)\n"
    )
    base = ["run", "--no-config", "--clients", "2", "--samples", "20", "--rounds", "1", "--epochs", "1", "--exact",
            "--no-noise", "--device", "cpu"]  # fmt: skip
    found = CliRunner().invoke(app, [*base, "--loss", "own_loss:mean"])
    assert found.exit_code == 0, found.output
    said = " ".join((found.output + found.stderr).split())
    assert "Models are trained one after the other: the loss 'mean'" in said
    found = CliRunner().invoke(app, [*base, "--loss", "focal", "--out", "out"])
    assert found.exit_code == 0, found.output
    assert "--loss focal" in Path("out/report.html").read_text()
    again = CliRunner().invoke(app, ["verify", "out", "--retrain", "1"])
    assert again.exit_code == 0, again.output
    wrong = CliRunner().invoke(app, [*base, "--loss", "mse"])
    assert wrong.exit_code != 0
    assert "The loss 'mse' is not for a classification" in " ".join((wrong.output + wrong.stderr).split())


def test_a_loss_that_torch_computes_model_by_model_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    """`vmap` would do the same, and say at every step that it is slow."""

    def margins(outputs: Tensor, labels: Tensor) -> Tensor:
        signs = 1.0 - 2.0 * (labels % 2)
        return functional.margin_ranking_loss(outputs[:, 0], outputs[:, 1], signs, reduction="none")

    session, stacked = models(margins)
    assert session.together
    assert largest_difference(stacked, models(margins, together=False)[1]) < 1e-5
    assert [str(warning.message) for warning in recwarn] == []
