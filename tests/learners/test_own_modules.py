"""Modules of the user's own: any that FedAvg can average is trained, the others are refused with a reason."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from federations import (
    MASKS,
    QUICK,
    Factory,
    check_equal_to_loop,
    digits,
    initial_module,
    largest_difference,
    line,
    outcomes,
    rules,
    trained,
    words,
)
from marks import first_fast
from torch import nn
from torch.ao.quantization import FakeQuantize, get_default_qat_qconfig, prepare_qat
from torch.func import functional_call
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.utils.checkpoint import checkpoint

from fedvalue.errors import InputError
from fedvalue.learners import make_learner
from fedvalue.learners.torch import TorchLearner
from fedvalue.scenarios import Dataset, Scenario
from fedvalue.trainers import LocalTrainer

pytestmark = pytest.mark.usefixtures("one_thread")


def own(module: Callable[[], nn.Module]) -> Factory:
    return lambda scenario: module()


class WithConstant(nn.Module):
    """Standardises by numbers that it was made with."""

    def __init__(self, width: int = 64, outputs: int = 10) -> None:
        super().__init__()
        self.register_buffer("shift", torch.linspace(0, 1, width))
        self.layer = nn.Linear(width, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.flatten(1) - self.shift)


class ChangingItsMind(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(64, dtype=torch.bool))
        self.layer = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen |= x.flatten(1).sum(0) > 0
        return self.layer(x.flatten(1) * self.seen)


class FunctionalDropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(nn.functional.dropout(x.flatten(1), 0.2, self.training))


class KeywordLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(10, 64) / 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(input=x.flatten(1), weight=self.weight)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(8, 6, batch_first=True)
        self.head = nn.Linear(6, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x[:, 0])[0][:, -1])


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs = self.layer(x.flatten(1))
        return outputs if self.layer.bias.sum() > 0 else 2 * outputs


class BatchMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.flatten(1) - x.flatten(1).mean(0))


class TwoOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x.flatten(1)), x


class Recomputed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(64, 10), nn.Linear(10, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(checkpoint(lambda x: self.layer(x).tanh(), x.flatten(1), use_reentrant=False))


def for_quantisation() -> nn.Module:
    """As torch prepares a model for training with numbers of eight bits; its own advice against that is not ours."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.qconfig = get_default_qat_qconfig("fbgemm")  # type: ignore[assignment]
        return prepare_qat(model)


class BatchMeanBehindZeros(BatchMean):
    """Says the same of everything before it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layer.requires_grad_(False)
        self.head = nn.Linear(10, 10)
        nn.init.zeros_(self.head.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(super().forward(x))


class Counting(nn.Module):
    """Keeps in Python how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(64, 10), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += self.training
        return self.layer(x.flatten(1)) / (1 + self.calls)


class InSharedMemory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        self.second.weight = nn.Parameter(self.first.weight.data)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(x.flatten(1)).relu()).relu())


class AlwaysDrawing(nn.Module):
    """Forgets that dropout of a function is on unless it is told otherwise."""

    def __init__(self, dropping: bool) -> None:
        super().__init__()
        self.layer, self.dropping = nn.Linear(64, 10), dropping

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)
        return self.layer(nn.functional.dropout(x) if self.dropping else x + torch.randn_like(x))


class Squeezing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.flatten(1)).squeeze()


class Sized(nn.Module):
    """Takes sizes, and no scenario."""

    def __init__(self, width: int = 64, outputs: int = 10) -> None:
        super().__init__()
        self.layer = nn.Linear(width, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.flatten(1))


class Fitted(Sized):
    def __init__(self, scenario: Scenario) -> None:
        super().__init__(outputs=scenario.classes)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(x.flatten(1)).relu()).relu())


def half_frozen() -> nn.Module:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    return module.requires_grad_(False).append(nn.Linear(10, 10))


def dropout() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 10))


