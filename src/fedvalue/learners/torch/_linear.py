"""Linear layers of stacked models, computed so that no gradient has to be copied.

The backward pass of x·Wᵀ gives the gradient of Wᵀ; for a stack of models every step then copies all
gradients into the layout of W, a quarter of its time. There are two ways around it, each the faster one on
its device: another product (CPU), or another layout of W (CUDA).

On a CPU the product is also one that does not depend on how many models are in the stack. The library behind
it chooses its kernel by the shape of the whole and by where in memory a matrix begins. So every model has a product of
its own in a batch of them, and its matrices are filled up to whole cache lines.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedvalue.learners.torch._modes import Function, Replacing

__all__ = ["LINE", "StackedLinear", "column_major"]

LINE = 16  # numbers in a cache line, and a multiple of those in any vector register
FEW = 4  # of fewer outputs the gradient comes from another kernel where a stack is large


class StackedLinear(Replacing):
    """Computes x·Wᵀ as (W·xᵀ)ᵀ while it is active: the backward pass then gives the gradient of W itself."""

    def __init__(self) -> None:
        super().__init__(_STACKED)


def column_major(tensor: Tensor) -> Tensor:
    """The same stack of matrices, laid out as the backward pass lays out their gradients."""
    return tensor.mT.contiguous().mT if tensor.dim() == 3 else tensor.contiguous()


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if input.dim() == 1:
        return nn.functional.linear(input, weight, bias)
    samples = input.flatten(0, -2)
    count, features = samples.shape
    more_samples, more_features = -count % LINE, -features % LINE
    if more_samples or more_features:
        samples = nn.functional.pad(samples, (0, more_features, 0, more_samples))
    if more_features:
        weight = nn.functional.pad(weight, (0, more_features))
    outputs = weight.shape[-2]
    if outputs < FEW:
        weight = nn.functional.pad(weight, (0, 0, 0, FEW - outputs))
    # `matmul` makes one product of the weights of all models that share their samples, which is faster, and the same
    # where the outputs of each fill whole lines. As batches of one they stay apart.
    if weight.shape[-2] % LINE:
        product = torch.bmm(weight[None], samples.mT[None])[0]
    else:
        product = torch.matmul(weight, samples.mT)
    product = product.mT[:count, :outputs].reshape(*input.shape[:-1], -1)
    return product if bias is None else product + bias


_STACKED: dict[Function, Function] = {nn.functional.linear: _linear}
