"""What the gradient methods compute on torch stacks: steps along updates, and slopes of the test loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["average", "loss_drops", "step"]

Stack = dict[str, Tensor]


def average(stack: Stack, groups: Sequence[int], weights: Sequence[float]) -> Stack:
    """One model for every group of rows; whole numbers, such as how many batches were seen, are rounded."""
    # One member of every group after the other, instead of a scattered sum: the order of additions,
    # and with it every bit of the result, is the same on every device.
    position: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        position.setdefault(group, []).append(row)
    turns = [
        [(group, rows[turn]) for group, rows in position.items() if turn < len(rows)]
        for turn in range(max(map(len, position.values()), default=0))
    ]
    device = next(iter(stack.values())).device
    moves = [torch.tensor(turn, device=device).unbind(1) for turn in turns]
    weight = torch.as_tensor(weights, dtype=torch.float32, device=device)
    averaged = {}
    for name, tensor in stack.items():
        whole = not tensor.is_floating_point()
        numbers, shares = (tensor.double(), weight.double()) if whole else (tensor, weight)
        total = numbers.new_zeros(len(position), *tensor.shape[1:])
        for into, rows in moves:
            total[into] += numbers[rows] * shares[rows].view(-1, *[1] * (tensor.dim() - 1))
        averaged[name] = total.round().to(tensor.dtype) if whole else total
    return averaged


def step(models: Stack, before: Stack, after: Stack, weights: NDArray[np.float64]) -> Stack:
    """models + weights · (after − before); one row of `models` stands for as many as there are weights."""
    moved = {}
    for name, start in models.items():
        updates = after[name] - before[name]
        share = torch.from_numpy(weights).to(updates if updates.is_floating_point() else updates.device)
        if not start.is_floating_point():  # a number of batches
            share, updates = share.double(), updates.double()
            moved[name] = start + torch.tensordot(share, updates, dims=1).round().to(start.dtype)
            continue
        moved[name] = start + torch.tensordot(share, updates, dims=1)
    return moved


def loss_drops(
    losses: Iterable[Callable[[Stack], Tensor]],
    before: Stack,
    after: Stack,
    samples: int,
    state: Sequence[str] = (),
) -> list[float]:
    """⟨∇ℓ(before), before − after_r⟩ for every row r, where ℓ is the mean of all losses over all samples. What the optimiser
    does not train, the `state`, stays as it was before."""
    models = {name: tensor[0].detach().clone() for name, tensor in before.items()}
    leaves = {name: tensor.requires_grad_() for name, tensor in models.items() if name not in state}
    for loss in losses:
        torch.autograd.backward(loss(models).sum() / samples)
    rows = len(next(iter(after.values())))
    drops = torch.zeros(rows, dtype=torch.float64)
    for name, leaf in leaves.items():
        if leaf.grad is not None:  # a parameter that the outputs do not depend on has none
            way = (before[name] - after[name]).flatten(1).cpu().double()
            drops += way @ leaf.grad.flatten().cpu().double()
    return [float(drop) for drop in drops]
