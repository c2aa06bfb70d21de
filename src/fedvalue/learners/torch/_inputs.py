"""Samples as modules take them: a tensor, several in a tuple, or several by name, all with the samples first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from fedvalue.learners.torch._functions import OneByOne
from fedvalue.scenarios import Features, leaves, mapped

__all__ = ["Samples", "arguments", "call", "described", "filled", "said", "taken", "tensors"]

Samples: TypeAlias = Any
"""A tensor, a tuple of tensors, or a dict of tensors."""


def tensors(features: Features, device: str = "cpu") -> Samples:
    """Arrays as tensors."""
    return mapped(lambda array: torch.from_numpy(np.ascontiguousarray(array)).to(device), features)


def taken(samples: Samples, index: Any) -> Samples:
    """Some of the samples, by their numbers (of any shape) or as a slice."""
    if isinstance(samples, Tensor):  # in every step of a training
        return samples[index]
    return mapped(lambda tensor: tensor[index], samples)


def filled(samples: Samples, count: int) -> Samples:
    """So many samples, the first one repeated behind the others."""
    return mapped(lambda t: torch.cat([t, t[:1].expand(count - len(t), *t.shape[1:])]), samples)


def arguments(samples: Samples) -> tuple[Sequence[Tensor], Mapping[str, Tensor]]:
    """With what a module is called: a tuple fills its arguments in order, names are keyword arguments."""
    if isinstance(samples, Mapping):
        return (), samples
    return (samples if isinstance(samples, tuple) else (samples,)), {}


def said(outputs: Any) -> Any:
    """The tensor of what a module returned; models of the package transformers return one among other things."""
    return getattr(outputs, "logits", outputs)


def call(module: nn.Module, samples: Samples) -> Any:
    """What a module says of samples, of which it gets a copy: it may work in them."""
    args, kwargs = arguments(mapped(Tensor.clone, samples))
    with OneByOne():
        return said(module(*args, **kwargs))


def described(samples: Samples) -> str:
    """Types and shapes of one sample, for messages."""
    parts = [(name, f"{t.dtype} of shape {tuple(t.shape[1:])}") for name, t in leaves(samples)]
    return ", ".join(f"{name}: {text}" if name else text for name, text in parts)
