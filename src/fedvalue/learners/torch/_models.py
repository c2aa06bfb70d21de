"""The models: plain torch modules, made for a scenario. To add one: a function and an entry in MODELS."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import cast

import torch
from torch import nn

from fedvalue.errors import InputError
from fedvalue.scenarios import Scenario

__all__ = ["MODELS", "ModelFactory", "PooledConv2d", "channels_last"]

ModelFactory = Callable[[Scenario], nn.Module]


def mlp(scenario: Scenario) -> nn.Module:
    """The paper's MLP: 64 and 32 ReLU units between the flattened features and the classes."""
    return nn.Sequential(*_hidden(scenario), nn.Linear(32, _outputs(scenario)))


def mlp_dropout(scenario: Scenario) -> nn.Module:
    """The MLP as the code of the paper's authors has it: a fifth of the last hidden units is dropped in training."""
    return nn.Sequential(*_hidden(scenario), nn.Dropout(0.2), nn.Linear(32, _outputs(scenario)))


def _hidden(scenario: Scenario) -> list[nn.Module]:
    return [nn.Flatten(), nn.Linear(_features(scenario), 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU()]


def linear(scenario: Scenario) -> nn.Module:
    """One linear layer: softmax regression, or linear regression by gradient descent."""
    return nn.Sequential(nn.Flatten(), nn.Linear(_features(scenario), _outputs(scenario)))


class PooledConv2d(nn.Module):
    """A convolution with 'same' padding and the max-pool behind it, as one layer.

    Only what the pool will look at is computed: a pool of 4 leaves out the last three of seven rows, and so
    does the convolution. On a CPU these are torch's own kernels, with the channels last: its pool is ten
    times as fast then. On an accelerator the convolution is one matrix product over unfolded patches, which
    many stacked models share where they see the same images; columns are ordered by place in the pooling
    window, so that the pool is a maximum over rows. The `first` layer sees the data, of which no gradient is wanted:
    where triton is installed, both are one kernel there.
    """

    def __init__(self, channels: int, filters: int, kernel: int, pool: int, *, first: bool = False) -> None:
        super().__init__()
        self.kernel, self.pool = kernel, pool
        self.fused = first and find_spec("triton") is not None
        made = nn.Conv2d(channels, filters, kernel)  # torch's usual initialisation
        self.weight, self.bias = made.weight, cast(nn.Parameter, made.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        k, p = self.kernel, self.pool
        height, width = (side // p * p for side in x.shape[-2:])
        before, after = (k - 1) // 2, k // 2
        unused_rows, unused_columns = x.shape[-2] - height, x.shape[-1] - width
        x = nn.functional.pad(x, (before, after - unused_columns, before, after - unused_rows))
        if x.device.type == "cpu":
            responses = nn.functional.conv2d(channels_last(x), channels_last(self.weight), self.bias)
            return nn.functional.max_pool2d(responses, p)
        samples, h, w = x.shape[0], height // p, width // p
        patches = x.unfold(-2, k, 1).unfold(-2, k, 1).reshape(samples, -1, h, p, w, p, k, k)
        pooled = self._pooled(patches).reshape(-1, samples, h, w).transpose(0, 1)
        return pooled + self.bias[:, None, None]

    def _pooled(self, patches: torch.Tensor) -> torch.Tensor:
        """(samples, channels, h, p, w, p, k, k) → (filters, samples·h·w)."""
        places, features = self.pool * self.pool, self.weight[0].numel()
        if self.fused and patches.is_cuda:
            from fedvalue.learners.torch._cuda_conv import pooled_responses

            by_place = patches.permute(3, 5, 1, 6, 7, 0, 2, 4).reshape(places, features, -1)
            return pooled_responses(self.weight.flatten(1), by_place)
        columns = patches.permute(1, 6, 7, 3, 5, 0, 2, 4).reshape(features, -1)
        responses = self.weight.flatten(1) @ columns
        return responses.reshape(len(responses), places, -1).max(dim=-2).values


def channels_last(images: torch.Tensor) -> torch.Tensor:
    """The same images in memory as (samples, height, width, channels)."""
    samples, channels, height, width = images.shape
    if channels == 1:  # nothing moves, but the strides must say so: torch chooses its kernels by them
        return images.reshape(samples, height, width, 1).permute(0, 3, 1, 2)
    return images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)


def cnn(scenario: Scenario) -> nn.Module:
    """The paper's CNN: 32 filters of 8×8, max-pool 4, 64 of 4×4, max-pool 4, one dense layer.

    Images too small for two pools of 4 (the 8×8 digits) get pools of 2 and filters of half the size. The
    ReLU stands behind the pool, which is the same function (both are monotone) on fewer numbers.
    """
    shape = scenario.test.x.shape[1:]
    if len(shape) != 3:
        raise InputError(
            f"The model 'cnn' needs images (channels, height, width). This scenario has features of shape "
            f"{shape}; use {'text-mean or lstm' if scenario.vocabulary else repr('mlp')}."
        )
    channels, height, width = shape
    pool, large, small = (4, 8, 4) if min(height, width) >= 16 else (2, 4, 2)
    return nn.Sequential(
        PooledConv2d(channels, 32, large, pool, first=True),
        nn.ReLU(),
        PooledConv2d(32, 64, small, pool),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * (height // pool // pool) * (width // pool // pool), _outputs(scenario)),
    )


class _MeanEmbedding(nn.Module):
    """Words as vectors, averaged over the text, then a small MLP. Token 0 is padding."""

    def __init__(self, vocabulary: int, outputs: int, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.head = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, outputs))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        present = (tokens != 0).unsqueeze(-1).float()
        mean = (self.embedding(tokens) * present).sum(-2) / present.sum(-2).clamp(min=1)
        logits: torch.Tensor = self.head(mean)
        return logits


class _LSTM(nn.Module):
    """One LSTM layer over the words, its state after the last one to the classes.

    Written as matrix products, because many of these are trained as one stack.
    """

    def __init__(self, vocabulary: int, outputs: int, width: int = 32) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocabulary, width)
        self.from_input = nn.Linear(width, 4 * width)
        self.from_state = nn.Linear(width, 4 * width, bias=False)
        self.head = nn.Linear(width, outputs)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        inputs = self.from_input(self.embedding(tokens))
        state = inputs.new_zeros(*tokens.shape[:-1], self.width)
        cell = state
        for step in range(tokens.shape[-1]):
            gates = inputs[..., step, :] + self.from_state(state)
            i, f, g, o = gates.chunk(4, dim=-1)
            new_cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            new_state = torch.sigmoid(o) * torch.tanh(new_cell)
            word = (tokens[..., step] != 0).unsqueeze(-1)  # padding leaves the state as it is
            cell, state = torch.where(word, new_cell, cell), torch.where(word, new_state, state)
        logits: torch.Tensor = self.head(state)
        return logits


def text_mean(scenario: Scenario) -> nn.Module:
    """Embedding-mean MLP for text."""
    return _MeanEmbedding(_vocabulary(scenario, "text-mean"), _outputs(scenario))


def lstm(scenario: Scenario) -> nn.Module:
    """LSTM for text."""
    return _LSTM(_vocabulary(scenario, "lstm"), _outputs(scenario))


def _features(scenario: Scenario) -> int:
    if scenario.vocabulary:
        raise InputError("This scenario holds text. Use the model 'text-mean' or 'lstm'.")
    return int(torch.Size(scenario.test.x.shape[1:]).numel())


def _outputs(scenario: Scenario) -> int:
    return scenario.classes or 1


def _vocabulary(scenario: Scenario, model: str) -> int:
    if not scenario.vocabulary:
        raise InputError(f"The model {model!r} needs text. This scenario has numbers; use 'mlp'.")
    return scenario.vocabulary


MODELS: dict[str, ModelFactory] = {
    "mlp": mlp,
    "mlp-dropout": mlp_dropout,
    "cnn": cnn,
    "linear": linear,
    "text-mean": text_mean,
    "lstm": lstm,
}