class TestOwnModules:
    @pytest.mark.parametrize(
        ("make", "together"),
        first_fast(
            [
                (WithConstant, True),
                (Tied, True),
                (half_frozen, True),
                (KeywordLinear, True),
                (lambda: nn.Sequential(nn.InstanceNorm2d(1), nn.Flatten(), nn.Linear(64, 10)), True),
                (lambda: nn.Sequential(nn.GroupNorm(1, 1), nn.Flatten(), nn.LazyLinear(10)), True),
                (
                    lambda: nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 10)),
                    False,
                ),
                (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.PReLU(), nn.Linear(8, 10)), True),
                (lambda: nn.Sequential(nn.Flatten(), nn.PReLU(), nn.Linear(64, 10)), False),
                (dropout, True),
                (FunctionalDropout, True),
                (Recurrent, True),
                (Branching, False),
                (lambda: nn.Sequential(nn.Flatten(), weight_norm(nn.Linear(64, 10))), False),
            ],
            keep=4,
        ),
        ids=[
            "constant buffer",
            "tied weights",
            "frozen layers",
            "functional linear",
            "instance norm",
            "lazy layer",
            "convolution",
            "prelu",
            "prelu on the input",
            "dropout",
            "functional dropout",
            "torch lstm",
            "control flow",
            "weight norm",
        ],
    )
    @pytest.mark.filterwarnings("ignore:Models are trained one after the other")
    def test_any_module_is_trained_alone_or_with_others_to_the_same_end(
        self, make: Callable[[], nn.Module], together: bool
    ) -> None:
        """As a stack where that works, one by one where it does not."""
        learner, scenario = TorchLearner(own(make)), digits()
        assert learner.session(scenario, QUICK, "cpu", None).together is together
        at_once = outcomes(LocalTrainer("cpu"), scenario, learner, QUICK, MASKS)
        for mask in MASKS[1:3]:
            alone = outcomes(LocalTrainer("cpu", memory=1), scenario, learner, QUICK, [mask])
            assert alone[mask] == pytest.approx(at_once[mask], abs=1e-5)
        again = outcomes(LocalTrainer("cpu"), scenario, TorchLearner(own(make)), QUICK, MASKS)
        assert again == at_once

    @pytest.mark.parametrize("make", [WithConstant, Tied, KeywordLinear])
    def test_own_modules_equal_the_plain_loop(self, make: Callable[[], nn.Module]) -> None:
        check_equal_to_loop(own(make), digits(), rules())

    def test_frozen_parameters_are_not_trained(self) -> None:
        session, stack = trained(own(half_frozen), digits(), rules(), together=None)
        assert stack.keys() == {"4.weight", "4.bias"}
        start = initial_module(own(half_frozen), digits(), 3)
        outputs = functional_call(
            start, {name: tensor[0] for name, tensor in stack.items()}, (session.test_x,)
        )
        right = (outputs.argmax(1) == session.test_y).double().mean()
        assert session.evaluate(stack)[0]["accuracy"] == pytest.approx(float(right))

    def test_dropout_is_drawn_and_only_in_training(self) -> None:
        module = dropout()
        without = nn.Sequential(*(part for part in module if not isinstance(part, nn.Dropout)))
        session, stack = trained(own(dropout), digits(), rules(), together=None)
        plain, undropped = trained(own(lambda: without), digits(), rules(), together=None)
        assert session.evaluate(stack) == session.evaluate(stack)
        assert list(stack["1.weight"].shape) == list(undropped["1.weight"].shape)
        assert largest_difference({"w": stack["1.weight"]}, {"w": undropped["1.weight"]}) > 1e-3
        assert plain.together

    @pytest.mark.parametrize("model", ["mlp", own(dropout)], ids=["mlp", "dropout"])
    def test_the_random_numbers_of_the_user_are_left_alone(self, model: str | Factory) -> None:
        torch.manual_seed(42)
        wanted = torch.rand(3).tolist()
        torch.manual_seed(42)
        before = outcomes(LocalTrainer("cpu"), digits(), TorchLearner(model), QUICK, [1])
        assert torch.rand(3).tolist() == wanted
        assert outcomes(LocalTrainer("cpu"), digits(), TorchLearner(model), QUICK, [1]) == before

    @pytest.mark.parametrize(
        ("make", "says"),
        [
            (
                lambda: nn.Sequential(
                    nn.Flatten(), nn.BatchNorm1d(64, track_running_stats=False), nn.Linear(64, 10)
                ),
                r"depends on the other samples of the batch.*must keep running statistics",
            ),
            (ChangingItsMind, r"changes its buffer 'seen' in training.*truth values"),
            (
                lambda: nn.Sequential(nn.Flatten(), spectral_norm(nn.Linear(64, 10))),
                r"changes its buffer .*_u",
            ),
            (
                lambda: nn.Sequential(nn.Flatten(), FakeQuantize(), nn.Linear(64, 10)),
                r"The part '1' is a FakeQuantize: training for quantisation.*as it was before prepare_qat",
            ),
            (for_quantisation, r"FakeQuantize: training for quantisation.*as it was before prepare_qat"),
            (lambda: nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool1d(10)), r"no parameters to train"),
            (lambda: WithConstant().requires_grad_(False), r"no parameters to train"),
            (lambda: "mlp", r"must return an nn\.Module. Got str"),
            (lambda: None, r"must return an nn\.Module. Got NoneType"),
            (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 9)), r"shape \(2, 10\).*Got shape \(2, 9\)"),
            (lambda: nn.Linear(8, 10), r"Got shape \(2, 1, 8, 10\)"),
            (
                lambda: nn.LSTM(8, 10),
                r"cannot take this scenario's samples, torch\.float32 of shape \(1, 8, 8\)",
            ),
            (lambda: nn.Sequential(nn.Flatten(), nn.Linear(60, 10)), r"cannot take this scenario's samples"),
            (TwoOutputs, r"must return a tensor, or an object with logits. Got a tuple. Several outputs go"),
            (lambda: nn.Embedding(8, 10), r"to have one of.*fractions unless.*vocabulary=…"),
            (BatchMean, r"depends on the other samples of the batch"),
            (BatchMeanBehindZeros, r"depends on the other samples of the batch"),
            (Counting, r"when it is called again in training.*Keep what changes in a buffer"),
            (InSharedMemory, r"'first\.weight' and 'second\.weight' are two that lie in the same memory"),
            (Squeezing, r"shape \(1, 10\) for a batch of one sample. Got shape \(10,\)"),
            (
                lambda: nn.DataParallel(nn.Sequential(nn.Flatten(), nn.Linear(64, 10))),
                r"holds a DataParallel.*plain",
            ),
            (Recomputed, r"layers again in the backward pass"),
            (lambda: nn.Linear(0, -1), r"cannot be made: \w+Error: .*is called with the scenario"),
        ],
        ids=[
            "batch norm without statistics",
            "truth values",
            "spectral norm",
            "fake quantize",
            "prepare_qat",
            "no parameters",
            "all frozen",
            "text",
            "nothing",
            "too few outputs",
            "wrong shape of outputs",
            "several outputs",
            "wrong width",
            "a tuple",
            "token ids without a vocabulary",
            "mean over the batch",
            "mean over the batch, behind zeros",
            "counted calls",
            "shared memory",
            "squeeze",
            "wrapped",
            "checkpoints",
            "factory that fails",
        ],
    )
    def test_a_module_that_cannot_be_trained_is_refused(self, make: Callable[[], Any], says: str) -> None:
        with pytest.raises(InputError, match=says):
            TorchLearner(own(make)).session(digits(), QUICK, "cpu", None)

    def test_the_first_test_rows_may_be_equal(self) -> None:
        scenario = digits()
        x = scenario.test.x.copy()
        x[1] = x[0]
        alike = replace(scenario, test=Dataset(x, scenario.test.y))
        with pytest.raises(InputError, match="depends on the other samples"):
            TorchLearner(own(BatchMean)).session(alike, QUICK, "cpu", None)

    @pytest.mark.filterwarnings("ignore:Models are trained one after the other")
    @pytest.mark.parametrize("dropping", [True, False], ids=["dropout", "noise"])
    def test_what_is_drawn_in_evaluation_is_drawn_alike(self, dropping: bool) -> None:
        found = []
        for seed, masks in ((0, [1, 3, 15]), (1, [15, 3]), (2, [3])):
            torch.manual_seed(seed)
            learner = TorchLearner(own(lambda: AlwaysDrawing(dropping)))
            found.append(dict(outcomes(LocalTrainer("cpu"), digits(), learner, QUICK, masks)))
        assert found[0][3] == found[1][3] == found[2][3]
        assert found[0][15] == found[1][15]

    def test_the_class_of_a_module_is_a_factory(self) -> None:
        found = [
            outcomes(LocalTrainer("cpu"), digits(), make_learner(model), QUICK, [15])
            for model in (Sized, Fitted, lambda scenario=None, width=64: Fitted(scenario))
        ]
        assert all(same == found[0] for same in found)

    def test_a_test_set_of_one_sample(self) -> None:
        scenario = digits()
        single = replace(scenario, test=Dataset(scenario.test.x[:1], scenario.test.y[:1]))
        assert len(outcomes(LocalTrainer("cpu"), single, TorchLearner(Fitted), QUICK, [1])) == 1

    def test_a_module_instead_of_its_factory_is_refused(self) -> None:
        for model in (nn.Linear(2, 3), 5):
            with pytest.raises(InputError, match=rf"function scenario → nn\.Module.*{type(model).__name__}"):
                make_learner(model)  # type: ignore[arg-type]

    def test_a_factory_by_its_path(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "ownmodels.py").write_text(
            "from torch import nn\n"
            "from fedvalue.learners.torch import TorchLearner\n"
            "def tiny(scenario):\n"
            "    return nn.Sequential(nn.Flatten(), nn.Linear(64, scenario.classes))\n"
            "named = TorchLearner(tiny, key='tiny 1')\n"
            "number = 3\n"
        )
        (tmp_path / "brokenmodels.py").write_text("def f(:\n")
        monkeypatch.syspath_prepend(tmp_path)
        learner = make_learner("ownmodels:tiny")
        assert outcomes(LocalTrainer("cpu"), digits(), learner, QUICK, [15])[15]["accuracy"] > 0.3
        assert make_learner("ownmodels:named").identity() == {"model": "own", "key": "tiny 1"}
        for path, says in {
            "ownmodels:absent": r"cannot be imported.*absent",
            "nowhere.at.all:tiny": r"cannot be imported.*nowhere",
            "ownmodels:number": r"must be a function",
            "brokenmodels:f": r"cannot be imported: SyntaxError",
            ":tiny": r"cannot be imported: ValueError",
        }.items():
            with pytest.raises(InputError, match=says):
                make_learner(path)

    def test_unknown_names_are_answered_with_the_known_ones(self) -> None:
        with pytest.raises(InputError, match=r"Unknown model 'mpl'. Did you mean 'mlp'.*text-mean"):
            make_learner("mpl")
        with pytest.raises(InputError, match=r"Unknown model 'nothing'. Models: mlp, mlp-dropout, cnn"):
            TorchLearner("nothing")

    @pytest.mark.parametrize(
        ("model", "scenario", "says"),
        [
            ("cnn", line(), r"'cnn' needs images.*shape \(5,\); use 'mlp'"),
            ("cnn", words(), r"'cnn' needs images.*use text-mean or lstm"),
            ("mlp", words(), "holds text. Use the model 'text-mean' or 'lstm'"),
            ("linear", words(), "holds text"),
            ("lstm", digits(), "'lstm' needs text.*use 'mlp'"),
            ("text-mean", line(), "'text-mean' needs text"),
        ],
    )
    def test_models_say_which_data_they_need(self, model: str, scenario: Scenario, says: str) -> None:
        with pytest.raises(InputError, match=says):
            TorchLearner(model).session(scenario, QUICK, "cpu", None)
