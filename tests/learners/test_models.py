"""The models by name: the layers that they claim to be, and what training them costs in memory."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from federations import (
    QUICK,
    digits,
    rules,
    words,
)
from torch import nn
from torch.func import functional_call, vmap

from fedvalue.learners import memory as memory_module
from fedvalue.learners.memory import available_memory, row_cost
from fedvalue.learners.torch import TorchLearner
from fedvalue.learners.torch._models import MODELS, PooledConv2d
from fedvalue.scenarios import Dataset, Scenario

pytestmark = pytest.mark.usefixtures("one_thread")


class Elsewhere(torch.Tensor):
    """A tensor on the CPU that claims to be on an accelerator."""

    @property
    def device(self) -> Any:
        return SimpleNamespace(type="accelerator")


class TestModels:
    @pytest.mark.parametrize("shape", [(1, 8, 8), (3, 11, 9), (2, 7, 13)], ids=str)
    @pytest.mark.parametrize(("kernel", "pool"), [(4, 2), (3, 2), (8, 4), (2, 2), (5, 3), (1, 1)])
    @pytest.mark.parametrize("path", ["cpu", "accelerator"])
    def test_pooled_convolution(
        self, shape: tuple[int, ...], kernel: int, pool: int, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Equal to torch's convolution with 'same' padding, ReLU and max-pool; gradients too."""
        torch.manual_seed(kernel)
        layer = PooledConv2d(shape[0], 5, kernel, pool)
        torchs = nn.Conv2d(shape[0], 5, kernel, padding="same")
        torchs.load_state_dict(layer.state_dict())
        x = torch.randn(3, *shape, requires_grad=True)
        pad = nn.functional.pad
        if path == "accelerator":
            monkeypatch.setattr(nn.functional, "pad", lambda *given: pad(*given).as_subclass(Elsewhere))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # 'same' with even kernels copies the images
            wanted = nn.functional.max_pool2d(torchs(x).relu(), pool)
        found = layer(x).relu()
        assert isinstance(found, Elsewhere) == (path == "accelerator")
        found = found.as_subclass(torch.Tensor)
        assert found.shape == wanted.shape
        assert torch.allclose(found, wanted, atol=1e-5)
        direction = torch.randn_like(wanted)
        inputs = [(x, layer.weight, layer.bias), (x, torchs.weight, torchs.bias)]
        gradients = [
            torch.autograd.grad((outputs * direction).sum(), leaves)
            for outputs, leaves in zip((found, wanted), inputs, strict=True)
        ]
        for mine, its in zip(*gradients, strict=True):
            assert torch.allclose(mine.as_subclass(torch.Tensor), its, atol=1e-4)

    def test_stacked_convolutions_share_the_images(self) -> None:
        layers = [PooledConv2d(1, 4, 4, 2) for _ in range(3)]
        stack = {
            name: torch.stack([dict(m.named_parameters())[name].detach() for m in layers])
            for name in ("weight", "bias")
        }
        x = torch.randn(5, 1, 8, 8)
        found = vmap(lambda p, x: functional_call(layers[0], p, (x,)), in_dims=(0, None))(stack, x)
        assert torch.allclose(found, torch.stack([layer(x) for layer in layers]), atol=1e-6)

    def test_the_cnn_of_the_paper(self) -> None:
        image = Dataset(np.zeros((2, 1, 28, 28), np.float32), [0, 1])
        scenario = Scenario("images", (image,), ("a",), image, "classification", 10)
        shapes = {name: tuple(p.shape) for name, p in MODELS["cnn"](scenario).named_parameters()}
        assert list(shapes.values()) == [(32, 1, 8, 8), (32,), (64, 32, 4, 4), (64,), (10, 64), (10,)]

    def test_the_mlp_of_the_paper(self) -> None:
        image = Dataset(np.zeros((2, 1, 28, 28), np.float32), [0, 1])
        scenario = Scenario("images", (image,), ("a",), image, "classification", 10)
        shapes = [tuple(p.shape) for p in MODELS["mlp"](scenario).parameters()]
        assert shapes == [(64, 784), (64,), (32, 64), (32,), (10, 32), (10,)]

    def test_the_lstm_is_torchs_on_the_words_without_padding(self) -> None:
        scenario = words()
        module = MODELS["lstm"](scenario)
        its = nn.LSTM(32, 32, batch_first=True)
        weights = {
            "weight_ih_l0": module.from_input.weight,
            "weight_hh_l0": module.from_state.weight,
            "bias_ih_l0": module.from_input.bias,
            "bias_hh_l0": torch.zeros(128),
        }
        its.load_state_dict({name: tensor.detach() for name, tensor in weights.items()})
        tokens = torch.from_numpy(scenario.test.x)
        found = module(tokens)
        for row, text in enumerate(tokens):
            present = text[text != 0]
            state = its(module.embedding(present)[None])[0][0, -1] if len(present) else torch.zeros(32)
            assert torch.allclose(found[row], module.head(state), atol=1e-6)

    def test_the_mean_leaves_padding_out(self) -> None:
        scenario = words()
        module = MODELS["text-mean"](scenario)
        tokens = torch.from_numpy(scenario.test.x)
        found = module(tokens)
        for row, text in enumerate(tokens):
            present = text[text != 0]
            mean = module.embedding(present).mean(0) if len(present) else torch.zeros(32)
            assert torch.allclose(found[row], module.head(mean), atol=1e-6)


