"""Local training of a stack: the optimiser steps that a client makes in one round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from fedvalue.learners.torch._cpu_adam import FusedAdam
from fedvalue.learners.torch._cuda_graph import StepRunner
from fedvalue.learners.torch._dropout import CountedDropout
from fedvalue.learners.torch._inputs import Samples, taken
from fedvalue.learners.torch._linear import StackedLinear, column_major
from fedvalue.learners.torch._random import seeded
from fedvalue.training import Training

if TYPE_CHECKING:
    from fedvalue.learners.torch._cuda_adam import StackAdam

__all__ = ["Batches", "LocalSteps", "TorchStack"]


class Optimizer(Protocol):
    """What a step needs of an optimiser."""

    def zero_grad(self, set_to_none: bool = True) -> None: ...
    def step(self) -> Any: ...


TorchStack = dict[str, Tensor]
"""Parameters of R models, each a tensor with a leading dimension of R."""


@dataclass(frozen=True)
class Batches:
    """One client's round: sample numbers (steps × batch), their weights in the loss, and for what a model draws in training
    a key of every step (dropout) and a seed (all else)."""

    index: Tensor
    weight: Tensor
    key: Tensor
    seed: int

    @staticmethod
    def drawn(
        seed: np.random.SeedSequence, samples: int, width: int, epochs: int, offset: int, device: str
    ) -> Batches:
        """All samples of a client in another order in every epoch; they are numbered from `offset`."""
        rng = np.random.default_rng(seed)
        steps = -(-samples // width)
        # Filled up with a sample of its own: weight 0 does not make another client's infinite loss vanish.
        index = np.full((epochs, steps * width), offset, np.int64)
        weight = np.zeros((epochs, steps * width), np.float32)
        for epoch in range(epochs):
            index[epoch, :samples] = rng.permutation(samples) + offset
            weight[epoch, :samples] = 1
        weight = weight.reshape(epochs * steps, width)
        weight /= weight.sum(1, keepdims=True)
        first, *keys = seed.generate_state(1 + epochs * steps).tolist()
        return Batches(
            torch.from_numpy(index.reshape(epochs * steps, width)).to(device),
            torch.from_numpy(weight).to(device),
            torch.tensor(keys, dtype=torch.int64, device=device),
            first,
        )

    def padded(self, steps: int) -> Batches:
        """With further steps in which no sample counts."""
        more = steps - len(self.key)
        index, weight, key = (
            torch.cat([part, part[-1:].expand(more, *part.shape[1:])]) for part in self._tensors()
        )
        weight[len(self.key) :] = 0
        return Batches(index, weight, key, self.seed)

    def _tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.index, self.weight, self.key


@dataclass(frozen=True)
class LocalSteps:
    """How models are trained on samples `x`, `y` of all clients under the rules of a training."""

    forward: Callable[[TorchStack, Samples], Tensor]
    losses: Callable[[Tensor, Tensor], Tensor]
    training: Training
    x: Samples
    y: Tensor
    drops: bool = False
    runner: StepRunner = field(default_factory=StepRunner)

    def together(self, stack: TorchStack, clients: Sequence[Batches], owner: Sequence[int]) -> TorchStack:
        """All rows in step: one forward, one backward and one optimiser step for the whole stack.

        Row r is trained on the batches `clients[owner[r]]`. All clients make the same number of steps, or, where
        `can_rest`, those with fewer rest at the end. Where each has as many rows as the others, one after the other, they
        share its samples: nothing is copied, and first layers become one product.
        """
        on_cuda = self.y.is_cuda
        layout = column_major if on_cuda else Tensor.contiguous
        leaves = {name: layout(tensor).requires_grad_() for name, tensor in stack.items()}
        anchor = self._anchor(leaves)
        optimizer = self._optimizer(leaves)
        outputs_of = self._outputs(len(clients), owner)
        place = torch.tensor(owner, device=self.y.device)

        def step(index: Tensor, weight: Tensor, key: Tensor) -> None:
            optimizer.zero_grad(set_to_none=True)
            samples = index[place]
            with nullcontext() if on_cuda else StackedLinear():
                outputs = outputs_of(leaves, index, key)
            loss = (self.losses(outputs, self.y[samples]) * weight[place]).sum()
            torch.autograd.backward(loss + self._proximal(leaves, anchor) if anchor else loss)
            if resting:
                cast("StackAdam", optimizer).step_of((weight > 0).any(-1)[place].to(torch.int8))
            else:
                optimizer.step()

        most = max(len(batches.key) for batches in clients)
        resting = any(len(batches.key) < most for batches in clients)
        padded = [batches.padded(most) for batches in clients] if resting else clients
        steps = (torch.stack([getattr(c, name) for c in padded]) for name in ("index", "weight", "key"))
        self.runner.run(step, *steps)
        return {name: tensor.detach().contiguous() for name, tensor in leaves.items()}

    def output(self, model: TorchStack, x: Samples, key: Tensor) -> Tensor:
        """What a model says of samples in a step of its training, which has this key."""
        with CountedDropout(key) if self.drops else nullcontext():
            return self.forward(model, x)

    def _outputs(self, clients: int, owner: Sequence[int]) -> Callable[[TorchStack, Tensor, Tensor], Tensor]:
        """What the rows of a stack say, from the samples and the key of every client."""
        rows = len(owner) // clients
        in_blocks = list(owner) == [client for client in range(clients) for _ in range(rows)]
        shared = vmap(self.output, in_dims=(0, None, None))
        if clients == 1:
            return lambda stack, index, key: shared(stack, taken(self.x, index[0]), key[0])
        if rows == 1 or not in_blocks:
            forward = vmap(self.output)
            place = torch.tensor(owner, device=self.y.device)
            return lambda stack, index, key: forward(stack, taken(self.x, index[place]), key[place])
        blocks = vmap(shared)

        def outputs(stack: TorchStack, index: Tensor, key: Tensor) -> Tensor:
            in_clients = {
                name: tensor.view(clients, rows, *tensor.shape[1:]) for name, tensor in stack.items()
            }
            return blocks(in_clients, taken(self.x, index), key).flatten(0, 1)

        return outputs

    def each(self, stack: TorchStack, clients: Sequence[Batches], owner: Sequence[int]) -> TorchStack:
        """One row after the other, as a plain loop would."""
        trained = [
            self._one({name: tensor[row] for name, tensor in stack.items()}, clients[of])
            for row, of in enumerate(owner)
        ]
        return {name: torch.stack([model[name] for model in trained]) for name in stack}

    def _one(self, model: TorchStack, batches: Batches) -> TorchStack:
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in model.items()}
        anchor = self._anchor(leaves)
        optimizer = self._optimizer(leaves)
        with seeded(batches.seed):  # what is drawn is drawn alike for every coalition
            for index, weight, key in zip(batches.index, batches.weight, batches.key, strict=True):
                real = weight > 0
                optimizer.zero_grad(set_to_none=True)
                outputs = self.output(leaves, taken(self.x, index[real]), key)
                loss = (self.losses(outputs, self.y[index[real]]) * weight[real]).sum()
                torch.autograd.backward(loss + self._proximal(leaves, anchor) if anchor else loss)
                optimizer.step()
        return {name: leaf.detach() for name, leaf in leaves.items()}

    def _anchor(self, leaves: TorchStack) -> TorchStack:
        """The global model that FedProx holds on to; nothing without μ."""
        return {k: v.detach().clone() for k, v in leaves.items()} if self.training.mu else {}

    def _proximal(self, leaves: TorchStack, anchor: TorchStack) -> Tensor:
        distances = [(leaves[name] - start).square().sum() for name, start in anchor.items()]
        return self.training.mu / 2 * torch.stack(distances).sum()

    @property
    def can_rest(self) -> bool:
        """Whether rows of a stack may make fewer steps than others: their optimiser must leave them alone."""
        adam = self.training.algorithm != "fedsgd" and self.training.optimizer != "sgd"
        return adam and self.y.is_cuda and find_spec("triton") is not None

    def _optimizer(self, leaves: TorchStack) -> Optimizer:
        rules, parameters = self.training, list(leaves.values())
        if rules.algorithm == "fedsgd":
            return torch.optim.SGD(parameters, lr=rules.rate)
        if rules.optimizer == "sgd":
            return torch.optim.SGD(parameters, lr=rules.rate, momentum=rules.momentum)
        if self.can_rest:
            from fedvalue.learners.torch._cuda_adam import StackAdam

            return StackAdam(parameters, rules.rate)
        if self.y.device.type == "cpu":
            return FusedAdam(parameters, rules.rate)
        return torch.optim.Adam(parameters, lr=rules.rate, fused=self.y.is_cuda, capturable=self.y.is_cuda)
