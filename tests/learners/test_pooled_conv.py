"""A convolution and its pool as one kernel: the same responses and gradients as torch's own, in stacks of any make.

Runs where triton is installed; without an accelerator, start it with TRITON_INTERPRET=1, which interprets the kernels.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor
from torch.func import vmap

CUDA = torch.cuda.is_available()
pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or not (CUDA or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="needs triton, and CUDA or TRITON_INTERPRET=1",
)
DEVICE = "cuda" if CUDA else "cpu"
PLACES, FEATURES, COLUMNS, FILTERS = 4, 9, 70, 6


def plain(weight: Tensor, patches: Tensor) -> Tensor:
    return torch.einsum("fk,pkc->fpc", weight, patches).max(dim=1).values


def fused(weight: Tensor, patches: Tensor) -> Tensor:
    from fedvalue.learners.torch._cuda_conv import pooled_responses

    return pooled_responses(weight, patches)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def compare(
    stacked: Callable[[Callable[..., Tensor]], Callable[..., Tensor]], weight: Tensor, x: Tensor
) -> None:
    results = []
    for function in (plain, fused):
        leaf = weight.clone().requires_grad_()
        out = stacked(function)(leaf, x)
        (out * numbers(*out.shape, seed=9)).sum().backward()
        results.append((out.detach(), leaf.grad))
    (expected, wanted), (found, gradient) = results
    assert torch.allclose(found, expected, atol=1e-4)
    assert torch.allclose(gradient, wanted, atol=1e-3)  # type: ignore[arg-type]


def test_alone() -> None:
    compare(lambda f: f, numbers(FILTERS, FEATURES), numbers(PLACES, FEATURES, COLUMNS, seed=1))


def test_models_that_see_the_same_images() -> None:
    weight = numbers(5, FILTERS, FEATURES)
    compare(lambda f: vmap(f, in_dims=(0, None)), weight, numbers(PLACES, FEATURES, COLUMNS, seed=1))


def test_models_with_images_of_their_own() -> None:
    weight = numbers(3, FILTERS, FEATURES)
    compare(vmap, weight, numbers(3, PLACES, FEATURES, COLUMNS, seed=1))


def test_clients_with_several_models_each() -> None:
    weight = numbers(3, 11, FILTERS, FEATURES)  # more filters than a block has rows
    patches = numbers(3, PLACES, FEATURES, COLUMNS, seed=1)
    compare(lambda f: vmap(vmap(f, in_dims=(0, None))), weight, patches)


def test_what_is_not_a_number_stays() -> None:
    weight = numbers(FILTERS, FEATURES)
    weight[2, 3] = torch.nan
    found = fused(weight, numbers(PLACES, FEATURES, COLUMNS, seed=1))
    assert found[2].isnan().all()
    assert found[[0, 1, 3, 4, 5]].isfinite().all()
