"""Optimisers for the parameters of a model, or of a stack of models, and gradients cut to a norm."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from fedvalue.errors import InputError
from fedvalue.learners.torch._cpu_adam import FusedAdam
from fedvalue.training import OPTIMIZERS, Training

if TYPE_CHECKING:
    from fedvalue.learners.torch._cuda_adam import StackAdam

__all__ = ["MadeOptimizer", "can_be_recorded", "can_rest", "clip", "optimizer_of", "try_optimizer"]

_ADAMS = ("adam", "adamw")
_TINY = 1e-6  # as torch.nn.utils.clip_grad_norm_ has it


MadeOptimizer: TypeAlias = "torch.optim.Optimizer | FusedAdam | StackAdam"


def try_optimizer(rules: Training, parameters: Sequence[Tensor]) -> None:
    """Refuses options that the optimiser does not have, or not with such values, and parameters that it cannot train."""
    # Adam as it is usually has nothing to refuse; to make the first optimiser of torch takes a process half a second.
    if rules.algorithm == "fedsgd" or (rules.optimizer in _ADAMS and not rules.optimizer_options):
        return
    try:
        _torchs(
            rules, [torch.zeros(p.shape, device="meta", requires_grad=True) for p in parameters], rules.rate
        )
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        known = [name for name in signature(_class_of(rules)).parameters if name not in ("params", "lr")]
        raise InputError(
            f"The optimizer {rules.optimizer} cannot be used so: {str(error).rstrip('.')}. Its options in torch: "
            f"{', '.join(known)}."
        ) from error


def optimizer_of(rules: Training, parameters: Sequence[Tensor], rate: float) -> MadeOptimizer:
    """The optimiser that the rules name, with nothing to remember yet, and with this rate."""
    if rules.algorithm == "fedsgd":
        return torch.optim.SGD(parameters, lr=rate, weight_decay=rules.weight_decay)
    on_cuda = bool(parameters) and parameters[0].is_cuda
    if rules.optimizer in _ADAMS and not rules.optimizer_options:
        decoupled = rules.optimizer == "adamw"
        if on_cuda and can_rest(rules, parameters[0].device):
            from fedvalue.learners.torch._cuda_adam import StackAdam

            return StackAdam(parameters, rate, rules.weight_decay, decoupled)
        if not on_cuda and (not parameters or parameters[0].device.type == "cpu"):
            return FusedAdam(parameters, rate, rules.weight_decay, decoupled)
        if on_cuda:
            return _torchs(rules, parameters, rate, fused=True, capturable=True)
    return _torchs(rules, parameters, rate, **({"capturable": True} if on_cuda and _captures(rules) else {}))


def can_rest(rules: Training, device: torch.device) -> bool:
    """Whether rows of a stack may make fewer steps than others: their optimiser must leave them alone."""
    adam = rules.algorithm != "fedsgd" and rules.optimizer in _ADAMS and not rules.optimizer_options
    return adam and device.type == "cuda" and find_spec("triton") is not None


def can_be_recorded(rules: Training) -> bool:
    """Whether a step is the same work every time, on the device alone: a graph of it can be replayed."""
    return rules.algorithm == "fedsgd" or rules.optimizer == "sgd" or _captures(rules)


def clip(parameters: Sequence[Tensor], most: float, stacked: bool) -> None:
    """Cuts the gradient of each model to a norm: each row by itself where parameters are those of a stack."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return
    rows = [g.reshape(len(g) if stacked else 1, -1) for g in gradients]
    # One tensor after the other: the order of additions is the same however many models there are.
    norms = reduce(torch.add, [_squares(row) for row in rows]).sqrt()
    factors = (most / (norms + _TINY)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factors.view(-1, *[1] * (gradient.dim() - 1)) if stacked else factors[0])


def _squares(rows: Tensor) -> Tensor:
    """The sum of squares of every row; NumPy adds up a row alike however many there are, torch does not."""
    if rows.device.type != "cpu":
        return rows.square().sum(1)
    return torch.from_numpy(np.square(np.ascontiguousarray(rows.numpy())).sum(1))


def _class_of(rules: Training) -> type[torch.optim.Optimizer]:
    name = OPTIMIZERS[rules.optimizer]
    if not hasattr(torch.optim, name):
        raise InputError(
            f"The optimizer {rules.optimizer} is not in torch {torch.__version__}. Install a newer release of torch."
        )
    made: type[torch.optim.Optimizer] = getattr(torch.optim, name)
    return made


def _captures(rules: Training) -> bool:
    return "capturable" in signature(_class_of(rules)).parameters


def _torchs(rules: Training, parameters: Sequence[Tensor], rate: float, **how: Any) -> torch.optim.Optimizer:
    kind = _class_of(rules)
    known = signature(kind).parameters
    given = {"lr": rate, **rules.options_of_optimizer, **how}
    if "weight_decay" in known:  # said also where it is 0: some have another default
        given["weight_decay"] = rules.weight_decay
    if rules.optimizer == "sgd":
        given["momentum"] = rules.momentum
    return kind(parameters, **given)
