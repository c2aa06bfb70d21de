"""Linear layers of stacked models, computed so that no gradient has to be copied.

The backward pass of x·Wᵀ gives the gradient of Wᵀ; for a stack of models every step then copies all
gradients into the layout of W, a quarter of its time. There are two ways around it, each the faster one on
its device: another product (CPU), or another layout of W (CUDA).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

__all__ = ["StackedLinear", "column_major"]


class StackedLinear(TorchFunctionMode):
    """Computes x·Wᵀ as (W·xᵀ)ᵀ while it is active: the backward pass then gives the gradient of W itself."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is nn.functional.linear and args and args[0].dim() > 1:
            return _linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def column_major(tensor: Tensor) -> Tensor:
    """The same stack of matrices, laid out as the backward pass lays out their gradients."""
    return tensor.mT.contiguous().mT if tensor.dim() == 3 else tensor.contiguous()


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = torch.matmul(weight, input.mT).mT
    return product if bias is None else product + bias
