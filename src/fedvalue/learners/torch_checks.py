"""What a torch model must be like, found out on two samples before anything is trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import vmap

from fedvalue.errors import InputError
from fedvalue.learners.stacked_linear import StackedLinear
from fedvalue.scenarios.base import Scenario

__all__ = ["can_be_stacked", "check_module"]

# What `vmap` says where it loops itself, or copies: it is no faster than our own loop then.
_SLOW = ("batching rule", "was resized since")


def check_module(module: object, scenario: Scenario) -> nn.Module:
    """The module, if FedAvg can train it: it has parameters, fits the data and keeps no state of its own.

    Makes one forward pass, in which lazy layers get their shapes.
    """
    if not isinstance(module, nn.Module):
        raise InputError(f"A model factory must return an nn.Module. Got {type(module).__name__}.")
    for name, part in module.named_modules():
        if _mixes_samples(part):
            raise InputError(
                f"The model's layer {name!r} is a {type(part).__name__}: it mixes the samples of a batch "
                "or keeps running statistics, which FedAvg does not average. Use GroupNorm or LayerNorm."
            )
    x = torch.from_numpy(scenario.test.x[:2])
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        outputs = module.train()(x)
    except Exception as error:
        raise InputError(
            f"The model cannot take this scenario's samples, {x.dtype} of shape {tuple(x.shape[1:])}: {error}"
        ) from error
    expected = (len(x), scenario.classes or 1)
    if not torch.is_tensor(outputs) or outputs.shape != expected:
        got = f"shape {tuple(outputs.shape)}" if torch.is_tensor(outputs) else type(outputs).__name__
        raise InputError(f"The model must give outputs of shape {expected} for {len(x)} samples. Got {got}.")
    for name, buffer in module.named_buffers():
        if name in before and not torch.equal(before[name], buffer):
            raise InputError(
                f"The model changes its buffer {name!r} in training. Only parameters are averaged: a state "
                "besides them would pass from one coalition to the next. Buffers must be constant."
            )
    if not any(p.requires_grad for p in module.parameters()):
        raise InputError("The model has no parameters to train.")
    return module


def can_be_stacked(
    forward: Callable[[dict[str, Tensor], Tensor], Tensor], model: dict[str, Tensor], x: Tensor
) -> bool:
    """Whether two of these models can be trained as one program; tried, because `vmap` cannot do everything.

    It refuses random numbers (dropout), control flow that depends on data, and recurrent layers.
    """
    for in_dims in ((0, 0), (0, None)):
        pair = {name: torch.cat([tensor, tensor]).requires_grad_() for name, tensor in model.items()}
        samples = torch.stack([x, x]) if in_dims[1] == 0 else x
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                with StackedLinear():
                    outputs = vmap(forward, in_dims=in_dims)(pair, samples)
                torch.autograd.backward(outputs.sum())
            except Exception:
                return False
        if any(complaint in str(warning.message) for warning in heard for complaint in _SLOW):
            return False
    return True


def _mixes_samples(part: nn.Module) -> bool:
    if isinstance(part, nn.modules.batchnorm._BatchNorm):
        return True
    return isinstance(part, nn.modules.batchnorm._NormBase) and part.track_running_stats
