"""Clients that make about as many steps are trained as one stack on CUDA; those with fewer rest at the end."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from federations import MASKS, QUICK, SAME, digits, final_models, largest_difference
from torch import Tensor

from fedvalue.learners.torch import TorchLearner
from fedvalue.learners.torch._steps import LocalSteps

SIZES = (37, 20, 64, 5)


class RestingAdam:
    """Adam of a stack in plain torch, some rows of which may rest: what the kernel does on CUDA."""

    def __init__(self, parameters: Sequence[Tensor], rate: float) -> None:
        self.parameters, self.rate, self.steps = parameters, rate, 0
        self.moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        self.step_of(torch.ones(len(self.parameters[0]), dtype=torch.int8))

    @torch.no_grad()
    def step_of(self, active: Tensor) -> None:
        self.steps += 1
        for p, (m, v) in zip(self.parameters, self.moments, strict=True):
            assert p.grad is not None
            on = active.bool().view(-1, *[1] * (p.dim() - 1))
            mean, square = 0.9 * m + 0.1 * p.grad, 0.999 * v + 0.001 * p.grad**2
            change = mean / (1 - 0.9**self.steps) / ((square / (1 - 0.999**self.steps)).sqrt() + 1e-8)
            for old, new in ((p, p - self.rate * change), (m, mean), (v, square)):
                old.copy_(torch.where(on, new, old))


@pytest.fixture
def resting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalSteps, "can_rest", True)

    def optimizer(self: LocalSteps, leaves: dict[str, Tensor]) -> Any:
        return RestingAdam(list(leaves.values()), self.training.rate)

    monkeypatch.setattr(LocalSteps, "_optimizer", optimizer)


@pytest.mark.usefixtures("resting")
@pytest.mark.parametrize("model", ["mlp", "mlp-dropout"])
def test_who_rests_ends_where_it_would_alone(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedvalue.learners.torch._stack._LITTLE_REST", 100)  # 4 steps an epoch beside 1
    scenario = digits(SIZES)
    session = TorchLearner(model).session(scenario, QUICK, "cpu", None)
    assert len(set(session._alike(range(4)).values())) == 1
    at_once = final_models(session, scenario, QUICK, MASKS)
    monkeypatch.setattr(LocalSteps, "can_rest", False)
    assert len(set(session._alike(range(4)).values())) == 4
    apart = final_models(session, scenario, QUICK, MASKS)
    assert largest_difference(at_once, apart) < SAME["adam"]


def test_only_those_with_about_as_many_steps_stand_together(monkeypatch: pytest.MonkeyPatch) -> None:
    session = TorchLearner("mlp").session(digits((160, 140, 130, 100, 16)), QUICK, "cpu", None)
    steps = {client: 2 * count for client, count in enumerate((10, 9, 9, 7, 1))}
    assert session._alike(range(5)) == steps  # on a CPU, exactly as many
    monkeypatch.setattr(LocalSteps, "can_rest", True)
    assert session._alike(range(5)) == {0: 20, 1: 20, 2: 20, 3: 14, 4: 2}


@pytest.mark.skipif(find_spec("triton") is None, reason="triton comes with torch's CUDA builds")
def test_the_kernel_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    from fedvalue.learners.torch._cuda_adam import StackAdam

    generator = torch.Generator().manual_seed(1)
    found, expected = (
        [torch.ones(5, 70, 40).mT.contiguous().mT.requires_grad_(), torch.ones(5, 3).requires_grad_()]
        for _ in range(2)
    )
    kernel, plain = StackAdam(found, 0.01), RestingAdam(expected, 0.01)
    for active in ([1, 1, 1, 1, 1], [1, 0, 1, 1, 1], [0, 0, 1, 1, 0]):
        for one, other in zip(found, expected, strict=True):
            gradient = torch.randn(one.shape, generator=generator)
            one.grad, other.grad = torch.empty_like(one).copy_(gradient), gradient
        for optimizer in (kernel, plain):
            optimizer.step_of(torch.tensor(active, dtype=torch.int8))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
