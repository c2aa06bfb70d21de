"""A convolution and its max-pool in one pass, for images that no gradient is wanted of.

Many stacked models look at the same images with filters of their own. What all their filters respond at every place
is sixteen times as much as the pool leaves of it; writing it down and reading it again took most of a training
step. Here a response is forgotten as soon as it is known not to be the largest of its window. Import it only where triton is
installed (it comes with torch's CUDA builds).
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["pooled_responses"]

_ROWS, _COLUMNS, _SUMMED = 128, 64, 32  # of a block; of one that is summed up


@triton.jit  # type: ignore[untyped-decorator]
def _largest(  # type: ignore[no-untyped-def]
    w, x, largest, place, rows, columns, features: tl.constexpr,
    places: tl.constexpr, wide: tl.constexpr, br: tl.constexpr, bc: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(2).to(tl.int64)
    c = tl.program_id(0) * bc + tl.arange(0, bc)
    r = tl.program_id(1) * br + tl.arange(0, br)
    k = tl.arange(0, wide)
    known = (r < rows)[:, None] & (k < features)[None, :]
    filters = tl.load(w + b * rows * features + r[:, None] * features + k[None, :], mask=known, other=0.0)
    best = tl.full((br, bc), float("-inf"), tl.float32)
    where = tl.zeros((br, bc), tl.int32)
    seen = (c < columns)[:, None] & (k < features)[None, :]
    for p in range(places):
        patches = x + (b * places + p) * features * columns + c[:, None] * features + k[None, :]
        seen_there = tl.load(patches, mask=seen, other=0.0)
        response = tl.dot(filters, tl.trans(seen_there), input_precision=precision)
        better = (response > best) | (response != response)  # a response that is not a number stays
        best = tl.where(better, response, best)
        where = tl.where(better, p, where)
    out = b * rows * columns + r[:, None].to(tl.int64) * columns + c[None, :]
    there = (r < rows)[:, None] & (c < columns)[None, :]
    tl.store(largest + out, best, mask=there)
    tl.store(place + out, where.to(tl.uint8), mask=there)


@triton.jit  # type: ignore[untyped-decorator]
def _gradient(  # type: ignore[no-untyped-def]
    g, place, x, dw, rows, columns, features: tl.constexpr,
    blocks: tl.constexpr, places: tl.constexpr, wide: tl.constexpr, br: tl.constexpr, bc: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(1).to(tl.int64)
    r = tl.program_id(0) * br + tl.arange(0, br)
    k = tl.arange(0, wide)
    total = tl.zeros((br, wide), tl.float32)
    for block in range(blocks):
        c = block * bc + tl.arange(0, bc)
        out = b * rows * columns + r[:, None].to(tl.int64) * columns + c[None, :]
        there = (r < rows)[:, None] & (c < columns)[None, :]
        gradient = tl.load(g + out, mask=there, other=0.0)
        where = tl.load(place + out, mask=there, other=255).to(tl.int32)
        seen = (k < features)[:, None] & (c < columns)[None, :]
        for p in range(places):
            patches = x + (b * places + p) * features * columns + k[:, None] * columns + c[None, :]
            chosen = tl.where(where == p, gradient, 0.0)
            seen_there = tl.load(patches, mask=seen, other=0.0)
            total = tl.dot(chosen, tl.trans(seen_there), total, input_precision=precision)
    known = (r < rows)[:, None] & (k < features)[None, :]
    tl.store(dw + b * rows * features + r[:, None] * features + k[None, :], total, mask=known)


class _Pooled(torch.autograd.Function):
    """(stacks, filters, features) and (stacks, places, features, columns) → (stacks, filters, columns).

    Without the first dimension, one stack.
    """

    @staticmethod
    def forward(weight: Tensor, patches: Tensor) -> tuple[Tensor, Tensor]:
        w, x = (_in_stacks(tensor, dims) for tensor, dims in ((weight, 3), (patches, 4)))
        stacks, rows, features = w.shape
        places, columns = x.shape[1], x.shape[-1]
        largest = w.new_empty(stacks, rows, columns)
        place = torch.empty_like(largest, dtype=torch.uint8)
        grid = (triton.cdiv(columns, _COLUMNS), triton.cdiv(rows, _ROWS), stacks)
        # Tensor cores multiply what is contiguous along the sum: here the features, in the backward pass the columns.
        sizes = (rows, columns, features, places, _wide(features), _ROWS, _COLUMNS, _precision())
        _largest[grid](w, x.mT.contiguous(), largest, place, *sizes, num_warps=4, num_stages=4)
        shape = (*weight.shape[:-1], columns)
        return largest.view(shape), place.view(shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[1], output[1])
        ctx.shape = inputs[0].shape

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        patches, place = ctx.saved_tensors
        g, x = (_in_stacks(tensor, dims) for tensor, dims in ((gradients[0], 3), (patches, 4)))
        stacks, rows, columns = g.shape
        places, features = x.shape[1:3]
        dw = g.new_empty(stacks, rows, features)
        grid = (triton.cdiv(rows, _ROWS), stacks)
        blocks = triton.cdiv(columns, _SUMMED)
        sizes = (rows, columns, features, blocks, places, _wide(features), _ROWS, _SUMMED, _precision())
        _gradient[grid](g, place.contiguous(), x, dw, *sizes, num_warps=8, num_stages=3)
        return dw.view(ctx.shape), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], weight: Tensor, patches: Tensor) -> Any:
        of_weight, of_patches = in_dims
        if of_patches is None:  # models that see the same images are one model with more filters
            assert of_weight is not None
            models = weight.movedim(of_weight, -3)
            largest, place = _Pooled.apply(models.flatten(-3, -2), patches)  # type: ignore[no-untyped-call]
            shape = (*models.shape[:-1], largest.shape[-1])
            return (largest.view(shape), place.view(shape)), (models.dim() - 3, models.dim() - 3)
        # Stacks nest in one way only, and the inner one shares its images: it came through the branch above.
        assert weight.dim() - (of_weight is not None) == 2
        models = (
            weight.expand(info.batch_size, *weight.shape)
            if of_weight is None
            else weight.movedim(of_weight, 0)
        )
        together = _Pooled.apply(models, patches.movedim(of_patches, 0))  # type: ignore[no-untyped-call]
        return together, (0, 0)


def pooled_responses(weight: Tensor, patches: Tensor) -> Tensor:
    """The largest response of each filter (filters, features) in every window: `patches` are (places, features, windows)."""
    largest: Tensor = _Pooled.apply(weight, patches)[0]  # type: ignore[no-untyped-call]
    return largest


def _wide(features: int) -> int:
    """Products have sizes that are powers of two, and not too small."""
    return max(16, int(triton.next_power_of_2(features)))


def _precision() -> str:
    """That of torch's own products."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"


def _in_stacks(tensor: Tensor, dims: int) -> Tensor:
    return (tensor if tensor.dim() == dims else tensor[None]).contiguous()