class TestMemory:
    def test_a_row_costs_more_than_its_parameters_and_activations(self) -> None:
        module = MODELS["mlp"](digits())
        sample = torch.from_numpy(digits().test.x[:1])
        parameters = 4 * sum(p.numel() for p in module.parameters())
        held, in_training = row_cost(
            module, list(module.parameters()), lambda: module(sample), sample.nbytes, 64
        )
        assert held >= 3 * parameters  # global and local models, and the averages
        # gradient, two moments, and for each sample what the layers give
        assert in_training >= 3 * parameters + 64 * 4 * (64 + 32 + 10)
        assert in_training < 20 * parameters + 64 * 100 * 4 * (64 + 32 + 10)

    def test_the_cost_of_training_grows_with_the_batch_only(self) -> None:
        module = MODELS["cnn"](digits())
        sample = torch.from_numpy(digits().test.x[:1])
        (held, one), (same, two), (_, four) = (
            row_cost(module, list(module.parameters()), lambda: module(sample), sample.nbytes, batch)
            for batch in (1, 2, 4)
        )
        assert held == same
        assert four - two == 2 * (two - one) > 0

    def test_memory_in_bytes_bounds_the_rows(self) -> None:
        rows = [
            TorchLearner("mlp").session(digits(), QUICK, "cpu", memory).rows
            for memory in (1, 1 << 20, 4 << 20, 1 << 40)
        ]
        assert rows[0] == 1
        assert rows == sorted(rows)
        assert rows[1] < rows[2] < rows[3]

    def test_a_batch_larger_than_all_data_costs_no_more_than_the_data(self) -> None:
        sessions = [
            TorchLearner("mlp").session(digits(), rules(batch=batch), "cpu", None) for batch in (64, 10**9)
        ]
        assert [session.minibatches(2, 1).index.shape for session in sessions] == [(2, 64), (2, 64)]

    def test_there_is_memory_where_the_system_does_not_tell(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert available_memory("cpu") > 1 << 20
        names = dict(memory_module.os.sysconf_names)
        del names["SC_AVPHYS_PAGES"]  # macOS
        monkeypatch.setattr(memory_module.os, "sysconf_names", names)
        assert available_memory("cpu") > 1 << 20
        monkeypatch.delattr(memory_module.os, "sysconf_names")  # Windows
        assert available_memory("cpu") > 1 << 20
