"""Adam without torch.optim, which spares an app that is started for every message a second."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fedvalue.learners.torch import _cpu_adam as cpu_adam
from fedvalue.learners.torch._cpu_adam import FusedAdam

pytestmark = pytest.mark.usefixtures("one_thread")

BASE = [torch.linspace(-1, 1, 12).reshape(3, 4), torch.ones(7), torch.linspace(0, 1, 150).reshape(2, 3, 5, 5)]
LAYOUTS: dict[str, Callable[[], list[Tensor]]] = {
    "plain": lambda: [tensor.clone() for tensor in BASE],
    "transposed, channels last": lambda: [
        BASE[0].clone().t(),
        BASE[1].clone(),
        BASE[2].clone().to(memory_format=torch.channels_last),
    ],
}


def _run(optimizer: torch.optim.Optimizer | FusedAdam, parameters: list[Tensor], steps: int) -> list[Tensor]:
    for step in range(steps):
        optimizer.zero_grad()
        noise = torch.Generator().manual_seed(step)
        used = [p for i, p in enumerate(parameters) if i != 1 or step % 3 == 0]  # the second one now and then
        losses = [((p * torch.randn(p.shape, generator=noise)).sum() - step % 5).square() for p in used]
        torch.autograd.backward(torch.stack(losses).sum())
        optimizer.step()
    return [p.detach() for p in parameters]


def _leaves(layout: str) -> list[Tensor]:
    return [tensor.requires_grad_() for tensor in LAYOUTS[layout]()]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_to_torch(layout: str) -> None:
    ours, theirs = _leaves(layout), _leaves(layout)
    found = _run(FusedAdam(ours, 0.01), ours, 200)
    expected = _run(torch.optim.Adam(theirs, lr=0.01, fused=True), theirs, 200)
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("size", [1, 10, 31, 64])
def test_a_model_ends_the_same_whatever_is_stacked_with_it(size: int) -> None:
    """Torch's own kernel rounds the last numbers of a tensor differently."""
    noise = torch.Generator().manual_seed(1)
    start, slopes = torch.randn(24, size, generator=noise), torch.randn(8, 24, size, generator=noise)

    def trained(rows: slice) -> Tensor:
        models = start[rows].clone().requires_grad_()
        optimizer = FusedAdam([models], 0.01)
        for slope in slopes:
            models.grad = slope[rows].clone()
            optimizer.step()
        return models.detach()

    together = trained(slice(None))
    for width in (1, 2, 7):
        for first in range(0, 24, width):
            rows = slice(first, first + width)
            assert torch.equal(trained(rows), together[rows])


def test_nothing_to_train_is_no_error() -> None:
    FusedAdam([], 0.1).step()
    unused = torch.ones(3, requires_grad=True)
    FusedAdam([unused], 0.1).step()
    assert torch.equal(unused, torch.ones(3))


def test_gaps_in_memory_are_refused() -> None:
    """The kernel would read past them, and train something else."""
    with pytest.raises(ValueError, match="no gaps"):
        FusedAdam([torch.ones(4, 6)[:, ::2].requires_grad_()], 0.1)


def test_a_torch_without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_adam, "_FUSED", None)
    ours, theirs = _leaves("plain"), _leaves("plain")
    found = _run(FusedAdam(ours, 0.01), ours, 20)
    expected = _run(torch.optim.Adam(theirs, lr=0.01), theirs, 20)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    FusedAdam([], 0.1).step()
